//! Which of the zones that come from others cannot be answered for now: not there yet, or expired.
//!
//! Made when the configuration is read; after that only marks change, each by itself, so that what happens to one zone costs
//! nothing for the others. A worker looks at a mark only while there is a zone that is absent at all.
//!
//! And whose NOTIFYs are handed on: those of the zone's primaries, one at a time of each, so that whoever sends any number of
//! them under whatever address takes no place of the others.

use crate::Unserved;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};
use transfer::tsig::{self, Keys};
use wire::hash::siphash;

/// How a zone is that comes from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    Present,
    /// It has never come, or what has come cannot be used.
    Awaited,
    /// Nobody could say for too long that it is as it should be (RFC 1034 section 4.3.5).
    Expired,
}

const MARKS: [Mark; 3] = [Mark::Present, Mark::Awaited, Mark::Expired];

/// Why a zone, of others or our own, cannot be answered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    Awaited,
    Expired,
    Unserved,
}

/// A primary of a zone, as the sender of NOTIFYs.
#[derive(Debug)]
pub struct Caller {
    ip: IpAddr,
    /// It need not sign.
    is_open: bool,
    /// Those that it may sign with.
    keys: Keys,
    is_waiting: AtomicBool,
}

impl Caller {
    pub fn new(ip: IpAddr, is_open: bool, keys: Keys) -> Arc<Caller> {
        Arc::new(Caller { ip, is_open, keys, is_waiting: AtomicBool::new(false) })
    }

    /// A NOTIFY says to be of this address, and nothing speaks against it. Takes no lock: the keys are its own.
    pub fn is_credible(&self, message: &[u8], now_s: u64) -> bool {
        match tsig::check_request(message, &self.keys, now_s) {
            Ok(signed) => signed.is_some() || self.is_open,
            Err(_) => false,
        }
    }

    /// True if none of its NOTIFYs waits; from now on one does.
    pub fn takes_place(&self) -> bool {
        !self.is_waiting.swap(true, Relaxed)
    }

    /// Its NOTIFY does not wait any more, and has not been looked at yet: what comes from now on is another one.
    pub fn leaves_place(&self) {
        self.is_waiting.store(false, Relaxed);
    }
}

/// Each is one for itself.
impl PartialEq for Caller {
    fn eq(&self, other: &Caller) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Caller {}

/// A zone that comes from others. By apex in lower case.
#[derive(Debug)]
struct Zone {
    mark: AtomicU8,
    callers: Vec<Arc<Caller>>,
}

/// Bound: the zones that are configured to come from others, and their primaries.
#[derive(Debug, Default)]
pub struct Presence {
    zones: HashMap<Box<[u8]>, Zone>,
    absent: AtomicUsize,
    /// What tells them from others.
    fingerprint: u64,
}

impl Presence {
    /// An address stands among the callers of a zone once.
    pub fn new(zones: impl IntoIterator<Item = (Box<[u8]>, Mark, Vec<Arc<Caller>>)>) -> Presence {
        let zone = |(apex, mark, callers)| (apex, Zone { mark: AtomicU8::new(mark as u8), callers });
        let zones: HashMap<_, _> = zones.into_iter().map(zone).collect();
        let absent = zones.values().filter(|zone| zone.mark.load(Relaxed) != Mark::Present as u8).count();
        let fingerprint = zones.keys().fold(0, |all, apex| all ^ siphash::<1, 3>(b"zones of others ", apex));
        Presence { zones, absent: AtomicUsize::new(absent), fingerprint }
    }

    /// Who of the primaries of a zone has this address. None: it does not come from others; within: it is none of them.
    pub fn caller(&self, apex: &[u8], ip: IpAddr) -> Option<Option<&Arc<Caller>>> {
        Some(self.zones.get(apex)?.callers.iter().find(|caller| caller.ip == ip))
    }

    /// Called by one thread.
    pub fn set(&self, apex: &[u8], mark: Mark) {
        let Some(zone) = self.zones.get(apex) else { return };
        let before = zone.mark.swap(mark as u8, Relaxed);
        match (before == Mark::Present as u8, mark == Mark::Present) {
            (true, false) => _ = self.absent.fetch_add(1, Relaxed),
            (false, true) => _ = self.absent.fetch_sub(1, Relaxed),
            _ => {}
        }
    }

    /// None: it does not come from others.
    pub fn mark(&self, apex: &[u8]) -> Option<Mark> {
        let mark = self.zones.get(apex)?.mark.load(Relaxed);
        MARKS.get(usize::from(mark)).copied()
    }

    pub fn is_complete(&self) -> bool {
        self.absent() == 0
    }

