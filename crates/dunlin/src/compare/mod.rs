//! `dunlin compare`: the same questions to two servers, and in what their answers differ.

mod difference;
pub mod options;

use crate::exit::{Exit, could_not, say};
use crate::load::{plan, target};
use crate::message::{Message, TC};
use difference::{Kind, Reply, differences};
use load::capture::{Capture, Replay};
use load::file::QueryFile;
use load::json::Json;
use load::question;
use load::shape::{Edns, Flags, Frame, HEADER, QUESTION_MAX, Shape};
use load::source::Source;
use options::Compare;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const EDNS_SIZE: u16 = 1232;
/// A datagram is sent so often before a server counts as silent.
const TRIES: u32 = 2;
const MESSAGE_MAX: usize = 65_535;
const SHOWN_MAX: usize = 300;

/// An example: the question, and what A and B said.
struct Example {
    question: String,
    a: String,
    b: String,
}

#[derive(Default)]
struct Group {
    count: usize,
    examples: Vec<Example>,
}

#[derive(Default)]
struct Findings {
    asked: usize,
    same: usize,
    neither: usize,
    /// Queries with a difference of any kind that lasts, and those with one that counts.
    differing: usize,
    counting: usize,
    /// Answers of one server that differ from its own a moment later.
    changing: usize,
    groups: BTreeMap<Kind, Group>,
}

struct Servers {
    addresses: [SocketAddr; 2],
    frame: Frame,
    timeout: Duration,
}

pub fn run(args: &Compare) -> Exit {
    match compared(args) {
        Ok(findings) => tell(args, &findings),
        Err(why) => could_not(why),
    }
}

fn compared(args: &Compare) -> Result<Findings, String> {
    let flags = Flags { rd: !args.no_rd, cd: false, ad: false };
    let edns = Some(Edns { size: EDNS_SIZE, dnssec_ok: args.dnssec, nsid: false, cookie: false });
    let servers = Servers {
        addresses: [target::resolve(&args.a)?.0, target::resolve(&args.b)?.0],
        frame: Frame::new(&Shape { flags, edns }, 0, &[]),
        timeout: Duration::from_nanos(plan::time("--timeout", &args.timeout)?.max(1_000_000)),
    };
    let questions = questions(args)?;
    let (next, findings) = (AtomicUsize::new(0), Mutex::new(Findings::default()));
    std::thread::scope(|scope| {
        for _ in 0..args.parallel.clamp(1, 256) {
            scope.spawn(|| {
                while let Some(question) = questions.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = servers.judge(question);
                    if let Ok(mut findings) = findings.lock() {
                        findings.note(question, found, args.examples);
                    }
                }
            });
        }
    });
    findings.into_inner().map_err(|_| "a thread ended in the middle of its work".to_string())
}

/// All questions, each once.
fn questions(args: &Compare) -> Result<Vec<Vec<u8>>, String> {
    let (mut source, most) = match (&args.queries, &args.pcap) {
        (Some(path), _) => (Source::File(QueryFile::open(path)?), usize::MAX),
        (None, Some(path)) => {
            let octets = std::fs::read(path).map_err(|e| format!("{path}: cannot be read: {e}"))?;
            let capture = Capture::parse(&octets, load::capture::DNS_PORT).map_err(|why| format!("{path}: {why}"))?;
            let most = capture.len();
            (Source::Capture(Replay::new(capture, path)), most)
        }
        (None, None) => return Err("say --queries FILE or --pcap FILE".to_string()),
    };
    let (mut all, mut known, mut room) = (Vec::new(), HashSet::new(), [0; QUESTION_MAX]);
    for _ in 0..most {
        let n = source.next(&mut room);
        // A file begins again at its end; every question of its second pass is known.
        let over = matches!(&source, Source::File(file) if file.passes() > 0);
        if n == 0 || over || all.len() >= args.count.unwrap_or(usize::MAX) {
            break;
        }
        if known.insert(room[..n].to_vec()) {
            all.push(room[..n].to_vec());
        }
    }
    Ok(all)
}

/// What became of a question.
enum Found {
    Same,
    Neither,
    Changing,
    Different(BTreeMap<Kind, (String, String)>),
}

impl Servers {
    /// Kinds that do not last when both are asked again, or in which a server differs from itself, are change.
    fn judge(&self, question: &[u8]) -> Found {
        let first = self.both(question);
        let mut lasting = differences(&first[0], &first[1]);
        if lasting.is_empty() {
            return if first[0].is_err() { Found::Neither } else { Found::Same };
        }
        let second = self.both(question);
        let again = differences(&second[0], &second[1]);
        let own: Vec<Kind> = (0..2).flat_map(|i| differences(&first[i], &second[i]).into_keys()).collect();
        lasting.retain(|kind, _| again.contains_key(kind) && !own.contains(kind));
        if lasting.is_empty() { Found::Changing } else { Found::Different(lasting) }
    }

    fn both(&self, question: &[u8]) -> [Reply; 2] {
        self.addresses.map(|server| self.ask(question, server))
    }

    fn ask(&self, question: &[u8], server: SocketAddr) -> Reply {
        let octets = self.exchange(question, server).map_err(|e| e.to_string())?;
        let message = Message::parse(&octets).map_err(|e| format!("malformed: {e}"))?;
        Ok((message, octets.len()))
    }

