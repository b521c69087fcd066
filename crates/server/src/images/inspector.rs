//! Compares the image that is served with the checksums of its pages, and has a damaged one built anew.
//!
//! On a thread of its own that gets the CPU when nobody else wants it, a slice at a time: when a new file is served; at once
//! when an answering thread met damage, when octets vanished under the mapping, or when somebody wrote into the file; and
//! every `AGAIN`, for disks that forget. What it finds is answered with SERVFAIL from then on (see `image`), counted, told,
//! and a new image is asked for. Where that cannot be made, the pages that are left go on serving.

use crate::log;
use crate::state::{Event, State};
use front::locks::hold;
use front::{Published, Zones};
use image::Image;
use stats::Counter;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use store::Stretch;

/// How often it is looked whether there is a reason to compare. Answering threads count, and wake nobody.
const TICK: Duration = Duration::from_millis(200);
/// How often all pages are compared without a reason.
const AGAIN: Duration = Duration::from_secs(3600);
/// Pages in a slice: 1 MiB.
const SLICE: usize = 256;
/// Between two slices: so 250 MiB a second at most, however idle the machine is.
const PAUSE: Duration = Duration::from_millis(4);

/// What is known of the pages of the image that is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    pub pages: usize,
    /// How far the round at hand has come, or where it ended.
    pub compared: usize,
    pub damaged: usize,
    /// Rounds through this image that came to their end.
    pub rounds: u64,
}

/// Somebody wrote into an image's file. Rung again and again it is one ring.
#[derive(Default)]
pub struct Alarm {
    has_rung: Mutex<bool>,
    rings: Condvar,
}

impl Alarm {
    pub fn ring(&self) {
        *hold(&self.has_rung) = true;
        self.rings.notify_one();
    }

    /// Waits for it, so long at most. True: it has rung.
    fn wait(&self, most: Duration) -> bool {
        let waited = self.rings.wait_timeout_while(hold(&self.has_rung), most, |has_rung| !*has_rung);
        std::mem::take(&mut waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

pub struct Inspector {
    published: Arc<Published<Zones<Stretch>>>,
    state: Arc<State>,
    alarm: Arc<Alarm>,
    /// What was inspected last.
    generation: u64,
    file: File,
    /// All of the file's pages were as they were written. What is laid over it changes nothing of them.
    is_sound: bool,
    /// When the last round ended.
    ended: Instant,
    rounds: u64,
    /// Lookups that met damage, when they were last a reason.
    met: u64,
    faults: u32,
    /// For which generation and how many damaged pages a new image was asked for, and when.
    told: Option<(u64, usize, Instant)>,
}

impl Inspector {
    pub fn new(published: Arc<Published<Zones<Stretch>>>, state: Arc<State>, alarm: Arc<Alarm>) -> Inspector {
        Inspector {
            published,
            state,
            alarm,
            generation: 0,
            file: File::default(),
            is_sound: false,
            ended: Instant::now(),
            rounds: 0,
            met: 0,
            faults: 0,
            told: None,
        }
    }

    /// Works until the process ends.
    pub fn run(mut self) {
        // Whoever refuses this has refused it to the publisher, which told.
        let _ = net::sched::background();
        let mut asked = false;
        loop {
            if self.is_due(asked) {
                self.round();
                store::heap::let_go();
            }
            asked = self.alarm.wait(TICK);
        }
    }

    fn is_due(&mut self, asked: bool) -> bool {
        let (zones, generation) = self.published.current();
        let met = self.state.count(Counter::ImageDamaged) + self.state.count(Counter::DropDamaged);
        // Where damage is known, lookups will meet it: that is no reason to look again.
        let has_met = met != self.met && zones.image.is_whole();
        let has_lost = zones.image.faults() != self.faults;
        (self.met, self.faults) = (met, zones.image.faults());
        let is_known = self.is_sound && zones.image.is_whole() && File::of(&zones.image) == self.file;
        let is_new = generation != self.generation && !is_known;
        asked || has_met || has_lost || is_new || self.ended.elapsed() >= AGAIN
    }

    fn round(&mut self) {
        let file = File::of(&self.published.current().0.image);
        if file != self.file {
            (self.file, self.rounds) = (file, 0);
        }
        self.is_sound = false;
        // Comparing may find that more octets have vanished; then no page is believed until a round has found no more.
        let zones = loop {
            let faults = self.published.current().0.image.faults();
            let Some((zones, is_sound)) = self.compare_all() else { return };
            (self.faults, self.is_sound) = (zones.image.faults(), is_sound);
            // What was found in an image that is served no more is to be found in this one.
            if self.faults == faults && is_sound == zones.image.is_whole() {
                break zones;
            }
        };
        let image = &zones.image;
        self.rounds += 1;
        self.ended = Instant::now();
        let damaged: Vec<usize> = image.damaged_pages().collect();
        self.tell(image, image.pages(), damaged.len());
        if let Some(first) = damaged.first().filter(|_| self.is_news(damaged.len())) {
            let file = self.state.served().file;
            let facts: [(&str, &dyn std::fmt::Display); 4] = [
                ("file", &file.display()),
                ("pages", &damaged.len()),
                ("first_page", first),
                ("at_octet", &(first * image::PAGE)),
            ];
            log::error("an image is damaged: it is built anew", &facts);
            self.state.raise(Event::Rebuild);
        }
    }

    /// Once for each damage; and again after a while, for the source may have come back.
    fn is_news(&mut self, damaged: usize) -> bool {
        let is_known = |&(generation, pages, at): &(u64, usize, Instant)| {
            (generation, pages) == (self.generation, damaged) && at.elapsed() < AGAIN
        };
        let is_news = !self.told.as_ref().is_some_and(is_known);
        if is_news {
            self.told = Some((self.generation, damaged, Instant::now()));
        }
        is_news
    }

    /// Compares all pages, and says whether they are as they were written; what changes meanwhile is laid over the same file.
    /// None: another file is served by now.
    fn compare_all(&mut self) -> Option<(Arc<Zones<Stretch>>, bool)> {
        let (mut at, mut is_sound) = (0, true);
        loop {
            let (zones, generation) = self.published.current();
            if File::of(&zones.image) != self.file {
                return None;
            }
            self.generation = generation;
            self.tell(&zones.image, at, 0);
            let next = zones.image.compare(at, SLICE);
            is_sound &= zones.image.is_whole();
            // Nothing is waited for: the pause is the bound on what the pass takes from disk and memory.
            std::thread::sleep(PAUSE);
            match next {
                Some(next) => at = next,
                None => return Some((zones, is_sound)),
            }
        }
    }

    fn tell(&self, image: &Image<Stretch>, compared: usize, damaged: usize) {
        self.state.set_inspected(Inspected { pages: image.pages(), compared, damaged, rounds: self.rounds });
    }
}

/// What tells a file from others, and where its octets stand.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct File {
    length: u64,
    seed: u64,
    at: usize,
}

impl File {
    fn of(image: &Image<Stretch>) -> File {
        let header = image.header();
        File { length: header.length, seed: header.seed, at: image.bytes().as_ptr().addr() }
    }
}
