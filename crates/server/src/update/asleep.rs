//! How much of a turn its thread has not worked: it has waited for the disk, for others, or for a CPU.

use std::time::{Duration, Instant};

#[derive(Default)]
pub struct Asleep(Duration);

impl Asleep {
    /// Does what waits for something: what the thread computes meanwhile is work all the same.
    pub fn during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (begun, before) = (Instant::now(), net::sched::usage());
        let outcome = work();
        self.0 += begun.elapsed().saturating_sub(net::sched::usage().since(&before).ran);
        outcome
    }

    /// How much of what a turn took was work; the next one begins.
    pub fn awake_ns(&mut self, took_ns: u64) -> u64 {
        took_ns.saturating_sub(std::mem::take(&mut self.0).as_nanos() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn who_waits_does_not_work_and_who_computes_does() {
        const A_WHILE: Duration = Duration::from_millis(30);
        let (mut asleep, begun) = (Asleep::default(), Instant::now());
        let (_nobody, silence) = channel::<()>();
        assert!(asleep.during(|| silence.recv_timeout(A_WHILE)).is_err());
        let took_ns = begun.elapsed().as_nanos() as u64;
        // Some kernels count what a thread ran in ticks of 4 ms.
        assert!(asleep.awake_ns(took_ns) < took_ns / 2);
        let (begun, before) = (Instant::now(), net::sched::usage());
        asleep.during(|| while net::sched::usage().since(&before).ran < A_WHILE {});
        let took_ns = begun.elapsed().as_nanos() as u64;
        assert!(asleep.awake_ns(took_ns) > A_WHILE.as_nanos() as u64 / 2);
        assert_eq!(asleep.awake_ns(7), 7, "a turn's own");
    }
}
