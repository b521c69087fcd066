//! The journal on a disk of the simulator: torn and reordered writes, syncs that fail or lie, a full disk, and a machine
//! that stops at any step. What was acknowledged is there afterwards. A failure names its seed.

mod bad;

use bad::Bad;
use sim::disk::{Disk as Simulated, DiskFaults};
use sim::rng::Rng;
use std::cell::RefCell;
use std::rc::Rc;
use store::journal::Journal;

const SEGMENT: u64 = 3000;
const LIVES: usize = 6;

/// Groups of records, each record different from all others.
fn group(rng: &mut Rng, made: &mut u64) -> Vec<Vec<u8>> {
    let records = 1 + rng.below(4);
    (0..records)
        .map(|_| {
            *made += 1;
            let filler = rng.below(900);
            format!("{made} {}", "x".repeat(filler)).into_bytes()
        })
        .collect()
}

/// What a journal should hold: positions from `from` on that were acknowledged, and what may follow them.
#[derive(Default)]
struct Model {
    from: u64,
    acknowledged: Vec<Vec<u8>>,
    /// Groups that were handed in at the end and not acknowledged: any one of them may have become durable.
    unsure: Vec<Vec<Vec<u8>>>,
}

impl Model {
    fn end(&self) -> u64 {
        self.from + self.acknowledged.len() as u64
    }

    fn check(&mut self, seed: u64, mut found: Vec<(u64, Vec<u8>)>) {
        found.retain(|(position, _)| *position >= self.from);
        let positions: Vec<u64> = found.iter().map(|(p, _)| *p).collect();
        let expect: Vec<u64> = (self.from..self.from + found.len() as u64).collect();
        assert_eq!(positions, expect, "seed {seed}: positions");
        let records: Vec<Vec<u8>> = found.into_iter().map(|(_, record)| record).collect();
        let (kept, more) = records.split_at_checked(self.acknowledged.len()).unwrap_or_else(|| {
            panic!("seed {seed}: {} records of {} acknowledged", records.len(), self.acknowledged.len())
        });
        assert!(kept == self.acknowledged, "seed {seed}: an acknowledged record has changed");
        assert!(more.is_empty() || self.unsure.iter().any(|g| g == more), "seed {seed}: a record that nobody wrote");
        self.acknowledged = records;
        self.unsure.clear();
    }
}

/// One machine's lives. `honest`: syncs do not lie, so that everything acknowledged must be there.
fn run(seed: u64, faults: DiskFaults, capacity: usize) {
    let mut rng = Rng::new(seed);
    let disk = Rc::new(RefCell::new(Simulated::new(seed, faults)));
    let (mut model, mut made) = (Model::default(), 0);
    for _ in 0..LIVES {
        let mut found = Vec::new();
        disk.borrow_mut().set_faults(DiskFaults::default());
        let opened = Journal::open(Bad(Rc::clone(&disk)), SEGMENT, model.from, &mut |p, r| found.push((p, r.to_vec())));
        disk.borrow_mut().set_faults(faults);
        let (mut journal, _) = opened.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        model.check(seed, found);
        disk.borrow_mut().set_capacity(capacity);
        disk.borrow_mut().stop_after(1 + rng.below(120));
        for _ in 0..60 {
            live_a_little(&mut rng, &mut journal, &mut model, &mut made);
        }
        // Of a sync that failed the machine that goes on knows nothing any more.
        match faults.sync_fails == 0 && rng.one_in(2) {
            true => disk.borrow_mut().outlive(),
            false => disk.borrow_mut().restart(),
        }
    }
}

fn live_a_little(rng: &mut Rng, journal: &mut Journal<Bad>, model: &mut Model, made: &mut u64) {
    if rng.one_in(8) {
        let fold = rng.below(model.acknowledged.len() + 1);
        model.acknowledged.drain(..fold);
        model.from += fold as u64;
        journal.release(model.from, rng.below(6));
        return;
    }
    let records = group(rng, made);
    match journal.append(&records) {
        Ok(first) => {
            assert_eq!(first, model.end());
            model.acknowledged.extend(records);
            model.unsure.clear();
        }
        Err(_) => model.unsure.push(records),
    }
}

