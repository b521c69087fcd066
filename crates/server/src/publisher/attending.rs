//! What the main thread does between start and stop: each event becomes a job of the publisher, by the configuration as it is then.

use crate::answering::queue;
use crate::complaint::Complaint;
use crate::config::{self, Config, Seen, Zone};
use crate::images;
use crate::images::admitted::Admitted;
use crate::kept::Order;
use crate::log;
use crate::publisher::jobs::{Job, Jobs, Why};
use crate::run::systemd;
use crate::secondaries::{Note, Secondaries};
use crate::state::{Done, Event};
use crate::update::ledger;
use std::collections::HashSet;
use std::iter;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Reads the configuration again; what the command line says is in it.
pub type Reread<'a> = dyn Fn() -> Result<Config, Vec<Complaint>> + 'a;

/// What has become of the configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Nobody asked.
    AsBefore,
    /// Somebody asked, and it is as it was.
    Again,
    Anew,
}

/// Takes in what a configuration of this number says of what can change while the server runs, if it is another than before; and what is
/// wished of zones.
pub type Adopt<'a> = dyn Fn(&Config, Reading, &[String], Why, u64) + Sync + 'a;

/// What is wished of zones.
struct Wish {
    why: Why,
    /// All if none is named.
    zones: Vec<String>,
    if_served: Vec<String>,
    done: Option<Done>,
    order: Option<Order>,
    /// The configuration is to be read again. What is written in its file is the operator's until he asks for it.
    is_reload: bool,
}

impl Wish {
    fn of(why: Why, zones: Vec<String>, done: Option<Done>) -> Wish {
        Wish { why, zones, if_served: Vec::new(), done, order: None, is_reload: false }
    }

    /// An operator wants zones as they are named now.
    fn is_asked(&self) -> bool {
        self.is_reload || matches!(self.why, Why::Look | Why::Back(_) | Why::Keep { .. } | Why::Forced)
    }
}

struct Attendant<'a> {
    started: &'a Config,
    last: Arc<Config>,
    seen: Seen,
    /// Sections that have changed in its file, and need a restart.
    stay: Vec<&'static str>,
    reread: &'a Reread<'a>,
    jobs: &'a Jobs,
    secondaries: Option<&'a Secondaries>,
    adopt: &'a Adopt<'a>,
}

/// The main thread's life between start and stop. Err: it has to stop, for with a thread less it would serve worse and
/// nobody would know; whoever started it can start it again.
pub fn attend(
    started: &Config,
    reread: &Reread<'_>,
    inbox: &queue::Receiver<Event>,
    jobs: &Jobs,
    secondaries: Option<&Secondaries>,
    adopt: &Adopt<'_>,
) -> Result<(), String> {
    let (last, seen, stay) = (Arc::new(started.clone()), started.roster.seen(), Vec::new());
    let mut attendant = Attendant { started, last, seen, stay, reread, jobs, secondaries, adopt };
    for (number, event) in (1..).zip(iter::from_fn(|| inbox.recv())) {
        let mut wish = match event {
            Event::Stop => return Ok(()),
            Event::Lost { thread, why } => {
                log::error("a thread ended, so the server stops", &[("thread", &thread), ("why", &why)]);
                return Err(format!("the thread {thread} ended: {why}"));
            }
            Event::Configured { done } => {
                // He may have gone.
                let _ = done.send(Arc::clone(&attendant.last));
                continue;
            }
            Event::Rest => {
                store::heap::let_go();
                store::heap::trim();
                continue;
            }
            Event::Received { from } => {
                let zones = from.keys().map(|apex| images::name(apex).to_string()).collect();
                let job = Job::new(Arc::clone(&attendant.last), Why::Received, zones, None);
                attendant.send(Job { from, number, ..job });
                continue;
            }
            Event::Reload { zones, done } => Wish { is_reload: true, ..Wish::of(Why::Asked, zones, done) },
            Event::Look { zone, done } => Wish::of(Why::Look, vec![zone], Some(done)),
            Event::Back { zone, serial, done } => Wish::of(Why::Back(serial), vec![zone], Some(done)),
            Event::Keep { zone, order, is_forced, done } => {
                Wish { order: Some(order), ..Wish::of(Why::Keep { is_forced }, vec![zone], Some(done)) }
            }
            Event::Force { zones, done } => Wish::of(Why::Forced, zones, Some(done)),
            Event::Changed { zones } => Wish::of(Why::Asked, zones, None),
            Event::Rebuild => Wish::of(Why::Damaged, Vec::new(), None),
            Event::Fold { done } => Wish::of(Why::Fold, Vec::new(), Some(done)),
        };
        match attendant.read(&mut wish) {
            Ok(next) => attendant.hand_on(wish, next, number),
            Err(complaints) => {
                complaints.iter().for_each(|c| log::error("the configuration stays as it was", &[("why", c)]));
                if let Some(done) = wish.done {
                    let _ = done.try_send(Err(complaints.iter().map(ToString::to_string).collect()));
                }
            }
        }
    }
    Ok(())
}

