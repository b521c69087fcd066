//! Accepts connections of operators' tools, a bounded number at a time, each on a thread of its own.
//!
//! Not for DNS clients. A peer has `PATIENCE` for a whole request and again for reading the whole answer, however it
//! spreads its octets, so that it cannot keep others out.

use crate::log;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Connections at a time; more are told so, and closed.
pub const CONNECTIONS_MAX: usize = 16;
/// How long a request may take to arrive, and an answer to be read.
const PATIENCE: Duration = Duration::from_secs(5);

/// A stream whose reads and writes can be given a time limit each.
pub trait Timed: Read + Write {
    fn set_limit(&self, limit: Duration) -> io::Result<()>;
}

impl Timed for TcpStream {
    fn set_limit(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit)).and_then(|()| self.set_write_timeout(Some(limit)))
    }
}

impl Timed for UnixStream {
    fn set_limit(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit)).and_then(|()| self.set_write_timeout(Some(limit)))
    }
}

/// A stream with one deadline for all that is read and written until it is renewed.
pub struct Hurried<S> {
    stream: S,
    patience: Duration,
    until: Instant,
}

impl<S: Timed> Hurried<S> {
    pub fn new(stream: S, patience: Duration) -> Hurried<S> {
        Hurried { stream, patience, until: Instant::now() + patience }
    }

    pub fn renew(&mut self) {
        self.until = Instant::now() + self.patience;
    }

    fn hurry(&self) -> io::Result<()> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => self.stream.set_limit(left),
        }
    }
}

impl Hurried<TcpStream> {
    /// What still comes is not waited for long.
    pub fn say_no_more(&mut self) -> io::Result<()> {
        self.until = Instant::now() + PATIENCE / 10;
        self.stream.shutdown(Shutdown::Write)
    }
}

impl<S: Timed> Read for Hurried<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.hurry()?;
        self.stream.read(into)
    }
}

impl<S: Timed> Write for Hurried<S> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.hurry()?;
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

struct Inside(Arc<AtomicUsize>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Starts a thread called `name` that hands each connection to `serve`; `full` is for those that are too many.
pub fn open<S: Timed + Send + 'static>(
    name: &'static str,
    full: &'static str,
    mut accept: impl FnMut() -> io::Result<S> + Send + 'static,
    serve: impl Fn(Hurried<S>) -> io::Result<()> + Clone + Send + 'static,
) -> io::Result<()> {
    let inside = Arc::new(AtomicUsize::new(0));
    let door = move || {
        loop {
            let Ok(mut stream) = accept() else {
                // Out of descriptors or memory: the connection waits in the backlog, and asking at once would spin.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if inside.load(Relaxed) >= CONNECTIONS_MAX {
                // Nothing has been written yet, so there is room for it; who does not read it is closed anyway.
                let _ = stream.write_all(full.as_bytes());
                continue;
            }
            inside.fetch_add(1, Relaxed);
            let (guard, serve) = (Inside(Arc::clone(&inside)), serve.clone());
            let connection = move || {
                if let Err(e) = serve(Hurried::new(stream, PATIENCE)) {
                    log::debug("connection ended", &[("door", &name), ("why", &e)]);
                }
                drop(guard);
            };
            let started = std::thread::Builder::new().name(format!("{name}-peer")).spawn(connection);
            if let Err(e) = started {
                log::warn("no thread for a connection", &[("door", &name), ("why", &e)]);
            }
        }
    };
    std::thread::Builder::new().name(name.to_string()).spawn(door).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens to a peer that keeps something moving, but never comes to an end.
    fn outcome(peer: impl FnOnce(UnixStream) + Send + 'static, serve: impl FnOnce(Hurried<UnixStream>) -> io::Error) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || peer(theirs));
        let error = serve(Hurried::new(ours, Duration::from_millis(30)));
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        thread.join().unwrap();
    }

    #[test]
    fn a_peer_that_sends_octet_by_octet_is_given_up() {
        outcome(
            |mut peer| while peer.write_all(b"x").is_ok() {},
            |mut stream| loop {
                if let Err(e) = stream.read_exact(&mut [0]) {
                    return e;
                }
            },
        );
    }

    #[test]
    fn a_peer_that_reads_octet_by_octet_is_given_up() {
        outcome(
            |mut peer| while peer.read_exact(&mut [0]).is_ok() {},
            |mut stream| loop {
                if let Err(e) = stream.write_all(b"x") {
                    return e;
                }
            },
        );
    }

    #[test]
    fn the_next_request_has_its_own_time() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut stream = Hurried::new(ours, Duration::ZERO);
        theirs.write_all(b"x").unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        stream.patience = Duration::from_secs(60);
        stream.renew();
        assert_eq!(stream.read(&mut [0]).unwrap(), 1);
    }
}
