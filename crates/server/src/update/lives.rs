//! The lives of a machine whose zones are updated, on a disk of the simulator: writes that are torn and reordered, syncs
//! that fail or lie, a full disk, and a stop at any step. What a start does, the journal, what is laid over the image, zones' files, new images, what is
//! published and what the journal lets go of are the server's own, to the last call of the kernel (`machine`). Updates go on while an image is made:
//! they come between any two steps of it. Only whoever calls is not: threads would do that when they get the CPU.
//!
//! Always: the image that is served, with what lies over it, has the records and gives the answers of an image built anew
//! of what was acknowledged. After a stop: the files and the journal hold what was acknowledged, or that and one group that was
//! being written, and that is served. `LIVES_SEEDS=N` runs more of them, `LIVES_FROM=N` others; `SIM_SEED=N` one. `STEPS_SEEDS=N`: so many lives are stopped at each of their steps.

mod machine;

use super::{BURST_MAX, Later, Room, Updates};
use crate::answering::Shared;
use crate::answering::later::{Burst, Mailboxes};
use crate::answering::panics::Panics;
use crate::answering::queue;
use crate::clock::Clock;
use crate::config::{self, Config, Level, Zone};
use crate::history::Recorder;
use crate::images::laying::Standing;
use crate::images::serving::Compared;
use crate::log;
use crate::publisher::Publisher;
use crate::publisher::jobs::{Job, Why};
use crate::publisher::press::Press;
use crate::refusals::DONE;
use crate::run::first::First;
use crate::state::State;
use crate::update::ledger;
use crate::update::unwritten::{After, Sheet, Wish};
use crate::zonetext;
use front::{Presence, Published, Setup, Verdict, Worker};
use image::patch::Limits;
use image::{Builder, Image};
use sim::disk::DiskFaults;
use sim::rng::Rng;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use store::Stretch;
use store::journal::{Folder, Journal};
use transfer::message::Message;
use transfer::{Contents, Entry, Layer, Record, update};
use wire::{Name, rtype};

const ZONES: [&str; 2] = ["one.test.", "two.test."];
const TEXT: &str =
    "@ 60 SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\n@ 60 MX 1 h3\nns 60 A 192.0.2.1\n*.w 60 A 192.0.2.2\n";

/// By apex.
type Content = BTreeMap<Box<[u8]>, Contents>;

/// What was acknowledged, and what may have become durable beside that.
struct Model {
    content: Content,
    unsure: Vec<Vec<Entry>>,
    /// All that was ever acknowledged, for disks that lie: they may go back.
    past: Vec<Content>,
    tally: Tally,
}

/// What lives have come to.
#[derive(Clone, Copy, Default)]
struct Tally {
    /// Starts that led to something, and those that found that the disk had lied.
    starts: usize,
    found_out: usize,
    /// Groups of changes that were acknowledged, and those that the journal did not take while the machine went on.
    acknowledged: usize,
    refused: usize,
    /// Times at which what was durable could not be laid, and took a new image; and groups that were acknowledged while another zone's was owed.
    owing: usize,
    beside: usize,
    folds: usize,
    /// Lives that ended in the middle of a step.
    stops: usize,
    /// Those of the second life.
    steps: usize,
    /// Times at which a disk was full.
    full: usize,
    /// Times at which the answers were compared.
    checks: usize,
}

impl Tally {
    fn with(self, more: Tally) -> Tally {
        Tally {
            starts: self.starts + more.starts,
            found_out: self.found_out + more.found_out,
            acknowledged: self.acknowledged + more.acknowledged,
            refused: self.refused + more.refused,
            owing: self.owing + more.owing,
            beside: self.beside + more.beside,
            folds: self.folds + more.folds,
            stops: self.stops + more.stops,
            steps: more.steps,
            full: self.full + more.full,
            checks: self.checks + more.checks,
        }
    }
}

fn apply(content: &mut Content, entries: &[Entry]) {
    for entry in entries {
        content.get_mut(&entry.zone).unwrap().apply(&entry.diff).unwrap();
    }
}

