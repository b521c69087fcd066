//! The one place where what is served changes: whoever lays something over the image, or puts another in its place, holds
//! the press while he does so, and nobody else's change gets lost in between.
//!
//! What updates have changed is laid over each image that was built from files before it is published: most of it while
//! updates go on, and with the press held only what has come since.

use crate::hosts::{Hosts, Named};
use crate::images;
use crate::laying::{self, Unlaid};
use crate::slate::Slate;
use crate::unwritten::{Unwritten, Wish};
use front::{Published, Retired, Zones};
use image::{Damaged, Image};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::Stretch;
use wire::rtype::ZONEMD;

/// Names that are laid while updates wait.
const LAST_NAMES: usize = 256;
/// How long after a change the digest of a zone is made anew: before all that has changed is folded into a new image.
pub const DIGEST_AFTER: Duration = Duration::from_secs(5);
/// Rounds in which they do not; each is for what came during the one before.
const ROUNDS_MAX: usize = 16;

pub struct Press {
    published: Arc<Published<Zones<Stretch>>>,
    books: Mutex<Books>,
    /// Zones that are served otherwise than their files say.
    pub slate: Slate,
}

/// What whoever holds the press may change.
#[derive(Default)]
pub struct Books {
    pub unwritten: Unwritten,
    /// Of zones that updates change.
    pub hosts: Hosts,
}

impl Press {
    /// Looks through a zone for the hosts that it names, while updates go on. Err: it is damaged.
    pub fn learn_hosts(&self, apex: &[u8]) -> Result<(), Damaged> {
        loop {
            let (now, end) = {
                let books = self.hold();
                (self.current(), books.unwritten.end())
            };
            let Some(zone) = laying::zone(now.image.view(), apex) else { return Ok(()) };
            let named = Named::of(&zone, images::seed())?;
            let mut held = self.hold();
            let books = &mut *held;
            // What has come meanwhile is among what is unwritten, unless that was written meanwhile.
            if !books.unwritten.is_settled_since(apex, end) {
                books.hosts.know(apex, named);
                let records = books.unwritten.records(apex);
                records.for_each(|r| books.hosts.learn(apex, r.rtype, &r.rdata));
                return Ok(());
            }
        }
    }

    pub fn new(published: Arc<Published<Zones<Stretch>>>, unwritten: Unwritten) -> Press {
        Press { published, books: Mutex::new(Books { unwritten, hosts: Hosts::default() }), slate: Slate::default() }
    }

    pub fn hold(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn current(&self) -> Arc<Zones<Stretch>> {
        self.published.current().0
    }

    /// Lays names over what is served, and has that served: one pointer store.
    pub fn lay(&self, books: &Books, wishes: &[Wish]) -> Result<Option<Retired<Zones<Stretch>>>, Unlaid> {
        let now = self.current();
        for wish in wishes {
            let records = wish.names.values().flatten();
            records.for_each(|r| books.hosts.learn(&wish.apex, r.rtype, &r.rdata));
        }
        let laid = laying::over(&now.image, wishes, &books.hosts)?;
        let next = laid.map(|image| Zones { image, allow_query: Arc::clone(&now.allow_query) });
        let retired = next.map(|zones| self.published.publish(zones));
        self.slate.note(wishes.iter().map(|wish| &*wish.apex), Instant::now());
        let has_digest =
            |wish: &&Wish| wish.names.get(&wish.apex).is_some_and(|all| all.iter().any(|r| r.rtype == ZONEMD));
        self.slate.renew(wishes.iter().filter(has_digest).map(|wish| &*wish.apex), Instant::now() + DIGEST_AFTER);
        Ok(retired)
    }

    /// Publishes an image that was built from files, with what updates have changed since these were written.
    pub fn replace(&self, mut next: Zones<Stretch>) -> Result<Retired<Zones<Stretch>>, Unlaid> {
        let mut done = 0;
        for _ in 0..ROUNDS_MAX {
            let (wishes, end, hosts) = {
                let books = self.hold();
                (books.unwritten.since(done), books.unwritten.end(), books.hosts.clone())
            };
            let is_little = wishes.iter().map(|w| w.names.len()).sum::<usize>() <= LAST_NAMES;
            if is_little {
                break;
            }
            next.image = over(next.image, &wishes, &hosts)?;
            done = end;
        }
        let books = self.hold();
        next.image = over(next.image, &books.unwritten.since(done), &books.hosts)?;
        let retired = self.published.publish(next);
        // Of what was owed until now nobody has been told yet.
        self.slate.note(books.unwritten.apexes(), Instant::now());
        Ok(retired)
    }
}

fn over(image: Image<Stretch>, wishes: &[Wish], hosts: &Hosts) -> Result<Image<Stretch>, Unlaid> {
    Ok(laying::over(&image, wishes, hosts)?.unwrap_or(image))
}
