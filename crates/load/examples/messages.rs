//! Sends messages that somebody else has made, each at its time, and writes down what became of each. Open loop: a latency counts from when the message
//! was due.
//!
//! `cargo run --release -p load --example messages -- ADDR:PORT RATE MESSAGES OUTCOMES`
//!
//! MESSAGES: each its length in 16 bits (as over TCP), and itself; its ID must be the low 16 bits of its number. OUTCOMES: of each 8 octets, the
//! nanoseconds until its answer came (all ones: it never did), 8, by how many it was sent too late, and one, the rcode. An answer that comes when its ID has been given again (after 6.5 s at
//! 10,000 a second) is counted as the later one's.

use load::clock::{Clock, Stamps};
use net::generator::{Answers, Link, QUERY_MAX, Queries, Until, exact_timers, wait};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs, io};

const BATCH: usize = 32;
const NEVER: u64 = u64::MAX;
/// So long after the last was sent nobody is waited for any more.
const PATIENCE_NS: u64 = 5_000_000_000;

#[derive(Clone, Copy)]
struct Outcome {
    took_ns: u64,
    late_ns: u64,
    rcode: u8,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [target, rate, messages, outcomes] = &*arguments else {
        eprintln!("messages ADDR:PORT RATE MESSAGES OUTCOMES");
        return ExitCode::from(2);
    };
    match drive(target, rate, messages).and_then(|all| fs::write(outcomes, written(&all))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{target}: {e}");
            ExitCode::FAILURE
        }
    }
}

fn drive(target: &str, rate: &str, messages: &str) -> io::Result<Vec<Outcome>> {
    let octets = fs::read(messages)?;
    let messages =
        cut(&octets).ok_or_else(|| io::Error::other(format!("{messages} is torn, or has a long message")))?;
    let target = target.parse().map_err(io::Error::other)?;
    let rate = rate.parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite());
    let gap_ns = 1e9 / rate.ok_or_else(|| io::Error::other("RATE is a number above 0"))?;
    let due_ns = |number: usize| (number as f64 * gap_ns) as u64;
    let link = Link::connect(target, None, true)?;
    let (mut queries, mut answers) = (Queries::new(BATCH), Answers::new(BATCH));
    let mut all = vec![Outcome { took_ns: NEVER, late_ns: 0, rcode: 0 }; messages.len()];
    exact_timers();
    let (clock, mut sent, mut answered, mut sent_ns) = (Clock::start(), 0, 0, 0);
    while answered < all.len() {
        let now_ns = clock.now_ns();
        let mut due = 0;
        while due < BATCH && sent + due < all.len() && due_ns(sent + due) <= now_ns {
            let message = messages[sent + due];
            queries.buffer(due)[..message.len()].copy_from_slice(message);
            queries.set_len(due, message.len());
            due += 1;
        }
        let went = if due > 0 { unless_refused(link.send(&mut queries, due))? } else { 0 };
        if went > 0 {
            (sent..sent + went).for_each(|number| all[number].late_ns = now_ns - due_ns(number));
            (sent, sent_ns) = (sent + went, now_ns);
        }
        let heard = unless_refused(link.recv(&mut answers))?;
        let stamps = Stamps::now(&clock);
        for at in 0..heard {
            let answer = answers.packet(at);
            let (Some(&[high, low, _, flags]), Some(last)) = (answer.first_chunk(), sent.checked_sub(1)) else {
                continue;
            };
            // Of all that have this ID the newest is meant.
            let back = (last as u16).wrapping_sub(u16::from_be_bytes([high, low]));
            let Some(number) = last.checked_sub(back.into()) else { continue };
            if all[number].took_ns == NEVER {
                let took_ns = stamps.at_ns(answers.stamp(at)).saturating_sub(due_ns(number));
                all[number] = Outcome { took_ns, rcode: flags & 15, ..all[number] };
                answered += 1;
            }
        }
        if heard == BATCH || went == BATCH {
            continue;
        }
        // Where the kernel takes no more it tells when it does.
        let (until, until_ns) = match () {
            () if went < due => (Until::ReadableOrWritable, now_ns + PATIENCE_NS),
            () if sent < all.len() => (Until::Readable, due_ns(sent)),
            () => (Until::Readable, sent_ns + PATIENCE_NS),
        };
        let rest_ns = until_ns.saturating_sub(clock.now_ns());
        if sent == all.len() && rest_ns == 0 {
            break;
        }
        wait([(link.as_fd(), until)].into_iter(), Duration::from_nanos(rest_ns))?;
    }
    Ok(all)
}

/// Who has ended answers nothing: that is what is counted.
fn unless_refused(done: io::Result<usize>) -> io::Result<usize> {
    done.or_else(|e| if e.kind() == io::ErrorKind::ConnectionRefused { Ok(0) } else { Err(e) })
}

/// None: the last one is not whole, or one is longer than what can be sent.
fn cut(mut octets: &[u8]) -> Option<Vec<&[u8]>> {
    let mut messages = Vec::new();
    while let Some((length, rest)) = octets.split_first_chunk() {
        let (message, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        messages.push(message);
        octets = rest;
    }
    let fit = messages.iter().all(|message| message.len() <= QUERY_MAX);
    (octets.is_empty() && fit).then_some(messages)
}

fn written(all: &[Outcome]) -> Vec<u8> {
    let of = |one: &Outcome| [&one.took_ns.to_le_bytes()[..], &one.late_ns.to_le_bytes(), &[one.rcode]].concat();
    all.iter().flat_map(of).collect()
}
