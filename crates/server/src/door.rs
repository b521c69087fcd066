//! Accepts connections of operators' tools, a bounded number at a time, each on a thread of its own.
//!
//! Not for DNS clients. A connection that sends nothing is dropped after `PATIENCE`, so that it cannot keep others out.

use crate::log;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Connections at a time; more are closed at once.
pub const CONNECTIONS_MAX: usize = 16;
/// How long a connection may neither send nor read.
pub const PATIENCE: Duration = Duration::from_secs(5);

struct Inside(Arc<AtomicUsize>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Starts a thread called `name` that hands each connection to `serve`.
pub fn open<S: Send + 'static>(
    name: &'static str,
    mut accept: impl FnMut() -> io::Result<S> + Send + 'static,
    serve: impl Fn(S) -> io::Result<()> + Clone + Send + 'static,
) -> io::Result<()> {
    let inside = Arc::new(AtomicUsize::new(0));
    let door = move || {
        loop {
            let Ok(stream) = accept() else {
                // Out of descriptors or memory: the connection waits in the backlog, and asking at once would spin.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if inside.load(Relaxed) >= CONNECTIONS_MAX {
                continue;
            }
            inside.fetch_add(1, Relaxed);
            let (guard, serve) = (Inside(Arc::clone(&inside)), serve.clone());
            let connection = move || {
                if let Err(e) = serve(stream) {
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
