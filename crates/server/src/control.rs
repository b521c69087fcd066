//! The control socket: one request a line, one line of JSON back. docs/control.md is its reference.
//!
//! Decides nothing: it reads what the server knows and passes wishes to the main thread. A line has at most
//! `LINE_MAX` octets.

mod door;
pub(crate) mod http;
pub(crate) mod listing;
mod showing;

use crate::answering::queue;
use crate::config::{Config, Zone, apex};
use crate::history::{self, Past};
use crate::images::name;
use crate::json::Json;
use crate::kept::Order;
use crate::log;
use crate::publisher::press::{Books, Press};
use crate::scribe::slate::{Slate, Taken};
use crate::scribe::{self, origin};
use crate::secondaries::{Note, Secondaries};
use crate::state::{Done, Event, State};
use crate::update::intake::Intake;
use crate::update::ledger;
use door::Hurried;
use front::locks::hold;
use showing::Showing;
use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const LINE_MAX: u64 = 1 << 20;
const CUT_OFF: &str = "a request is one line, which ends with a newline, of at most 1 MiB";
const STOP: &str = "stop";

/// The socket, listening. Its name goes when this does.
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// The folder it is in, if we made it.
    pub folder: Option<PathBuf>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_file(&self.path)
            && e.kind() != io::ErrorKind::NotFound
        {
            let path = self.path.display();
            log::warn("the control socket stays behind; the next start replaces it", &[("path", &path), ("why", &e)]);
        }
    }
}

/// Binds the socket. Only its owner and group may connect.
pub fn bind(path: &Path) -> io::Result<Socket> {
    let folder = make_folder(path)?;
    make_way(path)?;
    let socket = Socket { listener: UnixListener::bind(path)?, path: path.to_path_buf(), folder };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(socket)
}

/// The folder of this path if it had to be made.
fn make_folder(path: &Path) -> io::Result<Option<PathBuf>> {
    let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) else { return Ok(None) };
    if let Some(above) = folder.parent() {
        std::fs::create_dir_all(above)?;
    }
    match std::fs::create_dir(folder) {
        Ok(()) => Ok(Some(folder.to_path_buf())),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(e) => Err(e),
    }
}

/// Removes a socket that a dead server left behind. That of a living one is an error, and so is anything else that
/// stands there: it may be somebody's only copy.
fn make_way(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "what is there is no socket, and is left alone"));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server answers there")),
        // Nobody listens.
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(e) => Err(e),
    }
}

pub fn serve(socket: &Socket, state: Arc<State>) -> io::Result<()> {
    let listener = socket.listener.try_clone()?;
    let accept = move || listener.accept().map(|(stream, _)| stream);
    const FULL: &str = "{\"ok\":false,\"errors\":[\"all connections for commands are taken: try again\"]}\n";
    door::open("control", FULL, accept, move |stream| conversation(stream, &state))
}

fn conversation(stream: Hurried<UnixStream>, state: &State) -> io::Result<()> {
    let mut lines = BufReader::new(stream);
    loop {
        lines.get_mut().renew();
        let mut octets = Vec::new();
        if (&mut lines).take(LINE_MAX).read_until(b'\n', &mut octets)? == 0 {
            return Ok(());
        }
        // What is cut off may be another request.
        let is_whole = octets.ends_with(b"\n");
        let line = std::str::from_utf8(&octets).map(|line| line.trim_end_matches(['\n', '\r']));
        if let Some(showing) = line.ok().filter(|_| is_whole).and_then(Showing::of) {
            showing.tell(state, lines.get_mut())?;
            continue;
        }
        let answer = match line {
            _ if !is_whole => bad(vec![CUT_OFF.to_string()]),
            Ok(line) => answer(line, state),
            Err(e) => bad(vec![format!("a request is UTF-8, and this is not, from octet {} on", e.valid_up_to())]),
        };
        lines.get_mut().renew();
        let told = lines.get_mut().write_all(format!("{answer}\n").as_bytes());
        if !is_whole {
            return told;
        }
        if line.is_ok_and(|line| line.trim_ascii() == STOP) {
            // Once it is told: the process does not wait for this thread.
            state.raise(Event::Stop);
        }
        told?;
    }
}

