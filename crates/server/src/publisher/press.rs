//! The one place where what is served changes: whoever lays something over the image, or puts another in its place, holds
//! the press while he does so, and nobody else's change gets lost in between.
//!
//! Where zones take updates it is held by their thread alone. Who works in the background and needs it hands over what is to be
//! done, and the updates' thread does it between two groups: for whoever gets the CPU only when nobody else wants it might hold
//! the press for as long as that, and an update would wait for him (docs/decisions/0016 says what may wait for what).
//!
//! What updates have changed is laid over each image that was built from files before it is published: most of it while
//! updates go on, and with the press held only what has come since.

use crate::failures::Failures;
use crate::images::laying::{self, Put, Unlaid};
use crate::images::names;
use crate::log;
use crate::publisher::shares::Shares;
use crate::scribe::slate::{Notes, Slate};
use crate::update::intake::Intake;
use crate::update::novices::Novices;
use crate::update::unwritten::{After, Unwritten, Wish};
use front::locks::hold;
use front::{Published, Retired, Zones};
use image::Image;
use image::followers::{Followers, Queue};
use image::patch::Limits;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use store::Stretch;
use wire::rtype::ZONEMD;

/// Names that are laid while updates wait.
const LAST_NAMES: usize = 256;
/// What changes of names draw in while updates wait, 7 us a name, those of all zones together: names that they hide or show; and, in one go, those that
/// carry addresses of hosts which change.
const LIMITS: Limits = Limits { hidden: 10_000, followers: 2048 };
/// How long after a change the digest of a zone is made anew: before all that has changed is folded into a new image.
pub const DIGEST_AFTER: Duration = Duration::from_secs(5);
/// Rounds in which names are laid over an image that is to take another's place, while updates go on; each is for what came during the one before.
const ROUNDS_MAX: usize = 16;
/// So long whoever has other things to do waits until something is done with the press held.
const SOON: Duration = Duration::from_secs(10);

pub struct Press {
    published: Arc<Published<Zones<Stretch>>>,
    books: Mutex<Books>,
    /// Of the thread that carries out updates, from when it is there.
    hands: OnceLock<Intake>,
    /// Zones that are served otherwise than their files say.
    pub slate: Slate,
    pub limits: Limits,
}

/// What whoever holds the press may change.
#[derive(Default)]
pub struct Books {
    pub unwritten: Unwritten,
    /// What is not on the slate yet.
    pub notes: Notes,
    /// Names that carry addresses of hosts as they were.
    pub left: Queue,
    pub shares: Shares,
    /// Zones that are to take updates, and do not yet.
    pub novices: Novices,
    /// Zones of which something is durable that takes a new image to be served. They take no change until then.
    pub owed: BTreeSet<Box<[u8]>>,
    /// No zone takes a change until then: nothing can be laid over the image, for the room behind it is used up or it is damaged.
    pub is_full: bool,
    /// Images for what is owed that could not be made: forgotten when more comes to be owed.
    pub failures: Failures,
}

impl Books {
    /// Whether the zone takes no change until another one is served.
    pub fn owes(&self, apex: &[u8]) -> bool {
        self.is_full || self.owed.contains(apex)
    }

    /// Whether it is worth to wait: a new image is made, or soon will be. On a full disk whoever wants more is told that he cannot have it.
    pub fn are_hopeful(&self) -> bool {
        !self.failures.are_recent(Instant::now())
    }

    /// What is owed is served. Only now: before, who writes files back would have found them as they should be.
    pub fn pay(&mut self) {
        (self.is_full, self.failures) = (false, Failures::default());
        for apex in std::mem::take(&mut self.owed) {
            self.notes.change(&apex);
            self.notes.digest(&apex);
            // It may have been an edit, and somebody waits for it.
            self.notes.look(&apex);
        }
    }
}

/// What is laid, and not served yet.
pub struct Unserved {
    /// Over this.
    now: Arc<Zones<Stretch>>,
    /// None: nothing is to be laid.
    laid: Option<Put>,
    /// What takes a new image.
    pub unlaid: Option<Unlaid>,
}

impl Unserved {
    /// True if this zone's changes are laid.
    pub fn has(&self, apex: &[u8]) -> bool {
        self.unlaid.as_ref().is_none_or(|unlaid| !unlaid.is_about(apex))
    }
}

