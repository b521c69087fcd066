//! Zone files read by as many threads as may work: several files, and the parts of a long one, side by side.
//! What each has collected is put together in the order of the configuration, so that the image is the same with any number.

use crate::config::Zone;
use crate::images;
use crate::images::scratch::{self, Scratch};
use crate::zonetext::pieces::Pieces;
use crate::zonetext::pieces::cutting::Cutting;
use crate::zonetext::{self, Opened, Reading, Unread};
use front::locks::hold;
use image::{Builder, Hands, InTurn, Spill};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use zonefile::{Objection, Record};

/// A thread takes so many zones at a time: few enough that the last ones do not wait for one thread.
const ZONES_AT_A_TIME: usize = 256;
/// Files at least this long are read in parts.
const PARTS_FROM: usize = 8 << 20;

/// What builders are made of.
pub struct Stock {
    pub seed: u64,
    /// Octets of records that all of them together hold before they spill.
    pub held_max: usize,
    pub spill: Arc<dyn Spill>,
    /// About how many octets of zone files have been read, for whoever shows that.
    pub read: Arc<AtomicU64>,
}

impl Stock {
    pub fn new(seed: u64, held_max: usize, spill: Arc<dyn Spill>) -> Stock {
        Stock { seed, held_max, spill, read: Arc::default() }
    }

    /// Spills into the folder of images.
    pub fn below(data_dir: &Path) -> Stock {
        let spill = Arc::new(Scratch::new(data_dir.join(images::FOLDER)));
        Stock::new(images::seed(), scratch::memory(), spill)
    }

    /// A builder; the octets are shared with others that work beside it.
    pub fn builder(&self) -> Builder {
        Builder::spilling(self.seed, self.held_max / hands(), self.spill.clone())
    }
}

/// Lets `fill` hand the records of each zone to a builder, in which the zone was begun; all of them in one builder, and
/// what `fill` says of each zone.
pub fn all<T: Send>(
    zones: &[Zone],
    stock: &Stock,
    fill: impl Fn(&Zone, &mut Builder) -> T + Sync,
) -> (Builder, Vec<T>) {
    let next = AtomicUsize::new(0);
    let read = || {
        let mut mine = vec![];
        while let Some((i, few)) = next_few(zones, &next) {
            let mut builder = stock.builder();
            let mut said = Vec::with_capacity(few.len());
            for zone in few {
                builder.begin_zone(&zone.apex);
                said.push(fill(zone, &mut builder));
            }
            mine.push((i, builder, said));
        }
        mine
    };
    let many = hands().min(zones.len().div_ceil(ZONES_AT_A_TIME));
    // A thread of its own for a zone or two would cost more than they do.
    let by_thread = match many {
        0 | 1 => vec![read()],
        _ => side_by_side((0..many).map(|_| &read)),
    };
    let mut pieces: Vec<_> = by_thread.into_iter().flatten().collect();
    pieces.sort_by_key(|piece| piece.0);
    let mut together = stock.builder();
    let mut said = Vec::with_capacity(zones.len());
    for (_, builder, mut of_these) in pieces {
        together.append(builder);
        said.append(&mut of_these);
    }
    (together, said)
}

/// The next zones that no thread has taken.
fn next_few<'z>(zones: &'z [Zone], next: &AtomicUsize) -> Option<(usize, &'z [Zone])> {
    let i = next.fetch_add(1, Ordering::Relaxed);
    Some((i, zones.chunks(ZONES_AT_A_TIME).nth(i)?))
}

/// Hands a zone's records to the builder in which it was begun.
pub fn one(zone: &Zone, stock: &Stock, builder: &mut Builder) -> Result<Reading, Unread> {
    let opened = zonetext::open(zone)?;
    let read = Read::of(&opened, stock);
    if opened.len() >= PARTS_FROM && hands() > 1 {
        let add = |part: &mut Part, r: Record<'_>| part.take(&read, r);
        if let Some((parts, reading)) = opened.read_in_parts(hands(), || Part::new(zone, stock), add) {
            parts.into_iter().for_each(|part| builder.continue_with(part.builder));
            read.end(opened.len());
            return Ok(reading);
        }
    }
    let mut records = 0;
    let reading = opened.read(&mut |r, _| {
        read.count(&mut records);
        take(builder, r)
    });
    read.end(opened.len());
    Ok(reading)
}

/// The same, with the pieces of its text.
pub fn one_noting(zone: &Zone, stock: &Stock, builder: &mut Builder) -> Result<(Reading, Option<Pieces>), Unread> {
    let opened = zonetext::open_settled(zone)?;
    let (n, cutting, read) = (hands(), Cutting::new(stock.seed), Read::of(&opened, stock));
    let n = if opened.len() >= PARTS_FROM { n } else { 1 };
    let add = |part: &mut Part, r: Record<'_>| part.take(&read, r);
    let (parts, reading, pieces) = opened.read_noting(n, cutting, || {}, || Part::new(zone, stock), add);
    parts.into_iter().for_each(|part| builder.continue_with(part.builder));
    read.end(opened.len());
    Ok((reading, pieces))
}

/// What one thread has read of a zone.
struct Part {
    builder: Builder,
    records: u64,
}

impl Part {
    fn new(zone: &Zone, stock: &Stock) -> Part {
        let mut builder = stock.builder();
        builder.begin_zone(&zone.apex);
        Part { builder, records: 0 }
    }

    fn take(&mut self, read: &Read<'_>, r: Record<'_>) -> Result<(), Vec<Objection>> {
        read.count(&mut self.records);
        take(&mut self.builder, r)
    }
}

/// Records after which it is told how far a file has been read.
const STEP: u64 = 4096;

