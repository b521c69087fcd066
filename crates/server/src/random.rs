//! Octets that nobody can guess, from the kernel.

use std::fs::File;
use std::io::{self, Read};

pub fn octets<const N: usize>() -> io::Result<[u8; N]> {
    let mut out = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut out)?;
    Ok(out)
}

pub fn number() -> io::Result<u64> {
    octets().map(u64::from_ne_bytes)
}
