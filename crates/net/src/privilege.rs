//! Giving up root, for good, once the sockets are bound; and keeping what is written from other users.
#![allow(unsafe_code)]

use crate::sys::check;
use std::ffi::{CStr, CString};
use std::io;

/// A user of this system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

/// Room for a user's record: names and paths, and what a directory service adds.
const RECORD_ROOM: usize = 64 << 10;

impl User {
    /// Looks a user up by name.
    pub fn find(name: &str) -> io::Result<Option<User>> {
        let name = CString::new(name)?;
        let mut room = vec![0; RECORD_ROOM];
        // SAFETY: integers and pointers, for which zero is a value.
        let mut record: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are to live values, and `room` has the length given.
        let result =
            unsafe { libc::getpwnam_r(name.as_ptr(), &raw mut record, room.as_mut_ptr(), room.len(), &raw mut found) };
        match result {
            0 if found.is_null() => Ok(None),
            0 => Ok(Some(user(&record))),
            // What "no such user" is on systems with other directory services.
            libc::ENOENT | libc::ESRCH => Ok(None),
            e => Err(io::Error::from_raw_os_error(e)),
        }
    }

    /// The process becomes this user for good: its groups, its group, itself, and no way back (checked). Call it
    /// before threads are started where possible; the C library applies it to all of them.
    pub fn become_for_good(&self) -> io::Result<()> {
        let name = CString::new(self.name.as_str())?;
        // SAFETY: `name` is a live string; the other calls take no pointers.
        unsafe {
            check(libc::initgroups(name.as_ptr(), self.gid))?;
            check(libc::setresgid(self.gid, self.gid, self.gid))?;
            check(libc::setresuid(self.uid, self.uid, self.uid))?;
        }
        self.has_no_way_back()
    }

    fn has_no_way_back(&self) -> io::Result<()> {
        // SAFETY: takes no pointers. Success would be the mistake.
        let back = self.uid != 0 && unsafe { libc::setuid(0) == 0 || libc::seteuid(0) == 0 };
        if back { Err(io::Error::other(format!("became {} but could become root again", self.name))) } else { Ok(()) }
    }
}

fn user(record: &libc::passwd) -> User {
    // SAFETY: the C library filled the record, and its room still lives.
    let name = unsafe { CStr::from_ptr(record.pw_name) };
    User { name: name.to_string_lossy().into_owned(), uid: record.pw_uid, gid: record.pw_gid }
}

/// True if the process runs as root.
pub fn is_root() -> bool {
    // SAFETY: takes no pointers and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// What this process makes from now on is nobody's but its user's, and its group's to read, unless it is given another mode. What the process was
/// started with may only be stricter.
pub fn keep_from_others() {
    // SAFETY: takes no pointers and cannot fail.
    unsafe {
        let before = libc::umask(0o027);
        libc::umask(before | 0o027);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn users_are_found_by_name() {
        let root = User::find("root").unwrap().unwrap();
        assert_eq!((root.name.as_str(), root.uid, root.gid), ("root", 0, 0));
        assert_eq!(User::find("no-such-user-here").unwrap(), None);
        assert!(User::find("nul\0inside").is_err());
    }

    /// In a process of its own, for it does not come back.
    #[test]
    fn a_process_that_became_a_user_stays_that_user() {
        let me = std::env::current_exe().unwrap();
        let done = Command::new(me)
            .args(["--exact", "privilege::tests::become_nobody", "--ignored"])
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(done.success());
    }

    #[test]
    #[ignore = "changes its process: run by the test above"]
    fn become_nobody() {
        let nobody = User::find("nobody").unwrap().unwrap();
        let was_root = is_root();
        let became = nobody.become_for_good();
        assert_eq!(became.is_ok(), was_root, "an ordinary user cannot become another: {became:?}");
        assert!(!is_root());
        if was_root {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let ids = |key: &str| status.lines().find(|l| l.starts_with(key)).map(str::to_owned).unwrap();
            assert_eq!(
                ids("Uid:").split_whitespace().skip(1).collect::<Vec<_>>(),
                [nobody.uid.to_string().as_str(); 4]
            );
            assert!(!ids("Groups:").split_whitespace().any(|g| g == "0"));
        }
    }
}
