//! The path of a query without sockets: builds an image of a data folder of the bench kit, or answers its queries.
//!
//!     hot build DATA IMAGE [MIB]      DATA has zones.tsv and zone/; MIB: what is held in memory before it is spilled
//!     hot parse FILE ORIGIN [ROUNDS]  records a second of one thread, records thrown away: all rounds' best
//!     hot run IMAGE QUERIES [ROUNDS]  ns a query: all rounds' median and least; with DO=1 in the environment, DO is set;
//!                                     with UNSERVED=1 there is a zone that cannot be answered for
//!     hot over IMAGE QUERIES CHANGES [ROUNDS]  the same with so many names of the largest zone changed since, 32 at a time
//!     hot follow IMAGE HOST [ROUNDS]  what a change of the host's address in the largest zone takes
//!
//! Under callgrind, `hot run IMAGE QUERIES 1` gives instructions a query (the first pass over the queries is parsing them).

use front::{Datagrams, Now, Peer, Published, Setup, Ticket, Unserved, Worker, Zones};
use image::edit::{Edit, Record, records_of};
use image::format::Header;
use image::patch::{self, Change, Limits, PLACE};
use image::{Builder, Image, View};
use server::config::Zone;
use server::images::scratch::Scratch;
use server::zonetext::reading::{self, Stock};
use sim::message;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;
use wire::Name;

const BATCH: usize = 32;
const STRIDE: usize = 1472;

struct Batch {
    buffers: Vec<u8>,
    lens: [usize; BATCH],
}

impl Datagrams for Batch {
    fn len(&self) -> usize {
        BATCH
    }
    fn peer(&self, _: usize) -> Peer {
        sim::CLIENT
    }
    fn ticket(&self, _: usize) -> Ticket {
        sim::ticket(sim::CLIENT)
    }
    fn packet(&mut self, i: usize) -> (&mut [u8], usize) {
        (&mut self.buffers[i * STRIDE..][..STRIDE], self.lens[i])
    }
    fn set_reply(&mut self, i: usize, len: usize) {
        self.lens[i] = len;
    }
}

fn build(data: &str, out: &str, held_mib: usize) {
    let start = Instant::now();
    const SEED: u64 = 0x1234_5678_9abc_def1;
    let list = std::fs::read_to_string(format!("{data}/zones.tsv")).unwrap();
    let zone = |line: &str| {
        let (origin, file) = line.split_once('\t').unwrap();
        let apex = Name::from_text(origin.as_bytes(), Some(&Name::ROOT)).unwrap().fold().bytes().into();
        Zone::new(apex, format!("{data}/zone/{file}").into())
    };
    let zones: Vec<Zone> = list.lines().map(zone).collect();
    let spill = Arc::new(Scratch::new(std::env::temp_dir()));
    let stock = Stock::new(SEED, held_mib << 20, spill);
    let (builder, reports) =
        reading::all(&zones, &stock, |zone, builder| reading::one(zone, &stock, builder).unwrap().report);
    assert!(reports.iter().all(|r| r.errors == 0));
    let parsed = start.elapsed();
    let (octets, summary, complaints) = builder.finish_with(&reading::Threads);
    assert!(complaints.is_empty(), "{complaints:?}");
    let records = summary.records as f64;
    println!(
        "{summary:?}: {:.1} octets a record; parse {parsed:.1?}, all {:.1?}",
        octets.len() as f64 / records,
        start.elapsed()
    );
    std::fs::write(out, octets).unwrap();
}

