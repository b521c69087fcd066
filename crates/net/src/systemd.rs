//! Telling the service manager how we are, and giving it descriptors to keep for the process after this one: one datagram
//! to the socket it names (sd_notify's protocol). What it kept comes back from descriptor 3 on. A manager that does not
//! listen is no reason to fail: the caller logs the error and goes on.
#![allow(unsafe_code)]

use crate::sys::{self, check};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub const READY: &str = "READY=1";
pub const STOPPING: &str = "STOPPING=1";

/// The first of the descriptors that a manager hands on.
const HANDED_FROM: libc::c_int = 3;
/// More than anybody hands on.
const HANDED_MAX: usize = 1024;

/// A manager that does not listen is not waited for.
const AT_ONCE: libc::c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// Sends `state` to the socket that `$NOTIFY_SOCKET` names: a path, or "@..." for an abstract name.
pub fn notify(socket: &OsStr, state: &str) -> io::Result<()> {
    let (name, len) = address(socket)?;
    let from = sys::socket(libc::AF_UNIX, libc::SOCK_DGRAM)?;
    let fd = from.as_fd().as_raw_fd();
    // SAFETY: text and address are live, and as long as said.
    let sent = unsafe {
        let to = (&raw const name).cast();
        libc::sendto(fd, state.as_ptr().cast(), state.len(), AT_ONCE, to, len)
    };
    check(sent as libc::c_int).map(drop)
}

/// Has the manager keep a descriptor under a name. One that it has already, it does not keep twice.
pub fn keep(socket: &OsStr, name: &str, kept: BorrowedFd<'_>) -> io::Result<()> {
    let (mut address, len) = address(socket)?;
    let from = sys::socket(libc::AF_UNIX, libc::SOCK_DGRAM)?;
    let state = format!("FDSTORE=1\nFDPOLL=0\nFDNAME={name}");
    let mut text = libc::iovec { iov_base: state.as_ptr().cast_mut().cast(), iov_len: state.len() };
    // Room for one header and one descriptor, aligned as a header is.
    let mut control = [0u64; 4];
    // SAFETY: integers and raw pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut address).cast();
    message.msg_namelen = len;
    message.msg_iov = &raw mut text;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: both compute sizes only; the control data has room for what they say; all that the message points at is live.
    let sent = unsafe {
        message.msg_controllen = libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as _;
        libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(kept.as_raw_fd());
        libc::sendmsg(from.as_raw_fd(), &raw const message, AT_ONCE)
    };
    check(sent as libc::c_int).map(drop)
}

/// What a manager is told, so that it lets go of all that it keeps under a name.
pub fn let_go(name: &str) -> String {
    format!("FDSTOREREMOVE=1\nFDNAME={name}")
}

/// The descriptors that the manager handed on: so many, whose names are joined by colons. Nothing when asked again, for
/// they have an owner then.
pub fn handed(count: usize, names: &str) -> Vec<(String, OwnedFd)> {
    static ASKED: AtomicBool = AtomicBool::new(false);
    if ASKED.swap(true, Relaxed) {
        return Vec::new();
    }
    let numbers = (HANDED_FROM..).take(count.min(HANDED_MAX)).zip(names.split(':'));
    let open = numbers.filter(|&(fd, _)| {
        // SAFETY: takes no pointers. A number that is no descriptor is an error, and is left out.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) == 0 }
    });
    // SAFETY: they are open; whoever started this process made them for it, and this code runs once.
    open.map(|(fd, name)| (name.to_string(), unsafe { OwnedFd::from_raw_fd(fd) })).collect()
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

    #[test]
    fn the_manager_gets_a_descriptor_and_its_name() {
        let unique = format!("@dunlin-keep-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&unique[1..]).unwrap()).unwrap();
        let mut ends = io::pipe().unwrap();
        keep(OsStr::new(&unique), "cache", ends.1.as_fd()).unwrap();
        let (text, fd) = received(&manager);
        assert_eq!(text, "FDSTORE=1\nFDPOLL=0\nFDNAME=cache");
        io::Write::write_all(&mut std::fs::File::from(fd), b"x").unwrap();
        let mut octet = [0];
        io::Read::read_exact(&mut ends.0, &mut octet).unwrap();
        assert_eq!(octet, *b"x", "it is the same pipe");
    }

    fn received(manager: &UnixDatagram) -> (String, OwnedFd) {
        let (mut text, mut control) = ([0u8; 256], [0u64; 4]);
        let mut part = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
        // SAFETY: integers and raw pointers, for which zero is a value; all that is pointed at is live.
        unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control) as _;
            let n = libc::recvmsg(manager.as_raw_fd(), &raw mut message, 0);
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            let fd = libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned();
            let text = String::from_utf8_lossy(&text[..usize::try_from(n).unwrap()]).into_owned();
            (text, OwnedFd::from_raw_fd(fd))
        }
    }
}