impl Model {
    fn new() -> Model {
        let content = ZONES.iter().map(|zone| {
            let (octets, _) = sim::image_of(&[(zone, TEXT)]);
            let image = Image::open(octets).unwrap();
            let zone = image.view().zones().next().unwrap().unwrap();
            (zone.apex().unwrap().apex_name().unwrap().into(), contents(&zone).unwrap())
        });
        Model { content: content.collect(), unsure: vec![], past: vec![], tally: Tally::default() }
    }

    /// What a start has led to is what goes on.
    fn adopt(&mut self, found: Content, is_honest: bool) {
        let with = |group: &Vec<Entry>| {
            let mut content = self.content.clone();
            apply(&mut content, group);
            content
        };
        if is_honest {
            let is_known = found == self.content || self.unsure.iter().any(|group| with(group) == found);
            assert!(is_known, "what was acknowledged is not what is there");
        } else {
            let after: Vec<Content> = self.unsure.iter().map(with).collect();
            for (apex, contents) in &found {
                let mut known = self.past.iter().chain(&after).chain([&self.content]);
                assert!(known.any(|c| c.get(apex) == Some(contents)), "a zone is as it never was");
            }
        }
        self.content = found;
        self.unsure.clear();
    }
}

fn contents(zone: &image::Zone<'_>) -> Result<Contents, image::Damaged> {
    let mut records = vec![];
    zone.for_each_record(&mut |o, t, ttl, d| records.push(Record::new(o, t, ttl, d).unwrap()))?;
    Ok(Contents::of(records))
}

fn all_contents(image: &Image<Stretch>) -> Result<Content, image::Damaged> {
    let named = |zone: image::Zone<'_>| Ok((zone.apex()?.apex_name()?.into(), contents(&zone)?));
    image.view().zones().map(|zone| named(zone?)).collect()
}

fn built(content: &Content) -> Vec<u8> {
    let mut builder = Builder::new(9);
    for (apex, contents) in content {
        builder.begin_zone(apex);
        contents.records().for_each(|r| builder.record(r.owner(), r.rtype, r.ttl, r.rdata()).unwrap());
    }
    let (octets, _, complaints) = builder.finish();
    assert!(complaints.is_empty());
    octets
}

/// What files and journal hold, as they are read here. Err: a disk that lies has made something else of them.
fn held(config: &Config) -> Result<Content, String> {
    let folder = config.server.data_dir.join(ledger::FOLDER);
    let (mut content, mut positions) = (Content::new(), BTreeMap::new());
    for zone in config.roster.written.iter() {
        let ours = ledger::file_of(&folder, &zone.apex);
        let (file, position) = match ours.exists() {
            true => (&ours, ledger::position_of(&ours).map_err(|e| e.to_string())?),
            false => (&zone.file, 0),
        };
        let mut records = vec![];
        let mut take = |r: zonefile::Record<'_>, _: &zonefile::Place| {
            records.extend(Record::new(r.owner, r.rtype, r.ttl, r.rdata));
            Ok(())
        };
        let zone = Zone::new(zone.apex.clone(), file.clone());
        zonetext::read(&zone, &mut take).map_err(|unread| unread.text(&zone))?;
        content.insert(zone.apex.clone(), Contents::of(records));
        positions.insert(zone.apex, position);
    }
    let mut misfit = None;
    let mut take = |position, octets: &[u8]| {
        let entry = Entry::decode(octets).unwrap();
        if position >= positions[&entry.zone] && content.get_mut(&entry.zone).unwrap().apply(&entry.diff).is_err() {
            misfit = misfit.or(Some(position));
        }
    };
    if folder.exists() {
        let journal = Folder::open(&folder).map_err(|e| e.to_string())?;
        Journal::look_through(journal, 0, &mut take).map_err(|e| e.to_string())?;
    }
    misfit.map_or(Ok(content), |position| Err(format!("change {position} does not fit")))
}

/// Who changes zones, whatever else is done meanwhile.
struct Others {
    updates: RefCell<Updates>,
    rng: RefCell<Rng>,
    model: Rc<RefCell<Model>>,
}