    /// How many never came, or have expired.
    pub fn absent(&self) -> usize {
        self.absent.load(Relaxed)
    }

    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Why a name in lower case cannot be answered for. `served`: octets of the apex that was found for it in the image;
    /// `is_above`: what is asked for stands above a cut, at a cut.
    pub fn absence(&self, name: &[u8], served: Option<usize>, is_above: bool, unserved: &Unserved) -> Option<Absence> {
        // DS of an apex of ours are its parent's to answer, also where that is ours and absent.
        let above = name.split_first().and_then(|(&n, below)| below.get(usize::from(n)..).filter(|_| n > 0));
        if let Some(above) = above.filter(|_| is_above && served == Some(name.len()))
            && let Some(absence) = self.absence(above, None, false, unserved)
        {
            return Some(absence);
        }
        let mut rest = name;
        loop {
            let is_left_out = is_above && rest.len() == name.len() && served.is_some_and(|served| served < name.len());
            match self.mark(rest).filter(|_| !is_left_out) {
                // What is served meanwhile has come.
                Some(Mark::Awaited) if served == Some(rest.len()) => return None,
                Some(Mark::Awaited) => return Some(Absence::Awaited),
                Some(Mark::Expired) => return Some(Absence::Expired),
                _ if !is_left_out && unserved.has(rest) => return Some(Absence::Unserved),
                Some(Mark::Present) => return None,
                None => {}
            }
            let (&n, below) = rest.split_first().filter(|(n, _)| **n > 0 && served.is_none_or(|s| s < rest.len()))?;
            rest = below.get(usize::from(n)..)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfer::tsig::{Algorithm, Key};
    use wire::Name;

    fn name(text: &str) -> Vec<u8> {
        Name::from_text(text.as_bytes(), None).unwrap().bytes().to_vec()
    }

    #[test]
    fn names_of_absent_zones_cannot_be_answered_for() {
        let zones = [
            ("here.", Mark::Present),
            ("b.here.", Mark::Awaited),
            ("old.", Mark::Expired),
            (".", Mark::Present),
            ("spoilt.", Mark::Present),
        ];
        let unserved = ["b.here.", "old.", "spoilt.", "w.here.", "w."].map(|zone| name(zone).into()).into();
        let unserved = Unserved::of(unserved, 7);
        let presence = Presence::new(zones.map(|(zone, mark)| (name(zone).into(), mark, vec![])));
        for (asked, served, is_above, expect) in [
            ("a.here.", Some("here."), false, None),
            ("b.here.", Some("here."), false, Some(Absence::Awaited)),
            ("x.b.here.", Some("here."), false, Some(Absence::Awaited)),
            ("b.here.", Some("here."), true, None),
            ("b.here.", None, true, Some(Absence::Awaited)),
            ("x.b.here.", Some("b.here."), false, None),
            ("x.old.", Some("old."), false, Some(Absence::Expired)),
            ("old.", Some("old."), true, Some(Absence::Expired)),
            ("x.old.", None, false, Some(Absence::Expired)),
            ("else.", Some("."), false, None),
            ("else.", None, false, None),
            ("x.c.old.", Some("c.old."), false, None),
            ("x.w.here.", Some("here."), false, Some(Absence::Unserved)),
            ("w.here.", Some("here."), true, None),
            ("x.w.", Some("x.w."), true, Some(Absence::Unserved)),
            ("x.w.", Some("x.w."), false, None),
            ("x.y.w.here.", Some("y.w.here."), false, None),
            ("x.w.", None, false, Some(Absence::Unserved)),
            ("x.w.", Some("."), false, Some(Absence::Unserved)),
            ("spoilt.", None, false, Some(Absence::Unserved)),
        ] {
            let found = presence.absence(&name(asked), served.map(|apex| name(apex).len()), is_above, &unserved);
            assert_eq!(found, expect, "{asked} {served:?}");
        }
    }

    #[test]
    fn absent_ones_are_counted() {
        let zones = [("a.", Mark::Awaited), ("b.", Mark::Present)];
        let presence = Presence::new(zones.map(|(zone, mark)| (name(zone).into(), mark, vec![])));
        assert!(!presence.is_complete());
        for (zone, mark, is_complete) in [
            ("a.", Mark::Expired, false),
            ("a.", Mark::Present, true),
            ("a.", Mark::Present, true),
            ("b.", Mark::Expired, false),
            ("c.", Mark::Expired, false),
            ("b.", Mark::Present, true),
        ] {
            presence.set(&name(zone), mark);
            assert_eq!(presence.is_complete(), is_complete, "{zone} {mark:?}");
        }
    }

    #[test]
    fn who_need_not_sign_must_not_sign_wrongly_and_who_must_is_believed_with_his_key_only() {
        let key = |secret: &[u8]| Key::new(&Name::from_text(b"k.", None).unwrap(), Algorithm::Sha256, secret);
        let notify = transfer::ask::notify(7, &name("z."), None);
        let signed = |secret: &[u8]| {
            let mut message = notify.clone();
            tsig::sign_request(&key(secret), &mut message, 1_000_000);
            message
        };
        let (good, bad) = (signed(b"0123456789abcdef"), signed(b"0123456789abcdeX"));
        let keys = Keys::new(vec![key(b"0123456789abcdef")]);
        let credible = |is_open, keys: &Keys, now_s| {
            let caller = Caller::new([192, 0, 2, 1].into(), is_open, keys.clone());
            [&notify, &good, &bad, &notify[..9].to_vec()].map(|message| caller.is_credible(message, now_s))
        };
        assert_eq!(credible(true, &Keys::default(), 1_000_000), [true, false, false, false]);
        assert_eq!(credible(true, &keys, 1_000_000), [true, true, false, false]);
        assert_eq!(credible(false, &keys, 1_000_000), [false, true, false, false]);
        assert_eq!(credible(false, &keys, 1_003_600), [false; 4]);
    }
}