fn answer(line: &str, state: &State) -> Json {
    let mut words = line.split_ascii_whitespace();
    let (verb, more) = (words.next().unwrap_or(""), words.next());
    match verb {
        "status" | "stats" | "stall" | STOP if let Some(more) = more => {
            bad(vec![format!("`{verb}` is all of a request, and `{more}` stands behind it")])
        }
        "status" => good("status", state.status()),
        "stats" => good("counters", state.counters()),
        "stall" => good("stall", state.stalls()),
        "reload" => {
            let zones = line.split_ascii_whitespace().skip(1).map(str::to_string).collect();
            in_place(|| reload(state, zones))
        }
        "cache" => cache(state, &line.split_ascii_whitespace().skip(1).collect::<Vec<_>>()),
        "zone" => match wish(line) {
            None => zone(state, &line.split_ascii_whitespace().skip(1).collect::<Vec<_>>()),
            Some(Err(why)) => bad(vec![why]),
            Some(Ok((zone, order, is_forced))) => {
                answered(state, "reload", |done| Event::Keep { zone, order, is_forced, done })
            }
        },
        STOP => good("stopping", Json::Bool(true)),
        "" => bad(vec![
            "an empty line is no request; write status, stats, stall, cache, reload, zone or stop".to_string(),
        ]),
        other => {
            bad(vec![format!("there is no request `{other}`; write status, stats, stall, cache, reload, zone or stop")])
        }
    }
}

/// A wish for a zone to come, to change or to go: `add NAME FILE`, `modify NAME CHANGE`, `remove NAME`; None: it is none of these.
fn wish(line: &str) -> Option<Result<(String, Order, bool), String>> {
    let mut rest = line;
    let [_, verb, mut zone] = [(); 3].map(|()| word(&mut rest));
    let is_forced = zone == "--force";
    if is_forced {
        zone = word(&mut rest);
    }
    let rest = rest.trim();
    let order = match (verb, rest.is_empty()) {
        ("add", false) => Order::Add(rest.into()),
        ("modify", false) => Order::Modify(rest.to_string()),
        ("remove", true) => Order::Remove,
        ("add", true) => return Some(Err("write zone add NAME FILE".to_string())),
        ("modify", true) => return Some(Err("write zone modify NAME CHANGE".to_string())),
        ("remove", false) => return Some(Err("write zone remove NAME".to_string())),
        _ => return None,
    };
    Some(Ok((zone.to_string(), order, is_forced)))
}

/// The next word of a line, which then begins behind it.
fn word<'l>(line: &mut &'l str) -> &'l str {
    let (word, rest) = line.trim_start().split_once(' ').unwrap_or((line.trim(), ""));
    *line = rest;
    word
}

/// Wishes about one zone.
fn zone(state: &State, words: &[&str]) -> Json {
    let known = "write zone add NAME FILE, zone modify NAME CHANGE, zone remove NAME, zone log NAME, zone diff NAME [SERIAL SERIAL], \
        zone show NAME [--serial SERIAL], zone rollback NAME SERIAL, zone publish [--force] NAME, zone list [NAME...], \
        zone transfer NAME, zone notify NAME, zone freeze NAME or zone thaw NAME";
    match words {
        ["publish", rest @ ..] => publish(state, rest),
        ["list", zones @ ..] => listing::list(state, zones).unwrap_or_else(bad),
        ["transfer", zone] => {
            let wish = |done| Note::Transfer { zone: (*zone).to_string(), done };
            told("transfer", secondaries(state).and_then(|s| s.ask(wish)))
        }
        ["notify", zone] => {
            let wish = |done| Note::Announce { zone: (*zone).to_string(), done };
            told("notified", secondaries(state).and_then(|s| s.ask(wish)))
        }
        ["freeze", zone] => told("frozen", freeze(state, zone, true)),
        ["thaw", zone] => told("frozen", freeze(state, zone, false)),
        ["log", zone] => log(state, zone),
        ["diff", zone] => answered(state, "diff", |done| Event::Look { zone: zone.to_string(), done }),
        ["diff", zone, from, to] => told("diff", diff(state, zone, from, to)),
        ["rollback", zone, serial] => {
            number(serial).map_or_else(|why| bad(vec![why]), |n| in_place(|| rollback(state, zone, n)))
        }
        _ => bad(vec![known.to_string()]),
    }
}