/// An image that does not take what has come since, and why.
type Unfinished = (Unlaid, Box<Zones<Stretch>>);

/// Something to be done with the press held.
pub type Work = Box<dyn FnOnce(&Press, &mut Books) + Send>;

impl Press {
    pub fn new(published: Arc<Published<Zones<Stretch>>>, unwritten: Unwritten) -> Press {
        let books = Books { unwritten, ..Books::default() };
        Press { published, books: Mutex::new(books), hands: OnceLock::new(), slate: Slate::default(), limits: LIMITS }
    }

    /// Of these zones something is durable that is not served yet.
    pub fn owing(self, zones: Vec<Box<[u8]>>) -> Press {
        self.hold().owed.extend(zones);
        self
    }

    /// From now on somebody carries out updates, who does what others hand over.
    pub fn employ(&self, intake: Intake) {
        // Only one does.
        let _ = self.hands.set(intake);
    }

    /// Has something done with the press held, and waits until it is.
    pub fn have_done<T: Send + 'static>(&self, work: impl FnOnce(&Press, &mut Books) -> T + Send + 'static) -> T {
        // If that thread has ended, the server stops.
        self.hand_over(work).recv().unwrap_or_else(|_| park())
    }

    /// The same for who may not wait for a disk that stands still: it may be done later then, or never. None: it was not done in time.
    pub fn have_done_soon<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Press, &mut Books) -> T + Send + 'static,
    ) -> Option<T> {
        self.hand_over(work).recv_timeout(SOON).ok()
    }

    /// Has something done with the press held: at once, or by the thread that carries out updates.
    fn hand_over<T: Send + 'static>(&self, work: impl FnOnce(&Press, &mut Books) -> T + Send + 'static) -> Receiver<T> {
        let (done, outcome) = channel();
        // Nobody is left to be told if the one who waits is gone.
        let work = move |press: &Press, books: &mut Books| _ = done.send(work(press, books));
        match self.hands.get() {
            Some(hands) => hands.lend(Box::new(work)),
            None => work(self, &mut self.hold()),
        }
        outcome
    }

    /// Whoever carries out updates has a look whether what he waits for has come.
    pub fn wake(&self) {
        if let Some(hands) = self.hands.get() {
            hands.lend(Box::new(|_, _| {}));
        }
    }

    pub fn hold(&self) -> MutexGuard<'_, Books> {
        hold(&self.books)
    }

    pub fn current(&self) -> Arc<Zones<Stretch>> {
        self.published.current().0
    }

    /// Has something else served.
    pub fn publish(&self, next: Zones<Stretch>) -> Retired<Zones<Stretch>> {
        self.published.publish(next)
    }

    /// Lays what a change leaves over what is served, of each zone all or none. Of names that carry addresses of hosts which change many are left to
    /// `follow`.
    pub fn lay(&self, books: &Books, after: &After) -> Unserved {
        let now = self.current();
        let wishes = match after {
            After::Wishes(wishes) => wishes,
            After::Sheet(apex, _) => {
                let why = "more names have changed than are laid while updates wait".to_string();
                return Unserved { now, laid: None, unlaid: Some(Unlaid { zones: vec![apex.clone()], why }) };
            }
        };
        let greedy: Vec<Box<[u8]>> = books.shares.greedy(&now.image, wishes).into_iter().map(Into::into).collect();
        if greedy.is_empty() {
            let (laid, unlaid) = self.over(&now.image, wishes);
            return Unserved { now, laid, unlaid };
        }
        let others: Vec<Wish> = wishes.iter().filter(|wish| !greedy.contains(&wish.apex)).cloned().collect();
        let (laid, unlaid) = self.over(&now.image, &others);
        let why = "the room behind the image is nearly used up, and these have had their part of it".to_string();
        let unlaid = match unlaid {
            // Nobody's is.
            Some(unlaid) if unlaid.zones.is_empty() => unlaid,
            Some(Unlaid { zones, why }) => Unlaid { zones: [zones, greedy].concat(), why },
            None => Unlaid { zones: greedy, why },
        };
        Unserved { now, laid, unlaid: Some(unlaid) }
    }

    fn over(&self, now: &Image<Stretch>, wishes: &[Wish]) -> (Option<Put>, Option<Unlaid>) {
        match laying::over(now, wishes, self.limits) {
            Ok(laid) => (laid, None),
            Err(unlaid) if unlaid.zones.is_empty() => (None, Some(unlaid)),
            Err(_) => laying::each_over(now, wishes, self.limits),
        }
    }

    /// Has what was laid served: one pointer store; the rest is owed. Nobody else has held the press since.
    pub fn serve(&self, books: &mut Books, after: &After, unserved: Unserved) -> Option<Retired<Zones<Stretch>>> {
        let (laid, owed): (Vec<&Wish>, Vec<&Wish>) = after.wishes().iter().partition(|wish| unserved.has(&wish.apex));
        books.owed.extend(owed.into_iter().map(|wish| wish.apex.clone()));
        books.owed.extend(unserved.unlaid.iter().flat_map(|unlaid| unlaid.zones.clone()));
        books.is_full |= unserved.unlaid.as_ref().is_some_and(|unlaid| unlaid.zones.is_empty());
        let retired = unserved.laid.map(|Put { image, left, .. }| {
            left.into_iter().for_each(|left| books.left.push(left));
            let octets = image.bytes().end() - unserved.now.image.bytes().end();
            books.shares.take(laid.iter().copied(), octets);
            self.publish(unserved.now.with(image))
        });
        let has_digest =
            |wish: &&Wish| wish.names.get(&wish.apex).is_some_and(|all| all.iter().any(|r| r.rtype == ZONEMD));
        laid.iter().for_each(|wish| books.notes.change(&wish.apex));
        laid.into_iter().filter(has_digest).for_each(|wish| books.notes.digest(&wish.apex));
        self.note(books);
        retired
    }

    /// Lays some of the names that were left, as their zone is now, and has that served.
    pub fn follow(&self, books: &mut Books) -> Option<Retired<Zones<Stretch>>> {
        let now = self.current();
        let turn = books.left.next(now.image.view(), self.limits.followers)?;
        if turn.0.is_empty() {
            return None;
        }
        match laying::again(&now.image, &turn) {
            Ok(image) => Some(self.publish(now.with(image))),
            Err(unlaid) => {
                let facts: [(&str, &dyn std::fmt::Display); 2] =
                    [("why", &unlaid.why), ("zones", &names(turn.0.keys()))];
                log::info("names that an address leaves to be laid wait for a new image", &facts);
                books.left.give_up();
                None
            }
        }
    }

    /// Puts on the slate what has changed. False: it is in somebody's hands, for whom nobody waits here.
    pub fn note(&self, books: &mut Books) -> bool {
        let now = Instant::now();
        self.slate.take(&mut books.notes, now, now + DIGEST_AFTER)
    }

    /// Publishes an image that was built from files, with what updates have changed since these were written.
    pub fn replace(&self, mut next: Zones<Stretch>) -> Result<Retired<Zones<Stretch>>, Unlaid> {
        let (mut done, mut round, mut is_much) = (0, 0, false);
        loop {
            let (changed, end) = self.have_done(move |_, books| (books.unwritten.since(done), books.unwritten.end()));
            round += 1;
            if round <= ROUNDS_MAX && (changed.names() > LAST_NAMES || is_much) {
                over(&mut next.image, &changed.wishes(), Limits::MOST)?;
                (done, is_much) = (end, false);
                continue;
            }
            match self.have_done(move |press, books| press.finish(next, done, books)) {
                Ok(retired) => return Ok(retired),
                // If it was built in vain it is let go of here, where nobody waits.
                Err((unlaid, _)) if round > ROUNDS_MAX => return Err(unlaid),
                // A few names may hide more than is laid while updates wait.
                Err((_, back)) => (next, is_much) = (*back, true),
            }
        }
    }

    /// Publishes an image that has what was changed until the journal ended there.
    fn finish(
        &self,
        mut next: Zones<Stretch>,
        done: u64,
        books: &mut Books,
    ) -> Result<Retired<Zones<Stretch>>, Unfinished> {
        let left = match over(&mut next.image, &books.unwritten.since(done).wishes(), self.limits) {
            Ok(left) => left,
            Err(unlaid) => return Err((unlaid, Box::new(next))),
        };
        let retired = self.publish(next);
        books.pay();
        (books.left, books.shares) = (Queue::default(), Shares::default());
        left.into_iter().for_each(|left| books.left.push(left));
        // Of what was owed until now nobody has been told yet.
        books.unwritten.behind().for_each(|apex| books.notes.change(apex));
        self.note(books);
        Ok(retired)
    }
}

