//! Sends many queries to one server and keeps the answers in the order of the queries.
//!
//! UDP is pipelined with a window that the kernel's default receive buffer holds; what gets no answer is sent again, and is
//! `Silence` only after that. Each batch of at most 60,000 has its own socket, so that an id is never used twice on it.

use crate::message::Reply;
use crate::query::Query;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const BATCH: usize = 60_000;
const WINDOW: usize = 96;
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_millis(700);
const TRIES: usize = 5;

/// Asks over UDP, in batches.
pub fn all(server: SocketAddr, queries: &[Query]) -> Vec<Reply> {
    queries.chunks(BATCH).flat_map(|batch| udp_batch(server, batch)).collect()
}

fn udp_batch(server: SocketAddr, queries: &[Query]) -> Vec<Reply> {
    let mut replies: Vec<Option<Reply>> = vec![None; queries.len()];
    for attempt in 1..=TRIES {
        let missing: Vec<usize> = (0..queries.len()).filter(|&i| replies[i].is_none()).collect();
        if missing.is_empty() {
            break;
        }
        let patience = PATIENCE * attempt as u32 / 2;
        udp_round(server, queries, &missing, patience, &mut replies).expect("sockets on the loopback");
    }
    replies.into_iter().map(|r| r.unwrap_or(Reply::Silence)).collect()
}

fn udp_round(
    server: SocketAddr,
    queries: &[Query],
    missing: &[usize],
    patience: Duration,
    replies: &mut [Option<Reply>],
) -> io::Result<()> {
    let socket = UdpSocket::bind((server.ip(), 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(patience))?;
    let mut buffer = vec![0; 65_536];
    let (mut next, mut flying) = (0, 0);
    while next < missing.len() || flying > 0 {
        while next < missing.len() && flying < WINDOW {
            let i = missing[next];
            socket.send(&queries[i].with_id(i as u16))?;
            next += 1;
            flying += 1;
        }
        match socket.recv(&mut buffer) {
            Ok(n) if n >= 2 => {
                let i = u16::from_be_bytes([buffer[0], buffer[1]]) as usize;
                if i < replies.len() && replies[i].is_none() {
                    replies[i] = Some(Reply::read(&buffer[..n]));
                    flying = flying.saturating_sub(1);
                }
            }
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => flying = 0,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// One datagram on a socket of its own: the answers' octets as they came, none if nothing came in time. For packets that are too
/// short to have an id, and for what may draw more than one answer.
pub fn alone(server: SocketAddr, packet: &[u8], patience: Duration) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind((server.ip(), 0)).expect("a socket on the loopback");
    socket.connect(server).expect("a server on the loopback");
    socket.send(packet).expect("room for one datagram");
    let (deadline, mut buffer, mut got) = (Instant::now() + patience, vec![0; 65_536], Vec::new());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return got;
        }
        socket.set_read_timeout(Some(left)).expect("a time above zero");
        if let Ok(n) = socket.recv(&mut buffer) {
            got.push(buffer[..n].to_vec());
            return got;
        }
    }
}

/// Asks over one TCP connection, pipelined (RFC 7766 section 6.2.1.1: answers may come in any order).
pub fn tcp(server: SocketAddr, queries: &[Query]) -> Vec<Reply> {
    queries.chunks(BATCH).flat_map(|batch| tcp_batch(server, batch)).collect()
}

fn tcp_batch(server: SocketAddr, queries: &[Query]) -> Vec<Reply> {
    let mut replies: Vec<Option<Reply>> = vec![None; queries.len()];
    for _ in 0..TRIES {
        let missing: Vec<usize> = (0..queries.len()).filter(|&i| replies[i].is_none()).collect();
        if missing.is_empty() {
            break;
        }
        // A server may close whenever it likes (RFC 7766 section 6.2.4): what is still missing is asked on a new connection.
        let _ = tcp_round(server, queries, &missing, &mut replies);
    }
    replies.into_iter().map(|r| r.unwrap_or(Reply::Silence)).collect()
}

fn tcp_round(
    server: SocketAddr,
    queries: &[Query],
    missing: &[usize],
    replies: &mut [Option<Reply>],
) -> io::Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE * 4))?;
    for window in missing.chunks(WINDOW) {
        let mut out = Vec::new();
        for &i in window {
            let packet = queries[i].with_id(i as u16);
            out.extend_from_slice(&(packet.len() as u16).to_be_bytes());
            out.extend_from_slice(&packet);
        }
        stream.write_all(&out)?;
        for _ in window {
            let packet = framed(&mut stream)?;
            if let Some(i) = packet.get(..2).map(|b| u16::from_be_bytes([b[0], b[1]]) as usize)
                && i < replies.len()
            {
                replies[i] = Some(Reply::read(&packet));
            }
        }
    }
    Ok(())
}

/// Each over a TCP connection of its own, for what may make a server close it. The end of a connection is silence.
pub fn tcp_apart(server: SocketAddr, queries: &[Query]) -> Vec<Reply> {
    let one = |query: &Query| -> io::Result<Reply> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(PATIENCE * 4))?;
        let packet = query.with_id(1);
        stream.write_all(&[&(packet.len() as u16).to_be_bytes(), &packet[..]].concat())?;
        Ok(Reply::read(&framed(&mut stream)?))
    };
    // Silence takes the whole of the patience, which is for a machine that is busy: so some at once.
    let some = |queries: &[Query]| -> Vec<Reply> {
        std::thread::scope(|scope| {
            let asked: Vec<_> = queries.iter().map(|query| scope.spawn(|| one(query))).collect();
            asked.into_iter().map(|reply| reply.join().unwrap().unwrap_or(Reply::Silence)).collect()
        })
    };
    queries.chunks(AT_ONCE).flat_map(some).collect()
}

fn framed(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut packet = vec![0; u16::from_be_bytes(length) as usize];
    stream.read_exact(&mut packet)?;
    Ok(packet)
}