impl Others {
    /// As the updates' thread: judged against the version in the making, and then it is that thread's own (`Updates::change`).
    fn update(&self) {
        let (Ok(mut updates), Ok(mut rng)) = (self.updates.try_borrow_mut(), self.rng.try_borrow_mut()) else {
            // He is at it, and what is written just now is his.
            return;
        };
        let (press, rng, model) = (Arc::clone(&updates.press), &mut *rng, &mut *self.model.borrow_mut());
        let mut books = press.hold();
        let now = press.current();
        let (mut entries, mut layers) = (vec![], BTreeMap::new());
        for _ in 0..1 + rng.below(4) {
            let (apex, octets) = some_update(rng);
            if books.owes(&apex) || updates.ledger.zone(&apex).is_none() {
                continue;
            }
            let standing = || Layer::over(Standing::find(now.image.view(), &apex).unwrap());
            let layer = layers.entry(apex.clone()).or_insert_with(standing);
            let judged = update::judge(&Message::new(&octets).unwrap(), &apex, layer, &|_, _| true);
            if let Some(diff) = judged.ok().filter(|diff| !diff.is_empty()) {
                layer.apply(&diff).unwrap();
                entries.push(ledger::entry(&apex, "key k".into(), diff));
            }
        }
        if entries.is_empty() {
            return;
        }
        let wishes = layers.into_iter().map(|(apex, layer)| Wish { apex, names: layer.into_names() });
        let mut wishes: Vec<Wish> = wishes.filter(|wish| !wish.names.is_empty()).collect();
        drop(now);
        // A change of one zone may be an edit, of more names than are laid.
        let sheet = if wishes.len() == 1 && rng.below(8) == 0 { wishes.pop() } else { None };
        let after = match sheet {
            Some(Wish { apex, names }) => After::Sheet(apex, Sheet::of(names)),
            None => After::Wishes(wishes),
        };
        let (owed, had_stopped) = (books.owed.len(), machine::with(|machine| machine.has_stopped()));
        let written = entries.iter().map(Entry::encode).collect();
        if updates.change(&entries, written, after, &mut books).0 != DONE {
            // Of what comes after a stop the disk has nothing.
            model.unsure.extend((!had_stopped).then_some(entries));
            model.tally.refused += usize::from(!machine::with(|machine| machine.has_stopped()));
            return;
        }
        model.tally.owing += usize::from(books.owed.len() > owed);
        model.tally.beside += usize::from(owed > 0);
        model.past.push(model.content.clone());
        apply(&mut model.content, &entries);
        model.unsure.clear();
        model.tally.acknowledged += 1;
    }
}

/// From a start to the next stop.
struct Life {
    config: Arc<Config>,
    publisher: Publisher,
    state: Arc<State>,
    press: Arc<Press>,
    others: Rc<Others>,
    releaser: ledger::Releaser,
    worker: Worker<Stretch>,
}

impl Life {
    /// As the server starts.
    fn begin(config: &Config, rng: &mut Rng, model: &Rc<RefCell<Model>>) -> Result<Life, String> {
        let mut config = config.clone();
        let data = config.server.data_dir.clone();
        let mut recorder = Recorder::new(&data, config.history);
        let First { library, zones, serving, compared, ledger, unwritten, owed } =
            First::of(&mut config, &mut recorder)?;
        let ledger = ledger?.ok_or("no zone takes updates")?;
        let published = Arc::new(Published::new(zones));
        let worker = Worker::new(Arc::clone(&published), Setup::default(), Arc::default());
        let mut press = Press::new(Arc::clone(&published), unwritten).owing(owed);
        press.limits = Limits { hidden: rng.below(3), followers: 1 };
        let press = Arc::new(press);
        let shared = Shared {
            keys: Arc::new(Published::new(config.keys.clone())),
            presence: Arc::new(Published::new(Presence::default())),
            published,
            clock: Clock::new(),
            stop: Arc::default(),
            panics: Arc::new(Panics::start(data).unwrap()),
            mailboxes: Arc::new(Mailboxes::new(1).unwrap().0),
            desk: None,
            cache: None,
        };
        let state = Arc::new(State::new(vec![], 1, vec![], vec![], shared.clock, queue::bounded(1).0));
        let releaser = ledger.releaser();
        let updates = Updates {
            ledger,
            unneeded: queue::unbounded().0,
            keys: Arc::clone(&shared.keys),
            mailboxes: Arc::clone(&shared.mailboxes),
            state: Arc::clone(&state),
            press: Arc::clone(&press),
            cache: None,
            burst: Burst::of(BURST_MAX),
            room: Room::default(),
            later: Later::default(),
        };
        let (updates, rng) = (RefCell::new(updates), RefCell::new(Rng::new(rng.number())));
        let others = Rc::new(Others { updates, rng, model: Rc::clone(model) });
        let publisher =
            Publisher::new(library, Arc::clone(&press), shared, Arc::clone(&state), vec![], serving, recorder);
        let mut life = Life { config: Arc::new(config), publisher, state, press, others, releaser, worker };
        life.publisher.begin();
        if compared == Compared::Owned {
            life.publish(Why::Started);
        }
        Ok(life)
    }

