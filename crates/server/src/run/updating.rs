//! Updates and what belongs to them, from a start or a reload on: keys, who owns which zone, the threads that carry out updates and write zones back.

use super::first::unusable;
use super::spawn;
use crate::answering::Shared;
use crate::answering::later::Burst;
use crate::answering::queue;
use crate::config::{self, Config, OUTDATED, Written, Zone};
use crate::history::{Past, caution};
use crate::log;
use crate::publisher::attending::Reading;
use crate::publisher::jobs::Why;
use crate::publisher::press::Press;
use crate::publisher::watcher::Folders;
use crate::scribe::Scribe;
use crate::state::{Event, State};
use crate::update::intake::{Entrance, Orders};
use crate::update::ledger::{self, Ledger};
use crate::update::{BURST_MAX, Later, Room, Updates};
use front::Retired;
use front::locks::hold;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What the threads need that carry out updates, and keep zones and files in step: they start when the first zone takes any.
pub struct Updating {
    /// None: they have started.
    pub orders: Mutex<Option<Orders>>,
    pub entrance: Arc<Entrance>,
    pub press: Arc<Press>,
    pub shared: Shared,
    pub state: Arc<State>,
    pub folders: Arc<Folders>,
    pub past: Past,
    /// Those that somebody may still be using, and the last.
    pub old_keys: Mutex<Vec<Retired<transfer::tsig::Keys>>>,
}

impl Updating {
    fn start(&self, mut ledger: Ledger, zones: Written) -> Result<(), String> {
        let orders = hold(&self.orders).take();
        let Some(orders) = orders else { return Err("their thread could not be started before".to_string()) };
        // A server that resolves leaves its threads as they are (docs/decisions/0013).
        let (hand, is_alone, state) = (ledger.employ(), self.shared.cache.is_none(), Arc::clone(&self.state));
        spawn("journal", &self.state.events, move || hand.run(is_alone, state.clock, &state.writing))?;
        let ((unneeded, all), releaser) = (queue::unbounded(), ledger.releaser());
        spawn("release", &self.state.events, move || releaser.run(&all))?;
        let updates = Updates {
            ledger,
            unneeded,
            keys: Arc::clone(&self.shared.keys),
            mailboxes: Arc::clone(&self.shared.mailboxes),
            state: Arc::clone(&self.state),
            press: Arc::clone(&self.press),
            cache: self.shared.cache.clone(),
            burst: Burst::of(BURST_MAX),
            room: Room::default(),
            later: Later::default(),
        };
        spawn("updates", &self.state.events, move || updates.run(&orders))?;
        // Only now: somebody is there.
        self.press.employ(self.entrance.open().clone());
        let intake = self.entrance.open().clone();
        self.state.set_intake(intake.clone());
        let (press, state, folders) = (Arc::clone(&self.press), Arc::clone(&self.state), Arc::clone(&self.folders));
        let scribe = Scribe::new(press, self.past.clone(), intake, state, folders);
        spawn("scribe", &self.state.events, move || scribe.run(zones))
    }

    /// With the server. Zones that are not written down yet are not forgotten.
    pub fn start_first(&self, ledger: Ledger, config: &Config) -> Result<(), String> {
        let written = &config.roster.written;
        self.start(ledger, written.clone())?;
        self.state.intake().into_iter().for_each(|intake| intake.adopt(written, config.history, 0));
        if written.iter().any(|zone| zone.is_owned() && zone.origin.is_none()) {
            // Whoever has looked at all zones lets them be written down.
            self.state.raise(Event::Changed { zones: Vec::new() });
        }
        Ok(())
    }

    /// A journal of which something is missing is for somebody to look at. Until then it stays as it is, and its zones are served as they were
    /// when it was last folded in: others have nothing to do with it.
    pub fn wait(&self, why: String) {
        log::error("no zone takes updates", &[("why", &why)]);
        self.entrance.bar();
        self.state.set_no_updates(Some(why));
    }

