//! Answers that are ready after their question's batch has gone: a mailbox for each answering thread, which any thread
//! may post to. The answering thread empties it once a turn and sends what is in it from the socket that was asked.
//!
//! Bound: `MAILBOX_MAX` answers a mailbox. What finds it full is dropped and counted; the client asks again.

use crate::answering::queue::{self, Receiver, Sender};
use crate::secondaries::Secondaries;
use crate::transfers::Asks;
use crate::transfers::valve::Valve;
use crate::update::intake::Entrance;
use front::{Postponed, Purpose, Ticket, Way};
use net::udp::Return;
use net::{Wake, tcp};
use stats::{Counter, Counters};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use transfer::message::Message;
use wire::{Rcode, rtype};

const MAILBOX_MAX: usize = 4096;

/// Who works on postponed questions. Called on answering threads, so it must not block.
pub trait Desk: Send + Sync {
    /// False: there is too much to do; the question is dropped.
    fn take(&self, question: Postponed) -> bool;
    /// No more comes of this batch: who works on what was taken begins.
    fn ring(&self) {}
}

/// Each question to the desk that it is for.
pub struct Desks {
    pub resolver: Option<Arc<dyn Desk>>,
    pub updates: Arc<Entrance>,
    pub transfers: Asks,
    pub notifies: Secondaries,
}

impl Desk for Desks {
    fn take(&self, question: Postponed) -> bool {
        match question.purpose {
            Purpose::Update => self.updates.take(question),
            Purpose::Notify(_) => self.notifies.take(question),
            Purpose::Transfer => self.transfers.take(question),
            Purpose::Resolve(_) => self.resolver.as_ref().is_some_and(|desk| desk.take(question)),
        }
    }

    fn ring(&self) {
        self.resolver.iter().for_each(|desk| desk.ring());
    }
}

/// An answer and where it goes. An empty one says that there will be none.
pub struct Letter {
    pub way: Way,
    pub message: Vec<u8>,
    /// More of this answer is made once this is taken.
    pub more: Option<Arc<Valve>>,
}

impl Letter {
    /// Puts the answer into the buffer; its length, or 0 if there is to be none, or it does not fit.
    pub fn put(&self, buffer: &mut [u8]) -> usize {
        let Some(room) = buffer.get_mut(..self.message.len()) else { return 0 };
        room.copy_from_slice(&self.message);
        self.message.len()
    }
}

/// Counts an answer that no worker has written, by whichever thread.
pub fn count(answer: &[u8], counters: &Counters) {
    let Some((message, low)) = Message::new(answer).zip(answer.get(3)) else { return };
    let opt = message.places().flatten().find(|rr| rr.rtype == rtype::OPT);
    // The rest of the code (RFC 6891 section 6.1.3).
    let high = opt.map_or(0, |opt| opt.ttl >> 24) as u16;
    counters.count_together(Counter::Answered);
    counters.count_together(front::counter_of(Rcode(high << 4 | u16::from(low & 15))));
}

/// An answer in the room of its question.
pub fn in_its_room(mut question: Vec<u8>, answer: &[u8]) -> Vec<u8> {
    question.clear();
    question.extend_from_slice(answer);
    question
}

/// One thread's end of its mailbox.
pub struct Mailbox {
    thread: u16,
    letters: Receiver<Letter>,
    lost: Arc<AtomicU64>,
    pub wake: Arc<Wake>,
}

struct Slot {
    letters: Sender<Letter>,
    lost: Arc<AtomicU64>,
    wake: Arc<Wake>,
}

/// Everybody's end: by thread.
pub struct Mailboxes(Vec<Slot>);

impl Mailboxes {
    /// One for each of so many threads, in the order of their numbers.
    pub fn new(threads: usize) -> io::Result<(Mailboxes, Vec<Mailbox>)> {
        let pair = |thread| {
            let (sender, letters) = queue::bounded(MAILBOX_MAX);
            let (lost, wake) = (Arc::<AtomicU64>::default(), Arc::new(Wake::new()?));
            let slot = Slot { letters: sender, lost: Arc::clone(&lost), wake: Arc::clone(&wake) };
            Ok((slot, Mailbox { thread: thread as u16, letters, lost, wake }))
        };
        let pairs: io::Result<Vec<_>> = (0..threads).map(pair).collect();
        let (slots, boxes) = pairs?.into_iter().unzip();
        Ok((Mailboxes(slots), boxes))
    }

    /// Sends the answer to a question on its way, in the room of that: the answering thread has back what is of its own heap. To free what is
    /// of another's it might have to wait for that one's lock, whose holder it may be keeping from the CPU. An empty one says that there will be none.
    pub fn answer(&self, question: Postponed, answer: &[u8], counters: &Counters) {
        count(answer, counters);
        self.post(question.ticket, in_its_room(question.message, answer));
    }

    /// Sends an answer on its way. An empty one says that there will be none.
    pub fn post(&self, ticket: Ticket, message: Vec<u8>) {
        self.put(ticket, message);
        self.ring(ticket.thread);
    }

    /// The same for one of many: nobody is woken for it until `ring`.
    fn put(&self, ticket: Ticket, message: Vec<u8>) {
        self.send(ticket, message, None);
    }