    /// Zones that are served as no updates have left them: these are durable, and take a new image; or none could be made of the zone's file.
    fn lacking(&self) -> BTreeSet<Box<[u8]>> {
        let books = self.press.hold();
        books.owed.iter().cloned().chain(books.unwritten.all_unfit().into_keys()).collect()
    }

    /// What it goes on from. `held`: what files and journal hold. None: the disk has lied, and that is found out.
    fn find(&mut self, held: Result<Content, String>, fortune: Fortune) -> Option<Content> {
        if fortune.is_honest() {
            return Some(held.unwrap_or_else(|why| panic!("files and journal do not fit: {why}")));
        }
        if self.is_damaged() {
            // Then another one is made.
            self.publish(Why::Damaged);
            self.others.model.borrow_mut().tally.found_out += 1;
        }
        // A file that was not synced is not served, and the operator hears of it.
        let are_told = !self.state.served().problems.is_empty();
        let served = all_contents(&self.press.current().image).ok().filter(|_| !are_told)?;
        if held.as_ref() == Ok(&served) {
            return Some(served);
        }
        // Files and journal do not lead there any more. But what is served once was.
        self.others.model.borrow_mut().adopt(served, false);
        None
    }

    /// As who compares the image with its checksums finds it.
    fn is_damaged(&self) -> bool {
        let now = self.press.current();
        now.image.compare(0, usize::MAX);
        !now.image.is_whole()
    }

    /// True: that is served.
    fn publish(&mut self, why: Why) -> bool {
        let (done, outcome) = queue::bounded(1);
        let job = Job { is_asked: why != Why::Fold, ..Job::new(Arc::clone(&self.config), why, vec![], Some(done)) };
        self.publisher.on_job(job);
        outcome.try_recv().is_ok_and(|outcome| outcome.is_ok())
    }

    /// As the publisher: files, an image of them, what has come meanwhile over it; then the journal lets go.
    fn fold(&mut self, rng: &mut Rng) {
        let (others, often) = (Rc::clone(&self.others), 1 + rng.below(40));
        let chance = RefCell::new(Rng::new(rng.number()));
        let update = move || {
            if chance.borrow_mut().one_in(often) {
                others.update();
            }
        };
        let others = rng.one_in(2).then(|| Rc::new(update) as Rc<dyn Fn()>);
        let why = if rng.one_in(6) { Why::Asked } else { Why::Fold };
        let is_made = machine::beside(others, || self.publish(why));
        if is_made {
            let needed = self.press.hold().unwritten.needed();
            let unneeded = self.others.updates.borrow().ledger.unneeded(needed);
            // What cannot go is tried again after the next one.
            let _ = self.releaser.release(&unneeded);
            self.others.model.borrow_mut().tally.folds += 1;
        }
    }

