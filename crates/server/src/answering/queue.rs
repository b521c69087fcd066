//! Queues, mostly bounded, for threads at one end that go before others (`net::sched::Precedence`), as answering threads do: these wait for no other thread, not
//! even for a lock, for its holder may be just the one whom they keep from the CPU.
//!
//! There are two lists. The receiver takes what one holds, and then what the other does, and puts that in its order, by numbers; so one of them
//! can be had at any time. Who sends tries both, and waits only where the receiver was stopped with one list in his hands, and another sender with the
//! other.

use front::locks::{hold, hold_either, try_to_hold};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// For so many at most, and as many more as there are senders at the same instant.
pub fn bounded<T>(max: usize) -> (Sender<T>, Receiver<T>) {
    let queue = Arc::new(Queue {
        max,
        lists: [const { Mutex::new(Vec::new()) }; 2],
        next: AtomicUsize::new(0),
        waiting: AtomicUsize::new(0),
        senders: AtomicUsize::new(1),
        has_receiver: AtomicBool::new(true),
        receiver: OnceLock::new(),
        is_asleep: AtomicBool::new(false),
    });
    (Sender(Arc::clone(&queue)), Receiver { queue, taken: RefCell::default() })
}

/// For what its senders bound.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    bounded(usize::MAX)
}

pub struct Sender<T>(Arc<Queue<T>>);

/// For one thread.
pub struct Receiver<T> {
    queue: Arc<Queue<T>>,
    taken: RefCell<Taken<T>>,
}

type Numbered<T> = Vec<(usize, T)>;

/// How a list is come by.
type Hold<T> = fn(&Mutex<Numbered<T>>) -> Option<MutexGuard<'_, Numbered<T>>>;

struct Queue<T> {
    max: usize,
    lists: [Mutex<Numbered<T>>; 2],
    /// Of the next item.
    next: AtomicUsize,
    /// Items that were put in, and not handed out.
    waiting: AtomicUsize,
    senders: AtomicUsize,
    has_receiver: AtomicBool,
    /// Who is woken, once he has slept.
    receiver: OnceLock<Thread>,
    /// Nobody has woken him yet: to wake somebody is a system call.
    is_asleep: AtomicBool,
}

/// What the receiver has taken out of the lists.
struct Taken<T> {
    /// What has to wait for what may have been sent before it.
    early: Numbered<T>,
    /// In their order.
    ready: VecDeque<T>,
}

impl<T> Default for Taken<T> {
    fn default() -> Taken<T> {
        Taken { early: Vec::new(), ready: VecDeque::new() }
    }
}

