//! The few calls on file descriptors that several files here share. Checks every return value; keeps no state.
#![allow(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The result of a system call that says failure with a negative number.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

pub(crate) fn read(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are those of a live, writable slice.
    check_len(unsafe { libc::read(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) })
}

pub(crate) fn write(fd: BorrowedFd<'_>, from: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are those of a live slice.
    check_len(unsafe { libc::write(fd.as_raw_fd(), from.as_ptr().cast(), from.len()) })
}

/// Whether octets may be written here within a time without a wait: into a pipe, `libc::PIPE_BUF` of them.
pub fn is_writable_within(fd: BorrowedFd<'_>, time: Duration) -> bool {
    let mut asked = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    let ms = libc::c_int::try_from(time.as_millis()).unwrap_or(libc::c_int::MAX);
    loop {
        // SAFETY: the pointer is to one live pollfd.
        match check(unsafe { libc::poll(&raw mut asked, 1, ms) }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            ready => return ready.is_ok_and(|n| n > 0),
        }
    }
}

/// A new socket, closed on exec.
pub(crate) fn socket(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointers.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option that is an integer.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer is to a live integer of the size given; the descriptor is open for as long as it is borrowed.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) }).map(drop)
}

/// Reads a socket option that is an integer.
pub(crate) fn option(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    let at = (&raw mut value).cast();
    // SAFETY: the pointer is to a live integer of the size given.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, at, &raw mut size) })?;
    Ok(value)
}

pub(crate) fn family(addr: SocketAddr) -> libc::c_int {
    if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
}

pub(crate) fn bind(fd: BorrowedFd<'_>, addr: SocketAddr) -> io::Result<()> {
    let (name, len) = raw_address(addr);
    // SAFETY: `name` is a live socket address at least `len` octets long.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), len) }).map(drop)
}

/// Says whom a socket hears and speaks to. A stream that does not wait is not open yet when this fails with EINPROGRESS.
pub(crate) fn connect(fd: BorrowedFd<'_>, peer: SocketAddr) -> io::Result<()> {
    let (name, len) = raw_address(peer);
    // SAFETY: `name` is a live socket address at least `len` octets long.
    check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const name).cast(), len) }).map(drop)
}

/// The address a socket is bound to.
pub(crate) fn bound_address(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut name = no_address();
    let mut len = ADDRESS_ROOM;
    // SAFETY: `name` has room for `len` octets.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut name).cast(), &raw mut len) })?;
    Ok(address(&name))
}

/// Room for an address of either family.
pub(crate) const ADDRESS_ROOM: libc::socklen_t = size_of::<libc::sockaddr_in6>() as libc::socklen_t;

pub(crate) fn no_address() -> libc::sockaddr_in6 {
    // SAFETY: all its fields are integers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// The kernel's form of an address; the larger of the two structures holds both.
pub(crate) fn raw_address(addr: SocketAddr) -> (libc::sockaddr_in6, libc::socklen_t) {
    let mut room = no_address();
    match addr {
        SocketAddr::V4(a) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: a.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(a.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_in is smaller than `room` and needs no stricter alignment.
            unsafe { (&raw mut room).cast::<libc::sockaddr_in>().write(v4) };
            (room, size_of::<libc::sockaddr_in>() as libc::socklen_t)
        }
        SocketAddr::V6(a) => {
            room.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            room.sin6_port = a.port().to_be();
            room.sin6_flowinfo = a.flowinfo();
            room.sin6_addr = libc::in6_addr { s6_addr: a.ip().octets() };
            room.sin6_scope_id = a.scope_id();
            (room, ADDRESS_ROOM)
        }
    }
}

/// Address and port out of the kernel's form.
#[inline]
pub(crate) fn ip_port(raw: &libc::sockaddr_in6) -> (IpAddr, u16) {
    // Port and family stand at the same place in both structures.
    let port = u16::from_be(raw.sin6_port);
    if raw.sin6_family == libc::AF_INET as libc::sa_family_t {
        (IpAddr::V4(ipv4(raw)), port)
    } else {
        (IpAddr::V6(Ipv6Addr::from(raw.sin6_addr.s6_addr)), port)
    }
}

/// The whole address out of the kernel's form, scope included.
#[inline]
pub(crate) fn address(raw: &libc::sockaddr_in6) -> SocketAddr {
    match ip_port(raw) {
        (IpAddr::V4(ip), port) => SocketAddr::V4(SocketAddrV4::new(ip, port)),
        // The flow label is the peer's choice for its direction; only the scope is needed to answer.
        (IpAddr::V6(ip), port) => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, raw.sin6_scope_id)),
    }
}

#[inline]
fn ipv4(raw: &libc::sockaddr_in6) -> Ipv4Addr {
    // SAFETY: the family says that this is a sockaddr_in, which is smaller and aligned no stricter.
    let v4 = unsafe { &*std::ptr::from_ref(raw).cast::<libc::sockaddr_in>() };
    Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes())
}

/// Waits until one of the descriptors has an event, or the time is over (None: no end). True if there is one.
pub(crate) fn poll(fds: &mut [libc::pollfd], at_most: Option<Duration>) -> io::Result<bool> {
    let ms = at_most.map_or(-1, |t| i32::try_from(t.as_micros().div_ceil(1000)).unwrap_or(i32::MAX));
    // SAFETY: pointer and length are those of a live, writable slice.
    match check(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, ms) }) {
        Ok(ready) => Ok(ready > 0),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(e) => Err(e),
    }
}

pub(crate) fn readable(fd: BorrowedFd<'_>) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

pub(crate) fn listen(fd: BorrowedFd<'_>, backlog: libc::c_int) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) }).map(drop)
}

/// Accepts a connection, non-blocking and closed on exec, in one call.
pub(crate) fn accept(fd: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
    let mut name = no_address();
    let mut len = ADDRESS_ROOM;
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: `name` has room for `len` octets.
    let got = unsafe { libc::accept4(fd.as_raw_fd(), (&raw mut name).cast(), &raw mut len, flags) };
    let fd = check(got)?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok((unsafe { OwnedFd::from_raw_fd(fd) }, address(&name)))
}