    /// Until it stops, or for a while.
    fn go_on(mut self, found: Content, is_last: bool, fortune: Fortune, rng: &mut Rng) {
        let is_honest = fortune.is_honest();
        let mut model = self.others.model.borrow_mut();
        model.adopt(found, is_honest);
        model.tally.owing += usize::from(!self.press.hold().owed.is_empty());
        model.tally.starts += 1;
        model.tally.found_out += usize::from(!is_honest && !self.lacking().is_empty());
        drop(model);
        assert!(!is_last || !is_honest || self.lacking().is_empty(), "a sound disk leaves something out");
        self.check_records();
        let mut deeds = fortune.deeds;
        while deeds > 0 {
            deeds -= 1;
            if machine::with(|machine| machine.has_stopped()) {
                // What is served is served, whatever the disk says.
                deeds = deeds.min(2);
            }
            let is_waited_for = !self.lacking().is_empty() || self.is_lagging();
            if is_waited_for && rng.one_in(2) || rng.one_in(6) {
                self.fold(rng);
            } else {
                self.others.update();
            }
            self.check(rng);
        }
    }

    /// Some of the names that were left are laid, or all.
    fn check(&mut self, rng: &mut Rng) {
        for _ in 0..rng.below(8) {
            self.check_records();
            self.press.follow(&mut self.press.hold());
        }
        self.check_records();
        let is_laid = self.press.hold().left.is_empty() && !self.is_lagging();
        if is_laid && self.lacking().is_empty() && rng.one_in(3) {
            self.check_answers();
            self.others.model.borrow_mut().tally.checks += 1;
        }
    }

    /// Names carry addresses of hosts as they were, and wait for a new image.
    fn is_lagging(&self) -> bool {
        self.press.hold().left.takes_image()
    }

    fn check_records(&self) {
        let (now, model) = (self.press.current(), self.others.model.borrow());
        let (mut served, mut acknowledged) = (all_contents(&now.image).unwrap(), model.content.clone());
        for apex in self.lacking() {
            served.remove(&apex);
            acknowledged.remove(&apex);
        }
        assert!(served == acknowledged, "the records that are served are not those that were acknowledged");
    }

    fn check_answers(&mut self) {
        let model = self.others.model.borrow();
        let mut fresh = sim::Server::with(built(&model.content), Setup::default());
        let names: BTreeSet<&[u8]> = model.content.values().flat_map(Contents::records).map(Record::owner).collect();
        let below = names.iter().map(|n| [b"\x02nx", *n].concat());
        for name in names.iter().map(|n| n.to_vec()).chain(below) {
            for rtype in [rtype::A, rtype::NS, rtype::MX, rtype::SOA] {
                let query = sim::message::packet(&name, rtype, Some((1232, false)));
                let (expect, got) = (fresh.message(&query), answer(&mut self.worker, &query));
                let (expect, got) = (sorted(expect), sorted(got));
                assert_eq!(expect, got, "{} {rtype}: another answer", Name::from_wire(&name).unwrap());
            }
        }
    }
}

fn answer(worker: &mut Worker<Stretch>, query: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 65_535];
    buffer[..query.len()].copy_from_slice(query);
    let now = front::Now { mono_ns: 1, wall_s: 1_800_000_000 };
    match worker.on_message(now, sim::CLIENT, sim::ticket(sim::CLIENT), &mut buffer, query.len()) {
        Verdict::Reply(len) => Some(buffer[..len].to_vec()),
        Verdict::Drop | Verdict::Later => None,
    }
}

/// The lines of an answer: within an RRset any order is right.
fn sorted(answer: Option<Vec<u8>>) -> Vec<String> {
    let text = answer.map(|a| sim::message::to_text(&a)).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    lines.sort();
    lines
}