const SEEDS: u64 = 3000;

#[test]
fn what_was_acknowledged_survives_a_stop_at_any_step() {
    (0..SEEDS).for_each(|seed| run(seed, DiskFaults::default(), usize::MAX));
}

#[test]
fn a_sync_that_fails_costs_what_it_was_for_and_no_more() {
    let faults = DiskFaults { sync_fails: 6, tidying_fails: 3, ..DiskFaults::default() };
    (0..SEEDS).for_each(|seed| run(seed, faults, usize::MAX));
}

#[test]
fn a_full_disk_refuses_and_keeps() {
    let faults = DiskFaults { sync_fails: 20, tidying_fails: 5, ..DiskFaults::default() };
    (0..SEEDS).for_each(|seed| run(seed, faults, 6000));
}

#[test]
fn every_step_of_one_life_can_be_the_last() {
    for stop in 1..120 {
        for seed in 0..20 {
            let disk = Rc::new(RefCell::new(Simulated::new(seed, DiskFaults::default())));
            let mut rng = Rng::new(seed);
            let (mut model, mut made) = (Model::default(), 0);
            let mut journal = Journal::open(Bad(Rc::clone(&disk)), SEGMENT, 0, &mut |_, _| {}).unwrap().0;
            disk.borrow_mut().stop_after(stop);
            (0..40).for_each(|_| live_a_little(&mut rng, &mut journal, &mut model, &mut made));
            disk.borrow_mut().restart();
            let mut found = Vec::new();
            Journal::open(Bad(disk), SEGMENT, model.from, &mut |p, r| found.push((p, r.to_vec())))
                .unwrap_or_else(|e| panic!("seed {seed}, step {stop}: {e}"));
            model.check(seed, found);
        }
    }
}

/// A disk that lies loses what it lied about. What is found is then still what was written, in order, or an error.
#[test]
fn a_disk_that_lies_is_not_believed_what_it_makes_up() {
    let mut errors = 0;
    for seed in 0..SEEDS {
        let faults = DiskFaults { sync_lies: 4, ..DiskFaults::default() };
        let disk = Rc::new(RefCell::new(Simulated::new(seed, faults)));
        let mut rng = Rng::new(seed);
        let (mut model, mut made) = (Model::default(), 0);
        let mut journal = Journal::open(Bad(Rc::clone(&disk)), SEGMENT, 0, &mut |_, _| {}).unwrap().0;
        for _ in 0..30 {
            let records = group(&mut rng, &mut made);
            if journal.append(&records).is_ok() {
                model.acknowledged.extend(records);
            }
        }
        disk.borrow_mut().restart();
        let mut found = Vec::new();
        let opened = Journal::open(Bad(disk), SEGMENT, 0, &mut |_, r| found.push(r.to_vec()));
        errors += u64::from(opened.is_err());
        assert!(model.acknowledged.starts_with(&found), "seed {seed}");
    }
    assert!((1..SEEDS).contains(&errors), "{errors} of {SEEDS} were noticed");
}

#[test]
fn a_refusal_names_the_file_and_the_need() {
    let disk = Rc::new(RefCell::new(Simulated::new(1, DiskFaults::default())));
    let mut journal = Journal::open(Bad(Rc::clone(&disk)), SEGMENT, 0, &mut |_, _| {}).unwrap().0;
    journal.append(&["kept"]).unwrap();
    disk.borrow_mut().set_capacity(100);
    let text = journal.append(&["x".repeat(5 << 20)]).unwrap_err().to_string();
    assert_eq!(text, "/sim/journal.0000000001: no space: needs 6 MiB (Full)");
    disk.borrow_mut().set_capacity(usize::MAX);
    assert_eq!(journal.append(&["x"]).unwrap(), 1);
}
