//! Queries that wait for their answers, of one socket: a table by message ID.
//!
//! IDs are given out in turn, so an ID comes back after 65,535 others. What was answered or given up is remembered until
//! then, or for `MEMORY_NS`: that tells a duplicate and a late answer from one that answers nothing that we asked.
//!
//! ```text
//!      oldest            next
//!   ...  |  waiting ...   |  remembered, or never used
//! ```

use crate::question::hash;
use crate::shape::HEADER;

const IDS: usize = 1 << 16;
/// An answer that comes later than this is not told apart from one to nothing.
const MEMORY_NS: u64 = 30_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    Waiting,
    Answered,
    TimedOut,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    due_ns: u64,
    hash: u32,
    len: u16,
    state: State,
    sent_late: bool,
}

impl Slot {
    fn query(&self) -> Query {
        Query { due_ns: self.due_ns, sent_late: self.sent_late }
    }
}

/// A query that was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub due_ns: u64,
    /// The tool sent it behind its time: what becomes of it may be the tool's doing.
    pub sent_late: bool,
}

/// What a packet that came in is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Answer(Query),
    /// The answer to a query that was given up before.
    Late(Query),
    /// A second answer.
    Duplicate(Query),
    /// It bears the ID of a waiting query, and another question.
    WrongQuestion,
    /// It bears an ID that no query waits with.
    WrongId,
    /// It is no answer at all.
    Malformed,
}

pub struct Outstanding {
    slots: Box<[Slot]>,
    next: u16,
    oldest: u16,
    waiting: usize,
}

impl Outstanding {
    pub fn new(first_id: u16) -> Outstanding {
        Outstanding { slots: vec![Slot::default(); IDS].into(), next: first_id, oldest: first_id, waiting: 0 }
    }

    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many more queries can be opened before IDs run out.
    #[inline]
    pub fn room(&self) -> usize {
        IDS - 1 - usize::from(self.next.wrapping_sub(self.oldest))
    }

    /// An ID for a query; None when all are in use.
    #[inline]
    pub fn open(&mut self, query: Query, question: &[u8]) -> Option<u16> {
        if self.room() == 0 {
            return None;
        }
        let id = self.next;
        let Query { due_ns, sent_late } = query;
        let (hash, len) = (hash(question), question.len() as u16);
        self.slots[usize::from(id)] = Slot { due_ns, hash, len, state: State::Waiting, sent_late };
        self.next = id.wrapping_add(1);
        self.waiting += 1;
        Some(id)
    }

    /// Forgets the last `n` that were opened: they were not sent.
    pub fn take_back(&mut self, n: usize) {
        for _ in 0..n {
            self.next = self.next.wrapping_sub(1);
            self.slots[usize::from(self.next)] = Slot::default();
            self.waiting -= 1;
        }
    }

    #[inline]
    pub fn hear(&mut self, packet: &[u8], now_ns: u64) -> Heard {
        if packet.len() < HEADER || packet[2] & 0x80 == 0 {
            return Heard::Malformed;
        }
        let id = u16::from_be_bytes([packet[0], packet[1]]);
        let slot = &mut self.slots[usize::from(id)];
        let same = is_question(packet, slot);
        let remembered = slot.due_ns + MEMORY_NS > now_ns;
        match slot.state {
            State::Waiting if same => {
                slot.state = State::Answered;
                self.waiting -= 1;
                let query = slot.query();
                self.forget_front();
                Heard::Answer(query)
            }
            State::Waiting => Heard::WrongQuestion,
            State::Answered if same && remembered => Heard::Duplicate(slot.query()),
            State::TimedOut if same && remembered => {
                slot.state = State::Answered;
                Heard::Late(slot.query())
            }
            _ => Heard::WrongId,
        }
    }

    #[inline]
    fn forget_front(&mut self) {
        while self.oldest != self.next && self.slots[usize::from(self.oldest)].state != State::Waiting {
            self.oldest = self.oldest.wrapping_add(1);
        }
    }

    /// Is there a query that `give_up` would give up?
    pub fn is_overdue(&self, until_ns: u64) -> bool {
        let oldest = &self.slots[usize::from(self.oldest)];
        self.oldest != self.next && oldest.state == State::Waiting && oldest.due_ns < until_ns
    }

