//! The lives of a machine whose zones are updated, on a disk of the simulator: writes that are torn and reordered, syncs
//! that fail or lie, a full disk, and a stop at any step. Journal, overlay, folding and publishing are the server's own;
//! the order in which they are called is that of the updates' thread and of the publisher, and so is what a start does.
//!
//! Always: the image that is served, with what lies over it, has the records and gives the answers of an image built anew
//! of what was acknowledged. After a stop: the files and the journal hold what was acknowledged, or that and one group that was
//! being written, and that is served. `LIVES_SEEDS=N` runs more of them, `LIVES_FROM=N` others; `SIM_SEED=N` one.

#[path = "../../../store/tests/bad/mod.rs"]
mod bad;

use crate::images::laying::{self, Standing};
use crate::publisher::press::Press;
use crate::update::ledger;
use crate::update::unwritten::{After, Files, Sheet, Unwritten, Wish};
use bad::{Bad, explained};
use front::{Published, Setup, Verdict, Worker, Zones};
use image::patch::Limits;
use image::{Builder, Image};
use sim::disk::{Disk, DiskFaults};
use sim::rng::Rng;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use store::journal::{Disk as _, Journal};
use store::{Map, Stretch};
use transfer::message::Message;
use transfer::{Contents, Diff, Entry, Layer, Record, update};
use wire::{Name, rtype};

const ZONES: [&str; 2] = ["one.test.", "two.test."];
const SEGMENT: u64 = 3000;
/// Little, so that it is used up now and then.
const ROOM: usize = 48 << 10;
const LIVES: usize = 5;
const RELEASED: &str = "released";

/// By apex.
type Content = BTreeMap<Box<[u8]>, Contents>;

/// What was acknowledged, and what may have become durable beside that.
struct Model {
    content: Content,
    unsure: Vec<Vec<Entry>>,
    /// All that was ever acknowledged, for disks that lie: they may go back.
    past: Vec<Content>,
    /// So that no two files have the same temporary name.
    files: usize,
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
            let text =
                "@ 60 SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\n@ 60 MX 1 h3\nns 60 A 192.0.2.1\n*.w 60 A 192.0.2.2";
            let (octets, _) = sim::image_of(&[(zone, text)]);
            let image = Image::open(octets).unwrap();
            let zone = image.view().zones().next().unwrap().unwrap();
            (zone.apex().unwrap().apex_name().unwrap().into(), contents(&zone))
        });
        Model { content: content.collect(), unsure: vec![], past: vec![], files: 0, tally: Tally::default() }
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

fn contents(zone: &image::Zone<'_>) -> Contents {
    let mut records = vec![];
    zone.for_each_record(&mut |o, t, ttl, d| records.push(Record::new(o, t, ttl, d).unwrap())).unwrap();
    Contents::of(records)
}

