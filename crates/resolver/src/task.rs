//! One question on its way: which server is asked next, what its reply means, when to give up.
//!
//! ```text
//!   begin -> pick a server -> await its reply -> scrub -> answered
//!                ^                  |              |
//!                +---- silence, refusal            +-> the chain leaves the server's zone: pick for the next name
//! ```
//!
//! A task has at most one exchange with one server at a time, and of tasks that ask for the same name and type (with DO
//! and without, say) one asks at a time, so that forged replies have one to hit (RebirthDay: CVE-2025-5994). Its budget is
//! handed on by value and never filled up again: not by an alias, not by another transport.

use crate::answer::{Answer, Draft, Room, TtlRange};
use crate::exchange::{Exchange, Via};
use crate::question::Question;
use crate::scrub::{CHAIN_MAX, Scrubbed, Scrubber};
use crate::why::Why;
use wire::Name;
use wire::message::Message;

/// Packets that one question may cost, all servers, repetitions and aliases together.
const SENDS_MAX: u8 = 24;
/// Waiters that there is room for in what one task leaves to the next.
const WAITERS_KEPT: usize = 16;
/// A question is given up after this long.
pub const WALL_NS: u64 = 8_000_000_000;
/// A client is given what has expired rather than wait longer (RFC 8767 section 5).
pub const CLIENT_PATIENCE_NS: u64 = 1_800_000_000;

#[derive(Clone, Copy)]
pub struct Budget {
    sends: u8,
}

impl Budget {
    pub fn spend(self) -> Result<Budget, Why> {
        self.sends.checked_sub(1).map(|sends| Budget { sends }).ok_or(Why::BudgetSpent)
    }
}

/// What was tried with one server for the name at hand.
#[derive(Clone, Copy, Default)]
pub struct Tried {
    pub sends: u8,
    /// It said no, or the network did: there is no use in asking it again.
    pub refused: bool,
    /// How to ask it next: after a wrong id, a changed case or a truncated reply over TCP.
    pub over_tcp: bool,
    /// After it had no sense for EDNS: without.
    pub without_edns: bool,
}

pub struct Task<W> {
    pub question: Question,
    pub hash: u64,
    /// Of its neighbourhood, which counts it.
    pub near: u64,
    /// Who waits, with what their place among a client's waiters is known by.
    pub waiters: Vec<(u64, W)>,
    /// The cache has an expired answer, and it has not been given yet.
    pub has_stale: bool,
    pub begun_ns: u64,
    /// Another task asks for the same name and type: this one waits for its end.
    pub is_held: bool,
    /// Name and type that are asked for, as a hash; None: nothing is.
    pub asks_for: Option<u64>,
    /// Where the chain has come to, and who is asked for it.
    pub name: Name,
    pub forward: usize,
    pub tried: Vec<Tried>,
    /// The latest is last.
    pub exchanges: Vec<Exchange>,
    pub budget: Budget,
    /// The best reason so far to give up.
    pub why: Why,
    steps: u8,
    draft: Draft,
}

/// The name of a question, and hashes under the resolver's secret: of it, and of its neighbourhood.
pub struct Named<'a> {
    pub name: &'a Name,
    pub hash: u64,
    pub near: u64,
}

/// What a reply came to.
pub enum Digested {
    Answered(Answer),
    /// Somebody else is to be asked for this name.
    Goes(Box<Name>),
    /// This server is of no use for this.
    Useless,
    Failed(Why),
}

/// One that has nothing to do.
impl<W> Default for Task<W> {
    fn default() -> Task<W> {
        let question = Question::default();
        Task {
            draft: Draft::new(&question),
            question,
            hash: 0,
            near: 0,
            waiters: Vec::with_capacity(1),
            has_stale: false,
            begun_ns: 0,
            is_held: false,
            asks_for: None,
            name: Name::ROOT,
            forward: 0,
            tried: Vec::with_capacity(1),
            exchanges: Vec::with_capacity(1),
            budget: Budget { sends: SENDS_MAX },
            why: Why::Silence,
            steps: CHAIN_MAX,
        }
    }
}

impl<W> Task<W> {
    /// Begins, as new or in the room of one that has ended.
    pub fn begin(
        &mut self,
        now_ns: u64,
        question: Question,
        named: &Named<'_>,
        has_stale: bool,
        forward: usize,
        servers: usize,
    ) {
        self.name = *named.name;
        self.draft.renew(self.name);
        (self.hash, self.near) = (question.hash(named.hash), named.near);
        self.asks_for = Some(question.asked_hash(named.hash));
        self.question = question;
        (self.begun_ns, self.has_stale, self.is_held, self.forward) = (now_ns, has_stale, false, forward);
        self.tried.resize(servers, Tried::default());
        (self.budget, self.why, self.steps) = (Budget { sends: SENDS_MAX }, Why::Silence, CHAIN_MAX);
    }

    /// What it was about. What it grew in is left to the next, empty.
    pub fn end(&mut self) -> Question {
        self.waiters.clear();
        self.waiters.shrink_to(WAITERS_KEPT);
        self.tried.clear();
        self.exchanges.clear();
        std::mem::take(&mut self.question)
    }

    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.begun_ns + WALL_NS
    }

    /// When something is to be done if nothing comes.
    pub fn next_deadline(&self) -> u64 {
        if !self.awaits() {
            return 0;
        }
        let stale = if self.has_stale { self.begun_ns + CLIENT_PATIENCE_NS } else { u64::MAX };
        let reply = self.exchanges.iter().map(|e| e.deadline_ns).min().unwrap_or(u64::MAX);
        stale.min(reply).min(self.begun_ns + WALL_NS)
    }

    /// False: nothing is expected to come any more, though a late reply would be heard.
    pub fn awaits(&self) -> bool {
        self.is_held || self.exchanges.iter().any(|e| e.deadline_ns != u64::MAX)
    }

    pub fn via(&self, server: usize) -> Via {
        if self.tried.get(server).is_some_and(|t| t.over_tcp) { Via::Tcp } else { Via::Udp }
    }

    /// Makes of a reply what it is worth: `zone` is what the server speaks for, `room` is for an answer.
    pub fn digest(&mut self, message: &Message<'_>, zone: &Name, ttls: &TtlRange, room: Room) -> Digested {
        let Some(scrubber) = Scrubber::new(message, &self.question, zone, ttls) else { return Digested::Useless };
        let mark = self.draft.mark();
        match scrubber.follow(self.name, &mut self.steps, &mut self.draft) {
            Scrubbed::Answered { rcode, lifetime_s } => {
                Digested::Answered(self.draft.finish_in(room, rcode, lifetime_s))
            }
            Scrubbed::Leaves(name) => Digested::Goes(name),
            Scrubbed::Lame | Scrubbed::Unfit => {
                // What the next server says must not be mixed with it.
                self.draft.rewind(&mark);
                Digested::Useless
            }
            Scrubbed::EndlessChain => Digested::Failed(Why::EndlessChain),
        }
    }

    /// The chain goes on elsewhere: nothing that was tried counts any more.
    pub fn follow(&mut self, name: Name, forward: usize, servers: usize) {
        (self.name, self.forward) = (name, forward);
        self.tried.clear();
        self.tried.resize(servers, Tried::default());
    }
}
