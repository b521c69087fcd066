//! A zone fetched from a primary (RFC 5936): one connection, message by message, each checked and written as text before the
//! next is read. The file takes its name when the zone is whole and on the disk; until then, and if anything is wrong, it is
//! as if nothing had come.
//!
//! Held in memory: one message, and what is on its way to the disk.

use crate::clock::wall_s;
use crate::stamp;
use crate::transfers::LASTS_MAX;
use crate::update::ledger::push_record;
use crate::zonetext::sum::{self, Summed};
use front::locks::hold;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::atomic::{self, Output};
use transfer::ask;
use transfer::receive::{Fault, Progress, Received, Receiver};
use transfer::record::is_newer;
use transfer::refresh::{Fetched, Useless};
use transfer::remote::Remote;
use transfer::tsig::{self, Asked, Disbelief, Key};
use wire::{Name, rtype};

/// A primary that has not taken the question after so long is silent.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
/// A message that is not whole after so long does not come any more.
const MESSAGE_WITHIN: Duration = Duration::from_secs(30);
/// A primary that sends less than this a second, once it has had some time, is cut off: the place is for others.
const OCTETS_A_SECOND_MIN: u64 = 500;
const HAS_TIME: Duration = Duration::from_secs(30);

/// What is to be fetched.
pub struct Errand {
    pub apex: Name,
    pub from: Remote,
    /// None: the configuration has lost it.
    pub key: Option<Key>,
    pub source: Option<IpAddr>,
    pub id: u16,
    /// What it must be newer than.
    pub known: Option<u32>,
    pub file: PathBuf,
    pub octets_max: u64,
    pub is_wanted: Wanted,
}

/// Whether an errand is still to be run: who has sent for a zone calls it off when another configuration gives it to others.
#[derive(Clone)]
pub struct Wanted(Arc<Mutex<bool>>);

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted(Arc::new(Mutex::new(true)))
    }
}

impl Wanted {
    /// Once this has returned the errand writes over nobody's file.
    pub fn call_off(&self) {
        *hold(&self.0) = false;
    }

    pub fn is(&self, other: &Wanted) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Does what only an errand may that is wanted, and calls it off after that at the earliest.
    fn unless_off<T>(&self, what: impl FnOnce() -> io::Result<T>) -> Result<T, Broken> {
        let is_wanted = hold(&self.0);
        if *is_wanted { what().map_err(Broken::Ours) } else { Err(Broken::CalledOff) }
    }

    fn check(&self) -> Result<(), Broken> {
        self.unless_off(|| Ok(()))
    }
}

/// What came of it.
pub struct Outcome {
    pub fetched: Fetched,
    /// What was wrong, for people; None: nothing was, or nobody wants to know.
    pub why: Option<String>,
    pub octets: u64,
    pub records: u64,
}

impl Outcome {
    /// It was not begun.
    pub fn nothing(why: String) -> Outcome {
        Outcome { fetched: Fetched::Failed, why: Some(why), octets: 0, records: 0 }
    }
}

/// Why it broke off.
enum Broken {
    Useless(Useless, String),
    NotNewer(u32),
    /// Nobody's fault but ours.
    Ours(io::Error),
    CalledOff,
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Broken {
        answers(match fault {
            Fault::Unrelated => "it answers something else than was asked".to_string(),
            Fault::Rcode(rcode) => format!("it says {}", rcode_text(rcode)),
            Fault::Malformed => "a message is malformed".to_string(),
            Fault::Foreign(rtype) => format!("it sends a record of type {rtype}, or a class, that no zone has"),
            Fault::OutOfZone(name) => format!("it sends {name}, which is not of the zone"),
            Fault::NoSoa => "it does not begin with the zone's SOA".to_string(),
            Fault::OtherSoa => "it ends with another SOA than it began with".to_string(),
            Fault::Behind => "it goes on behind the end".to_string(),
            Fault::Empty => "it sends a message without a record".to_string(),
        })
    }
}

fn answers(why: String) -> Broken {
    Broken::Useless(Useless::Answers, why)
}

