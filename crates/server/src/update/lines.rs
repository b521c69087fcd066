//! Updates that wait, in a line for each key: whoever may change one name, and does so without a pause, has others wait for his turn, and no
//! longer.
//!
//! Turns go round, and all are of the same time, whatever an update costs: who has taken more than his is passed over until the others have
//! had as much. The sync of a group counts for nobody.
//!
//! Bound: a line has as much room as all of them have left. So one alone may take half of `WAITING_MAX` and `OCTETS_MAX`, two a third each,
//! and there is always some for who comes next.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Updates that wait, in `intake` and again here; of more, clients ask again. Of 10,000 a second so many come in 1.6 s: a disk may let a sync wait for as
/// long. With a fourth of that, 6,102 of a minute went unanswered once.
pub const WAITING_MAX: usize = 16_384;
pub const OCTETS_MAX: usize = 16 << 20;
/// Of these, aside, of each key: of what it may have alone as many are left for its other updates.
const ASIDE_MAX: usize = WAITING_MAX / 4;
pub const ASIDE_OCTETS_MAX: usize = OCTETS_MAX / 4;
/// Most updates take some microseconds.
const TURN_NS: i64 = 1_000_000;
/// However long one has taken, no key is passed over for longer.
const OWED_MAX_NS: i64 = 2000 * TURN_NS;

pub struct Lines<T> {
    /// By key; who has nothing waiting, and owes nothing, has none once it is his turn. Bound: the keys that are configured.
    lines: HashMap<Box<[u8]>, Line<T>>,
    /// Whose turn it is, and who follows.
    turns: VecDeque<Box<[u8]>>,
    waiting: usize,
    /// By key: what was put aside.
    aside: HashMap<Box<[u8]>, Row<T>>,
    /// Of all, also of those.
    count: usize,
    octets: usize,
}

struct Line<T> {
    row: Row<T>,
    /// Of its turn. Less than nothing is owed of those to come.
    left_ns: i64,
}

/// In the order in which they came, each with its octets.
struct Row<T> {
    items: VecDeque<(usize, T)>,
    octets: usize,
}

impl<T> Line<T> {
    fn take(&mut self, time: Duration) {
        let took_ns = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        self.left_ns = self.left_ns.saturating_sub(took_ns).max(-OWED_MAX_NS);
    }
}

impl<T> Default for Row<T> {
    fn default() -> Row<T> {
        Row { items: VecDeque::new(), octets: 0 }
    }
}

impl<T> Row<T> {
    fn push(&mut self, octets: usize, item: T) {
        self.items.push_back((octets, item));
        self.octets += octets;
    }
}

impl<T> Default for Lines<T> {
    fn default() -> Lines<T> {
        let (lines, aside) = (HashMap::new(), HashMap::new());
        Lines { lines, turns: VecDeque::new(), waiting: 0, aside, count: 0, octets: 0 }
    }
}

impl<T> Lines<T> {
    /// True if nobody can have his turn.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// True if nobody was put aside.
    pub fn are_all_in_turn(&self) -> bool {
        self.aside.is_empty()
    }

    /// Err: there is no room for it.
    pub fn join(&mut self, key: &[u8], octets: usize, item: T) -> Result<(), T> {
        let rows = [self.lines.get(key).map(|line| &line.row), self.aside.get(key)];
        let (before, beside) =
            rows.into_iter().flatten().fold((0, 0), |(n, all), row| (n + row.items.len(), all + row.octets));
        if before + self.count >= WAITING_MAX || beside + self.octets + octets > OCTETS_MAX {
            return Err(item);
        }
        self.line(key).row.push(octets, item);
        (self.waiting, self.count, self.octets) = (self.waiting + 1, self.count + 1, self.octets + octets);
        Ok(())
    }

    fn line(&mut self, key: &[u8]) -> &mut Line<T> {
        self.lines.entry(key.into()).or_insert_with(|| {
            self.turns.push_back(key.into());
            Line { row: Row::default(), left_ns: TURN_NS }
        })
    }

    /// The one whose turn it is. `is_first`: of those that are answered together. Else whoever owes of turns to come waits until they are: None.
    pub fn next(&mut self, is_first: bool) -> Option<T> {
        let mut passed = 0;
        while self.waiting > 0 && (is_first || passed <= self.turns.len()) {
            let line = self.lines.get_mut(self.turns.front()?)?;
            if line.left_ns <= 0 {
                line.left_ns += TURN_NS;
                self.turns.rotate_left(1);
                passed += 1;
            } else if let Some((octets, item)) = line.row.items.pop_front() {
                line.row.octets -= octets;
                (self.waiting, self.count, self.octets) = (self.waiting - 1, self.count - 1, self.octets - octets);
                return Some(item);
            } else {
                self.turns.pop_front().map(|key| self.lines.remove(&key));
            }
        }
        None
    }

