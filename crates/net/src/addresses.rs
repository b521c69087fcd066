//! The addresses of this machine.
use std::io;
use std::net::IpAddr;

/// Addresses of all interfaces, sorted, each once.
pub fn own_addresses() -> io::Result<Vec<IpAddr>> {
    unimplemented!()
}
