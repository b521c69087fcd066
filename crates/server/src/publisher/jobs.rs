//! What the publisher is asked to do: a job is a wish of an operator, a file that has changed, or what others have sent, with the configuration
//! as it is then.

use crate::config::Config;
use crate::kept::Order;
use crate::state::Done;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

/// So many names wait for a publisher who has much to do; beyond them all zones are looked at.
const NAMES_MAX: usize = 100_000;

/// Where whoever listens is asked.
#[derive(Clone)]
pub struct Jobs {
    sender: Sender<Job>,
    names: Arc<AtomicUsize>,
}

pub fn jobs() -> (Jobs, Receiver<Job>) {
    let (sender, receiver) = channel();
    (Jobs { sender, names: Arc::default() }, receiver)
}

impl Jobs {
    /// False: nobody listens any more.
    pub fn send(&self, mut job: Job) -> bool {
        if job.is_plain() && self.names.load(Relaxed) + job.zones.len() > NAMES_MAX {
            job.zones.clear();
        }
        self.names.fetch_add(job.zones.len(), Relaxed);
        job.names = Names(job.zones.len(), Arc::clone(&self.names));
        self.sender.send(job).is_ok()
    }
}

/// So many names of those that wait.
#[derive(Default)]
pub struct Names(usize, Arc<AtomicUsize>);

impl Drop for Names {
    fn drop(&mut self) {
        self.1.fetch_sub(self.0, Relaxed);
    }
}

/// A wish for the zones to be read again.
pub struct Job {
    pub config: Arc<Config>,
    pub why: Why,
    pub zones: Vec<String>,
    /// Where some are named, of these those that are served, too.
    pub if_served: Vec<String>,
    /// By an operator, who wants zones as they are named now; else nobody has asked for what a list says.
    pub is_asked: bool,
    /// With `Why::Keep`.
    pub order: Option<Order>,
    /// From whom zones have come, by apex; empty but for `Why::Received`.
    pub from: HashMap<Box<[u8]>, String>,
    pub done: Option<Done>,
    /// It begins once nobody can send anything here any more: what writes files that are others' now is called off.
    pub after: Vec<Receiver<()>>,
    /// Sections of which what has changed needs a restart.
    pub stays: Vec<&'static str>,
    /// Of its configuration: later ones have higher numbers.
    pub number: u64,
    /// As long as it waits.
    pub names: Names,
}

impl Job {
    pub fn new(config: Arc<Config>, why: Why, zones: Vec<String>, done: Option<Done>) -> Job {
        let (is_asked, order, from, after) = (false, None, HashMap::new(), Vec::new());
        let (if_served, stays, number, names) = (Vec::new(), Vec::new(), 0, Names::default());
        Job { config, why, zones, if_served, is_asked, order, from, done, after, stays, number, names }
    }

    /// Nobody waits for it, and it says only which files to look at.
    fn is_plain(&self) -> bool {
        self.why == Why::Asked && self.done.is_none()
    }
}

/// A job, and with it those behind it that can be done together, for while an image is built many may come; and the one behind these. What
/// is amiss with zones that nobody has named is no matter of those that somebody has.
pub fn together(mut job: Job, jobs: &Receiver<Job>) -> (Job, Option<Job>) {
    let mut zones = BTreeSet::from_iter(std::mem::take(&mut job.zones));
    let mut ahead = None;
    while job.is_plain() {
        match jobs.try_recv() {
            Ok(next) if next.is_plain() && next.zones.is_empty() == zones.is_empty() => {
                zones.extend(next.zones);
                job.after.extend(next.after);
                job = Job { zones: Vec::new(), is_asked: job.is_asked || next.is_asked, after: job.after, ..next };
            }
            next => {
                ahead = next.ok();
                break;
            }
        }
    }
    job.zones = zones.into_iter().collect();
    (job, ahead)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Files hold what has come from others.
    Received,
    /// Somebody asked for it, or files have changed.
    Asked,
    /// The image was there at the start, and serves without having been compared.
    Started,
    /// The image that is served is damaged: even if no source has changed.
    Damaged,
    /// The operator wants to see what the zone's file would change.
    Look,
    /// The operator wants this version of a zone back.
    Back(u32),
    /// The operator adds, changes or removes a zone that is kept by commands; forced: whatever the guards object to.
    Keep { is_forced: bool },
    /// The operator wants these zones served as their files say, whatever the guards object to.
    Forced,
    /// What updates have changed is to be written into files, and served from an image that was made of them.
    Fold,
}

impl Why {
    /// Whatever the guards object to.
    pub fn is_forced(self) -> bool {
        matches!(self, Why::Forced | Why::Back(_) | Why::Keep { is_forced: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answering::queue;

    #[test]
    fn wishes_that_nobody_waits_for_are_one() {
        let config = Arc::new(Config::default());
        let job = |why, zones: &[&str], number| {
            let zones = zones.iter().map(ToString::to_string).collect();
            Job { number, ..Job::new(Arc::clone(&config), why, zones, None) }
        };
        let (jobs, work) = jobs();
        let outcomes = [
            job(Why::Asked, &["b", "a"], 1),
            job(Why::Asked, &["b"], 2),
            Job { done: Some(queue::bounded(1).0), ..job(Why::Asked, &[], 3) },
            job(Why::Asked, &["c"], 4),
            job(Why::Asked, &[], 5),
            job(Why::Asked, &[], 6),
            job(Why::Damaged, &[], 7),
        ];
        assert!(outcomes.into_iter().all(|job| jobs.send(job)));
        let (mut done, mut ahead) = (Vec::new(), None);
        while let Some(job) = ahead.take().or_else(|| work.try_recv().ok()) {
            let (job, next) = together(job, &work);
            done.push((job.zones.join(" "), job.number));
            ahead = next;
        }
        let done: Vec<_> = done.iter().map(|(zones, number)| (&**zones, *number)).collect();
        assert_eq!(done, [("a b", 2), ("", 3), ("c", 4), ("", 6), ("", 7)]);
    }

    #[test]
    fn beyond_so_many_names_all_zones_are_looked_at() {
        let (jobs, work) = jobs();
        let job = |names: usize| {
            let zones = (0..names).map(|i| format!("z{i}")).collect();
            assert!(jobs.send(Job::new(Arc::default(), Why::Asked, zones, None)));
        };
        for _ in 0..3 {
            job(NAMES_MAX / 2);
        }
        job(1);
        assert_eq!(
            work.try_iter().map(|job| job.zones.len()).collect::<Vec<_>>(),
            [NAMES_MAX / 2, NAMES_MAX / 2, 0, 0]
        );
        job(NAMES_MAX);
        assert_eq!(work.recv().unwrap().zones.len(), NAMES_MAX, "none of them waits any more");
    }
}
