//! Questions on their way from answering threads to the task threads: a bounded ring for each pair, and a doorbell that
//! is rung once a batch, and only for who sleeps. On a CPU that both threads share the kernel may prefer whoever is woken
//! to who woke him: with a ring for every question they would take turns for each.
//!
//! A question has one owner, by the hash of its name, so that all who ask it meet there. Bound: `RING_MAX` questions a
//! ring; what finds it full is shed, for a task thread that does not keep up will not get faster by waiting.

use crate::answering::later::Desk;
use crate::answering::queue::{self, Receiver, Sender};
use front::{Miss, Postponed, Purpose};
use net::Wake;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use wire::hash::siphash;

const RING_MAX: usize = 4096;

/// What wakes a task thread.
pub struct Bell {
    pub wake: Arc<Wake>,
    sleeps: AtomicBool,
    /// Something was put into the ring that nobody has rung for yet.
    is_owed: AtomicBool,
}

impl Bell {
    fn new() -> io::Result<Bell> {
        Ok(Bell { wake: Arc::new(Wake::new()?), sleeps: AtomicBool::new(false), is_owed: AtomicBool::new(false) })
    }

    /// Said after something was put: whichever thread rings next rings for it.
    fn owe(&self) {
        self.is_owed.store(true, SeqCst);
    }

    fn ring(&self) {
        if self.is_owed.load(SeqCst) && self.is_owed.swap(false, SeqCst) && self.sleeps.swap(false, SeqCst) {
            self.wake.ring();
        }
    }

    /// Said before looking into the rings for the last time: whoever puts something there afterwards rings.
    pub fn about_to_sleep(&self) {
        self.sleeps.store(true, SeqCst);
    }

    pub fn is_awake(&self) {
        self.sleeps.store(false, SeqCst);
    }
}

/// Everybody's end.
pub struct Handover {
    owners: Vec<(Sender<Postponed>, Arc<Bell>)>,
    key: [u8; 16],
}

/// The end of one task thread.
pub struct Inbox {
    pub ring: Receiver<Postponed>,
    pub bell: Arc<Bell>,
}

impl Handover {
    pub fn new(owners: usize, key: [u8; 16]) -> io::Result<(Handover, Vec<Inbox>)> {
        let pair = |_| {
            let (sender, ring) = queue::bounded(RING_MAX);
            let bell = Arc::new(Bell::new()?);
            Ok(((sender, Arc::clone(&bell)), Inbox { ring, bell }))
        };
        let pairs: io::Result<Vec<_>> = (0..owners).map(pair).collect();
        let (owners, inboxes) = pairs?.into_iter().unzip();
        Ok((Handover { owners, key }, inboxes))
    }
}

impl Handover {
    fn owner(&self, name: &[u8]) -> Option<&(Sender<Postponed>, Arc<Bell>)> {
        if let [only] = &*self.owners {
            return Some(only);
        }
        let hash = siphash::<1, 3>(&self.key, name);
        self.owners.get(((u128::from(hash) * self.owners.len() as u128) >> 64) as usize)
    }
}

impl Desk for Handover {
    fn take(&self, question: Postponed) -> bool {
        let Purpose::Resolve(Miss { question: asked, .. }) = &question.purpose else { return false };
        let Some((ring, bell)) = self.owner(asked.name()) else { return false };
        let is_taken = ring.try_send(question).is_ok();
        bell.owe();
        is_taken
    }

    fn ring(&self) {
        self.owners.iter().for_each(|(_, bell)| bell.ring());
    }
}