/// How far one file has been read, taking each record for a line of usual length.
struct Read<'a> {
    all: &'a AtomicU64,
    octets_a_step: u64,
    steps: AtomicU64,
}

impl<'a> Read<'a> {
    fn of(opened: &Opened<'_>, stock: &'a Stock) -> Read<'a> {
        Read { all: &stock.read, octets_a_step: opened.octets_a_line() * STEP, steps: AtomicU64::new(0) }
    }

    fn count(&self, records: &mut u64) {
        *records += 1;
        if records.is_multiple_of(STEP) {
            self.steps.fetch_add(1, Ordering::Relaxed);
            self.all.fetch_add(self.octets_a_step, Ordering::Relaxed);
        }
    }

    /// All of it has been read: that is known exactly.
    fn end(&self, octets: usize) {
        let told = self.steps.load(Ordering::Relaxed) * self.octets_a_step;
        self.all.fetch_add((octets as u64).wrapping_sub(told), Ordering::Relaxed);
    }
}

/// Hands a record to the builder, and its refusal to the reader.
pub fn take(builder: &mut Builder, r: Record<'_>) -> Result<(), Vec<Objection>> {
    builder.record(r.owner, r.rtype, r.ttl, r.rdata).map_err(Objection::refusal)
}

/// Runs all at once; what they return, in their order. What no thread can be had for is done by this one.
pub fn side_by_side<W: FnOnce() -> T + Send, T: Send>(work: impl Iterator<Item = W>) -> Vec<T> {
    // In places of its own: a thread that cannot be started does not give back what it was to do.
    let work: Vec<_> = work.map(|w| Mutex::new(Some(w))).collect();
    let take = |place: &Mutex<Option<W>>| hold(place).take();
    thread::scope(|scope| {
        let start = |place| thread::Builder::new().spawn_scoped(scope, move || take(place).map(in_slices));
        let running: Vec<_> = work.iter().map(|place| (place, start(place))).collect();
        let done = running.into_iter().filter_map(|(place, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => take(place).map(|w| w()),
        });
        done.collect()
    })
}

/// Two threads, where two may work and a second can be had.
pub struct Threads;

impl Hands for Threads {
    fn both(&self, one: &mut (dyn FnMut() + Send), other: &mut (dyn FnMut() + Send)) {
        if hands() == 1 {
            return InTurn.both(one, other);
        }
        let is_beside = thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, || in_slices(&mut *one));
            other();
            thread.is_ok()
        });
        if !is_beside {
            one();
        }
    }
}

/// A helper of a thread in the background is in the background too, and works in slices as that does.
fn in_slices<T>(work: impl FnOnce() -> T) -> T {
    let _pace = net::sched::pace();
    work()
}

/// How many threads read and build side by side: one for each processor, in the background for half of them. While a zone of
/// 8.5 M records changed, the p99.99 of answers was 1.6 to 3.1 times that of quiet times with both of two CPUs busy (six
/// runs of three rounds), and 1.1 and 2.0 times with one (runs of seven and four); served after 2.8 to 5.7 s and 3.9 to 8.5.
pub fn hands() -> usize {
    if net::sched::is_background() { processors().div_ceil(2) } else { processors() }
}

/// Asked for once: the answer is looked up in several files.
pub fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::scratch;
    use std::path::{Path, PathBuf};

    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn scratch(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("dunlin-reading-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn zone(folder: &Path, apex: &str, text: &str) -> Zone {
        let file = folder.join(apex);
        std::fs::write(&file, text).unwrap();
        let apex = wire::Name::from_text(apex.as_bytes(), None).unwrap().bytes().into();
        Zone::new(apex, file)
    }

    fn stock(seed: u64) -> Stock {
        Stock::new(seed, 1 << 20, Arc::new(scratch::Scratch::new(std::env::temp_dir())))
    }

    const HEAD: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

    #[test]
    fn many_zones_read_side_by_side_make_the_same_image() {
        let folder = scratch("many");
        let name = |i: usize| format!("zone{i}.test.");
        let zones: Vec<Zone> = (0..3 * ZONES_AT_A_TIME + 7).map(|i| zone(&folder.0, &name(i), HEAD)).collect();
        let (builder, read) =
            all(&zones, &stock(7), |zone, builder| one(zone, &stock(7), builder).unwrap().report.records);
        assert!(read.iter().all(|&n| n == 3));
        let mut plain = Builder::new(7);
        for zone in &zones {
            plain.begin_zone(&zone.apex);
            zonetext::read(zone, &mut |r, _| take(&mut plain, r)).unwrap();
        }
        assert!(builder.finish_with(&Threads).0 == plain.finish().0);
    }

    #[test]
    fn a_long_zone_read_in_parts_makes_the_same_image() {
        let folder = scratch("long");
        let mut text = String::from(HEAD);
        let mut i = 0;
        while text.len() < PARTS_FROM {
            text += &format!("name{i} NS ns.name{}\nns.name{i} A 192.0.2.1\n", i / 2 * 3);
            i += 1;
        }
        for end in ["", "$ORIGIN other\n", "late TXT x\nname1 TXT y\n$TTL 5\nlate TXT z\n"] {
            let zone = zone(&folder.0, "long.test.", &(text.clone() + end));
            let (mut builder, mut plain) = (Builder::new(7), Builder::new(7));
            builder.begin_zone(&zone.apex);
            plain.begin_zone(&zone.apex);
            let reading = one(&zone, &stock(7), &mut builder).unwrap();
            let expect = zonetext::read(&zone, &mut |r, _| take(&mut plain, r)).unwrap();
            assert_eq!(reading.report.records, expect.report.records);
            assert!(builder.finish_with(&Threads).0 == plain.finish().0, "{end}");
        }
    }
}