    /// Gives up the queries that were due before `until`, and names each. IDs are in the order of due times
    /// but for those sent late, which then wait for their turn.
    pub fn give_up(&mut self, until_ns: u64, mut each: impl FnMut(Query)) {
        while self.oldest != self.next {
            let slot = &mut self.slots[usize::from(self.oldest)];
            if slot.state == State::Waiting {
                if slot.due_ns >= until_ns {
                    return;
                }
                slot.state = State::TimedOut;
                self.waiting -= 1;
                each(slot.query());
            }
            self.oldest = self.oldest.wrapping_add(1);
        }
    }
}

/// A server that refuses a query may leave the question out; otherwise it must come back as it was, case included.
#[inline]
fn is_question(packet: &[u8], slot: &Slot) -> bool {
    if packet[4..6] == [0, 0] {
        return true;
    }
    let question = packet.get(HEADER..HEADER + usize::from(slot.len));
    question.is_some_and(|q| hash(q) == slot.hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(due_ns: u64) -> Query {
        Query { due_ns, sent_late: false }
    }

    const QUESTION: &[u8] = b"\x01a\x00\x00\x01\x00\x01";

    fn answer(id: u16, question: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; HEADER];
        packet[..2].copy_from_slice(&id.to_be_bytes());
        (packet[2], packet[5]) = (0x80, 1);
        packet.extend_from_slice(question);
        packet
    }

    #[test]
    fn each_kind_of_answer_is_told_apart() {
        let mut table = Outstanding::new(65_530);
        let ids: Vec<u16> = (0..10).map(|i| table.open(due(i * 100), QUESTION).unwrap()).collect();
        assert_eq!((ids[0], ids[9]), (65_530, 3));
        assert_eq!(table.hear(&answer(ids[1], QUESTION), 500), Heard::Answer(due(100)));
        assert_eq!(table.hear(&answer(ids[1], QUESTION), 500), Heard::Duplicate(due(100)));
        assert_eq!(table.hear(&answer(ids[2], b"\x01b\x00\x00\x01\x00\x01"), 500), Heard::WrongQuestion);
        assert_eq!(table.hear(&answer(ids[2], QUESTION), 500), Heard::Answer(due(200)));
        assert_eq!(table.hear(&answer(77, QUESTION), 500), Heard::WrongId);
        assert_eq!(table.hear(&[0; 11], 500), Heard::Malformed);
        assert_eq!(table.hear(&[0; 12], 500), Heard::Malformed);
        let mut given_up = Vec::new();
        assert!(table.is_overdue(500) && !table.is_overdue(0));
        table.give_up(500, |query| given_up.push(query.due_ns));
        assert_eq!(given_up, [0, 300, 400]);
        assert_eq!(table.waiting(), 5);
        assert_eq!(table.hear(&answer(ids[0], QUESTION), 2000), Heard::Late(due(0)));
        assert_eq!(table.hear(&answer(ids[0], QUESTION), 2000), Heard::Duplicate(due(0)));
        assert_eq!(table.hear(&answer(ids[3], QUESTION), 400 + MEMORY_NS), Heard::WrongId);
        table.take_back(2);
        assert_eq!(table.waiting(), 3);
        assert_eq!(table.hear(&answer(ids[9], QUESTION), 900), Heard::WrongId);
    }

    #[test]
    fn a_refusal_may_leave_the_question_out() {
        let mut table = Outstanding::new(1);
        let id = table.open(due(5), QUESTION).unwrap();
        let mut packet = answer(id, b"");
        packet[5] = 0;
        assert_eq!(table.hear(&packet, 9), Heard::Answer(due(5)));
    }

    #[test]
    fn ids_run_out_and_come_back() {
        let mut table = Outstanding::new(9);
        let first = table.open(due(0), QUESTION).unwrap();
        while table.open(due(1), QUESTION).is_some() {}
        assert_eq!((table.waiting(), table.room()), (65_535, 0));
        assert_eq!(table.hear(&answer(first, QUESTION), 1), Heard::Answer(due(0)));
        assert_eq!(table.room(), 1);
        let mut lost = 0;
        table.give_up(2, |_| lost += 1);
        assert_eq!((lost, table.waiting(), table.room()), (65_534, 0, 65_535));
    }
}
