//! Sends a query and waits for its answer: over UDP with retries, over TCP when the answer was cut short.

use super::options::{Ask, COOKIE, Cookie, Family, Transport};
use crate::message::{Message, QR, TC};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

/// Room for any answer.
const MESSAGE_MAX: usize = 65_535;

pub struct Answer {
    pub octets: Vec<u8>,
    pub server: SocketAddr,
    pub over: &'static str,
    pub took: Duration,
    /// What happened on the way, worth a line each.
    pub notes: Vec<String>,
}

/// Where to ask: every address of the server, in the order of the system.
pub fn servers(ask: &Ask) -> Result<Vec<SocketAddr>, String> {
    let host = ask.server.clone().unwrap_or_else(system_server);
    let port = ask.port.unwrap_or(53);
    let found =
        (host.as_str(), port).to_socket_addrs().map_err(|e| format!("the server `{host}` is not found: {e}"))?;
    let wanted = |a: &SocketAddr| match ask.family {
        Family::Any => true,
        Family::V4 => a.is_ipv4(),
        Family::V6 => a.is_ipv6(),
    };
    let mut all: Vec<SocketAddr> = found.filter(wanted).collect();
    all.dedup();
    if all.is_empty() { Err(format!("the server `{host}` has no address of the family asked for")) } else { Ok(all) }
}

/// The first server of the system's configuration; the loopback where there is none.
fn system_server() -> String {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let named = text.lines().find_map(|l| l.trim_start().strip_prefix("nameserver").map(|s| s.trim().to_string()));
    named.filter(|s| !s.is_empty()).unwrap_or_else(|| Ipv4Addr::LOCALHOST.to_string())
}

/// The query in wire form.
pub fn query(ask: &Ask) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    let id = random() as u16;
    for field in [id, ask.flags, 1, 0, 0, u16::from(ask.edns.is_some())] {
        out.extend_from_slice(&field.to_be_bytes());
    }
    out.extend_from_slice(ask.name.bytes());
    out.extend_from_slice(&ask.rtype.to_be_bytes());
    out.extend_from_slice(&ask.class.to_be_bytes());
    if let Some(edns) = &ask.edns {
        let mut options = edns.options.clone();
        match &edns.cookie {
            Cookie::None => {}
            Cookie::Fresh => options.push((COOKIE, random().to_be_bytes().to_vec())),
            Cookie::Given(octets) => options.push((COOKIE, octets.clone())),
        }
        let len: usize = options.iter().map(|(_, data)| 4 + data.len()).sum();
        out.extend_from_slice(&[0, 0, 41]);
        out.extend_from_slice(&edns.size.to_be_bytes());
        out.extend_from_slice(&[0, edns.version]);
        out.extend_from_slice(&edns.flags.to_be_bytes());
        out.extend_from_slice(&(len as u16).to_be_bytes());
        for (code, data) in &options {
            out.extend_from_slice(&code.to_be_bytes());
            out.extend_from_slice(&(data.len() as u16).to_be_bytes());
            out.extend_from_slice(data);
        }
    }
    out
}

/// Unguessable enough for a query's ID and cookie: the standard library keys its hashes from the system's randomness.
fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

pub fn exchange(ask: &Ask, query: &[u8], servers: &[SocketAddr]) -> Result<Answer, String> {
    let mut notes = Vec::new();
    for &server in servers {
        let found = match ask.transport {
            Transport::Tcp => over_tcp(ask, query, server),
            Transport::Udp | Transport::UdpOnly => over_udp(ask, query, server, &mut notes),
        };
        match found {
            Ok(answer) if ask.transport == Transport::Udp && is_cut(&answer.octets) => {
                notes.push("Truncated, retrying in TCP mode.".to_string());
                let whole = over_tcp(ask, query, server);
                return whole.map(|a| Answer { notes, ..a }).map_err(|e| failed(server, &e));
            }
            Ok(answer) => return Ok(Answer { notes, ..answer }),
            Err(e) => notes.push(failed(server, &e)),
        }
    }
    Err(notes.join("\n"))
}

