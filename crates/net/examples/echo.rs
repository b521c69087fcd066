//! A server that only flips the QR bit of a query and sends it back: what this crate's batches cost beside the bench
//! kit's `echo`, which does the same in C.
//!
//!   echo ADDR:PORT [block | poll | eager | serve] [ADDR:PORT...]
//!
//! block: receives with a sleep in the call; poll: sleeps in poll(); eager: tries again before it sleeps in poll();
//! serve: the loop of `udp_loop`.

use net::udp::{BATCH, Batch, RECV_BUFFER, Sent, UdpPort};
use net::udp_loop::{self, Batches};
use net::{Turn, Wake};
use std::net::SocketAddr;

struct Echo;

impl Echo {
    fn answer(batch: &mut Batch) {
        for i in 0..batch.len() {
            let (buffer, len) = batch.packet(i);
            buffer[2] |= 0x80;
            batch.set_reply(i, len);
        }
    }
}

impl Batches for Echo {
    fn on_batch(&mut self, _port: usize, batch: &mut Batch) {
        Echo::answer(batch);
    }
    fn on_sent(&mut self, _sent: Sent) {}
    fn on_turn(&mut self) -> Turn {
        Turn::Go
    }
}

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let addresses = args.iter().filter_map(|a| a.parse::<SocketAddr>().ok());
    let ports: Vec<UdpPort> = addresses.map(|a| UdpPort::bind(a, RECV_BUFFER)).collect::<Result<_, _>>()?;
    let mut batch = Batch::new(BATCH);
    let wake = Wake::new()?;
    let Some(port) = ports.first() else {
        return Err(std::io::Error::other("say where to listen: echo 127.0.0.1:5300 serve"));
    };
    match args.get(1).map_or("serve", String::as_str) {
        "block" => loop {
            if port.recv(&mut batch, true)? > 0 {
                Echo::answer(&mut batch);
                port.send(&mut batch);
            }
        },
        _ => udp_loop::serve(&ports, &wake, &mut batch, &mut Echo),
    }
}