fn told(key: &'static str, outcome: Result<Json, String>) -> Json {
    outcome.map_or_else(|why| bad(vec![why]), |facts| good(key, facts))
}

fn number(serial: &str) -> Result<u32, String> {
    serial.parse().map_err(|_| format!("`{serial}` is no serial; write a number as zone log has it"))
}

fn secondaries(state: &State) -> Result<&Secondaries, String> {
    state.secondaries.as_ref().ok_or_else(|| "no zones are fetched here".to_string())
}

fn past(state: &State) -> Result<&Past, String> {
    state.past.as_ref().ok_or_else(|| "it is not known here what zones were".to_string())
}

/// What is read of the history, one at a time, and not at the cost of those who answer: it may be a gigabyte that is read, and 256 MiB that are kept
/// of it.
fn of_history(state: &State, ask: impl FnOnce(&Past) -> Result<Json, String> + Send) -> Result<Json, String> {
    let (past, _place) = (past(state)?, Place::take()?);
    let _turn = hold(&state.reading);
    in_background(|| ask(past))
}

/// Does something that takes long, and not at the cost of those who answer.
fn in_background<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    let modestly = || {
        let _ = net::sched::modest();
        work()
    };
    // A thread of its own: the connection's next command is not to be modest.
    thread::scope(|s| {
        let reader = thread::Builder::new().name("history".to_string()).spawn_scoped(s, modestly);
        let reader = reader.map_err(|e| format!("no thread for the history: {e}"))?;
        reader.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}

/// Who owns a zone, and what versions it has had.
fn log(state: &State, zone: &str) -> Json {
    let versions = match of_history(state, |past| past.log(zone, &state.served().problems)) {
        Ok(versions) => versions,
        Err(why) => return bad(vec![why]),
    };
    match owner(state, zone) {
        Ok(owner) => Json::Object(vec![("ok", Json::Bool(true)), ("owner", Json::text(owner)), ("versions", versions)]),
        Err(why) => bad(vec![why]),
    }
}

fn owner(state: &State, zone: &str) -> Result<&'static str, String> {
    Ok(state.configured()?.roster.owner(&apex(zone)?))
}

fn freeze(state: &State, zone: &str, is_frozen: bool) -> Result<Json, String> {
    let _place = Place::take()?;
    let takes_none = || Err(format!("the zone {zone} takes no updates"));
    let done = state.intake().map_or_else(takes_none, |intake| intake.freeze(zone, is_frozen));
    // Perhaps there is none of that name.
    let why = |takes_none| listing::list(state, &[zone]).map_or_else(|wrong| wrong.join("; "), |_| takes_none);
    done.map(|()| Json::Bool(is_frozen)).map_err(why)
}

fn rollback(state: &State, zone: &str, serial: u32) -> Json {
    // Whoever owns the zone goes back: its updates, or its file.
    let is_of_updates = owner(state, zone) == Ok("update");
    let Some(intake) = state.intake().filter(|_| is_of_updates) else {
        return answered_at_once(state, "reload", |done| Event::Back { zone: zone.to_string(), serial, done });
    };
    // An edit would be taken in on top of the old version, now or as soon as it fits.
    if is_edited(state, zone)
        && let Some(Err(why)) = look_at(state, zone, None).map(Look::outcome)
    {
        return bad(vec![format!(
            "zone {zone}: {why}; mend its file, publish it, or move it away, before you go back"
        )]);
    }
    told("reload", past(state).and_then(|past| intake.go_back(past, &state.reading, zone, serial)))
}