impl<T> Queue<T> {
    fn wake(&self) {
        if self.is_asleep.load(SeqCst) && self.is_asleep.swap(false, SeqCst) {
            self.receiver.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// Until there is something, or nothing will come, or that time.
    fn wait(&self, until: Option<Instant>) {
        self.receiver.get_or_init(thread::current);
        self.is_asleep.store(true, SeqCst);
        if self.waiting.load(SeqCst) == 0 && self.senders.load(SeqCst) > 0 {
            match until {
                None => thread::park(),
                Some(until) => thread::park_timeout(until.saturating_duration_since(Instant::now())),
            }
        }
        self.is_asleep.store(false, SeqCst);
    }
}

impl<T> Sender<T> {
    /// Err: there is no room for it, or nobody takes anything any more.
    pub fn try_send(&self, item: T) -> Result<(), T> {
        let queue = &*self.0;
        if queue.waiting.load(Relaxed) >= queue.max {
            return Err(item);
        }
        let number = queue.next.fetch_add(1, Relaxed);
        let mut list = hold_either(queue.lists.each_ref());
        // When he has gone he takes this list once more.
        if !queue.has_receiver.load(SeqCst) {
            return Err(item);
        }
        list.push((number, item));
        queue.waiting.fetch_add(1, SeqCst);
        drop(list);
        queue.wake();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.senders.fetch_add(1, Relaxed);
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.senders.fetch_sub(1, SeqCst);
        self.0.wake();
    }
}

impl<T> Receiver<T> {
    /// Waits for nobody, nor for whoever is just putting something in: for who is rung for after that.
    #[inline]
    pub fn poll(&self) -> Option<T> {
        self.take(try_to_hold)
    }

    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        // Before it is looked: what the last one put in is there then.
        let is_over = self.queue.senders.load(SeqCst) == 0;
        self.take(|list| Some(hold(list))).ok_or(if is_over { TryRecvError::Disconnected } else { TryRecvError::Empty })
    }

    fn take(&self, hold: Hold<T>) -> Option<T> {
        if self.queue.waiting.load(SeqCst) == 0 {
            return None;
        }
        let Taken { early, ready } = &mut *self.taken.borrow_mut();
        if ready.is_empty() {
            // What has a number by now is in one of the lists once they are looked into, with all that its sender has sent before. Of two that
            // come later the second may be found, and the first not yet.
            let end = self.queue.next.load(Relaxed);
            for list in &self.queue.lists {
                early.append(&mut *hold(list)?);
            }
            // No two have one number; and it needs no room.
            early.sort_unstable_by_key(|(number, _)| *number);
            let known = early.partition_point(|(number, _)| *number < end);
            ready.extend(early.drain(..known).map(|(_, item)| item));
        }
        let item = ready.pop_front()?;
        self.queue.waiting.fetch_sub(1, SeqCst);
        Some(item)
    }

    /// None: nobody puts anything in any more.
    pub fn recv(&self) -> Option<T> {
        loop {
            match self.try_recv() {
                Ok(item) => return Some(item),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => self.queue.wait(None),
            }
        }
    }

    pub fn recv_timeout(&self, patience: Duration) -> Result<T, RecvTimeoutError> {
        let until = Instant::now() + patience;
        loop {
            match self.try_recv() {
                Ok(item) => return Ok(item),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if Instant::now() >= until => return Err(RecvTimeoutError::Timeout),
                Err(TryRecvError::Empty) => self.queue.wait(Some(until)),
            }
        }
    }

    /// All that is there.
    pub fn drain(&self) -> Vec<T> {
        std::iter::from_fn(|| self.try_recv().ok()).take(self.queue.max).collect()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.queue.has_receiver.store(false, SeqCst);
        // Whoever waits for what comes of an item is told that nothing does.
        for list in &self.queue.lists {
            let left = std::mem::take(&mut *hold(list));
            drop(left);
        }
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
            assert_eq!(receiver.queue.waiting.load(Relaxed), 3, "full");
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
        let (sender, receiver) = bounded(1000);
        let (done, is_done) = channel();
        thread::spawn(move || {
            (0..1000).for_each(|i| sender.try_send(i).unwrap());
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
        drop(receiver);
        assert!(outcome.recv_timeout(PATIENCE).is_err() && sender.try_send(None).is_err());
    }

    #[test]
    fn nobody_waits_for_who_is_stopped_while_he_has_a_list() {
        let (sender, receiver) = bounded(5);
        let at = |number: usize| &sender.0.lists[number];
        let stopped = at(0).lock().unwrap();
        assert_eq!((sender.try_send(1), receiver.poll()), (Ok(()), None));
        drop(stopped);
        sender.try_send(2).unwrap();
        let stopped = at(1).lock().unwrap();
        assert_eq!((sender.try_send(3), receiver.poll(), sender.try_send(4)), (Ok(()), None, Ok(())));
        drop(stopped);
        assert_eq!(receiver.drain(), [1, 2, 3, 4], "each in its order");
    }

    #[test]
    fn what_is_found_before_what_was_sent_earlier_waits_for_it() {
        let (sender, receiver) = bounded(5);
        let at = |number: usize| sender.0.lists[number].lock().unwrap();
        sender.try_send(0).unwrap();
        // As if between the looks into the two lists one had been put into the first, and the next into the second.
        let end = receiver.queue.next.load(SeqCst);
        at(1).push((end + 1, 2));
        receiver.queue.waiting.fetch_add(2, SeqCst);
        assert_eq!((receiver.poll(), receiver.poll()), (Some(0), None));
        at(0).push((end, 1));
        receiver.queue.next.fetch_add(2, SeqCst);
        assert_eq!(receiver.drain(), [1, 2]);
    }

    #[test]
    fn what_many_put_in_comes_out_once_and_each_ones_in_its_order() {
        let (sender, receiver) = bounded::<(usize, u32)>(100);
        let (senders, each) = (4, 50_000);
        let put = |from: usize, sender: Sender<(usize, u32)>| {
            for n in 0..each {
                let mut item = (from, n);
                while let Err(back) = sender.try_send(item) {
                    item = back;
                    thread::yield_now();
                }
            }
        };
        let mut next = vec![0; senders];
        thread::scope(|scope| {
            (0..senders).for_each(|from| {
                let sender = sender.clone();
                scope.spawn(move || put(from, sender));
            });
            drop(sender);
            while let Some((from, n)) = receiver.recv() {
                assert_eq!(next[from], n);
                next[from] += 1;
            }
        });
        assert_eq!(next, vec![each; senders]);
    }
}