/// The zone, and the message.
fn some_update(rng: &mut Rng) -> (Box<[u8]>, Vec<u8>) {
    let zone = *rng.pick(&ZONES);
    let owner = *rng.pick(&["h1", "h2", "h3", "h3.h1", "x.h2", "w", "k.w", "*.w", "*.h1", "deep.er.h3", "@"]);
    let host = *rng.pick(&["h1", "h2", "h3.h1", "k.w", "l.w", "x.h2"]);
    let line = match rng.below(8) {
        0..=2 => format!("add {owner} 60 A 192.0.2.{}", rng.below(256)),
        3 => format!("add {owner} 60 NS {host}"),
        4 => format!("add {owner} 60 MX 5 {host}"),
        5 => format!("add {owner} 60 TXT {}", "x".repeat(1 + rng.below(200))),
        6 => format!("del {owner} {}", rng.pick(&["A", "NS", "MX", "TXT"])),
        _ => format!("del {owner}"),
    };
    (Name::from_text(zone.as_bytes(), None).unwrap().bytes().into(), sim::update::message(zone, &line))
}

/// What lies on the disk before the first start.
fn unpack(root: &Path, history: &str) -> PathBuf {
    let write = |name: &str, text: &str| {
        std::fs::write(root.join(name), text).unwrap();
        crate::stamp::age(&root.join(name)).unwrap();
    };
    std::fs::create_dir_all(root.join("data")).unwrap();
    write("key", "MDEyMzQ1Njc4OWFiY2RlZg==");
    let zone = |zone: &&str| {
        write(zone, TEXT);
        format!("[[zone]]\nname = \"{zone}\"\nfile = \"{zone}\"\nallow-update = [\"key:k\"]\n")
    };
    let zones: String = ZONES.iter().map(zone).collect();
    write(
        "dunlin.toml",
        &format!(
            "[server]\ndata-dir = \"data\"\n[[key]]\nname = \"k\"\nsecret-file = \"key\"\n[history]\nsize = \"{history}\"\n{zones}"
        ),
    );
    root.join("dunlin.toml")
}

/// What happens to a machine.
#[derive(Clone, Copy)]
struct Fortune {
    faults: DiskFaults,
    /// Octets that its disk takes in a life, at most.
    room: Option<usize>,
    lives: usize,
    /// Of each life.
    deeds: usize,
    /// The second life stops in this step, or after its deeds.
    stop: Option<usize>,
}

impl Fortune {
    const fn of(faults: DiskFaults, room: Option<usize>) -> Fortune {
        Fortune { faults, room, lives: 5, deeds: 40, stop: None }
    }

    fn is_honest(&self) -> bool {
        self.faults.sync_lies == 0
    }
}

/// The lives of one machine. The last has a disk without faults, and does not stop.
fn run(seed: u64, fortune: Fortune) -> Tally {
    static MACHINES: AtomicUsize = AtomicUsize::new(0);
    let name = format!("dunlin-lives-{}-{}", std::process::id(), MACHINES.fetch_add(1, Relaxed));
    let root = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&root);
    // Of every second nothing is kept that no zone needs.
    let file = unpack(&root, ["1GiB", "0KiB"][seed as usize % 2]);
    // A new thread has no random numbers yet: those that it gets are the seed's.
    let lives = || {
        machine::begin(&root, seed);
        let tally = lives(&config::read(&file).unwrap(), seed, fortune);
        machine::end();
        tally
    };
    std::thread::scope(|scope| scope.spawn(lives).join().unwrap_or_else(|why| std::panic::resume_unwind(why)))
}