    /// So long the last one took.
    pub fn took(&mut self, time: Duration) {
        if let Some(line) = self.turns.front().and_then(|key| self.lines.get_mut(key)) {
            line.take(time);
        }
    }

    /// So long something else took that updates of this key have brought about.
    pub fn charge(&mut self, key: &[u8], time: Duration) {
        self.line(key).take(time);
    }

    /// The last one waits for something else, and keeps nobody of its line: until `resume`. Err: so many of its key do that others of
    /// that one would find no room.
    pub fn put_aside(&mut self, octets: usize, item: T) -> Result<(), T> {
        let Some(key) = self.turns.front() else { return Err(item) };
        let row = self.aside.entry(key.clone()).or_default();
        if row.items.len() >= ASIDE_MAX || row.octets + octets > ASIDE_OCTETS_MAX {
            return Err(item);
        }
        row.push(octets, item);
        (self.count, self.octets) = (self.count + 1, self.octets + octets);
        Ok(())
    }

    /// Whoever was put aside is in front of those of its line that came after it.
    pub fn resume(&mut self) {
        for (key, Row { mut items, octets }) in std::mem::take(&mut self.aside) {
            self.waiting += items.len();
            let row = &mut self.line(&key).row;
            items.append(&mut row.items);
            (row.items, row.octets) = (items, row.octets + octets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&[u8]; 3] = [b"\x01a\0", b"\x01b\0", b"\x01c\0"];

    /// Who is served in so long, by key, where an update of each takes that many microseconds.
    fn served(lines: &mut Lines<usize>, costs: &[u64], until: Duration) -> Vec<usize> {
        let (mut counts, mut now) = (vec![0; costs.len()], Duration::ZERO);
        while now < until {
            // Each has always one more.
            (0..costs.len()).for_each(|key| while lines.join(KEYS[key], 100, key).is_ok() {});
            let key = lines.next(true).unwrap();
            let took = Duration::from_micros(costs[key]);
            lines.took(took);
            now += took;
            counts[key] += 1;
        }
        counts
    }

    #[test]
    fn all_keys_have_the_same_time_whatever_their_updates_cost() {
        for costs in [&[10, 10][..], &[10, 3_000], &[50_000, 20, 500], &[700, 1_300, 1_000]] {
            let counts = served(&mut Lines::default(), costs, Duration::from_secs(30));
            let times: Vec<u64> = counts.iter().zip(costs).map(|(n, cost)| *n as u64 * cost / 1000).collect();
            let fair = 30_000 / costs.len() as u64;
            assert!(times.iter().all(|ms| ms.abs_diff(fair) <= fair / 50), "{costs:?}: {times:?} ms");
        }
    }

    #[test]
    fn what_is_done_for_a_group_counts_for_those_who_have_brought_it_about() {
        // To judge one takes as long for both; what follows from it does not.
        let (mut lines, costs, mut times) = (Lines::default(), [40_000, 50], [0; 2]);
        while times[0] + times[1] < 30_000_000 {
            (0..2).for_each(|key| while lines.join(KEYS[key], 100, key).is_ok() {});
            let first = lines.next(true).unwrap();
            let group: Vec<usize> = std::iter::once(first)
                .chain(std::iter::from_fn(|| {
                    lines.took(Duration::from_micros(10));
                    lines.next(false)
                }))
                .take(20)
                .collect();
            for key in group {
                lines.charge(KEYS[key], Duration::from_micros(costs[key]));
                times[key] += 10 + costs[key];
            }
        }
        assert!(times[0].abs_diff(times[1]) < 3_000_000, "{times:?}");
        // One of whom nothing waits any more is not forgotten.
        while lines.next(true).is_some() {}
        lines.charge(KEYS[0], Duration::from_secs(1));
        (0..2).for_each(|key| (0..500).for_each(|_| lines.join(KEYS[key], 100, key).unwrap()));
        assert!((0..500).all(|_| lines.next(true) == Some(1)), "the other one goes first");
    }

    #[test]
    fn who_sends_one_after_the_other_has_no_more_time_than_who_sends_all_at_once() {
        let (mut lines, mut times) = (Lines::default(), [0; 2]);
        while times[0] + times[1] < 10_000 {
            // The first waits for its answer, and sends the next.
            if lines.lines.get(KEYS[0]).is_none_or(|line| line.row.items.is_empty()) {
                lines.join(KEYS[0], 100, 0).unwrap();
            }
            while lines.join(KEYS[1], 100, 1).is_ok() {}
            let key = lines.next(true).unwrap();
            let ms = [50, 1][key];
            lines.took(Duration::from_millis(ms));
            times[key] += ms;
        }
        assert!(times[0].abs_diff(times[1]) <= 100, "{times:?}");
    }

    #[test]
    fn who_comes_next_waits_for_a_turn_of_each_and_what_one_has_taken_is_forgotten_some_day() {
        let mut lines = Lines::default();
        assert_eq!(lines.next(true), None);
        for _ in 0..2 {
            lines.join(KEYS[0], 1, 0).unwrap();
        }
        lines.next(true).unwrap();
        lines.took(Duration::from_secs(3600));
        lines.join(KEYS[1], 1, 1).unwrap();
        assert_eq!(
            [lines.next(true), lines.next(false)],
            [Some(1), None],
            "who owes does not keep the others' answers"
        );
        assert_eq!([lines.next(true), lines.next(true)], [Some(0), None]);
        assert!(lines.is_empty() && lines.lines.len() <= 2, "no more lines than keys");
    }

    #[test]
    fn a_line_takes_half_of_what_there_is_and_leaves_room_for_the_others() {
        for (octets, room) in [(0, WAITING_MAX), (65_000, OCTETS_MAX / 65_000)] {
            let mut lines = Lines::default();
            let mut fill = |key: &[u8]| (0..WAITING_MAX).take_while(|_| lines.join(key, octets, ()).is_ok()).count();
            let counts = [fill(KEYS[0]), fill(KEYS[1]), fill(KEYS[2]), fill(KEYS[0])];
            assert!(counts[0].abs_diff(room / 2) <= 1 && counts[1].abs_diff(room / 4) <= 1, "{counts:?} of {room}");
            assert!(counts[2].abs_diff(room / 8) <= 1 && counts[3] == 0, "{counts:?} of {room}");
            (0..counts.iter().sum()).for_each(|_| lines.next(true).unwrap());
            assert_eq!((lines.next(true), lines.waiting, lines.octets), (None, 0, 0));
        }
    }

    #[test]
    fn what_was_put_aside_keeps_its_room_and_its_place() {
        let mut lines = Lines::default();
        (0..10).for_each(|i| lines.join(KEYS[i % 2], 1, i).unwrap());
        // Those of the first key wait for something, the first three of them.
        for _ in 0..8 {
            match lines.next(true).unwrap() {
                i @ (0 | 2 | 4) => lines.put_aside(1, i).unwrap(),
                i => assert!(i % 2 == 1 || i > 4),
            }
            lines.took(Duration::from_millis(1));
        }
        assert_eq!([lines.waiting, lines.count, lines.octets], [2, 5, 5]);
        lines.resume();
        assert_eq!([lines.waiting, lines.count, lines.octets], [5, 5, 5]);
        let mut left: Vec<usize> = std::iter::from_fn(|| lines.next(true)).collect();
        left.retain(|i| i % 2 == 0);
        assert_eq!(left, [0, 2, 4, 8]);
        // A key whose line has gone, and all that it may have waiting is aside.
        for (octets, room) in [(0, ASIDE_MAX), (65_000, ASIDE_OCTETS_MAX / 65_000)] {
            let mut put = || {
                lines.join(KEYS[0], octets, 0).unwrap();
                let item = lines.next(true).unwrap();
                lines.put_aside(octets, item)
            };
            assert_eq!((0..WAITING_MAX).take_while(|_| put().is_ok()).count(), room);
            assert!(lines.is_empty() && lines.count == room);
            assert!(
                [KEYS[0], KEYS[1]].iter().all(|key| lines.join(key, octets, 1).is_ok()),
                "there is room for others"
            );
            let before = lines.count;
            lines.resume();
            assert_eq!(std::iter::from_fn(|| lines.next(true)).count(), before);
        }
        lines.resume();
        assert_eq!([lines.waiting, lines.count, lines.octets], [0; 3]);
    }

    #[test]
    fn what_one_key_sends_stays_in_its_order() {
        let mut lines = Lines::default();
        (0..600).for_each(|i| lines.join(KEYS[i % 3], 1, i).unwrap());
        let mut last = [None; 3];
        while let Some(i) = lines.next(true) {
            assert!(last[i % 3].replace(i) < Some(i));
            lines.took(Duration::from_micros(400));
        }
        assert_eq!(last, [Some(597), Some(598), Some(599)]);
    }
}