fn over(image: &mut Image<Stretch>, wishes: &[Wish], limits: Limits) -> Result<Vec<Followers>, Unlaid> {
    let Some(laid) = laying::over(image, wishes, limits)? else { return Ok(vec![]) };
    *image = laid.image;
    Ok(laid.left)
}

fn park() -> ! {
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::intake;
    use crate::update::unwritten::Sheet;
    use image::edit::Record;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::sync::mpsc::TryRecvError;
    use std::time::Duration;
    use wire::rtype::{A, NS};

    static COUNT: AtomicU32 = AtomicU32::new(0);
    const APEX: &[u8] = b"\x01z\0";
    const OWNER: &[u8] = b"\x01a\x01z\0";

    fn press() -> (Arc<Press>, Zones<Stretch>) {
        let (octets, _) = sim::image_of(
            &["z.", "y."]
                .map(|zone| (zone, "@ 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\nn.b 60 A 192.0.2.2")),
        );
        let path =
            std::env::temp_dir().join(format!("dunlin-press-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed)));
        std::fs::write(&path, octets).unwrap();
        let map = || Stretch::of(store::Map::copy_to_memory(&path, 1 << 20).unwrap());
        let zones = || Zones::of(Image::open_to_serve(map(), |_| 0).unwrap());
        let press = Press::new(Arc::new(Published::new(zones())), Unwritten::default());
        let next = zones();
        std::fs::remove_file(&path).unwrap();
        (Arc::new(press), next)
    }

    fn after() -> After {
        After::Wishes(wishes())
    }

    fn wishes() -> Vec<Wish> {
        let names = [(OWNER.into(), vec![Record { rtype: A, ttl: 60, rdata: [192, 0, 2, 7][..].into() }])];
        vec![Wish { apex: APEX.into(), names: names.into() }]
    }

    #[test]
    fn what_was_laid_and_not_served_is_in_nobodys_way() {
        let (press, _) = press();
        for _ in 0..2 {
            let now = press.current();
            assert!(laying::over(&now.image, &wishes(), Limits::MOST).is_ok_and(|laid| laid.is_some()));
        }
        let mut books = press.hold();
        let names = wishes().remove(0).names;
        for (after, is_laid) in [(After::Sheet(APEX.into(), Sheet::of(names)), false), (after(), true)] {
            let unserved = press.lay(&books, &after);
            assert_eq!(unserved.has(APEX), is_laid);
            press.serve(&mut books, &after, unserved);
            assert!(books.owes(APEX), "what was too much is owed until there is another image");
        }
        let now = press.current();
        assert!(laying::zone(now.image.view(), APEX).unwrap().node(OWNER).unwrap().is_some());
    }

    /// One change after the other of a name that is long, and between them what others do.
    #[test]
    fn who_has_used_much_of_the_room_leaves_the_rest_to_others() {
        let (press, next) = press();
        let long = |turn: u8| -> Vec<Record> {
            (0..100)
                .map(|n| Record { rtype: 16, ttl: 60, rdata: [vec![255; 1], vec![n; 254], vec![turn]].concat().into() })
                .collect()
        };
        let change = |apex: &[u8], records: Vec<Record>| {
            let names = [([b"\x01a", apex].concat().into(), records)];
            After::Wishes(vec![Wish { apex: apex.into(), names: names.into() }])
        };
        let short = || vec![Record { rtype: A, ttl: 60, rdata: [192, 0, 2, 7][..].into() }];
        let mut books = press.hold();
        let serve = |books: &mut Books, after: &After| {
            let unserved = press.lay(books, after);
            press.serve(books, after, unserved);
        };
        let mut turns = 0;
        while !books.owes(APEX) {
            serve(&mut books, &change(APEX, long(turns)));
            serve(&mut books, &change(b"\x01y\0", short()));
            turns += 1;
        }
        let room = press.current().image.bytes().map().room();
        let used = press.current().image.bytes().end() - room.start;
        assert!(used.abs_diff(room.len() / 4 * 3) < 64 << 10, "{used} octets, {turns} turns");
        assert!(!books.is_full && !books.owes(b"\x01y\0"));
        // Others go on, also in one group with it, until a new image is there.
        books.owed.clear();
        let (After::Wishes(theirs), After::Wishes(others)) = (change(APEX, long(0)), change(b"\x01y\0", long(1)))
        else {
            panic!("wishes")
        };
        let both = After::Wishes([theirs, others].concat());
        let unserved = press.lay(&books, &both);
        assert_eq!([APEX, b"\x01y\0"].map(|apex| unserved.has(apex)), [false, true]);
        press.serve(&mut books, &both, unserved);
        assert!(books.owes(APEX) && !books.owes(b"\x01y\0") && !books.is_full);
        let now = press.current();
        let texts = |apex: &[u8]| {
            let node = laying::zone(now.image.view(), apex).unwrap().node(&[b"\x01a", apex].concat()).unwrap().unwrap();
            image::edit::records_of(&node, &[b"\x01a", apex].concat()).unwrap()
        };
        assert_eq!(texts(b"\x01y\0"), long(1));
        assert_ne!(texts(APEX), long(0));
        drop((now, books));
        assert!(press.replace(next).is_ok() && !press.hold().owes(APEX));
        let mut books = press.hold();
        serve(&mut books, &change(APEX, long(0)));
        assert!(!books.owes(APEX), "it begins anew");
    }

    #[test]
    fn what_hides_more_than_is_laid_while_updates_wait_is_laid_before() {
        let (mut press, next) = press();
        Arc::get_mut(&mut press).unwrap().limits.hidden = 0;
        let cut =
            [(b"\x01b\x01z\0"[..].into(), vec![Record { rtype: NS, ttl: 60, rdata: b"\x02ns\x01z\0"[..].into() }])];
        let cut = vec![Wish { apex: APEX.into(), names: cut.into() }];
        let (after, mut books) = (After::Wishes(cut.clone()), press.hold());
        let unserved = press.lay(&books, &after);
        assert!(unserved.unlaid.is_some() && press.serve(&mut books, &after, unserved).is_none());
        books.unwritten.add(cut, 1);
        assert!(books.owes(APEX) && !books.owes(b"\x01y\0"));
        drop(books);
        let (intake, orders) = intake::pair();
        press.employ(intake);
        let (background, (done, outcome)) = (Arc::clone(&press), channel());
        std::thread::spawn(move || done.send(background.replace(next).is_ok()).unwrap());
        let mut works = 0;
        while let Err(TryRecvError::Empty) = outcome.try_recv() {
            let Some(work) = orders.lent(Duration::from_millis(10)) else { continue };
            work(&press, &mut press.hold());
            works += 1;
        }
        assert_eq!(works, 5, "a look; in vain; a look, and it is laid; a look; and done");
        assert!(!press.hold().owes(APEX));
        let now = press.current();
        let node = laying::zone(now.image.view(), APEX).unwrap().node(b"\x01b\x01z\0").unwrap().unwrap();
        assert!(node.rrset(NS).unwrap().is_some());
    }

    #[test]
    fn whoever_puts_another_image_in_place_keeps_no_update_waiting() {
        let ((press, next), (intake, orders)) = (press(), intake::pair());
        press.employ(intake);
        let (background, (done, outcome)) = (Arc::clone(&press), channel());
        std::thread::spawn(move || done.send(background.replace(next).is_ok()).unwrap());
        // He does nothing more now until somebody does it for him, as if he did not get the CPU.
        let mut work = orders.lent(Duration::from_secs(60));
        let (after, mut books) = (after(), press.books.try_lock().expect("nobody holds the press"));
        let unserved = press.lay(&books, &after);
        press.serve(&mut books, &after, unserved);
        books.unwritten.add(wishes(), 1);
        drop(books);
        let is_replaced = loop {
            if let Some(work) = work {
                work(&press, &mut press.hold());
            }
            match outcome.try_recv() {
                Ok(is_replaced) => break is_replaced,
                Err(_) => work = orders.lent(Duration::from_millis(10)),
            }
        };
        assert!(is_replaced);
        let now = press.current();
        let zone = laying::zone(now.image.view(), APEX).unwrap();
        assert!(zone.node(OWNER).unwrap().is_some(), "what was changed meanwhile is in the new image, too");
    }
}
