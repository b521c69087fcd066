//! A small HTTP/1.1 responder for operators: `/metrics` for Prometheus, `/status`, `/stats` and `/stall` as JSON.
//!
//! Reads a head of at most `HEAD_MAX` octets and no body, answers one request a connection, knows GET and HEAD.

use crate::control::door::{self, Hurried};
use crate::state::State;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

const HEAD_MAX: usize = 8192;
/// Octets that are read behind a head that is too long.
const DRAINED_MAX: u64 = 1 << 20;

pub fn serve(listener: TcpListener, state: Arc<State>) -> io::Result<()> {
    let accept = move || listener.accept().map(|(stream, _)| stream);
    const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    door::open("http", FULL, accept, move |stream| exchange(stream, &state))
}

fn exchange(mut stream: Hurried<TcpStream>, state: &State) -> io::Result<()> {
    let Some(head) = head(&mut stream)? else { return Ok(()) };
    stream.renew();
    stream.write_all(answer(&head, state).as_bytes())?;
    // With something unread the end of the connection would take the answer back.
    if !is_whole(&head) {
        stream.say_no_more()?;
        io::copy(&mut stream.take(DRAINED_MAX), &mut io::sink())?;
    }
    Ok(())
}

fn is_whole(head: &str) -> bool {
    head.contains("\r\n\r\n")
}

/// What stands before the first empty line, or as much as is read of it; None if that does not come.
fn head(stream: &mut impl Read) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    while bytes.len() < HEAD_MAX {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&buffer[..n]);
        if bytes.windows(4).any(|w| w == b"\r\n\r\n") {
            break;
        }
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn answer(head: &str, state: &State) -> String {
    let words: Vec<&str> = head.lines().next().unwrap_or("").split(' ').collect();
    let (method, target) = match words[..] {
        [method, target, version] if version.starts_with("HTTP/1.") => (method, target),
        _ => ("", ""),
    };
    let path = path_of(target);
    let (code, kind, body) = match (method, path) {
        _ if !is_whole(head) => {
            let why = format!("a head has {HEAD_MAX} octets at most\n");
            ("431 Request Header Fields Too Large", "text/plain", why)
        }
        ("", _) => ("400 Bad Request", "text/plain", "a request begins with GET /metrics HTTP/1.1, say\n".to_string()),
        ("GET" | "HEAD", "/metrics") => ("200 OK", "text/plain; version=0.0.4", state.metrics()),
        ("GET" | "HEAD", "/status") => ("200 OK", "application/json", format!("{}\n", state.status())),
        ("GET" | "HEAD", "/stats") => ("200 OK", "application/json", format!("{}\n", state.counters())),
        ("GET" | "HEAD", "/stall") => ("200 OK", "application/json", format!("{}\n", state.stalls())),
        ("GET" | "HEAD", "/") => ("200 OK", "text/plain", "/metrics\n/status\n/stats\n/stall\n".to_string()),
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", "not here; see /\n".to_string()),
        _ => ("405 Method Not Allowed", "text/plain", "GET and HEAD only\n".to_string()),
    };
    // RFC 9110 section 15.5.6.
    let allow = if code.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {code}\r\n{allow}Content-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    if method == "HEAD" { head } else { head + &body }
}

/// A target may name a host, as for a proxy (RFC 9112 section 3.2.2), and end with a question.
fn path_of(target: &str) -> &str {
    let local = target.split_at_checked("http://".len()).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("http://"));
    let local = local.map_or(target, |(_, rest)| rest.find(['/', '?']).map_or("", |at| &rest[at..]));
    match local.split('?').next() {
        None | Some("") => "/",
        Some(path) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_at_the_first_empty_line_and_has_a_bound() {
        let whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nrest";
        assert!(head(&mut &whole[..]).unwrap().is_some());
        assert!(head(&mut &whole[..10]).unwrap().is_none());
        let long = head(&mut &vec![b'a'; 3 * HEAD_MAX][..]).unwrap().unwrap();
        assert!((HEAD_MAX..=HEAD_MAX + 1024).contains(&long.len()));
    }

    #[test]
    fn what_is_asked_for_may_have_a_host_and_a_question() {
        for (target, path) in [
            ("/metrics", "/metrics"),
            ("/metrics?a=/b", "/metrics"),
            ("", "/"),
            ("?a", "/"),
            ("http://127.0.0.1:5380/metrics", "/metrics"),
            ("HTTP://host/stall?x", "/stall"),
            ("http://host", "/"),
            ("http://host?x", "/"),
            ("http:/metrics", "http:/metrics"),
        ] {
            assert_eq!(path_of(target), path, "{target}");
        }
    }
}
