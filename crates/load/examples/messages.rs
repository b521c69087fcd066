//! Sends messages that somebody else has made, each at its time, and writes down what became of each. Open loop: a latency counts from when the message
//! was due.
//!
//! `cargo run --release -p load --example messages -- ADDR:PORT RATE MESSAGES OUTCOMES`
//!
//! MESSAGES: each its length in 16 bits (as over TCP), and itself; its ID must be the low 16 bits of its number. OUTCOMES: of each 8 octets, the
//! nanoseconds until its answer came (all ones: it never did), and one, the rcode.

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

#[derive(Clone)]
struct Outcome {
    took_ns: u64,
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
    let gap_ns = 1e9 / rate.parse::<f64>().map_err(io::Error::other)?;
    let due_ns = |number: usize| (number as f64 * gap_ns) as u64;
    let link = Link::connect(target, None, true)?;
    let (mut queries, mut answers) = (Queries::new(BATCH), Answers::new(BATCH));
    let mut all = vec![Outcome { took_ns: NEVER, rcode: 0 }; messages.len()];
    exact_timers();
    let (clock, mut sent, mut answered, mut sent_ns) = (Clock::start(), 0, 0, 0);
    while answered < all.len() {
        let now_ns = clock.now_ns();
        let due = messages[sent..].iter().take(BATCH);
        let due = due.enumerate().take_while(|(at, _)| due_ns(sent + at) <= now_ns).map(|(at, message)| {
            queries.buffer(at)[..message.len()].copy_from_slice(message);
            queries.set_len(at, message.len());
        });
        let due = due.count();
        if due > 0 {
            sent += link.send(&mut queries, due)?;
            sent_ns = now_ns;
        }
        let heard = link.recv(&mut answers)?;
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
                all[number] = Outcome { took_ns, rcode: flags & 15 };
                answered += 1;
            }
        }
        if heard == BATCH || due == BATCH {
            continue;
        }
        let until_ns = if sent < all.len() { due_ns(sent) } else { sent_ns + PATIENCE_NS };
        let rest_ns = until_ns.saturating_sub(clock.now_ns());
        if sent == all.len() && rest_ns == 0 {
            break;
        }
        wait([(link.as_fd(), Until::Readable)].into_iter(), Duration::from_nanos(rest_ns))?;
    }
    Ok(all)
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
    all.iter().flat_map(|one| one.took_ns.to_le_bytes().into_iter().chain([one.rcode])).collect()
}