fn all_contents(image: &Image<Stretch>) -> Content {
    let zones = image.view().zones().map(Result::unwrap);
    zones.map(|z| (z.apex().unwrap().apex_name().unwrap().into(), contents(&z))).collect()
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

fn image_of(content: &Content) -> Image<Stretch> {
    let name = format!("dunlin-lives-{}-{:?}", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, built(content)).unwrap();
    let map = Map::copy_to_memory(&path, ROOM).unwrap();
    std::fs::remove_file(&path).unwrap();
    Image::open_to_serve(Stretch::of(map), |_| 0).unwrap()
}

type Shared = Rc<RefCell<Disk>>;

/// As `store::atomic` writes: aside, synced, renamed, the names synced.
fn write_file(disk: &Shared, files: &mut usize, name: &str, octets: &[u8]) -> io::Result<()> {
    *files += 1;
    let (aside, mut disk) = (format!(".{name}.{files}"), disk.borrow_mut());
    let file = disk.create(&aside).map_err(explained)?;
    let written = disk.write(file, 0, octets).and_then(|()| disk.sync(file)).and_then(|()| disk.rename(&aside, name));
    written.inspect_err(|_| _ = disk.remove(&aside)).map_err(explained)?;
    disk.sync_names().map_err(explained)
}

fn file_of(apex: &[u8]) -> String {
    format!("{}zone", Name::from_wire(apex).unwrap())
}

/// Where a zone's file stands in the journal, and its records. Err: a disk that lies has made something else of it.
fn read_file(disk: &Shared, apex: &[u8]) -> io::Result<(u64, Contents)> {
    let octets = disk.borrow().read(&file_of(apex)).map_err(explained)?.to_vec();
    let (position, rest) = octets.split_first_chunk().ok_or(io::ErrorKind::InvalidData)?;
    let entry = Entry::decode(rest).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok((u64::from_be_bytes(*position), Contents::of(entry.diff.added().to_vec())))
}

fn write_zone(disk: &Shared, files: &mut usize, apex: &[u8], position: u64, contents: &Contents) -> io::Result<()> {
    let diff = Diff::between(vec![], contents.records().cloned().collect());
    let octets = [&position.to_be_bytes()[..], &ledger::entry(apex, String::new(), diff).encode()].concat();
    write_file(disk, files, &file_of(apex), &octets)
}

/// From a start to the next stop.
struct Life {
    disk: Shared,
    journal: Journal<Bad>,
    press: Press,
    published: Arc<Published<Zones<Stretch>>>,
    worker: Worker<Stretch>,
    released: u64,
}

impl Life {
    /// As the server starts: files, journal, overlay. Returns also what files and journal hold.
    fn begin(disk: &Shared) -> io::Result<(Life, Content)> {
        let apexes: Vec<Box<[u8]>> =
            ZONES.iter().map(|z| Name::from_text(z.as_bytes(), None).unwrap().bytes().into()).collect();
        let files = apexes.into_iter().map(|apex| Ok((apex.clone(), read_file(disk, &apex)?)));
        let files = files.collect::<io::Result<BTreeMap<Box<[u8]>, (u64, Contents)>>>()?;
        let number = |octets: &[u8]| octets.try_into().map_or(0, u64::from_be_bytes);
        let released = disk.borrow().read(RELEASED).map_or(0, number);
        let mut held: Content = files.iter().map(|(a, f)| (a.clone(), f.1.clone())).collect();
        let image = image_of(&held);
        let (mut layers, mut misfit) = (BTreeMap::new(), None);
        let mut replay = |position, octets: &[u8]| {
            let entry = Entry::decode(octets).unwrap();
            if position < files[&entry.zone].0 {
                return;
            }
            let standing = || Layer::over(Standing::find(image.view(), &entry.zone).unwrap());
            let layer = layers.entry(entry.zone.clone()).or_insert_with(standing);
            misfit = misfit.take().or(layer.follow(&entry.diff).err());
            if misfit.is_none() {
                apply(&mut held, &[entry]);
            }
        };
        let (journal, _) = Journal::open(Bad(Rc::clone(disk)), SEGMENT, released, &mut replay)?;
        if misfit.is_some() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (mut unwritten, end) = (Unwritten::default(), journal.next_position());
        files.iter().for_each(|(apex, file)| unwritten.add_zone(apex, file.0.min(end)));
        let wishes: Vec<Wish> =
            layers.into_iter().map(|(apex, layer)| Wish { apex, names: layer.into_names() }).collect();
        let (laid, unlaid) = match laying::over(&image, &wishes, Limits::MOST) {
            Ok(laid) => (laid, None),
            // As where no file can be written either.
            Err(_) => laying::each_over(&image, &wishes, Limits::MOST),
        };
        let owed = unlaid.into_iter().flat_map(|unlaid| unlaid.zones).collect();
        unwritten.add(wishes, end);
        let zones = Zones::of(laid.map_or(image, |laid| laid.image));
        let published = Arc::new(Published::new(zones));
        let worker = Worker::new(Arc::clone(&published), Setup::default(), Arc::default());
        let mut press = Press::new(Arc::clone(&published), unwritten);
        press.limits = Limits { followers: 1, ..Limits::MOST };
        press.hold().owed = owed;
        Ok((Life { disk: Rc::clone(disk), journal, press, published, worker, released }, held))
    }

    /// Changes that are durable are not served.
    fn is_owing(&self) -> bool {
        !self.press.hold().owed.is_empty()
    }

    /// As the updates' thread: judged against the version in the making, durable, served, acknowledged.
    fn update(&mut self, rng: &mut Rng, model: &mut Model) {
        let mut books = self.press.hold();
        let now = self.press.current();
        let (mut entries, mut layers) = (vec![], BTreeMap::new());
        for _ in 0..1 + rng.below(4) {
            let (apex, octets) = some_update(rng);
            if books.owes(&apex) {
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
        let octets: Vec<Vec<u8>> = entries.iter().map(Entry::encode).collect();
        // A change of one zone may be an edit, of more names than are laid.
        let sheet = if wishes.len() == 1 && rng.below(8) == 0 { wishes.pop() } else { None };
        let after = match sheet {
            Some(Wish { apex, names }) => After::Sheet(apex, Sheet::of(names)),
            None => After::Wishes(wishes),
        };
        // While it is written.
        let laid = self.press.lay(&books, &after);
        if self.journal.append(&octets).is_err() {
            model.unsure.push(entries);
            model.tally.refused += usize::from(!self.disk.borrow().has_stopped());
            return;
        }
        model.tally.owing += usize::from(laid.unlaid.is_some());
        model.tally.beside += usize::from(!books.owed.is_empty());
        self.press.serve(&mut books, &after, laid);
        books.unwritten.take(after, self.journal.next_position());
        model.past.push(model.content.clone());
        apply(&mut model.content, &entries);
        model.unsure.clear();
        model.tally.acknowledged += 1;
    }

    /// As the publisher: files, an image of them, what has come meanwhile over it; then the journal lets go.
    fn fold(&mut self, rng: &mut Rng, model: &mut Model) -> io::Result<()> {
        let mut written = vec![];
        for (apex, contents) in model.content.clone() {
            let end = self.press.hold().unwritten.end();
            write_zone(&self.disk, &mut model.files, &apex, end, &contents)?;
            written.push((apex, end));
            if !self.is_owing() && rng.one_in(3) {
                break;
            }
        }
        let files = model.content.keys().map(|apex| Ok((apex.clone(), read_file(&self.disk, apex)?.1)));
        let files = files.collect::<io::Result<Content>>()?;
        let next = Zones::of(image_of(&files));
        let mut written = Files::new(written.into_iter());
        while !written.is_empty() {
            self.press.hold().unwritten.settle(&mut written);
        }
        while rng.one_in(2) {
            self.update(rng, model);
        }
        match self.press.replace(next) {
            Ok(_) => model.tally.folds += 1,
            Err(unlaid) => {
                assert!(unlaid.zones.is_empty(), "all is laid over a new image that has room: {}", unlaid.why)
            }
        }
        let needed = self.press.hold().unwritten.needed();
        if needed > self.released {
            write_file(&self.disk, &mut model.files, RELEASED, &needed.to_be_bytes())?;
            self.released = needed;
        }
        // Some of it is kept as history.
        self.journal.release(self.released, rng.below(6));
        Ok(())
    }

    /// Some of the names that were left are laid, or all.
    fn check(&mut self, rng: &mut Rng, model: &mut Model) {
        for _ in 0..rng.below(8) {
            self.check_records(model);
            self.press.follow(&mut self.press.hold());
        }
        self.check_records(model);
        if self.press.hold().left.is_empty() && !self.is_lagging() && !self.is_owing() {
            self.check_answers(model);
            model.tally.checks += 1;
        }
    }

    /// Names carry addresses of hosts as they were, and wait for a new image.
    fn is_lagging(&self) -> bool {
        self.press.hold().left.takes_image()
    }

    fn check_records(&self, model: &Model) {
        let (mut served, mut acknowledged) = (all_contents(&self.published.current().0.image), model.content.clone());
        for apex in &self.press.hold().owed {
            served.remove(apex);
            acknowledged.remove(apex);
        }
        assert!(served == acknowledged, "the records that are served are not those that were acknowledged");
    }

    fn check_answers(&mut self, model: &Model) {
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

/// The lives of one machine.
fn run(seed: u64, faults: DiskFaults, capacity: usize) -> Tally {
    let (mut rng, mut model) = (Rng::new(seed), Model::new());
    let disk = Rc::new(RefCell::new(Disk::new(seed, DiskFaults::default())));
    for (apex, contents) in &model.content {
        write_zone(&disk, &mut model.files, apex, 0, contents).unwrap();
    }
    let is_honest = faults.sync_lies == 0;
    for _ in 0..LIVES {
        disk.borrow_mut().set_faults(DiskFaults { sync_fails: 0, ..faults });
        let begun = Life::begin(&disk);
        disk.borrow_mut().set_faults(faults);
        let (mut life, held) = match begun {
            Ok(begun) => begun,
            // Such a disk is found out, and the operator hears of it.
            Err(_) if !is_honest => {
                model.tally.found_out += 1;
                return model.tally;
            }
            Err(e) => panic!("it does not start: {e}"),
        };
        life.press.limits.hidden = rng.below(3);
        model.adopt(held, is_honest);
        model.tally.owing += usize::from(life.is_owing());
        life.check_records(&model);
        model.tally.starts += 1;
        disk.borrow_mut().set_capacity(capacity);
        disk.borrow_mut().stop_after(1 + rng.below(150));
        for _ in 0..40 {
            let is_waited_for = life.is_owing() || life.is_lagging();
            if is_waited_for && rng.one_in(2) || rng.one_in(6) {
                let _ = life.fold(&mut rng, &mut model);
            } else {
                life.update(&mut rng, &mut model);
            }
            life.check(&mut rng, &mut model);
        }
        model.tally.stops += usize::from(disk.borrow().has_stopped());
        drop(life);
        // Of a sync that failed the machine that goes on knows nothing any more.
        match faults.sync_fails == 0 && rng.one_in(2) {
            true => disk.borrow_mut().outlive(),
            false => disk.borrow_mut().restart(),
        }
        tidy(&disk);
    }
    model.tally
}

/// What was written aside is of no use any more.
fn tidy(disk: &Shared) {
    let names = Bad(Rc::clone(disk)).list().unwrap();
    names.iter().filter(|n| n.starts_with('.')).for_each(|n| _ = disk.borrow_mut().remove(n));
}

/// What the lives of so many machines have come to.
fn seeds(faults: DiskFaults, capacity: usize) -> Tally {
    let tally = Cell::new(Tally::default());
    sim::seeds::each(sim::seeds::of("LIVES", 25), |seed| tally.set(tally.get().with(run(seed, faults, capacity))));
    let tally = tally.get();
    let Tally { starts, found_out, acknowledged, refused, owing, beside, folds, stops, checks } = tally;
    println!(
        "{starts} starts, {found_out} found that the disk had lied; {acknowledged} groups acknowledged, {refused} refused, {owing} took \
         a new image, {beside} went on beside them; {folds} folds, {stops} stops; answers compared {checks} times"
    );
    assert!(acknowledged > 4 * starts && folds > starts / 2 && stops > starts / 2 && checks > 4 * starts);
    tally
}

#[test]
fn what_was_acknowledged_is_served_and_survives_a_stop_at_any_step() {
    let tally = seeds(DiskFaults::default(), usize::MAX);
    assert!(
        tally.owing > 0 && tally.beside > 0 && tally.refused == 0,
        "a disk without faults takes all that is written"
    );
}

#[test]
fn syncs_that_fail_and_a_full_disk_cost_what_was_not_acknowledged() {
    let tally = seeds(DiskFaults { sync_fails: 12, tidying_fails: 5, ..DiskFaults::default() }, 24_000);
    assert!(tally.refused > tally.starts / 2);
}

#[test]
fn a_disk_that_lies_leads_back_to_what_once_was_or_stops_the_start() {
    let tally = seeds(DiskFaults { sync_lies: 8, ..DiskFaults::default() }, usize::MAX);
    assert!(tally.found_out > tally.starts / 32);
}
