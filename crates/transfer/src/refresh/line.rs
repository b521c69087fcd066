//! Zones that wait for a primary: a line each, so many at once of one primary and in all. A primary that is silent is left
//! alone for a while, then tried by one zone, and left alone for longer. Whoever waits for it is told to go elsewhere, may
//! hope, and is next when it says something again.

use super::{Ms, PrimaryId, ZoneId};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// How long a silent primary is left alone at first, and at most.
const PAUSE_MS: Ms = 2_000;
const PAUSE_MAX_MS: Ms = 60_000;

#[derive(Default)]
struct Line {
    /// Bound: zones of this primary.
    waiting: VecDeque<ZoneId>,
    hoping: BTreeSet<ZoneId>,
    under_way: usize,
    /// How often it was silent in a row, and until when it is left alone.
    silences: u32,
    until: Ms,
    /// Somebody says that it answers again.
    is_said_back: bool,
    is_listed: bool,
}

/// Bound: the primaries that are configured.
pub struct Lines {
    of_one_max: usize,
    in_all_max: usize,
    in_all: usize,
    lines: HashMap<PrimaryId, Line>,
    /// Those that somebody waits for and that may have one more under way, in turns.
    ready: VecDeque<PrimaryId>,
}

impl Lines {
    pub fn new((of_one_max, in_all_max): (usize, usize)) -> Lines {
        Lines { of_one_max, in_all_max, in_all: 0, lines: HashMap::new(), ready: VecDeque::new() }
    }

    /// False: it is silent, and not to be tried now.
    pub fn may_try(&self, now: Ms, primary: PrimaryId) -> bool {
        self.lines.get(&primary).is_none_or(|line| line.silences == 0 || line.until <= now && line.under_way == 0)
    }

    /// Some are left for who has somebody that gives it something.
    pub fn has_room(&self) -> bool {
        self.in_all < self.in_all_max / 2
    }

    /// It said nothing the last time.
    pub fn is_silent(&self, primary: PrimaryId) -> bool {
        self.lines.get(&primary).is_some_and(|line| line.silences > 0)
    }

    pub fn join(&mut self, primary: PrimaryId, zone: ZoneId) {
        self.lines.entry(primary).or_default().waiting.push_back(zone);
        self.list(primary);
    }

    /// It is next when this primary says something.
    pub fn hope(&mut self, primary: PrimaryId, zone: ZoneId) {
        self.lines.entry(primary).or_default().hoping.insert(zone);
    }

    /// It does not hope any more.
    pub fn forget(&mut self, primary: PrimaryId, zone: ZoneId) {
        self.lines.get_mut(&primary).into_iter().for_each(|line| _ = line.hoping.remove(&zone));
    }

    /// Others are gone, and nobody hopes for them or waits.
    pub fn keep(&mut self, is_kept: impl Fn(PrimaryId) -> bool) {
        self.lines.retain(|primary, _| is_kept(*primary));
    }

    /// It is said to answer again, which anybody may say: who is next tries, and only when it answers are those next who hope.
    pub fn try_soon(&mut self, primary: PrimaryId) {
        if let Some(line) = self.lines.get_mut(&primary).filter(|line| line.silences > 0) {
            (line.until, line.is_said_back) = (0, true);
        }
    }

    /// It has been silent, and was said to answer again.
    pub fn is_said_back(&self, primary: PrimaryId) -> bool {
        self.lines.get(&primary).is_some_and(|line| line.is_said_back)
    }

    /// It has said something.
    pub fn hear(&mut self, primary: PrimaryId) {
        let Some(line) = self.lines.get_mut(&primary).filter(|line| line.silences > 0) else { return };
        (line.silences, line.is_said_back) = (0, false);
        line.waiting.extend(std::mem::take(&mut line.hoping));
        self.list(primary);
    }

    /// One that was under way is over. `was_silent`: what it tells about the primary, if it tells anything. Returns who has
    /// waited in vain.
    pub fn end(&mut self, now: Ms, primary: PrimaryId, was_silent: Option<bool>) -> VecDeque<ZoneId> {
        self.in_all = self.in_all.saturating_sub(1);
        let Some(line) = self.lines.get_mut(&primary) else { return VecDeque::new() };
        line.under_way = line.under_way.saturating_sub(1);
        let mut in_vain = VecDeque::new();
        match was_silent {
            Some(false) => self.hear(primary),
            Some(true) => {
                // Those that were asked together are silent together: that is one silence. And it is none that somebody said it was back.
                if line.silences == 0 || line.until <= now {
                    let was_due = !std::mem::take(&mut line.is_said_back);
                    line.until = now + (PAUSE_MS << line.silences.min(10)).min(PAUSE_MAX_MS);
                    line.silences += u32::from(was_due);
                }
                in_vain = std::mem::take(&mut line.waiting);
            }
            None => {}
        }
        self.list(primary);
        in_vain
    }

    /// The next that may be under way; it is from now on.
    pub fn next(&mut self) -> Option<(PrimaryId, ZoneId)> {
        while self.in_all < self.in_all_max
            && let Some(primary) = self.ready.pop_front()
        {
            let Some(line) = self.lines.get_mut(&primary) else { continue };
            line.is_listed = false;
            let zone = if line.under_way < line.room(self.of_one_max) { line.waiting.pop_front() } else { None };
            line.under_way += usize::from(zone.is_some());
            self.in_all += usize::from(zone.is_some());
            self.list(primary);
            if let Some(zone) = zone {
                return Some((primary, zone));
            }
        }
        None
    }

    /// Puts a primary where it is found when somebody may go on with it.
    fn list(&mut self, primary: PrimaryId) {
        let Some(line) = self.lines.get_mut(&primary) else { return };
        if !line.is_listed && !line.waiting.is_empty() && line.under_way < line.room(self.of_one_max) {
            line.is_listed = true;
            self.ready.push_back(primary);
        }
    }
}

impl Line {
    fn room(&self, most: usize) -> usize {
        if self.silences > 0 { 1 } else { most }
    }
}