/// Whether the file of a zone of updates may have been edited.
fn is_edited(state: &State, zone: &str) -> bool {
    let (Ok(config), Ok(apex), Some(past)) = (state.configured(), apex(zone), &state.past) else { return false };
    config.roster.written.find(&apex).is_some_and(|zone| scribe::is_edited(&past.data_dir, zone))
}

fn diff(state: &State, zone: &str, from: &str, to: &str) -> Result<Json, String> {
    let (from, to) = (number(from)?, number(to)?);
    of_history(state, |past| past.diff(zone, from, to))
}

/// Has a zone served as its file says; forced, whatever the guards object to.
fn publish(state: &State, words: &[&str]) -> Json {
    match words {
        ["--force", zone] | [zone, "--force"] => in_place(|| force(state, zone)),
        [zone] if !zone.starts_with('-') => in_place(|| reload(state, vec![zone.to_string()])),
        _ => bad(vec!["write zone publish NAME, or zone publish --force NAME".to_string()]),
    }
}

/// How long to wait until the file of a zone of updates was looked at: others may have to be written first.
const LOOKED_AT_WITHIN: Duration = Duration::from_secs(60);
/// The same once somebody has begun: it may take a new image.
const TAKEN_IN_WITHIN: Duration = Duration::from_secs(600);

fn force(state: &State, zone: &str) -> Json {
    let zones = vec![zone.to_string()];
    let event = |done| Event::Force { zones: zones.clone(), done };
    // He has seen the edit that is there now.
    let seen = apex(zone).ok().and_then(|apex| {
        let configured = state.configured().ok()?;
        configured.roster.written.find(&apex).filter(|zone| zone.is_owned()).map(|zone| origin::stamp(zone.origin()))
    });
    taken_in(state, &zones, seen, None, || settled(state, event)).map_or_else(bad, |facts| good("reload", facts))
}

/// Waits until the zones are served as their files say, or are known not to be: those of updates, too, where they are named, or an edit of them is held,
/// or they have just come back to their updates. (Of all others that updates own, which may be a million, a reload of all has the files looked at, and does
/// not wait for that.)
fn reload(state: &State, zones: Vec<String>) -> Json {
    let (of_updates, before) = match &*zones {
        [] => (state.edits_held(), state.configured().ok()),
        named => (named.to_vec(), None),
    };
    let event = |done| Event::Reload { zones: zones.clone(), done: Some(done) };
    let outcome = taken_in(state, &of_updates, None, before.as_deref(), || settled(state, event));
    let without = without_updates(state, &zones);
    match outcome {
        Ok(facts) if without.is_empty() => good("reload", facts),
        outcome => bad(outcome.err().into_iter().flatten().chain(without).collect()),
    }
}

/// Why some of these zones, or of all if none is named, take no updates though they are configured to.
fn without_updates(state: &State, zones: &[String]) -> Vec<String> {
    let named: HashSet<Box<[u8]>> = zones.iter().filter_map(|zone| apex(zone).ok()).collect();
    let is_about = |apex: &[u8]| zones.is_empty() || named.contains(apex);
    let are_to_take =
        |config: Arc<Config>| config.roster.written.iter().any(|zone| zone.is_owned() && is_about(&zone.apex));
    if !state.configured().is_ok_and(are_to_take) {
        return vec![];
    }
    if let Some(why) = state.no_updates() {
        return vec![format!("no zone takes updates: {why}")];
    }
    let lacking = state.why_lacking(is_about);
    // Where it is tried once more the reason is that of the last time.
    let apexes: Vec<Box<[u8]>> = lacking.keys().cloned().collect();
    let are_tried = move |_: &Press, books: &mut Books| {
        apexes.into_iter().filter(|apex| books.novices.is_under_way(apex)).collect::<HashSet<_>>()
    };
    let press = state.press.as_ref().filter(|_| !lacking.is_empty());
    let tried = press.and_then(|press| press.have_done_soon(are_tried)).unwrap_or_default();
    let others = lacking.iter().filter(|(apex, _)| !tried.contains(*apex));
    others.map(|(apex, why)| format!("zone {}: it takes no updates: {why}", name(apex))).collect()
}

