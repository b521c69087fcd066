//! Telling the service manager how we are: one datagram to the socket it names (sd_notify's protocol). A manager that
//! does not listen is no reason to fail: the caller logs the error and goes on.
#![allow(unsafe_code)]

use crate::sys::{self, check};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;

pub const READY: &str = "READY=1";
pub const STOPPING: &str = "STOPPING=1";

/// Sends `state` to the socket that `$NOTIFY_SOCKET` names: a path, or "@..." for an abstract name.
pub fn notify(socket: &OsStr, state: &str) -> io::Result<()> {
    let (name, len) = address(socket)?;
    let from = sys::socket(libc::AF_UNIX, libc::SOCK_DGRAM)?;
    let fd = from.as_fd().as_raw_fd();
    // SAFETY: text and address are live, and as long as said.
    let sent = unsafe {
        let to = (&raw const name).cast();
        libc::sendto(fd, state.as_ptr().cast(), state.len(), libc::MSG_NOSIGNAL, to, len)
    };
    check(sent as libc::c_int).map(drop)
}

/// What to send when a reload begins; `READY` ends it.
pub fn reloading() -> String {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live; this clock always exists. The manager compares the value with this very clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    format!("RELOADING=1\nMONOTONIC_USEC={}", time.tv_sec * 1_000_000 + time.tv_nsec / 1000)
}

fn address(socket: &OsStr) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let text = socket.as_bytes();
    // SAFETY: integers, for which zero is a value.
    let mut name: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    name.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if text.len() >= name.sun_path.len() || !matches!(text.first(), Some(b'/' | b'@')) {
        let text = format!("{}: no path of a socket", socket.to_string_lossy());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for (to, &from) in name.sun_path.iter_mut().zip(text) {
        *to = from as libc::c_char;
    }
    if text[0] == b'@' {
        name.sun_path[0] = 0;
    }
    let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + text.len();
    Ok((name, len as libc::socklen_t))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    fn heard(manager: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let n = manager.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..n].to_vec()).unwrap()
    }

    #[test]
    fn the_manager_hears_by_path_and_by_abstract_name() {
        let unique = format!("dunlin-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&unique);
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&unique).unwrap()).unwrap();
        notify(path.as_os_str(), READY).unwrap();
        notify(OsStr::new(&format!("@{unique}")), &reloading()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(heard(&by_path), "READY=1");
        assert!(heard(&by_name).starts_with("RELOADING=1\nMONOTONIC_USEC="));
        assert!(notify(path.as_os_str(), STOPPING).is_err());
        for bad in ["", "relative", &"/x".repeat(100)] {
            assert!(notify(OsStr::new(bad), STOPPING).is_err());
        }
    }
}