    /// Sends a message of an answer that goes on; who makes the rest waits at the valve. False: it is lost.
    pub fn post_piece(&self, ticket: Ticket, message: Vec<u8>, valve: &Arc<Valve>) -> bool {
        let is_sent = self.send(ticket, message, Some(Arc::clone(valve)));
        self.ring(ticket.thread);
        is_sent
    }

    fn send(&self, ticket: Ticket, message: Vec<u8>, more: Option<Arc<Valve>>) -> bool {
        let Some(slot) = self.0.get(usize::from(ticket.thread)) else { return false };
        let is_sent = slot.letters.try_send(Letter { way: ticket.way, message, more }).is_ok();
        slot.lost.fetch_add(u64::from(!is_sent), Relaxed);
        is_sent
    }

    pub fn wakes(&self) -> impl Iterator<Item = Arc<Wake>> {
        self.0.iter().map(|slot| Arc::clone(&slot.wake))
    }

    fn ring(&self, thread: u16) {
        if let Some(slot) = self.0.get(usize::from(thread)) {
            slot.wake.ring();
        }
    }
}

/// Answers of one thread that has many at a time, put into mailboxes before their threads are woken for them: with each by itself two threads that
/// share a CPU would take turns for every answer, and the more leave together, the fewer messages they are.
pub struct Burst {
    /// The threads of answers that nobody was woken for yet, in the order of the answers.
    put: Vec<u16>,
    max: usize,
}

impl Burst {
    /// Nobody waits for more than `max` answers to be made.
    pub fn of(max: usize) -> Burst {
        Burst { put: Vec::new(), max }
    }

    /// Sends an answer on its way, with others. An empty one says that there will be none.
    pub fn put(&mut self, mailboxes: &Mailboxes, ticket: Ticket, message: Vec<u8>) {
        mailboxes.put(ticket, message);
        self.put.push(ticket.thread);
        if self.put.len() >= self.max {
            self.ring(mailboxes);
        }
    }

    /// No more comes for now.
    pub fn ring(&mut self, mailboxes: &Mailboxes) {
        let mut last = None;
        for thread in self.put.drain(..).filter(|thread| last.replace(*thread) != Some(*thread)) {
            mailboxes.ring(thread);
        }
    }
}

impl Mailbox {
    pub fn datagram(&self, port: usize, back: Return) -> Ticket {
        let Return { peer, asked, interface } = back;
        Ticket { thread: self.thread, way: Way::Datagram { port: port as u16, peer, asked, interface } }
    }

    pub fn stream(&self, ticket: tcp::Ticket) -> Ticket {
        Ticket { thread: self.thread, way: Way::Stream(ticket.0) }
    }

    pub fn next(&self) -> Option<Letter> {
        self.letters.poll()
    }

    /// Answers that found the mailbox full, since the last call.
    pub fn lost(&self) -> u64 {
        match self.lost.load(Relaxed) {
            0 => 0,
            _ => self.lost.swap(0, Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_reach_the_thread_that_the_ticket_names() {
        let (all, boxes) = Mailboxes::new(2).unwrap();
        let ticket = |thread: usize| boxes[thread].stream(tcp::Ticket(7));
        all.post(ticket(1), b"abc"[..].into());
        all.post(Ticket { thread: 9, ..ticket(0) }, b"nobody's"[..].into());
        assert!(boxes[0].next().is_none());
        assert!(!boxes[0].wake.clear() && boxes[1].wake.clear(), "and only that one is woken");
        let (letter, mut buffer) = (boxes[1].next().unwrap(), [0; 8]);
        assert_eq!((letter.way, letter.put(&mut buffer[..2]), letter.put(&mut buffer)), (Way::Stream(7), 0, 3));
        assert_eq!(buffer[..3], *b"abc");
        assert!(boxes[1].next().is_none());
    }

    /// Else an answering thread would take its turn for each of them.
    #[test]
    fn a_burst_wakes_each_thread_once() {
        let (all, boxes) = Mailboxes::new(2).unwrap();
        let ticket = |thread: usize| boxes[thread].stream(tcp::Ticket(7));
        let mut burst = Burst::of(3);
        let is_woken = || [0, 1].map(|thread: usize| boxes[thread].wake.clear());
        for thread in [0, 0, 1] {
            assert_eq!(is_woken(), [false; 2]);
            burst.put(&all, ticket(thread), Vec::new());
        }
        assert_eq!(is_woken(), [true; 2]);
        burst.put(&all, ticket(1), Vec::new());
        burst.ring(&all);
        assert_eq!(is_woken(), [false, true]);
        burst.ring(&all);
        assert_eq!(is_woken(), [false; 2]);
    }

    #[test]
    fn a_full_mailbox_drops_and_counts() {
        let (all, boxes) = Mailboxes::new(1).unwrap();
        let ticket = boxes[0].stream(tcp::Ticket(7));
        (0..MAILBOX_MAX + 3).for_each(|_| all.post(ticket, Vec::new()));
        assert_eq!((boxes[0].lost(), boxes[0].lost()), (3, 0));
    }
}