fn lives(config: &Config, seed: u64, fortune: Fortune) -> Tally {
    log::set_level(Level::Error);
    let (mut rng, model) = (Rng::new(seed), Rc::new(RefCell::new(Model::new())));
    for n in 0..fortune.lives {
        let is_last = n + 1 == fortune.lives;
        let now = if is_last { Fortune::of(DiskFaults::default(), None) } else { fortune };
        machine::with(|machine| machine.set_faults(DiskFaults::default()));
        let (found, (steps, full)) = (held(config), machine::with(|machine| (machine.steps(), machine.full())));
        machine::with(|machine| {
            machine.set_faults(DiskFaults { sync_fails: 0, ..now.faults });
            machine.set_room(now.room.filter(|_| n > 0).map_or(u64::MAX, |room| rng.below(room) as u64));
            let (at_start, later) = (1 + rng.below(60), 60 + rng.below(300));
            match fortune.stop {
                Some(steps) if n == 1 => machine.stop_after(steps),
                None if !is_last && n > 0 => machine.stop_after(if rng.one_in(3) { at_start } else { later }),
                _ => {}
            }
        });
        match Life::begin(config, &mut rng, &model) {
            Ok(mut life) => {
                let Some(found) = life.find(found, fortune) else {
                    model.borrow_mut().tally.found_out += 1;
                    break;
                };
                machine::with(|machine| machine.set_faults(now.faults));
                life.go_on(found, is_last, fortune, &mut rng);
            }
            Err(_) if machine::with(|machine| machine.has_stopped()) => {}
            // Such a disk is found out, and the operator hears of it.
            Err(_) if !fortune.is_honest() => {
                model.borrow_mut().tally.found_out += 1;
                break;
            }
            // Where a sync of names has failed the last image may be found beside the manifest of another one, and there is no room for a new one.
            Err(_) if now.faults.sync_fails > 0 && machine::with(|machine| machine.full()) > full => {}
            Err(e) => panic!("it does not start: {e}"),
        }
        // Of a sync that failed the machine that goes on knows nothing any more.
        let outlives = fortune.faults.sync_fails == 0 && rng.one_in(2);
        // Where a life is stopped at each of its steps, it is the power that goes: that takes more.
        let outlives = outlives && fortune.stop.is_none();
        let mut model = model.borrow_mut();
        machine::with(|machine| {
            model.tally.stops += usize::from(machine.has_stopped());
            if n == 1 {
                model.tally.steps = machine.steps() - steps;
            }
            if outlives { machine.outlive() } else { machine.restart() }
        });
    }
    let tally = model.borrow().tally;
    Tally { full: machine::with(|machine| machine.full()), ..tally }
}

/// What the lives of so many machines have come to.
fn seeds(fortune: Fortune) -> Tally {
    let tally = Cell::new(Tally::default());
    sim::seeds::each(sim::seeds::of("LIVES", 25), |seed| tally.set(tally.get().with(run(seed, fortune))));
    let tally = tally.get();
    let Tally { starts, found_out, acknowledged, refused, owing, beside, folds, stops, full, checks, .. } = tally;
    println!(
        "{starts} starts, {found_out} found that the disk had lied; {acknowledged} groups acknowledged, {refused} refused, {owing} took \
         a new image, {beside} went on beside them; {folds} folds, {stops} stops, {full} times a full disk; answers compared {checks} times"
    );
    assert!(acknowledged > 4 * starts && folds > 2 * starts && stops > starts / 3 && checks > starts);
    tally
}

#[test]
fn what_was_acknowledged_is_served_and_survives_a_stop() {
    let tally = seeds(Fortune::of(DiskFaults::default(), None));
    assert!(
        tally.owing > 0 && tally.beside > 0 && tally.refused == 0,
        "a disk without faults takes all that is written"
    );
}

#[test]
fn what_was_acknowledged_survives_a_stop_at_each_step() {
    sim::seeds::each(sim::seeds::of("STEPS", 1), |seed| {
        let fortune = Fortune { lives: 4, deeds: 12, ..Fortune::of(DiskFaults::default(), None) };
        let steps = run(seed, Fortune { stop: Some(usize::MAX / 2), ..fortune }).steps;
        println!("a life of {steps} steps");
        for stop in 1..=steps {
            let tally = run(seed, Fortune { stop: Some(stop), ..fortune });
            assert_eq!((tally.stops, tally.steps), (1, stop), "a shorter life than the one before");
        }
    });
}

#[test]
fn syncs_that_fail_and_a_full_disk_cost_what_was_not_acknowledged() {
    let tally =
        seeds(Fortune::of(DiskFaults { sync_fails: 12, tidying_fails: 5, ..DiskFaults::default() }, Some(100_000)));
    assert!(tally.refused > tally.starts / 2 && tally.full > tally.starts / 2);
}

#[test]
fn a_disk_that_lies_leads_back_to_what_once_was_or_stops_the_start() {
    let tally = seeds(Fortune::of(DiskFaults { sync_lies: 3, ..DiskFaults::default() }, None));
    assert!(tally.found_out > tally.starts / 32);
}
