//! The loop of an answering thread.
use crate::sys;
use crate::udp::{Batch, Sent, UdpPort};
use crate::wake::{Turn, Wake};
use std::io;
use std::os::fd::AsFd;

/// Batches that one port may take before the others, and the handler's own work, get their turn.
const BATCHES_PER_TURN_MAX: usize = 8;

/// Who answers. All calls come from the thread that called `serve`.
pub trait Batches {
    /// Packets have arrived on `ports[port]`: read them, write replies into their buffers and `set_reply`.
    fn on_batch(&mut self, port: usize, batch: &mut Batch);
    /// The replies of the batch just answered have gone.
    fn on_sent(&mut self, sent: Sent);
    /// After every turn (at most 8 batches a port), before any sleep, and at once after `Wake::ring`.
    fn on_turn(&mut self) -> Turn;
}

/// Serves until `on_turn` says stop.
pub fn serve(ports: &[UdpPort], wake: &Wake, batch: &mut Batch, handler: &mut impl Batches) -> io::Result<()> {
    let mut fds: Vec<libc::pollfd> = ports.iter().map(|p| sys::readable(p.as_fd())).collect();
    fds.push(sys::readable(wake.as_fd()));
    let mode: u32 = std::env::var("MODE").map_or(0, |m| m.parse().unwrap_or(0));
    loop {
        if handler.on_turn() == Turn::Stop {
            return Ok(());
        }
        sys::poll(&mut fds, None)?;
        if fds[ports.len()].revents != 0 {
            wake.clear();
        }
        for (i, port) in ports.iter().enumerate() {
            if fds[i].revents != 0 {
                drain(port, i, batch, handler, mode)?;
            }
        }
    }
}

fn drain(port: &UdpPort, i: usize, batch: &mut Batch, handler: &mut impl Batches, mode: u32) -> io::Result<()> {
    for _ in 0..BATCHES_PER_TURN_MAX {
        let n = port.recv(batch, false)?;
        if n == 0 {
            break;
        }
        handler.on_batch(i, batch);
        handler.on_sent(port.send(batch));
        if mode == 0 && n < batch.capacity() {
            break;
        }
    }
    Ok(())
}
