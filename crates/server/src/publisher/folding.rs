//! When what is laid over the image is folded into a new one: once nothing has changed for a while, and now and then though it has; sooner where a
//! start would not know what is served.

use crate::config::Config;
use crate::failures::Failures;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long nothing may have changed before what is laid over an image is folded into a new one: at least so long, and so
/// long for each MiB of the image, so that building takes a small part of the time however large it is.
const AFTER: Duration = Duration::from_secs(10);
const AFTER_MIB: Duration = Duration::from_secs(1);
/// So many times as long what is laid over it may become more without a pause.
const ANYWAY: u32 = 10;
/// So many times as long as the last one took none is begun because a version was spoilt or held, or because it failed.
const REST: u32 = 8;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Haste {
    None,
    /// A zone is served as no file says it, nor the image, nor perhaps the history: that is folded before anything else is done.
    Soon,
    /// A zone is served as no file says it, and the history cannot say it either: as updates had made it that are not its owner any more, or it has come since
    /// there was an image. That is folded before whoever has asked for what brought it is told.
    Now,
}

pub struct Folding {
    /// By which configuration, and since when there is something to be folded.
    due: Option<(Arc<Config>, Instant)>,
    haste: Haste,
    /// When anything has changed last.
    changed: Instant,
    /// The history has all that has come to be served since there was an image of all.
    is_remembered: bool,
    /// When the last fold ended, and how long it took.
    last: Option<(Instant, Duration)>,
    /// Images that could not be made since one could.
    failures: Failures,
}

impl Folding {
    pub fn new(now: Instant) -> Folding {
        Folding {
            due: None,
            haste: Haste::None,
            changed: now,
            is_remembered: true,
            last: None,
            failures: Failures::default(),
        }
    }

    pub fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// Something is laid over the image.
    pub fn lay(&mut self, config: &Arc<Config>, now: Instant) {
        let since = self.due.as_ref().map_or(now, |(_, since)| *since);
        self.due = Some((Arc::clone(config), since));
    }

    /// What is folded later is folded as the last configuration has it: an earlier one may say otherwise whose a zone is.
    pub fn follow(&mut self, config: &Arc<Config>) {
        self.due.iter_mut().for_each(|(due, _)| *due = Arc::clone(config));
    }

    pub fn change(&mut self, now: Instant) {
        self.changed = now;
    }

    pub fn hurry(&mut self, haste: Haste) {
        self.haste = self.haste.max(haste);
    }

    /// What has just come to be served, and is laid over the image, is in the history; or is not.
    pub fn remember(&mut self, is_remembered: bool) {
        self.is_remembered &= is_remembered || self.due.is_none();
    }

    /// A fold begins; None: there is nothing to be folded.
    pub fn begin(&mut self) -> Option<Arc<Config>> {
        self.haste = Haste::None;
        self.due.as_ref().map(|(config, _)| Arc::clone(config))
    }

    pub fn end(&mut self, begun: Instant, now: Instant) {
        (self.last, self.changed) = (Some((now, now - begun)), now);
    }

    /// An image of all was made, or could not be. That is tried again, like a fold: of zones that are served from it only nothing can be laid.
    pub fn have_built(&mut self, config: &Arc<Config>, is_built: bool, now: Instant) {
        if is_built {
            *self = Folding { changed: self.changed, last: self.last, ..Folding::new(now) };
        } else {
            self.failures.add(now);
            self.lay(config, now);
        }
    }

    /// Whether it comes before whoever has asked is told.
    pub fn is_needed(&self, now: Instant) -> bool {
        self.haste == Haste::Now && self.is_urgent(now)
    }

    /// Whether it comes before anything else that there is to do.
    pub fn is_urgent(&self, now: Instant) -> bool {
        self.is_due() && self.rest(now).is_some_and(|rest| rest.is_zero())
    }

    /// How long to wait before a fold, if nothing else is to be done; None: there is nothing to be folded.
    pub fn pause(&self, image_size: u64, now: Instant) -> Option<Duration> {
        let (_, since) = self.due.as_ref()?;
        let mib = u32::try_from(image_size >> 20).unwrap_or(u32::MAX);
        let left = |from: Instant, pause: Duration| pause.saturating_sub(now - from);
        let pause = match self.failures.rest(now) {
            // What goes on may be of other zones.
            Some(rest) => rest.max(self.rested(REST, now)),
            None => {
                let pause = AFTER.max(AFTER_MIB * mib);
                left(self.changed, pause).min(left(*since, pause * ANYWAY))
            }
        };
        Some(self.rest(now).map_or(pause, |rest| rest.min(pause)))
    }

    /// How long to wait before one that is not to wait; None: there is none. Whoever writes good and bad versions in turns has not one image after
    /// the other made, where the history says meanwhile what was served.
    fn rest(&self, now: Instant) -> Option<Duration> {
        let times = match self.haste {
            Haste::None => return None,
            Haste::Soon if self.is_remembered => REST,
            Haste::Soon => 0,
            // For half of the time something else can be done.
            Haste::Now => 1,
        };
        Some(self.rested(times, now).max(self.failures.rest(now).unwrap_or_default()))
    }

