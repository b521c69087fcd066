//! What the service manager kept of the process before: the memory of its cache, and its sockets with all that arrived in
//! between, so that an upgrade loses neither.

use crate::log;
use crate::resolving::memory;
use crate::run::systemd;
use net::tcp;
use net::udp::UdpPort;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

const UDP: &str = "udp";
const TCP: &str = "tcp";

#[derive(Default)]
pub struct Handed {
    pub memory: Option<OwnedFd>,
    pub udp: Vec<UdpPort>,
    pub tcp: Vec<TcpListener>,
}

impl Handed {
    /// What has another name, or is not what its name says, is closed.
    pub fn of(descriptors: Vec<(String, OwnedFd)>) -> Handed {
        let mut handed = Handed::default();
        for (name, fd) in descriptors {
            let taken = match &*name {
                memory::NAME => {
                    handed.memory = Some(fd);
                    Ok(())
                }
                UDP => UdpPort::adopt(fd).map(|port| handed.udp.push(port)),
                TCP => tcp::adopt(fd).map(|listener| handed.tcp.push(listener)),
                _ => Err(io::Error::from(io::ErrorKind::Unsupported)),
            };
            if let Err(e) = taken {
                log::warn("what the service manager kept is of no use", &[("what", &name), ("why", &e)]);
            }
        }
        handed
    }

    /// One of the sockets on this address.
    pub fn port(&mut self, address: SocketAddr) -> Option<UdpPort> {
        let at = self.udp.iter().position(|port| port.local_addr() == address)?;
        Some(self.udp.swap_remove(at))
    }

    pub fn listener(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let is_there = |listener: &TcpListener| listener.local_addr().is_ok_and(|local| local == address);
        let at = self.tcp.iter().position(is_there)?;
        Some(self.tcp.swap_remove(at))
    }
}

/// Has the manager keep the sockets for the next process.
pub fn keep(udp: &[Vec<UdpPort>], tcp: &[Vec<TcpListener>]) {
    systemd::keep(UDP, udp.iter().flatten().map(AsFd::as_fd));
    systemd::keep(TCP, tcp.iter().flatten().map(AsFd::as_fd));
}
