//! The service manager: it is told how we are, and keeps descriptors for the process after this one. There may be none,
//! and nothing depends on it.

use crate::log;
use std::env;
use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd};

pub use net::systemd::{READY, STOPPING, reloading};

pub fn tell(state: &str) {
    if let Some(socket) = socket()
        && let Err(e) = net::systemd::notify(&socket, state)
    {
        log::warn("the service manager cannot be told", &[("state", &state), ("why", &e)]);
    }
}

fn socket() -> Option<OsString> {
    env::var_os("NOTIFY_SOCKET")
}

/// Gives the manager descriptors to keep, in place of those that it had under this name.
pub fn keep<'f>(name: &str, kept: impl IntoIterator<Item = BorrowedFd<'f>>) {
    let Some(socket) = socket() else { return };
    tell(&net::systemd::let_go(name));
    for fd in kept {
        if let Err(e) = net::systemd::keep(&socket, name, fd) {
            return log::warn(
                "the service manager cannot be given what it could keep",
                &[("what", &name), ("why", &e)],
            );
        }
    }
}

/// Whether the manager says that it keeps what it is given (`$FDSTORE`, of systemd 254 and later).
pub fn keeps() -> bool {
    socket().is_some() && env::var("FDSTORE").is_ok_and(|most| most != "0")
}

/// What the manager has kept for us, by name. To be asked once.
pub fn handed() -> Vec<(String, OwnedFd)> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let (Some(pid), Some(count)) = (number("LISTEN_PID"), number("LISTEN_FDS")) else { return Vec::new() };
    // Variables of somebody else, handed down to us, mean nothing.
    if pid != std::process::id() {
        return Vec::new();
    }
    net::systemd::handed(count as usize, &env::var("LISTEN_FDNAMES").unwrap_or_default())
}