impl Attendant<'_> {
    /// The configuration as it is from now on. None: as before. To read and adopt it costs what all zones cost that it names: only where it is another.
    fn read(&mut self, wish: &mut Wish) -> Result<Option<Config>, Vec<Complaint>> {
        if !wish.is_reload {
            return Ok(None);
        }
        if self.last.is_as_read() {
            return look_through(&self.last, &wish.zones, &mut self.seen).map(|()| None);
        }
        let mut config = (self.reread)()?;
        self.stay = config.differing(self.started);
        if !self.stay.is_empty() {
            config.keep_fixed(&self.last);
        }
        if config.roster.written.files_of_ours() != self.last.roster.written.files_of_ours() {
            // One of them may be the file of a zone that was there before.
            config.roster.gather_but_strays(|_| false)?;
        }
        (wish.zones, wish.if_served) = with_those_for_others(&self.last, &config, std::mem::take(&mut wish.zones));
        look_through(&config, &wish.zones, &mut self.seen).map(|()| Some(config))
    }

    /// Adopts the next configuration, and has the publisher do by it what is wished.
    fn hand_on(&mut self, wish: Wish, next: Option<Config>, number: u64) {
        let stays = if wish.is_reload { self.stay.clone() } else { vec![] };
        if !stays.is_empty() {
            log::warn(NEEDS_RESTART, &[("sections", &stays.join(" "))]);
        }
        let is_other = next.is_some() || wish.why != Why::Fold && owns_more(&self.last, &wish.zones);
        if is_other {
            // It and what is made of it stay until the next one; reading it has taken much else.
            self.last = store::heap::apart(|| Arc::new(owning(next.as_ref().unwrap_or(&self.last))));
            log::set_level(self.last.level);
        }
        let reading = match wish.is_reload {
            _ if is_other => Reading::Anew,
            true => Reading::Again,
            false => Reading::AsBefore,
        };
        store::heap::apart(|| (self.adopt)(&self.last, reading, &wish.zones, wish.why, number));
        // Only now: who asks a new primary takes the keys that are there.
        let after = self.secondaries.filter(|_| is_other).map(|secondaries| {
            let (done, after) = channel();
            secondaries.tell(Note::Adopt { config: Arc::clone(&self.last), done });
            after
        });
        systemd::tell(&systemd::reloading());
        let (is_asked, after) = (wish.is_asked(), after.into_iter().collect());
        let job = Job::new(Arc::clone(&self.last), wish.why, wish.zones, wish.done);
        self.send(Job { if_served: wish.if_served, order: wish.order, is_asked, number, after, stays, ..job });
    }

    fn send(&self, job: Job) {
        if !self.jobs.send(job) {
            log::error("zones are not read any more until a restart: their thread has ended", &[]);
        }
    }
}