/// A zone is larger than it may be, as it comes or as it is written.
fn too_large(errand: &Errand, what: &str) -> Broken {
    let (zone, max) = (&errand.apex, errand.octets_max);
    let more = max.saturating_mul(2).div_ceil(1 << 20);
    let advice = format!("if the zone is as large as that: transfer-size = \"{more}MiB\" in [limits]");
    answers(format!("it {what} {max} octets for the zone {zone}, which is the limit; {advice}"))
}

pub fn rcode_text(rcode: u8) -> String {
    let known = [
        "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
    ];
    known.get(usize::from(rcode)).map_or_else(|| format!("rcode {rcode}"), |name| (*name).to_string())
}

pub fn disbelief_text(why: Disbelief) -> String {
    match why {
        Disbelief::Unsigned => "it does not sign".to_string(),
        Disbelief::Malformed => "its signature is malformed".to_string(),
        Disbelief::OtherKey => "it signs with another key".to_string(),
        Disbelief::BadSig => "its signature is wrong".to_string(),
        Disbelief::BadTime => "its signature is of another time: clocks differ".to_string(),
        Disbelief::BadTrunc => "its signature is cut off".to_string(),
        Disbelief::Theirs(16) => "it finds our signature wrong (BADSIG)".to_string(),
        Disbelief::Theirs(17) => "it does not know the key (BADKEY)".to_string(),
        Disbelief::Theirs(18) => "it finds our clock wrong (BADTIME)".to_string(),
        Disbelief::Theirs(error) => format!("it says error {error} of the signature"),
    }
}

/// Runs an errand.
pub fn run(errand: &Errand) -> Outcome {
    let mut counted = Counted::default();
    let outcome = fetch(errand, &mut counted);
    let (fetched, why) = match outcome {
        Ok(serial) => (Fetched::Whole(serial), None),
        Err(Broken::NotNewer(serial)) => (Fetched::NotNewer(serial), None),
        Err(Broken::Useless(useless, why)) => (Fetched::Useless(useless), Some(why)),
        Err(Broken::Ours(e)) => (Fetched::Failed, Some(e.to_string())),
        Err(Broken::CalledOff) => (Fetched::Failed, None),
    };
    Outcome { fetched, why, octets: counted.octets, records: counted.records }
}

#[derive(Default)]
struct Counted {
    octets: u64,
    records: u64,
}

fn fetch(errand: &Errand, counted: &mut Counted) -> Result<u32, Broken> {
    let mut question = ask::query(errand.id, errand.apex.bytes(), rtype::AXFR);
    if errand.from.key.is_some() && errand.key.is_none() {
        return Err(answers("there is no such key any more".to_string()));
    }
    let check = errand.key.as_ref().map(|key| tsig::sign_request(key, &mut question, wall_s()));
    let stream = asked(errand, &question).map_err(|e| Broken::Useless(Useless::Silent, silence_text(&e)))?;
    let mut coming = Coming {
        errand,
        stream,
        check,
        counted,
        receiver: Receiver::new(errand.id, &errand.apex),
        began: Instant::now(),
        has_spoken: false,
    };
    // Nothing is written before the first message has turned out to be of use.
    let first = coming.message()?;
    let (Some(folder), Some(name)) = (errand.file.parent(), errand.file.file_name().and_then(|name| name.to_str()))
    else {
        return Err(Broken::Ours(io::ErrorKind::InvalidFilename.into()));
    };
    std::fs::create_dir_all(folder).map_err(Broken::Ours)?;
    let mut broken = None;
    let write = |out: &mut Summed<'_>| {
        coming.write(first, out).map_err(|why| {
            let e =
                if let Broken::Ours(e) = &why { io::Error::new(e.kind(), e.to_string()) } else { io::Error::other("") };
            broken = Some(why);
            e
        })
    };
    let text = |out: &mut Output| sum::write(out, format_args!("{}{}", sum::RECEIVED, errand.from), write);
    let prepared = atomic::prepare(folder, name, None, text, stamp::age);
    match (broken, prepared) {
        (Some(why @ (Broken::Useless(..) | Broken::NotNewer(_) | Broken::CalledOff)), _) => Err(why),
        (_, Err(e)) => Err(Broken::Ours(e)),
        (_, Ok(prepared)) => {
            // Of one that is called off the file may be somebody else's.
            errand.is_wanted.unless_off(|| prepared.take_name())?;
            coming.receiver.serial().ok_or(Fault::NoSoa.into())
        }
    }
}

