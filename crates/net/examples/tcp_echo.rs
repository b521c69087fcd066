//! A TCP server that only flips the QR bit of a message: what this crate's TCP costs before any answer is thought of.
//!
//!   tcp_echo ADDR:PORT

use net::tcp::{Answer, Messages, Origin, TcpEvent, TcpLimits};
use net::{Turn, Wake, tcp};

struct Echo;

impl Messages for Echo {
    fn on_message(&mut self, _from: &Origin<'_>, buffer: &mut [u8], len: usize) -> Answer {
        buffer[2] |= 0x80;
        Answer::Reply(len)
    }
    fn on_event(&mut self, _event: TcpEvent) {}
    fn on_turn(&mut self) -> Turn {
        Turn::Go
    }
}

fn main() -> std::io::Result<()> {
    let Some(addr) = std::env::args().nth(1).and_then(|a| a.parse().ok()) else {
        return Err(std::io::Error::other("say where to listen: tcp_echo 127.0.0.1:5300"));
    };
    let limits = TcpLimits { per_peer_max: 10_000, ..TcpLimits::default() };
    tcp::serve(&[tcp::listen(addr)?], &limits, &Wake::new()?, &mut Echo)
}