    /// Zones that lack their last updates are brought to where these had led, if that can be done now. True: some are. Where none lacks any nobody waits
    /// for the updates' thread.
    fn mend(&self, config: &Config, named: &[String]) -> bool {
        let named: HashSet<_> = named.iter().filter_map(|name| config::apex(name).ok()).collect();
        let is_asked = |apex: &[u8]| {
            let is_owned = config.roster.written.find(apex).is_some_and(Zone::is_owned);
            is_owned && (named.is_empty() || named.contains(apex))
        };
        let known = self.state.lacking(is_asked);
        if known.is_empty() {
            return false;
        }
        let both = self.press.have_done_soon(|_, books| (books.unwritten.all_unfit(), books.unwritten.end()));
        let Some((mut lacking, end)) = both else { return false };
        lacking.retain(|apex, _| known.contains(apex));
        // Others have only not been written down yet, or were mended when nobody waited any more.
        if lacking.is_empty() {
            return true;
        }
        let caught_up = ledger::catch_up(&self.past.data_dir, &lacking, end).map(|(remarks, still)| {
            caution(&remarks);
            still
        });
        let still = caught_up.unwrap_or_else(|e| {
            let why = e.to_string();
            lacking.iter().map(|(apex, from)| (apex.clone(), *from, why.clone())).collect()
        });
        still.iter().for_each(|(apex, _, why)| _ = self.state.set_lacking(apex, why));
        let has_mended = still.len() < lacking.len();
        let told = self.press.have_done_soon(move |_, books| {
            lacking.keys().for_each(|apex| books.unwritten.is_fit(apex));
            still.into_iter().for_each(|(apex, from, why)| books.unwritten.add_unfit(&apex, from, why));
        });
        has_mended && told.is_some()
    }

    /// The first zone that takes updates has come with a reload.
    fn start_late(&self, config: &Config) -> Result<(), String> {
        let (ledger, unfit, remarks) = Ledger::open(&self.past.data_dir, config.history).map_err(unusable)?;
        caution(&remarks);
        let mut books = self.press.hold();
        books.unwritten.add(vec![], ledger.position());
        unfit.into_iter().for_each(|(apex, from, why)| books.unwritten.add_unfit(&apex, from, why));
        drop(books);
        self.start(ledger, Written::default())
    }
}

/// What is wished of the files of zones that updates own.
pub fn wish(named: &[String], why: Why, updating: &Updating) {
    let apexes: Vec<Box<[u8]>> = named.iter().filter_map(|name| config::apex(name).ok()).collect();
    match why {
        // Who has forced an edit has said so to the slate, and waits there.
        Why::Fold | Why::Forced => {}
        _ if named.is_empty() == apexes.is_empty() => updating.press.slate.look(&apexes, Instant::now()),
        _ => {}
    }
}

/// Keys, what updates own and who may update it, and what is written back: that changes while the server runs.
pub fn adopt(config: &Config, reading: Reading, named: &[String], number: u64, updating: &Updating) {
    let Updating { shared, state, press, .. } = updating;
    let is_late = || state.intake().is_none() && config.roster.written.iter().any(Zone::is_owned);
    // Who asks for it has mended what there was to mend: before that somebody may be in the midst of it.
    let has_mended = reading != Reading::AsBefore && updating.mend(config, named);
    match reading {
        Reading::Anew => {}
        // Where no zone could take updates the last time, or not this one, it is tried again.
        Reading::Again if has_mended || is_late() => {}
        Reading::Again | Reading::AsBefore => return,
    }
    // An answering thread may be using them just now, and has better things to do than to free them.
    let mut old_keys = hold(&updating.old_keys);
    old_keys.retain(|keys| !keys.is_unused());
    old_keys.push(shared.keys.publish(config.keys.clone()));
    drop(old_keys);
    caution_of_keys(config);
    let has_run = state.intake().is_some();
    let late = if is_late() { updating.start_late(config) } else { Ok(()) };
    match late {
        Err(why) if state.intake().is_none() => updating.wait(why),
        Err(why) => log::error("no zone takes updates", &[("why", &why)]),
        // Who has carried out updates before says himself what hinders him.
        Ok(()) if has_run && config.roster.written.iter().any(Zone::is_owned) => {}
        Ok(()) => state.set_no_updates(None),
    }
    if let Some(intake) = state.intake() {
        intake.adopt(&config.roster.written, config.history, number);
    }
    press.slate.follow(&config.roster.written, config.guards, Instant::now());
    state.follow(&config.roster.written);
}

pub fn caution_of_keys(config: &Config) {
    config.keys.outdated().for_each(|key| log::warn(OUTDATED, &[("key", &key.text())]));
}