/// Of so many zones that come to their updates with a reload it is known whether they come back.
const RETURNED_MAX: usize = 1000;

/// Zones that updates own, and did not with the configuration `before`, and whose files were edited meanwhile.
fn returned(state: &State, before: &Config) -> Vec<String> {
    let (Ok(now), Some(past)) = (state.configured(), &state.past) else { return vec![] };
    let was_owned = |zone: &Zone| before.roster.written.find(&zone.apex).is_some_and(Zone::is_owned);
    let come = now.roster.written.iter().filter(|zone| zone.is_owned() && !was_owned(zone)).take(RETURNED_MAX);
    // Of one that was never theirs there is nothing that an edit could be of.
    let has_been = |zone: &&Zone| ledger::own_file(zone, &past.data_dir).is_some();
    let back = come.filter(has_been).filter(|zone| scribe::is_edited(&past.data_dir, zone));
    back.map(|zone| name(&zone.apex).to_string()).collect()
}

/// Says what has become of zones, and of edits of the files of those that updates own. An edit that is taken in has a serial of its own. `forces`: see
/// `Slate::ask`. `before`: the configuration, where zones that come back to their updates count, too.
fn taken_in(
    state: &State,
    zones: &[String],
    forces: Option<String>,
    before: Option<&Config>,
    work: impl FnOnce() -> Result<Json, Vec<String>>,
) -> Result<Json, Vec<String>> {
    let serials = || zones.iter().map(|zone| serial(state, zone)).collect::<Vec<_>>();
    let serials_before = serials();
    let facts = work()?;
    // Only now: one may be of updates since.
    let returned = before.map_or(vec![], |before| returned(state, before));
    let theirs = zones.iter().chain(returned.iter().filter(|zone| !zones.contains(zone)));
    let looks: Vec<_> = theirs.filter_map(|zone| Some((zone, look_at(state, zone, forces.clone())?))).collect();
    let held = looks.into_iter().filter_map(|(zone, look)| Some(format!("zone {zone}: {}", look.outcome().err()?)));
    match held.collect::<Vec<_>>() {
        held if !held.is_empty() => Err(held),
        _ if serials() != serials_before => Ok(changed(facts)),
        _ => Ok(facts),
    }
}

fn serial(state: &State, zone: &str) -> Option<u32> {
    let (past, apex) = (past(state).ok()?, history::named(zone).ok()?);
    let damaged = |_| String::new();
    history::with_zone(&past.published, &apex, |zone| zone.serial().map_err(damaged)).ok()
}

/// What a reload says, of one that has changed what is served.
fn changed(facts: Json) -> Json {
    let Json::Object(facts) = facts else { return facts };
    let fact = |(key, value)| if key == "changed" { (key, Json::Bool(true)) } else { (key, value) };
    Json::Object(facts.into_iter().map(fact).collect())
}

/// The file of a zone of updates is looked at, and somebody waits for what becomes of an edit.
struct Look<'s> {
    slate: &'s Slate,
    apex: Box<[u8]>,
    number: u64,
    taken: mpsc::Receiver<Taken>,
    since: Instant,
}