    fn exchange(&self, question: &[u8], server: SocketAddr) -> io::Result<Vec<u8>> {
        let socket = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
        socket.connect(server)?;
        let mut packet = [0; HEADER + QUESTION_MAX + 64];
        packet[HEADER..HEADER + question.len()].copy_from_slice(question);
        // The port is the system's choice for each question, which makes the ID's part in it small.
        let id = socket.local_addr()?.port().rotate_left(5) ^ 0x5a5a;
        let len = self.frame.complete(id, question.len(), &mut packet);
        let query = &packet[..len];
        let mut last = io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
        for _ in 0..TRIES {
            socket.send(query)?;
            match self.hear(&socket, query) {
                Ok(answer) if is_cut(&answer) => return self.over_tcp(query, server),
                Ok(answer) => return Ok(answer),
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return Err(e),
                Err(_) => last = io::Error::new(io::ErrorKind::TimedOut, "no answer in time"),
            }
        }
        Err(last)
    }

    fn hear(&self, socket: &UdpSocket, query: &[u8]) -> io::Result<Vec<u8>> {
        let (mut room, end) = (vec![0; MESSAGE_MAX], Instant::now() + self.timeout);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            socket.set_read_timeout(Some(left))?;
            let n = socket.recv(&mut room)?;
            if n >= HEADER && room[..2] == query[..2] {
                return Ok(room[..n].to_vec());
            }
        }
    }

    fn over_tcp(&self, query: &[u8], server: SocketAddr) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&server, self.timeout)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.write_all(&[&(query.len() as u16).to_be_bytes(), query].concat())?;
        let mut head = [0; 2];
        stream.read_exact(&mut head)?;
        let mut answer = vec![0; usize::from(u16::from_be_bytes(head))];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }
}

fn is_cut(answer: &[u8]) -> bool {
    u16::from_be_bytes([answer[2], answer[3]]) & TC != 0
}

impl Findings {
    fn note(&mut self, asked: &[u8], found: Found, examples: usize) {
        self.asked += 1;
        match found {
            Found::Same => self.same += 1,
            Found::Neither => self.neither += 1,
            Found::Changing => self.changing += 1,
            Found::Different(kinds) => {
                self.differing += 1;
                self.counting += usize::from(kinds.keys().any(|k| k.counts()));
                for (kind, (a, b)) in kinds {
                    let group = self.groups.entry(kind).or_default();
                    group.count += 1;
                    if group.examples.len() < examples {
                        group.examples.push(Example { question: question::text(asked), a: cut(a), b: cut(b) });
                    }
                }
            }
        }
    }

    fn agree(&self) -> bool {
        self.counting == 0
    }
}

fn cut(text: String) -> String {
    if text.chars().count() <= SHOWN_MAX { text } else { text.chars().take(SHOWN_MAX).collect::<String>() + "..." }
}

fn tell(args: &Compare, findings: &Findings) -> Exit {
    let exit = if findings.agree() { Exit::Done } else { Exit::No };
    let exit = say(if args.json { format!("{}\n", json(findings)) } else { text(args, findings) }, exit);
    if findings.asked == findings.neither {
        return could_not("neither server answered anything");
    }
    exit
}

fn text(args: &Compare, f: &Findings) -> String {
    let mut out = format!(
        "A {}, B {}: {} questions\n{:>8} the same\n{:>8} changing (a server differs from itself)\n{:>8} different\n",
        args.a, args.b, f.asked, f.same, f.changing, f.differing
    );
    if f.neither > 0 {
        out.push_str(&format!("{:>8} answered by neither\n", f.neither));
    }
    for (kind, group) in &f.groups {
        let note = if kind.counts() { "" } else { " (does not count)" };
        out.push_str(&format!("\n{}: {}{note}\n", kind.name(), group.count));
        for e in &group.examples {
            out.push_str(&format!("  {}\n    A: {}\n    B: {}\n", e.question, shown(&e.a), shown(&e.b)));
        }
    }
    let verdict = match f.counting {
        0 => "verdict: they agree".to_string(),
        n => {
            format!("verdict: they differ in {n} of {} questions ({:.2} %)", f.asked, 100.0 * n as f64 / f.asked as f64)
        }
    };
    format!("{out}\n{verdict}\n")
}

fn shown(text: &str) -> &str {
    if text.is_empty() { "(nothing)" } else { text }
}

fn json(f: &Findings) -> Json {
    let example = |e: &Example| {
        let members = [("query", &e.question), ("a", &e.a), ("b", &e.b)];
        Json::object(members.map(|(key, text)| (key, Json::from(text.clone()))))
    };
    let group = |(kind, group): (&Kind, &Group)| {
        Json::object([
            ("kind", Json::from(kind.name())),
            ("count", Json::from(group.count)),
            ("counts", Json::from(kind.counts())),
            ("examples", Json::list(&group.examples, example)),
        ])
    };
    Json::object([
        ("asked", Json::from(f.asked)),
        ("same", Json::from(f.same)),
        ("changing", Json::from(f.changing)),
        ("different", Json::from(f.differing)),
        ("unanswered_by_both", Json::from(f.neither)),
        ("agree", Json::from(f.agree())),
        ("differences", Json::list(&f.groups, group)),
    ])
}
