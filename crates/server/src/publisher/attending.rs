//! What the main thread does between start and stop: each event becomes a job of the publisher, by the configuration as it is then.

use crate::complaint::Complaint;
use crate::config::{self, Config, Seen};
use crate::images;
use crate::log;
use crate::publisher::jobs::{Job, Jobs, Why};
use crate::run::systemd;
use crate::secondaries::{Note, Secondaries};
use crate::state::Event;
use crate::update::ledger;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

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

/// The main thread's life between start and stop. Err: it has to stop, for with a thread less it would serve worse and
/// nobody would know; whoever started it can start it again.
pub fn attend(
    config: &Config,
    reread: &Reread<'_>,
    inbox: &Receiver<Event>,
    jobs: &Jobs,
    secondaries: Option<&Secondaries>,
    adopt: &Adopt<'_>,
) -> Result<(), String> {
    let (started, mut last) = (config, Arc::new(config.clone()));
    // Sections that have changed in its file, and need a restart.
    let (mut seen, mut stay) = (config.roster.seen(), Vec::new());
    for (number, event) in (1..).zip(inbox) {
        // What is written in its file is the operator's until he asks for it.
        let (mut wished, mut is_asked) = (None, false);
        let (why, zones, done) = match event {
            Event::Received { from } => {
                let zones = from.keys().map(|apex| images::name(apex).to_string()).collect();
                let job = Job { from, number, ..Job::new(Arc::clone(&last), Why::Received, zones, None) };
                if !jobs.send(job) {
                    log::error("zones are not read any more until a restart: their thread has ended", &[]);
                }
                continue;
            }
            Event::Stop => return Ok(()),
            Event::Lost { thread, why } => {
                log::error("a thread ended, so the server stops", &[("thread", &thread), ("why", &why)]);
                return Err(format!("the thread {thread} ended: {why}"));
            }
            Event::Reload { zones, done } => {
                is_asked = true;
                (Why::Asked, zones, done)
            }
            Event::Look { zone, done } => (Why::Look, vec![zone], Some(done)),
            Event::Back { zone, serial, done } => (Why::Back(serial), vec![zone], Some(done)),
            Event::Keep { zone, order, is_forced, done } => {
                wished = Some(order);
                (Why::Keep { is_forced }, vec![zone], Some(done))
            }
            Event::Force { zones, done } => (Why::Forced, zones, Some(done)),
            Event::Changed { zones } => (Why::Asked, zones, None),
            Event::Rebuild => (Why::Damaged, Vec::new(), None),
            Event::Configured { done } => {
                // He may have gone.
                let _ = done.send(Arc::clone(&last));
                continue;
            }
            Event::Rest => {
                store::heap::let_go();
                store::heap::trim();
                continue;
            }
            Event::Fold { done } => (Why::Fold, Vec::new(), Some(done)),
        };
        let mut read = || {
            let mut config = reread()?;
            stay = config.differing(started);
            if !stay.is_empty() {
                config.keep_fixed(&last);
            }
            if config.roster.written.files_of_ours() != last.roster.written.files_of_ours() {
                // One of them may be the file of a zone that was there before.
                config.roster.gather_but_strays(|_| false)?;
            }
            look_through(&config, &zones, &mut seen).map(|()| Some(config))
        };
        // To read and adopt it costs what all zones cost that it names: only where it is another.
        let next = match is_asked {
            true if last.is_as_read() => look_through(&last, &zones, &mut seen).map(|()| None),
            true => read(),
            false => Ok(None),
        };
        match next {
            Ok(next) => {
                let stays = if is_asked { stay.clone() } else { vec![] };
                if !stays.is_empty() {
                    log::warn(NEEDS_RESTART, &[("sections", &stays.join(" "))]);
                }
                let is_other = next.is_some() || why != Why::Fold && owns_more(&last, &zones);
                if is_other {
                    // It and what is made of it stay until the next one; reading it has taken much else.
                    last = store::heap::apart(|| Arc::new(owning(next.as_ref().unwrap_or(&last))));
                    log::set_level(last.level);
                }
                let is_wish = is_asked || matches!(why, Why::Look | Why::Back(_) | Why::Keep { .. } | Why::Forced);
                let reading = match is_asked {
                    _ if is_other => Reading::Anew,
                    true => Reading::Again,
                    false => Reading::AsBefore,
                };
                store::heap::apart(|| adopt(&last, reading, &zones, why, number));
                // Only now: who asks a new primary takes the keys that are there.
                let after = secondaries.filter(|_| is_other).map(|secondaries| {
                    let (done, after) = channel();
                    secondaries.tell(Note::Adopt { config: Arc::clone(&last), done });
                    after
                });
                systemd::tell(&systemd::reloading());
                if !jobs.send(Job {
                    order: wished,
                    is_asked: is_wish,
                    number,
                    after: after.into_iter().collect(),
                    stays,
                    ..Job::new(Arc::clone(&last), why, zones, done)
                }) {
                    log::error("zones are not read any more until a restart: their thread has ended", &[]);
                }
            }
            Err(complaints) => {
                complaints.iter().for_each(|c| log::error("the configuration stays as it was", &[("why", c)]));
                if let Some(done) = done {
                    let _ = done.send(Err(complaints.iter().map(ToString::to_string).collect()));
                }
            }
        }
    }
    Ok(())
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
        config.roster.gather(|_| false)?;
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
    use std::sync::mpsc::channel;
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
            let (events, inbox) = channel();
            events.send(reload(zone)).unwrap();
            events.send(Event::Stop).unwrap();
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