    /// What is left of a rest of so many times as long as the last one took.
    fn rested(&self, times: u32, now: Instant) -> Duration {
        self.last.map_or(Duration::ZERO, |(ended, took)| (took * times).saturating_sub(now - ended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Seconds of the test's clock.
    struct Clock(Instant);

    impl Clock {
        fn at(&self, s: u64) -> Instant {
            self.0 + Duration::from_secs(s)
        }

        /// How many seconds are left.
        fn pause(&self, folding: &Folding, mib: u64, s: u64) -> Option<u64> {
            folding.pause(mib * MIB, self.at(s)).map(|pause| pause.as_secs())
        }
    }

    fn laid() -> (Folding, Clock, Arc<Config>) {
        let (clock, config) = (Clock(Instant::now()), Arc::new(Config::default()));
        let mut folding = Folding::new(clock.at(0));
        assert_eq!((clock.pause(&folding, 1, 100), folding.begin().is_some()), (None, false), "nothing to fold");
        folding.lay(&config, clock.at(0));
        (folding, clock, config)
    }

    #[test]
    fn what_is_laid_waits_until_nothing_changes_but_not_for_ever() {
        let (mut folding, clock, config) = laid();
        assert_eq!([1, 10, 60].map(|mib| clock.pause(&folding, mib, 4)), [Some(6), Some(6), Some(56)]);
        folding.change(clock.at(8));
        assert_eq!(clock.pause(&folding, 1, 9), Some(9));
        for s in 9..=99 {
            folding.lay(&config, clock.at(s));
            folding.change(clock.at(s));
            assert!(clock.pause(&folding, 1, s) > Some(0), "at {s}");
        }
        assert_eq!(clock.pause(&folding, 1, 100), Some(0), "ten times as long");
        assert!(!folding.is_urgent(clock.at(100)), "and what there is to do is done before");
        folding.have_built(&config, true, clock.at(101));
        assert_eq!(clock.pause(&folding, 1, 101), None);
    }

    #[test]
    fn what_failed_is_tried_again_soon_and_then_more_seldom_whatever_changes() {
        let (mut folding, clock, config) = laid();
        folding.have_built(&config, false, clock.at(5));
        folding.change(clock.at(5));
        assert_eq!([1, 100].map(|mib| clock.pause(&folding, mib, 5)), [Some(1), Some(1)]);
        folding.have_built(&config, false, clock.at(6));
        assert_eq!(clock.pause(&folding, 1, 6), Some(2));
        // Where it takes long before it fails, that is a small part of the time.
        folding.end(clock.at(2), clock.at(7));
        assert_eq!(clock.pause(&folding, 1, 8), Some(39));
        folding.have_built(&config, true, clock.at(65));
        folding.lay(&config, clock.at(66));
        folding.change(clock.at(66));
        assert_eq!(clock.pause(&folding, 1, 66), Some(10));
        // Nothing was laid over one that could not be made.
        folding.have_built(&config, true, clock.at(70));
        folding.have_built(&config, false, clock.at(80));
        assert_eq!(clock.pause(&folding, 1, 80), Some(1));
    }

    #[test]
    fn in_haste_it_comes_first_and_rests_between() {
        let (mut folding, clock, config) = laid();
        folding.hurry(Haste::Soon);
        folding.hurry(Haste::None);
        assert!(folding.is_urgent(clock.at(1)) && !folding.is_needed(clock.at(1)));
        // One that takes two seconds: no other for sixteen, where the history has what is served.
        let fold = |folding: &mut Folding, s: u64| {
            assert!(folding.begin().is_some() && !folding.is_urgent(clock.at(s)));
            folding.have_built(&config, true, clock.at(s + 2));
            folding.end(clock.at(s), clock.at(s + 2));
            folding.lay(&config, clock.at(s + 2));
            folding.hurry(Haste::Soon);
        };
        fold(&mut folding, 1);
        folding.remember(true);
        assert!(!folding.is_urgent(clock.at(18)) && folding.is_urgent(clock.at(19)));
        assert_eq!(clock.pause(&folding, 100, 10), Some(9));
        folding.remember(false);
        assert!(folding.is_urgent(clock.at(10)));
        fold(&mut folding, 20);
        assert!(!folding.is_urgent(clock.at(23)), "an image has it");
        folding.hurry(Haste::Now);
        assert!(!folding.is_needed(clock.at(23)) && folding.is_needed(clock.at(24)), "as long as it took");
        // On a full disk one would follow the other.
        let (mut folding, ..) = laid();
        folding.remember(false);
        (0..7).for_each(|_| folding.have_built(&config, false, clock.at(30)));
        folding.hurry(Haste::Soon);
        assert!(!folding.is_urgent(clock.at(89)) && folding.is_urgent(clock.at(90)));
        assert_eq!(clock.pause(&folding, 1, 60), Some(30));
    }
}
