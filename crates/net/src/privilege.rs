//! Giving up root.
use std::io;

/// A user of this system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

impl User {
    /// Looks a user up by name or by number.
    pub fn find(_name: &str) -> io::Result<Option<User>> {
        unimplemented!()
    }
    /// The process becomes this user for good: groups, group, user, and no way back (checked).
    pub fn become_for_good(&self) -> io::Result<()> {
        unimplemented!()
    }
}

/// True if the process runs as root.
pub fn is_root() -> bool {
    unimplemented!()
}
