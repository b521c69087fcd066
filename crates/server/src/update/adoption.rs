//! Zones that are to take updates from now on: each is written down as it is served, on a thread of its own, for with a large one
//! that takes seconds. The updates' thread, which carries on meanwhile, then only gives the file its name.
//!
//! Bound: one zone at a time is written, and two wait for their names.

use crate::answering::queue::{Receiver, Sender, bounded};
use crate::images::laying::{self, Seen};
use crate::images::sound::Sound;
use crate::log;
use crate::publisher::press::Press;
use crate::update::ledger;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::atomic::Prepared;

/// A zone that is written.
pub struct Written {
    pub apex: Box<[u8]>,
    /// As it was served then, and its file. None: it was not.
    pub file: Option<(Seen, io::Result<Prepared>)>,
}

/// Zones as they are written. Who takes one says `next`.
pub struct Ready {
    pub zones: Receiver<Written>,
    next: Sender<()>,
}

impl Ready {
    pub fn next(&self) {
        // All are written.
        let _ = self.next.try_send(());
    }
}

/// Begins with these. `position`: where the journal ends; it has nothing of these zones from there on. Err: no thread can be started.
pub fn begin(press: Arc<Press>, data_dir: PathBuf, zones: Vec<Box<[u8]>>, position: u64) -> io::Result<Ready> {
    let ((done, ready), (next, wanted)) = (bounded(2), bounded(2));
    let ready = Ready { zones: ready, next };
    (0..2).for_each(|_| ready.next());
    let work = move || {
        if let Err(e) = net::sched::modest() {
            log::warn("zones that are to take updates compete with answering threads", &[("why", &e)]);
        }
        // Once for all of them.
        Sound::compared(&press.current().image);
        // None: nobody waits for them any more.
        let next = |apex| wanted.recv().and_then(|()| write(&press, &data_dir, apex, position, &done));
        let _ = zones.into_iter().try_for_each(next);
        drop(done);
        press.wake();
    };
    std::thread::Builder::new().name("adoption".to_string()).spawn(work)?;
    Ok(ready)
}

/// None: nobody waits for more.
fn write(press: &Press, data_dir: &Path, apex: Box<[u8]>, position: u64, done: &Sender<Written>) -> Option<()> {
    let now = press.current();
    let sound = Sound::as_known(&now.image);
    let zone = laying::zone(now.image.view(), &apex);
    let served = zone.and_then(|zone| Some((Seen::of(&now.image, &zone)?, zone)));
    let file = served.map(|(seen, zone)| (seen, ledger::prepare_zone(data_dir, &sound, &zone, &apex, position)));
    drop(now);
    done.try_send(Written { apex, file }).ok()?;
    press.wake();
    Some(())
}
