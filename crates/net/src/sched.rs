//! Where and how eagerly a thread runs.
use std::io;

/// The calling thread runs only when nothing else wants the CPU (SCHED_IDLE, or nice 19 where that is refused).
pub fn background() -> io::Result<()> {
    unimplemented!()
}
/// The calling thread runs on this CPU only.
pub fn pin(_cpu: usize) -> io::Result<()> {
    unimplemented!()
}
/// The CPUs that the calling thread may run on.
pub fn cpus() -> Vec<usize> {
    unimplemented!()
}
/// Names the calling thread, as `top -H` shows it (15 octets).
pub fn name_thread(_name: &str) {
    unimplemented!()
}
/// CPU time that the calling thread has used.
pub fn thread_cpu_time() -> std::time::Duration {
    unimplemented!()
}
/// Raises the limit of open files to what is allowed, at most `want`; says what it is now.
pub fn raise_open_files(_want: u64) -> io::Result<u64> {
    unimplemented!()
}