fn silence_text(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer".to_string(),
        _ => e.to_string(),
    }
}

/// Our address towards a peer.
pub fn local(source: Option<IpAddr>, peer: SocketAddr) -> SocketAddr {
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(source.unwrap_or(any), 0)
}

/// A connection that has taken the question.
fn asked(errand: &Errand, question: &[u8]) -> io::Result<TcpStream> {
    let peer = errand.from.address;
    let mut stream = net::outgoing::tcp(local(errand.source, peer), peer)?;
    // From here on whoever writes waits until it is open.
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(CONNECTS_WITHIN))?;
    stream.write_all(&[&(question.len() as u16).to_be_bytes(), question].concat())?;
    Ok(stream)
}

/// A transfer under way.
struct Coming<'e> {
    errand: &'e Errand,
    stream: TcpStream,
    check: Option<Asked>,
    counted: &'e mut Counted,
    receiver: Receiver,
    began: Instant,
    /// The primary has sent something.
    has_spoken: bool,
}

impl Coming<'_> {
    /// The next message, its signature checked.
    fn message(&mut self) -> Result<Vec<u8>, Broken> {
        let until = Instant::now() + MESSAGE_WITHIN;
        let mut len = [0; 2];
        self.fill(&mut len, until)?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
        self.fill(&mut message, until)?;
        self.errand.is_wanted.check()?;
        self.counted.octets += message.len() as u64;
        if self.counted.octets > self.errand.octets_max {
            return Err(too_large(self.errand, "sends more than"));
        }
        let lasted = self.began.elapsed();
        if lasted > LASTS_MAX || lasted > HAS_TIME && self.counted.octets / lasted.as_secs() < OCTETS_A_SECOND_MIN {
            return Err(answers("it sends too slowly".to_string()));
        }
        if let Some(check) = &mut self.check {
            check.check(&message, wall_s()).map_err(|why| answers(disbelief_text(why)))?;
        }
        Ok(message)
    }

    fn fill(&mut self, mut room: &mut [u8], until: Instant) -> Result<(), Broken> {
        while !room.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.cut_off("it stands still"));
            }
            let read = self.stream.set_read_timeout(Some(left)).and_then(|()| io::Read::read(&mut self.stream, room));
            match read {
                Ok(0) if !self.has_spoken => {
                    return Err(self.cut_off("it closes the connection without a word"));
                }
                Ok(0) => return Err(self.cut_off("it closes the connection in the middle")),
                Ok(n) => {
                    self.has_spoken = true;
                    room = &mut room[n..];
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(e) => return Err(self.cut_off(&e.to_string())),
            }
        }
        Ok(())
    }

    /// Who has said nothing at all may be there for nobody.
    fn cut_off(&self, why: &str) -> Broken {
        Broken::Useless(if self.has_spoken { Useless::BreaksOff } else { Useless::Silent }, why.to_string())
    }

    /// Writes the zone, from its first message to its last.
    fn write(&mut self, first: Vec<u8>, out: &mut Summed<'_>) -> Result<(), Broken> {
        let (mut message, mut line, mut text) = (first, String::new(), 0);
        loop {
            let (mut failed, max) = (None, self.errand.octets_max);
            let mut sink = |r: Received<'_>| {
                // A few octets on the wire may be a long line: each name a pointer, each octet of it escaped.
                if text > max {
                    return;
                }
                line.clear();
                push_record(r.owner, r.rtype, r.ttl, r.rdata, &mut line);
                text += line.len() as u64;
                if text > max {
                    return;
                }
                failed = failed.take().or_else(|| out.write_all(line.as_bytes()).err());
            };
            let progress = self.receiver.on_message(&message, &mut sink)?;
            self.counted.records = self.receiver.records;
            if let Some(e) = failed {
                return Err(Broken::Ours(e));
            }
            if text > max {
                return Err(too_large(self.errand, "sends what is, as text, more than"));
            }
            match (self.receiver.serial(), self.errand.known) {
                (Some(serial), Some(known)) if !is_newer(serial, known) => return Err(Broken::NotNewer(serial)),
                _ => {}
            }
            if progress == Progress::Done {
                // What follows the last signature is nobody's word (RFC 8945 section 5.3.1).
                let is_proven = self.check.as_ref().is_none_or(Asked::ends_signed);
                return if is_proven { Ok(()) } else { Err(answers("its last message is not signed".to_string())) };
            }
            message = self.message()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use transfer::tsig::{Algorithm, Keys};

    const APEX: &[u8] = b"\x01z\0";

    /// Whoever comes first, and what he asks.
    fn asked(listener: &TcpListener) -> (TcpStream, Vec<u8>) {
        let (mut stream, mut len) = (listener.accept().unwrap().0, [0; 2]);
        stream.read_exact(&mut len).unwrap();
        let mut question = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut question).unwrap();
        (stream, question)
    }

    fn key() -> Key {
        Key::new(&Name::from_text(b"k.", None).unwrap(), Algorithm::Sha256, b"0123456789abcdef")
    }

    /// What comes of a transfer of five messages; `sign` signs the one of this number, or does something else to it.
    fn outcome(
        name: &str,
        mut sign: impl FnMut(usize, &mut tsig::Stream, &mut Vec<u8>) + Send + 'static,
    ) -> (Outcome, Option<String>) {
        let folder = std::env::temp_dir().join(format!("dunlin-fetching-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let from = Remote { address: listener.local_addr().unwrap(), key: Some(Name::from_text(b"k.", None).unwrap()) };
        let primary = std::thread::spawn(move || {
            let (mut stream, question) = asked(&listener);
            let keys = Keys::new(vec![key()]);
            let signed = tsig::check_request(&question, &keys, wall_s()).unwrap().unwrap();
            let mut chain = signed.stream();
            let soa = [&[0, 0][..], &[0, 0, 0, 7], &[0; 16]].concat();
            for i in 0..5 {
                let (label, address) = ([1, b'a' + i as u8], [192, 0, 2, i as u8]);
                let (owner, rtype, rdata) = if i % 4 == 0 {
                    (APEX.to_vec(), rtype::SOA, &soa[..])
                } else {
                    ([&label, APEX].concat(), rtype::A, &address[..])
                };
                let owner = Name::from_wire(&owner).unwrap();
                let mut message = sim::forwarding::reply(&question, 0, &[(&owner, rtype, 60, rdata)], &[]);
                sign(i, &mut chain, &mut message);
                if stream.write_all(&[&(message.len() as u16).to_be_bytes(), &message[..]].concat()).is_err() {
                    return;
                }
            }
            // Until the other end has gone.
            let _ = stream.read(&mut [0]);
        });
        let file = folder.join("z.zone");
        let apex = Name::from_wire(APEX).unwrap();
        let errand = Errand {
            apex,
            from,
            key: Some(key()),
            source: None,
            id: 4711,
            known: None,
            file: file.clone(),
            octets_max: 1 << 20,
            is_wanted: Wanted::default(),
        };
        let outcome = run(&errand);
        primary.join().unwrap();
        let text = std::fs::read_to_string(&file).ok();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), usize::from(text.is_some()), "nothing else is there");
        std::fs::remove_dir_all(&folder).unwrap();
        (outcome, text)
    }

    #[test]
    fn a_chain_of_signatures_holds_or_nothing_has_come() {
        let (good, text) = outcome("good", |_, chain, message| chain.sign(message, wall_s()));
        assert_eq!((good.fetched, good.records), (Fetched::Whole(7), 4));
        let text = text.unwrap();
        let records = "b.z. 60 IN A 192.0.2.1\nc.z. 60 IN A 192.0.2.2\nd.z. 60 IN A 192.0.2.3\n";
        assert!(text.contains(&format!("{records}; dunlin, sum ")), "{text}");
        let (few, _) = outcome("few", |i, chain, message| {
            if i % 4 == 0 {
                chain.sign(message, wall_s())
            }
        });
        assert_eq!(few.why.as_deref(), Some("its signature is wrong"), "what is between is covered, too");
        for (name, expect) in [
            ("third", "its signature is wrong"),
            ("first", "it does not sign"),
            ("last", "its last message is not signed"),
            ("time", "its signature is of another time: clocks differ"),
        ] {
            let (outcome, text) = outcome(name, move |i, chain, message| match (name, i) {
                ("third", 2) => {
                    chain.sign(message, wall_s());
                    let at = message.len() - 10;
                    message[at] ^= 1;
                }
                ("first", 0) | ("last", 4) => {}
                ("time", 3) => chain.sign(message, wall_s() - 3600),
                _ => chain.sign(message, wall_s()),
            });
            assert_eq!((outcome.fetched, outcome.why.as_deref()), (Fetched::Useless(Useless::Answers), Some(expect)));
            assert_eq!(text, None, "{name}");
        }
    }

    #[test]
    fn whoever_calls_an_errand_off_waits_until_the_file_has_its_name() {
        let (wanted, (said, heard)) = (Wanted::default(), std::sync::mpsc::channel());
        let other = wanted.clone();
        let done = wanted.unless_off(|| {
            std::thread::spawn(move || {
                other.call_off();
                said.send(()).unwrap();
            });
            Ok(heard.recv_timeout(Duration::from_millis(50)).is_err())
        });
        assert!(matches!(done, Ok(true)));
        heard.recv().unwrap();
        assert!(matches!(wanted.unless_off(|| Ok(())), Err(Broken::CalledOff)));
    }

    #[test]
    fn nobody_there_is_silence_and_no_folder_is_our_fault() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let apex = Name::from_wire(APEX).unwrap();
        let from = Remote { address: gone, key: None };
        let errand = Errand {
            apex,
            from,
            key: None,
            source: None,
            id: 1,
            known: None,
            file: "/proc/none/z".into(),
            octets_max: 1,
            is_wanted: Wanted::default(),
        };
        assert_eq!(run(&errand).fetched, Fetched::Useless(Useless::Silent));
    }

    #[test]
    fn what_a_few_octets_become_is_bounded_too() {
        // Four times as long as text: one name, of octets that are escaped, which all records point to.
        let long = [&[63][..], &[1; 63], &[63], &[2; 63], &[63], &[3; 63], APEX].concat();
        let long = Name::from_wire(&long).unwrap();
        let soa = [&[0, 0][..], &[0, 0, 0, 7], &[0; 16]].concat();
        let apex = Name::from_wire(APEX).unwrap();
        for (octets_max, is_whole) in [(8_000, false), (80_000, true)] {
            let folder = std::env::temp_dir().join(format!("dunlin-fetching-{}-{octets_max}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let from = Remote { address: listener.local_addr().unwrap(), key: None };
            let (owner, soa) = (apex, soa.clone());
            let primary = std::thread::spawn(move || {
                let (mut stream, question) = asked(&listener);
                let mut message = sim::forwarding::reply(&question, 0, &[(&owner, rtype::SOA, 60, &soa)], &[]);
                let pointer = (message.len() as u16 | 0xC000).to_be_bytes();
                for n in 0..50 {
                    let owner = if n == 0 { long.bytes() } else { &pointer };
                    message.extend([owner, &[0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, n]].concat());
                }
                message.extend([&[0xC0, 12, 0, 6, 0, 1, 0, 0, 0, 60, 0, 22][..], &soa].concat());
                message[7] = 52;
                assert!(message.len() < 2_000);
                let _ = stream.write_all(&[&(message.len() as u16).to_be_bytes(), &message[..]].concat());
                // Until the other end has gone.
                let _ = stream.read(&mut [0]);
            });
            let file = folder.join("z.zone");
            let is_wanted = Wanted::default();
            let errand =
                Errand { apex, from, key: None, source: None, id: 1, known: None, file, octets_max, is_wanted };
            let outcome = run(&errand);
            primary.join().unwrap();
            assert_eq!(outcome.fetched == Fetched::Whole(7), is_whole, "{:?}", outcome.why);
            let expect = "it sends what is, as text, more than 8000 octets for the zone z., which is the limit; \
                if the zone is as large as that: transfer-size = \"1MiB\" in [limits]";
            assert_eq!(outcome.why.as_deref(), Some(expect).filter(|_| !is_whole));
            assert_eq!(std::fs::read_dir(&folder).unwrap().count(), usize::from(is_whole));
            std::fs::remove_dir_all(&folder).unwrap();
        }
    }
}
