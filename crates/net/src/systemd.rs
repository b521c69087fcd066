//! Telling the service manager how we are (sd_notify's protocol, without its library).
use std::ffi::OsStr;
use std::io;

/// Sends `state` ("READY=1", "STOPPING=1", ...) to the socket that `$NOTIFY_SOCKET` names ("@..." is abstract).
pub fn notify(_socket: &OsStr, _state: &str) -> io::Result<()> {
    unimplemented!()
}
/// What to send when a reload begins; READY=1 ends it.
pub fn reloading() -> String {
    unimplemented!()
}
