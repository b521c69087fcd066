//! The service manager, told how we are. There may be none, and nothing depends on it.

use crate::log;

pub use net::systemd::{READY, STOPPING, reloading};

pub fn tell(state: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(e) = net::systemd::notify(&socket, state)
    {
        log::warn("the service manager cannot be told", &[("state", &state), ("why", &e)]);
    }
}