/// The zones that are named, and with them those that are for others than before: what somebody has taken out of one before he let others in is shown to
/// nobody. Where the server's own list is another that is about all. Beside them those that have come to `[[zone]]`: a list, a folder or a command may
/// have had them served before.
fn with_those_for_others(before: &Config, config: &Config, mut named: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (was, is) = (Admitted::of(before), Admitted::of(config));
    if named.is_empty() || !was.are_by_the_same_server(&is) {
        return (Vec::new(), Vec::new());
    }
    let known: HashSet<Box<[u8]>> = named.iter().filter_map(|name| config::apex(name).ok()).collect();
    let others = config.roster.written.iter().filter(|zone| !was.are_the_same(&is, &zone.apex));
    let others = others.filter(|zone| !known.contains(&zone.apex));
    let were_there = |zone: &&Zone| before.roster.written.find(&zone.apex).is_some();
    let (others, come): (Vec<&Zone>, Vec<&Zone>) = others.partition(were_there);
    let names = |zones: Vec<&Zone>| zones.into_iter().map(|zone| images::name(&zone.apex).to_string()).collect();
    named.extend::<Vec<String>>(names(others));
    (named, names(come))
}

/// A configuration by which zones that take updates are read from our own files, where these are.
fn owning(config: &Config) -> Config {
    let mut config = config.clone();
    ledger::own(&mut config.roster.written, &config.server.data_dir);
    config
}

/// Whether zones that take updates have got files of ours since they were configured: among these, or all if none is named.
fn owns_more(config: &Config, named: &[String]) -> bool {
    let (written, data_dir) = (&config.roster.written, &config.server.data_dir);
    if named.is_empty() {
        return ledger::owns_more(written.iter(), data_dir);
    }
    let named = named.iter().filter_map(|name| config::apex(name).ok());
    ledger::owns_more(named.filter_map(|apex| written.find(&apex)), data_dir)
}

/// Where what names zones is other than it was, it is read here to see whether it can be: of what is wrong nothing is adopted. What is
/// in folders is no business of a reload by name.
fn look_through(config: &Config, named: &[String], seen: &mut Seen) -> Result<(), Vec<Complaint>> {
    let now = config.roster.seen();
    let is_known = if named.is_empty() { now.names_the_same(seen) } else { now.lists_the_same(seen) };
    if !is_known {
        config.roster.gather_but_strays(|_| false)?;
        *seen = now;
    }
    Ok(())
}

pub const NEEDS_RESTART: &str = "what has changed in these sections needs a restart";

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_reload_reads_a_configuration_only_if_it_is_another() {
        let folder = std::env::temp_dir().join(format!("dunlin-attending-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, secret) = (folder.join("dunlin.toml"), folder.join("k.key"));
        // As if it had been some time ago.
        let write = |file, text: &str| {
            fs::write(file, text).unwrap();
            let old = SystemTime::now() - Duration::from_secs(60);
            fs::File::open(file).unwrap().set_modified(old).unwrap();
        };
        write(&secret, "MDEyMzQ1Njc4OWFiY2RlZg==");
        write(&file, "[[key]]\nname = \"k\"\nsecret-file = \"k.key\"\n");
        let (config, reads) = (config::read(&file).unwrap(), AtomicUsize::new(0));
        let reread = || {
            reads.fetch_add(1, Relaxed);
            config::read(&file)
        };
        let reload =
            |zone: &str| Event::Reload { zones: zone.split_whitespace().map(str::to_string).collect(), done: None };
        let (jobs, work) = crate::publisher::jobs::jobs();
        let mut config = config.clone();
        let mut check = |zone: &str, expect: usize| {
            let (events, inbox) = queue::bounded(2);
            [reload(zone), Event::Stop].into_iter().for_each(|event| assert!(events.try_send(event).is_ok()));
            attend(&config, &reread, &inbox, &jobs, None, &|_, _, _, _, _| ()).unwrap();
            let job: Job = work.try_recv().unwrap();
            config = Config::clone(&job.config);
            assert_eq!(reads.swap(0, Relaxed), expect, "{zone}");
        };
        check("z", 0);
        check("", 0);
        write(&secret, "ZmVkY2JhOTg3NjU0MzIxMA==");
        check("z", 1);
        check("z", 0);
        write(&secret, "MDEyMzQ1Njc4OWFiY2RlZg==");
        check("", 1);
        write(&file, "[[key]]\nname = \"other\"\nsecret-file = \"k.key\"\n");
        check("z", 1);
        assert!(config.keys.named(b"\x05other\0").is_some());
        let _ = fs::remove_dir_all(&folder);
    }
}
