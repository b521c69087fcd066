//! The journal's thread: it waits for the disk while who carries out updates lays what they change.

use crate::answering::queue::{self, Receiver, Sender};
use crate::clock::Clock;
use crate::update::writing::Writing;
use front::locks::hold;
use net::sched::{Precedence, Rank, usage};
use std::io;
use std::sync::{Arc, Mutex};
use store::journal::{Folder, Journal};

/// Changes that become durable together, written out.
pub type Group = Vec<Vec<u8>>;

/// What its thread does.
pub struct Hand {
    journal: Arc<Mutex<Journal<Folder>>>,
    groups: Receiver<Group>,
    outcomes: Sender<Outcome>,
}

/// With the group: who has made it lets go of it.
type Outcome = (io::Result<u64>, Group);

/// Who has a hand.
pub struct Employer {
    groups: Sender<Group>,
    outcomes: Receiver<Outcome>,
}

pub fn pair(journal: &Arc<Mutex<Journal<Folder>>>) -> (Employer, Hand) {
    let ((groups, taken), (done, outcomes)) = (queue::bounded(1), queue::bounded(1));
    let hand = Hand { journal: Arc::clone(journal), groups: taken, outcomes: done };
    (Employer { groups, outcomes }, hand)
}

impl Hand {
    /// Works until nobody can have anything written any more.
    pub fn run(self, goes_first: bool, clock: Clock, writing: &Writing) {
        let mut precedence = goes_first.then(|| Precedence::take(Rank::Updates, clock.mono_ns())).flatten();
        while let Some(group) = self.groups.recv() {
            let before = usage();
            writing.begins();
            let kept = append(&self.journal, &group);
            writing.ends();
            // Whoever waited may have gone.
            let _ = self.outcomes.try_send((kept, group));
            let ran_ns = usage().since(&before).ran.as_nanos() as u64;
            precedence.iter_mut().for_each(|precedence| precedence.weigh(ran_ns, clock.mono_ns()));
        }
    }
}

impl Employer {
    /// Has a group made durable while something else is done.
    pub fn append<T>(&self, group: Group, meanwhile: impl FnOnce() -> T) -> (io::Result<u64>, T) {
        let is_taken = self.groups.try_send(group).is_ok();
        let done = meanwhile();
        let outcome = if is_taken { self.outcomes.recv() } else { None };
        // If it has panicked the server stops.
        let kept = outcome.map_or_else(|| Err(io::Error::other("the journal's thread has ended")), |(kept, _)| kept);
        (kept, done)
    }
}

/// Returns where the journal ends then.
pub fn append(journal: &Mutex<Journal<Folder>>, group: &Group) -> io::Result<u64> {
    let mut journal = hold(journal);
    journal.append(group)?;
    Ok(journal.next_position())
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::journal::SEGMENT_OCTETS;

    fn journal(name: &str) -> (std::path::PathBuf, Arc<Mutex<Journal<Folder>>>) {
        let path = std::env::temp_dir().join(format!("dunlin-hand-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let journal = Journal::open(Folder::open(&path).unwrap(), SEGMENT_OCTETS, 0, &mut |_, _| {}).unwrap().0;
        (path, Arc::new(Mutex::new(journal)))
    }

    #[test]
    fn a_group_is_written_by_the_hand_alone_and_told_of_after_that() {
        let (path, journal) = journal("durable");
        let (employer, hand) = pair(&journal);
        let read = || {
            let mut seen = vec![];
            let folder = Folder::open(&path).unwrap();
            Journal::look_through(folder, 0, &mut |_, record| seen.push(record.to_vec())).unwrap();
            seen
        };
        // Nobody works yet, however long something else is done.
        let (begun, begins) = std::sync::mpsc::channel();
        let worker = std::thread::spawn(move || {
            begins.recv().unwrap();
            hand.run(false, Clock::new(), &Writing::new(Clock::new()));
        });
        let (kept, before) = employer.append(vec![b"a".to_vec(), b"b".to_vec()], || {
            let before = read();
            begun.send(()).unwrap();
            before
        });
        assert_eq!((kept.unwrap(), before), (2, vec![]));
        assert_eq!(read(), [b"a", b"b"]);
        std::fs::remove_dir_all(&path).unwrap();
        let (kept, done) = employer.append(vec![b"c".to_vec()], || 7);
        assert!(kept.unwrap_err().to_string().contains("journal.0000000001"), "the file is gone, and is named");
        assert_eq!((done, hold(&journal).next_position()), (7, 2));
        drop(employer);
        worker.join().unwrap();
    }

    #[test]
    fn a_group_that_nobody_writes_is_refused() {
        let (path, journal) = journal("nobody");
        let (employer, hand) = pair(&journal);
        drop(hand);
        assert!(employer.append(vec![b"a".to_vec()], || ()).0.is_err());
        let (employer, hand) = pair(&journal);
        // It ends in the midst of its work.
        let kept = employer.append(vec![b"a".to_vec()], || drop(hand)).0;
        assert_eq!(kept.unwrap_err().to_string(), "the journal's thread has ended");
        std::fs::remove_dir_all(&path).unwrap();
    }
}