fn parse(file: &str, origin: &str, rounds: usize) {
    let text = std::fs::read(file).unwrap();
    let origin = Name::from_text(origin.as_bytes(), Some(&Name::ROOT)).unwrap();
    let (mut best, mut records, mut octets) = (f64::MAX, 0, 0);
    for _ in 0..rounds {
        let start = Instant::now();
        let options = zonefile::Options::default();
        let report = zonefile::parse(file, &text, &origin, &mut zonefile::NoFiles, &options, &mut |r, _| {
            octets += r.owner.len() + r.rdata.len();
            Ok(())
        });
        records = report.records;
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{records} records, {octets} octets, {:.2} M records a second", records as f64 / best / 1e6);
}

fn queries(file: &str) -> Vec<Vec<u8>> {
    let edns = Some((1232, std::env::var("DO").is_ok()));
    let parse = |line: &str| {
        let (name, rtype) = line.split_once(' ')?;
        let name = Name::from_text(name.as_bytes(), Some(&Name::ROOT)).ok()?;
        Some(message::packet(name.bytes(), zonefile::rtypes::from_mnemonic(rtype.as_bytes())?, edns))
    };
    std::fs::read_to_string(file).unwrap().lines().filter_map(parse).collect()
}

fn run(image: &str, file: &str, rounds: usize) {
    let image = Image::open_to_serve(store::Map::open(image.as_ref()).unwrap(), store::Map::faults).unwrap();
    let map: &store::Map = image.bytes();
    map.prefault(0, map.len());
    println!("{} of {} MiB on huge pages", map.huge_bytes().unwrap() >> 20, map.len() >> 20);
    ask(image, file, rounds);
}

/// The owners of records in the zone that has most, at even distances, so many as are asked for.
fn names_to_change(view: View<'_>, changes: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let zone = view.zones().map(Result::unwrap).max_by_key(|z| z.records().unwrap()).unwrap();
    let apex = zone.apex().unwrap().apex_name().unwrap();
    let mut names = Vec::new();
    for node in zone.nodes().skip(1).map(Result::unwrap).filter(|n| n.rrsets().next().is_some()) {
        names.push(zone.name_of(&node, &mut [0; 255]).unwrap().to_vec());
    }
    let step = (names.len() / changes.max(1)).max(1);
    (apex.to_vec(), names.into_iter().step_by(step).take(changes).collect())
}

/// Gives each of some names of the largest zone one record more.
fn over(path: &str, file: &str, changes: usize, rounds: usize) {
    let mut octets = std::fs::read(path).unwrap();
    let mut header = Image::open(&octets[..]).unwrap().header().clone();
    let (apex, names) = names_to_change(Image::open(&octets[..]).unwrap().view(), changes);
    let start = Instant::now();
    for some in names.chunks(BATCH) {
        let image = Image::overlaid(&octets[..], header.clone());
        let zone = image.view().find_whole(&apex).unwrap().unwrap().zone().unwrap();
        let with_one_more = |name: &Vec<u8>| {
            let mut records = records_of(&zone.node(name).unwrap().unwrap(), name).unwrap();
            records.push(Record { rtype: wire::rtype::TXT, ttl: 300, rdata: (*b"\x03new").into() });
            (name.as_slice().into(), records)
        };
        let edit = Edit::new(&apex, some.iter().map(with_one_more).collect());
        lay(&mut octets, &mut header, edit);
    }
    let held = header.overlay.as_ref().map_or(0, |o| o.names());
    println!(
        "{} names changed, {:.1?} each; the overlay holds {held} names",
        names.len(),
        start.elapsed() / names.len().max(1) as u32
    );
    ask(Image::overlaid(octets, header), file, rounds);
}

/// Gives a host of the largest zone another address, again and again.
fn follow(path: &str, host: &str, rounds: usize) {
    let mut octets = std::fs::read(path).unwrap();
    let mut header = Image::open(&octets[..]).unwrap().header().clone();
    let (apex, _) = names_to_change(Image::open(&octets[..]).unwrap().view(), 0);
    let host: Box<[u8]> = Name::from_text(host.as_bytes(), Some(&Name::ROOT)).unwrap().fold().bytes().into();
    for round in 0..rounds {
        let start = Instant::now();
        let address = Record { rtype: wire::rtype::A, ttl: 300, rdata: [192, 0, 2, round as u8].into() };
        let edit = Edit::new(&apex, [(host.clone(), vec![address])].into());
        let before = header.overlay.as_ref().map_or(0, |o| o.names());
        lay(&mut octets, &mut header, edit);
        let held = header.overlay.as_ref().map_or(0, |o| o.names());
        println!("{:.1?}, {} names more in the overlay", start.elapsed(), held - before);
    }
}

/// Lays an edit over an image.
fn lay(octets: &mut Vec<u8>, header: &mut Header, edit: Edit<'_>) {
    let image = Image::overlaid(&octets[..], header.clone());
    let change =
        Change { whole: Builder::new(image.view().seed()), gone: vec![], edits: vec![edit], limits: Limits::MOST };
    let place = (octets.len() as u64).next_multiple_of(PLACE);
    let laid = patch::lay(image.view(), change, place).unwrap();
    assert!(laid.complaints.is_empty(), "{:?}", laid.complaints);
    octets.resize(place as usize, 0);
    octets.extend_from_slice(&laid.octets);
    *header = laid.overlay(Image::overlaid(&octets[..], header.clone()).view()).unwrap();
}

fn ask<M: AsRef<[u8]>>(image: Image<M>, file: &str, rounds: usize) {
    let lacking: HashSet<Box<[u8]>> =
        std::env::var("UNSERVED").map(|_| (*b"\x08unserved\x04test\0").into()).into_iter().collect();
    let unserved = Arc::new(Unserved::of(lacking, image.view().seed()));
    let published = Arc::new(Published::new(Zones { unserved, ..Zones::of(image) }));
    let mut worker = Worker::new(published, Setup::default(), Arc::default());
    let queries = queries(file);
    let mut batch = Batch { buffers: vec![0; BATCH * STRIDE], lens: [0; BATCH] };
    let (mut all, mut octets, mut answers) = (vec![], 0, 0);
    for _ in 0..rounds {
        let mut spent = 0;
        for chunk in queries.chunks_exact(BATCH) {
            for (i, q) in chunk.iter().enumerate() {
                batch.buffers[i * STRIDE..][..q.len()].copy_from_slice(q);
                batch.lens[i] = q.len();
            }
            let start = Instant::now();
            on_batch(&mut worker, &mut batch);
            spent += start.elapsed().as_nanos();
            octets += batch.lens.iter().sum::<usize>();
            answers += BATCH;
        }
        all.push(spent as f64 / (queries.len() / BATCH * BATCH) as f64);
    }
    all.sort_by(f64::total_cmp);
    println!(
        "{:.1} ns a query, least {:.1}; answers of {:.1} octets",
        all[all.len() / 2],
        all[0],
        octets as f64 / answers as f64
    );
}

/// Not part of its caller, so that callgrind can count it alone (`--toggle-collect='*on_batch*'`).
#[inline(never)]
fn on_batch<M: AsRef<[u8]>>(worker: &mut Worker<M>, batch: &mut Batch) {
    worker.on_batch(Now { mono_ns: 1, wall_s: 1 }, batch);
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["build", data, out] => build(data, out, 1 << 20),
        ["build", data, out, mib] => build(data, out, mib.parse().unwrap()),
        ["parse", file, origin] => parse(file, origin, 3),
        ["parse", file, origin, rounds] => parse(file, origin, rounds.parse().unwrap()),
        ["run", image, file] => run(image, file, 7),
        ["run", image, file, rounds] => run(image, file, rounds.parse().unwrap()),
        ["over", image, file, changes] => over(image, file, changes.parse().unwrap(), 7),
        ["over", image, file, changes, rounds] => over(image, file, changes.parse().unwrap(), rounds.parse().unwrap()),
        ["follow", image, host] => follow(image, host, 5),
        ["follow", image, host, rounds] => follow(image, host, rounds.parse().unwrap()),
        _ => {
            eprintln!("hot build DATA IMAGE | hot run IMAGE QUERIES [ROUNDS] | hot over IMAGE QUERIES CHANGES [ROUNDS]")
        }
    }
}
