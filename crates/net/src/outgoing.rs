//! Sockets for asking others: one packet each, from a port that the caller draws, heard by one peer only.
//!
//! Connected, so that the kernel drops whatever does not come from the peer's address and port (SAD DNS). Never waits.

use crate::sys;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;

/// A datagram socket from `local` to `peer`. `AddrInUse`: draw another port.
pub fn udp(local: SocketAddr, peer: SocketAddr) -> io::Result<UdpSocket> {
    let socket = sys::socket(sys::family(peer), libc::SOCK_DGRAM | libc::SOCK_NONBLOCK)?;
    let fd = socket.as_fd();
    // No DF bit and no path MTU of a forged ICMP message; a reply that comes in fragments is not asked for.
    match peer {
        SocketAddr::V4(_) => sys::set_option(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT)?,
        SocketAddr::V6(_) => {
            sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT)?;
        }
    }
    sys::bind(fd, local)?;
    sys::connect(fd, peer)?;
    Ok(UdpSocket::from(socket))
}

/// A stream to `peer` that is being opened: it is writable once it is open, or has failed.
pub fn tcp(local: SocketAddr, peer: SocketAddr) -> io::Result<TcpStream> {
    let socket = sys::socket(sys::family(peer), libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
    let fd = socket.as_fd();
    sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    if !local.ip().is_unspecified() {
        sys::bind(fd, SocketAddr::new(local.ip(), 0))?;
    }
    match sys::connect(fd, peer) {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(TcpStream::from(socket)),
        Err(e) => Err(e),
        Ok(()) => Ok(TcpStream::from(socket)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn only_the_peer_is_heard() {
        let (peer, stranger) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let own = udp("0.0.0.0:0".parse().unwrap(), peer.local_addr().unwrap()).unwrap();
        own.send(b"q").unwrap();
        let (_, from) = peer.recv_from(&mut [0; 8]).unwrap();
        // Over loopback a packet is in the queue when sending returns, or never.
        stranger.send_to(b"forged", from).unwrap();
        peer.send_to(b"true", from).unwrap();
        let mut reply = [0; 8];
        assert_eq!(own.recv(&mut reply).unwrap(), 4);
        assert!(own.recv(&mut reply).is_err());
        let taken = udp(own.local_addr().unwrap(), stranger.local_addr().unwrap());
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_stream_opens_without_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut own = tcp("0.0.0.0:0".parse().unwrap(), listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        own.set_nonblocking(false).unwrap();
        own.write_all(b"q").unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
    }
}
