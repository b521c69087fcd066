//! Bounded queues, for answering threads at one end. Whoever has to wait for another thread sleeps meanwhile: in a channel of the standard
//! library he looks again and again whether that one has finished what it puts in or takes out, and an answering thread, which goes before
//! others (`net::sched::Precedence`), would keep just this one from the CPU.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// For so many at most.
pub fn bounded<T>(max: usize) -> (Sender<T>, Receiver<T>) {
    let inside = Inside { items: VecDeque::new(), senders: 1, has_receiver: true, asleep: 0, crowd: 0 };
    let queue = Arc::new(Queue {
        max,
        inside: Mutex::new(inside),
        waiting: AtomicUsize::new(0),
        filled: Condvar::new(),
        emptied: Condvar::new(),
    });
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

pub struct Sender<T>(Arc<Queue<T>>);

pub struct Receiver<T>(Arc<Queue<T>>);

struct Queue<T> {
    max: usize,
    inside: Mutex<Inside<T>>,
    /// How many items there are, for who only wants to know whether there are any.
    waiting: AtomicUsize,
    /// An item has come, or none will any more.
    filled: Condvar,
    /// An item was taken, or none will be any more.
    emptied: Condvar,
}

struct Inside<T> {
    items: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
    /// Who sleeps until `filled`, and until `emptied`. To wake nobody is a system call, too.
    asleep: usize,
    crowd: usize,
}

impl<T> Inside<T> {
    /// There is nothing, and something may come.
    fn is_awaiting(&mut self) -> bool {
        self.items.is_empty() && self.senders > 0
    }
}

impl<T> Queue<T> {
    fn inside(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, inside: &mut Inside<T>) -> Option<T> {
        let item = inside.items.pop_front()?;
        self.waiting.store(inside.items.len(), Relaxed);
        if inside.crowd > 0 {
            self.emptied.notify_one();
        }
        Some(item)
    }
}

impl<T> Sender<T> {
    /// Err: there is no room for it, or nobody takes anything any more.
    pub fn try_send(&self, item: T) -> Result<(), T> {
        self.put(item, self.0.inside())
    }

    /// Waits until there is room. Err: nobody takes anything any more.
    pub fn send(&self, item: T) -> Result<(), T> {
        let is_full = |inside: &mut Inside<T>| inside.has_receiver && inside.items.len() >= self.0.max;
        let mut inside = self.0.inside();
        inside.crowd += 1;
        let mut inside = self.0.emptied.wait_while(inside, is_full).unwrap_or_else(PoisonError::into_inner);
        inside.crowd -= 1;
        self.put(item, inside)
    }

    fn put(&self, item: T, mut inside: MutexGuard<'_, Inside<T>>) -> Result<(), T> {
        if !inside.has_receiver || inside.items.len() >= self.0.max {
            return Err(item);
        }
        inside.items.push_back(item);
        self.0.waiting.store(inside.items.len(), Relaxed);
        let is_awaited = inside.asleep > 0;
        drop(inside);
        if is_awaited {
            self.0.filled.notify_one();
        }
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.inside().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.inside().senders -= 1;
        self.0.filled.notify_one();
    }
}

impl<T> Receiver<T> {
    /// Waits for nobody, nor for whoever is just putting something in: for who is rung for after that.
    #[inline]
    pub fn poll(&self) -> Option<T> {
        if self.0.waiting.load(Relaxed) == 0 {
            return None;
        }
        let mut inside = match self.0.inside.try_lock() {
            Ok(inside) => inside,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.0.take(&mut inside)
    }

    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut inside = self.0.inside();
        let none = if inside.senders == 0 { TryRecvError::Disconnected } else { TryRecvError::Empty };
        self.0.take(&mut inside).ok_or(none)
    }

    /// None: nobody puts anything in any more.
    pub fn recv(&self) -> Option<T> {
        let mut inside = self.0.inside();
        inside.asleep += 1;
        let mut inside = self.0.filled.wait_while(inside, Inside::is_awaiting).unwrap_or_else(PoisonError::into_inner);
        inside.asleep -= 1;
        self.0.take(&mut inside)
    }

    pub fn recv_timeout(&self, patience: Duration) -> Result<T, RecvTimeoutError> {
        let mut inside = self.0.inside();
        inside.asleep += 1;
        let filled = self.0.filled.wait_timeout_while(inside, patience, Inside::is_awaiting);
        let (mut inside, _) = filled.unwrap_or_else(PoisonError::into_inner);
        inside.asleep -= 1;
        let none = if inside.senders == 0 { RecvTimeoutError::Disconnected } else { RecvTimeoutError::Timeout };
        self.0.take(&mut inside).ok_or(none)
    }

    /// All that is there.
    pub fn drain(&self) -> Vec<T> {
        std::iter::from_fn(|| self.try_recv().ok()).take(self.0.max).collect()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut inside = self.0.inside();
        inside.has_receiver = false;
        let left = std::mem::take(&mut inside.items);
        drop(inside);
        // Whoever waits for what comes of an item is told that nothing does.
        drop(left);
        self.0.emptied.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_put_in_comes_out_in_its_order_and_no_more_than_there_is_room_for() {
        let (sender, receiver) = bounded(3);
        let mut next = 0;
        for taken in [0, 1, 3, 2, 0, 3] {
            while sender.try_send(next).is_ok() {
                next += 1;
            }
            assert_eq!(receiver.0.inside().items.len(), 3, "full");
            let out: Vec<_> = (0..taken).map(|i| if i % 2 == 0 { receiver.poll() } else { receiver.recv() }).collect();
            assert_eq!(out, (next - 3..).take(taken).map(Some).collect::<Vec<_>>());
        }
        assert_eq!((receiver.drain(), receiver.poll()), (vec![], None));
        assert_eq!((receiver.try_recv(), sender.try_send(7)), (Err(TryRecvError::Empty), Ok(())));
        assert_eq!(
            (receiver.drain(), receiver.recv_timeout(Duration::ZERO)),
            (vec![7], Err(RecvTimeoutError::Timeout))
        );
    }

    #[test]
    fn who_waits_is_woken() {
        let (sender, receiver) = bounded(1);
        let (done, is_done) = channel();
        thread::spawn(move || {
            (0..1000).for_each(|i| sender.send(i).unwrap());
            done.send(()).unwrap();
        });
        let all = (0..1000).map(|i| if i % 2 == 0 { receiver.recv() } else { receiver.recv_timeout(PATIENCE).ok() });
        assert!(all.eq((0..1000).map(Some)));
        is_done.recv_timeout(PATIENCE).unwrap();
        assert_eq!(receiver.recv(), None);
    }

    #[test]
    fn the_end_of_either_side_is_told() {
        let (sender, receiver) = bounded(2);
        let other = sender.clone();
        drop(sender);
        other.try_send(1).unwrap();
        drop(other);
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Err(TryRecvError::Disconnected)));
        assert_eq!((receiver.recv_timeout(PATIENCE), receiver.recv()), (Err(RecvTimeoutError::Disconnected), None));
        // An item that nobody will take is gone, and so is what it held.
        let ((sender, receiver), (done, outcome)) = (bounded(1), channel::<()>());
        sender.try_send(Some(done)).unwrap();
        let waiting = thread::spawn(move || sender.send(None).is_err());
        drop(receiver);
        assert!(outcome.recv_timeout(PATIENCE).is_err() && waiting.join().unwrap());
    }

    #[test]
    fn who_polls_does_not_wait_for_who_is_putting_something_in() {
        let (sender, receiver) = bounded(1);
        sender.try_send(1).unwrap();
        let inside = receiver.0.inside();
        assert_eq!(receiver.poll(), None);
        drop(inside);
        assert_eq!(receiver.poll(), Some(1));
    }
}
