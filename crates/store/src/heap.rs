//! What the allocator keeps of freed memory, given back to the system.
//!
//! glibc keeps a heap for each of some threads, and each stays as large as it has ever been but for its end. The large and
//! short-lived things of this server (zones read, images built) are the background threads', so a while after a change
//! most of what it has of its own would be such holes.
#![allow(unsafe_code)]

/// Takes each heap's lock in turn: not for a thread that others could keep from running meanwhile.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers, and may be called by any thread at any time (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}