/// Has the file of a zone looked at. None: nobody looks, for no zone takes updates.
fn look_at<'s>(state: &'s State, zone: &str, forces: Option<String>) -> Option<Look<'s>> {
    let slate = &state.press.as_ref().filter(|_| state.intake().is_some())?.slate;
    let (apex, (sender, taken), since) = (apex(zone).ok()?, mpsc::channel(), Instant::now());
    let number = slate.ask(&apex, since, forces, sender);
    Some(Look { slate, apex, number, taken, since })
}

impl Look<'_> {
    /// Err: why an edit is not taken in.
    fn outcome(self) -> Taken {
        let Look { slate, apex, number, taken, since } = self;
        // Who waits for many waits for all of them together.
        let wait = |patience: Duration| taken.recv_timeout(patience.saturating_sub(since.elapsed()));
        let mut told = wait(LOOKED_AT_WITHIN);
        if told == Err(RecvTimeoutError::Timeout) && !slate.withdraw(&apex, number, false) {
            // Somebody is at it.
            told = wait(TAKEN_IN_WITHIN);
            slate.withdraw(&apex, number, true);
        }
        match told {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => Err(
                "it is not taken in yet: others are, or updates leave it no gap (`dunlin ctl zone freeze` makes one)"
                    .to_string(),
            ),
            // Where updates do not own the zone nobody tells.
            Err(RecvTimeoutError::Disconnected) => Ok(()),
        }
    }
}

fn cache(state: &State, words: &[&str]) -> Json {
    let Some(keeper) = state.keeper.get() else {
        return bad(vec!["there is no cache: the resolver is off".to_string()]);
    };
    keeper
        .request(words, |counter| state.count(counter))
        .map_or_else(|why| bad(vec![why]), |facts| good("cache", facts))
}

/// Whoever has configured a zone to take updates sends one next, whatever is wrong with others.
fn settled(state: &State, event: impl FnOnce(Done) -> Event) -> Result<Json, Vec<String>> {
    let outcome = outcome(state, event);
    state.intake().into_iter().for_each(Intake::settle);
    outcome
}

fn answered(state: &State, key: &'static str, event: impl FnOnce(Done) -> Event) -> Json {
    in_place(|| answered_at_once(state, key, event))
}

/// For what may take as long as an image: others have something to ask meanwhile.
fn in_place(work: impl FnOnce() -> Json) -> Json {
    match Place::take() {
        Ok(_place) => work(),
        Err(why) => bad(vec![why]),
    }
}

fn answered_at_once(state: &State, key: &'static str, event: impl FnOnce(Done) -> Event) -> Json {
    outcome(state, event).map_or_else(bad, |facts| good(key, facts))
}

fn outcome(state: &State, event: impl FnOnce(Done) -> Event) -> Result<Json, Vec<String>> {
    let (done, outcome) = queue::bounded(1);
    state.raise(event(done));
    let lost = || Err(vec!["the server is stopping, or cannot read zones any more: see its log".to_string()]);
    outcome.recv().unwrap_or_else(lost)
}

/// Of those who wait for zones to be served, which may take as long as an image, or for the history: others have something to ask meanwhile.
struct Place;

const WAITING_MAX: usize = door::CONNECTIONS_MAX - 4;
static WAITING: AtomicUsize = AtomicUsize::new(0);

impl Place {
    fn take() -> Result<Place, String> {
        let taken = WAITING.try_update(Relaxed, Relaxed, |n| (n < WAITING_MAX).then_some(n + 1));
        let full =
            |_| format!("{WAITING_MAX} wait already, for zones to be served or for the history: ask again later");
        taken.map(|_| Place).map_err(full)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Relaxed);
    }
}

fn good(key: &'static str, facts: Json) -> Json {
    Json::Object(vec![("ok", Json::Bool(true)), (key, facts)])
}

fn bad(complaints: Vec<String>) -> Json {
    Json::Object(vec![("ok", Json::Bool(false)), ("errors", Json::list(complaints, Json::Text))])
}
