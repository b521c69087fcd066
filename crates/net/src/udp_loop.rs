//! The loop of an answering thread.
use crate::udp::{Batch, Sent, UdpPort};
use crate::wake::{Turn, Wake};
use std::io;

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
pub fn serve(_ports: &[UdpPort], _wake: &Wake, _batch: &mut Batch, _handler: &mut impl Batches) -> io::Result<()> {
    unimplemented!()
}