fn failed(server: SocketAddr, e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!("no answer from {server} in time"),
        _ => format!("no answer from {server}: {e}"),
    }
}

fn is_cut(octets: &[u8]) -> bool {
    octets.get(2..4).is_some_and(|f| u16::from_be_bytes([f[0], f[1]]) & TC != 0)
}

fn over_udp(ask: &Ask, query: &[u8], server: SocketAddr, notes: &mut Vec<String>) -> io::Result<Answer> {
    let here: SocketAddr = match server.ip() {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for _ in 0..ask.tries {
        let socket = UdpSocket::bind(here)?;
        socket.connect(server)?;
        let begun = Instant::now();
        socket.send(query)?;
        match await_datagram(&socket, query, begun + Duration::from_secs(ask.timeout_s), notes) {
            Ok(octets) => {
                return Ok(Answer { octets, server, over: "UDP", took: begun.elapsed(), notes: Vec::new() });
            }
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return Err(e),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// The first datagram that answers the query; others are passed over.
fn await_datagram(socket: &UdpSocket, query: &[u8], until: Instant, notes: &mut Vec<String>) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; MESSAGE_MAX];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let n = socket.recv(&mut buffer)?;
        match answers(&buffer[..n], query) {
            Ok(()) => return Ok(buffer[..n].to_vec()),
            Err(why) => notes.push(format!("a datagram was passed over: {why}")),
        }
    }
}

fn over_tcp(ask: &Ask, query: &[u8], server: SocketAddr) -> io::Result<Answer> {
    let patience = Duration::from_secs(ask.timeout_s);
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&server, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let mut framed = (query.len() as u16).to_be_bytes().to_vec();
    framed.extend_from_slice(query);
    stream.write_all(&framed)?;
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut octets = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut octets)?;
    match answers(&octets, query) {
        Ok(()) => Ok(Answer { octets, server, over: "TCP", took: begun.elapsed(), notes: Vec::new() }),
        Err(why) => Err(io::Error::new(io::ErrorKind::InvalidData, why)),
    }
}

/// An answer has our ID, has QR set, and its question, where it has one, is ours (RFC 5452 section 4.2).
fn answers(octets: &[u8], query: &[u8]) -> Result<(), &'static str> {
    if octets.len() < 12 {
        return Err("it is shorter than a header");
    }
    if octets[..2] != query[..2] {
        return Err("it has another ID");
    }
    if u16::from_be_bytes([octets[2], octets[3]]) & QR == 0 {
        return Err("it is no answer");
    }
    match (Message::parse(octets), Message::parse(query)) {
        (Ok(a), Ok(q)) if !a.questions.is_empty() && a.questions != q.questions => Err("it has another question"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_its_question_and_opt() {
        let ask = Ask { name: wire::Name::from_text(b"a.", None).unwrap(), ..Ask::default() };
        let message = Message::parse(&query(&ask)).unwrap();
        assert_eq!((message.questions.len(), message.left_over), (1, 0));
        let opt = message.opt.unwrap();
        assert_eq!((opt.udp_size, opt.options[0].0, opt.options[0].1.len()), (1232, COOKIE, 8));
        let plain = query(&Ask { edns: None, ..ask });
        assert!(Message::parse(&plain).unwrap().opt.is_none());
    }

    #[test]
    fn what_is_no_answer_to_a_query() {
        let q = query(&Ask::default());
        let mut good = q.clone();
        good[2] |= 0x80;
        assert_eq!(answers(&good, &q), Ok(()));
        assert_eq!(answers(&q, &q), Err("it is no answer"));
        assert_eq!(answers(&good[..11], &q), Err("it is shorter than a header"));
        let other = Ask { rtype: 28, ..Ask::default() };
        let mut wrong = query(&other);
        wrong[..2].copy_from_slice(&q[..2]);
        wrong[2] |= 0x80;
        assert_eq!(answers(&wrong, &q), Err("it has another question"));
        good[0] ^= 1;
        assert_eq!(answers(&good, &q), Err("it has another ID"));
    }
}
