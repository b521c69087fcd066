//! The sockets of a server, bound all at once and before root is given up; those that the process before had on the same
//! addresses are gone on with.

use crate::run::handed::{self, Handed};
use net::tcp;
use net::udp::{RECV_BUFFER, UdpPort};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// How often a port that the system chose for TCP may turn out to be taken for UDP.
const CHOICES: usize = 16;

pub struct Sockets {
    /// By worker, then by address.
    pub udp: Vec<Vec<UdpPort>>,
    /// By TCP thread, then by address.
    pub tcp: Vec<Vec<TcpListener>>,
    /// As asked for, with the ports that the system chose for 0.
    pub addresses: Vec<SocketAddr>,
}

/// Binds every address for every thread: a socket each, so that the kernel spreads clients over threads.
pub fn bind(listen: &[SocketAddr], workers: usize, tcp_threads: usize, handed: &mut Handed) -> Result<Sockets, String> {
    let mut sockets = Sockets { udp: Vec::new(), tcp: Vec::new(), addresses: Vec::new() };
    sockets.udp.resize_with(workers, Vec::new);
    sockets.tcp.resize_with(tcp_threads, Vec::new);
    for &wanted in listen {
        if handed.udp.iter().all(|port| port.local_addr() != wanted) {
            probe(wanted).map_err(|e| explain(wanted, &e))?;
        }
    }
    for &wanted in listen {
        let explain = |e: io::Error| explain(wanted, &e);
        let address = if wanted.port() == 0 { choose(wanted).map_err(explain)? } else { wanted };
        for ports in &mut sockets.udp {
            let port = handed.port(address).map_or_else(|| UdpPort::bind(address, RECV_BUFFER), Ok);
            ports.push(port.map_err(explain)?);
        }
        for listeners in &mut sockets.tcp {
            let listener = handed.listener(address).map_or_else(|| tcp::listen(address), Ok);
            listeners.push(listener.map_err(explain)?);
        }
        sockets.addresses.push(address);
    }
    Ok(sockets)
}

impl Sockets {
    /// Has the service manager keep them for the next process.
    pub fn keep(&self) {
        handed::keep(&self.udp, &self.tcp);
    }
}

/// Finds out whether somebody listens there already. Our own sockets share their port, so that binding them would not
/// tell: two servers of one user would each get half of the queries. `[::]` is not probed: asked in this way it means
/// IPv4 too, where another program may well be.
fn probe(address: SocketAddr) -> io::Result<()> {
    let any_v6 = address.is_ipv6() && address.ip().is_unspecified();
    if address.port() == 0 || any_v6 { Ok(()) } else { std::net::UdpSocket::bind(address).map(drop) }
}

/// A port that is free for UDP and TCP.
fn choose(wanted: SocketAddr) -> io::Result<SocketAddr> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..CHOICES {
        let listener = tcp::listen(wanted)?;
        let address = listener.local_addr()?;
        match UdpPort::bind(address, 0) {
            Ok(_) => return Ok(address),
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn explain(address: SocketAddr, e: &io::Error) -> String {
    let advice = match e.kind() {
        io::ErrorKind::PermissionDenied => {
            "; a port below 1024 needs root or CAP_NET_BIND_SERVICE: write a higher port, or start as root"
        }
        io::ErrorKind::AddrInUse => "; another program listens there: stop it, or write another port",
        io::ErrorKind::AddrNotAvailable => "; no interface has this address: see `ip address`",
        _ => "",
    };
    format!("{address} cannot be listened on: {e}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_a_socket_on_the_port_that_was_chosen() {
        let found = bind(&["127.0.0.1:0".parse().unwrap()], 2, 1, &mut Handed::default()).unwrap();
        assert_eq!((found.udp.len(), found.tcp.len(), found.addresses.len()), (2, 1, 1));
        assert_ne!(found.addresses[0].port(), 0);
        assert!(found.udp.iter().flatten().all(|p| p.local_addr() == found.addresses[0]));
    }

    #[test]
    fn a_port_that_another_server_shares_is_not_taken() {
        let first = bind(&["127.0.0.1:0".parse().unwrap()], 1, 1, &mut Handed::default()).unwrap();
        let why = bind(&first.addresses, 1, 1, &mut Handed::default()).err().unwrap();
        assert!(why.contains("another program listens there"), "{why}");
    }

    #[test]
    fn an_address_that_is_not_ours_is_explained() {
        let why = bind(&["192.0.2.1:0".parse().unwrap()], 1, 1, &mut Handed::default()).err().unwrap();
        assert!(why.contains("no interface has this address"), "{why}");
    }
}
