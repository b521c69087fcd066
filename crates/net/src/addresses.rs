//! The addresses of this machine: what comes from one of them, and from our own port, is an answer of ours come back.
#![allow(unsafe_code)]

use crate::sys::{self, check};
use std::io;
use std::net::IpAddr;

/// Addresses of all interfaces, sorted, each once.
pub fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: `list` is live.
    check(unsafe { libc::getifaddrs(&raw mut list) })?;
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: an entry of the list that the C library made, which lives until it is freed below.
        let entry = unsafe { &*next };
        found.extend(address(entry));
        next = entry.ifa_next;
    }
    // SAFETY: the list from above, freed once; nothing refers to it any more.
    unsafe { libc::freeifaddrs(list) };
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn address(entry: &libc::ifaddrs) -> Option<IpAddr> {
    let raw = entry.ifa_addr;
    if raw.is_null() {
        return None;
    }
    // SAFETY: every address begins with its family.
    let family = libc::c_int::from(unsafe { (*raw).sa_family });
    let len = match family {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => return None,
    };
    let mut room = sys::no_address();
    // SAFETY: the family says how long the address is; the room has the length of the longer one.
    unsafe { std::ptr::copy_nonoverlapping(raw.cast::<u8>(), (&raw mut room).cast::<u8>(), len) };
    Some(sys::ip_port(&room).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_our_addresses() {
        let own = own_addresses().unwrap();
        assert!(own.contains(&"127.0.0.1".parse().unwrap()), "{own:?}");
        assert!(own.is_sorted());
    }
}
