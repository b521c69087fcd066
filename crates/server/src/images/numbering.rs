//! Serials for files that were edited without a new one, where the operator wants that (`serial` in `[[zone]]`).
//!
//! Only what is served has the serial; the file stays as it is. So each time it is read it is asked again: the same content
//! goes on under the serial that is served, another one is given one that follows it, and that which the history ended with,
//! for what was laid over an image may have been lost in a crash. A serial in the file that is newer still is the zone's.
//!
//! A zone that is signed, or has a digest, keeps its own: they would not fit another.
//!
//! A zone that is to be its updates' goes on under the serial that it had, with what it had, though nothing gives it one any more: they will.

use crate::clock::wall_s;
use crate::config::{Numbering, Zone};
use crate::history;
use crate::images::laying;
use crate::images::{self, Library};
use crate::log;
use crate::stamp::{self, Stamp};
use crate::zonetext::reading::{self, Stock};
use crate::zonetext::{Sources, may_pass};
use image::{Image, Sorted, Zone as ImageZone};
use std::borrow::Cow;
use store::Stretch;
use transfer::compare;
use transfer::record::{is_newer, next_serial, serial_of, with_serial};
use wire::rtype::{DNSKEY, SOA, ZONEMD};

/// The zones, with the serials that they are to be served under. `served`: the image that they are beside; without one, the history alone
/// says which serials they had. `may_be`: those that it is asked of (`may_be_numbered`). `end`: the serial that the history of a zone ends with.
pub fn numbered<'z>(
    zones: &'z [Zone],
    served: Option<&Image<Stretch>>,
    library: &Library,
    may_be: impl Fn(&Zone) -> bool,
    mut end: impl FnMut(&[u8]) -> Option<u32>,
) -> Cow<'z, [Zone]> {
    if !zones.iter().any(&may_be) {
        return Cow::Borrowed(zones);
    }
    // Once for all: what is still in doubt then is so for longer.
    if zones.iter().any(|zone| may_be(zone) && Stamp::of(&zone.file).is_none()) {
        stamp::let_tick();
    }
    let number = |zone: &Zone| {
        if !may_be(zone) {
            return zone.clone();
        }
        match given(zone, served, end(&zone.apex), library) {
            Ok((given, numbered)) => Zone { given, numbered, ..zone.clone() },
            Err(code) => Zone { unread: Some(code), ..zone.clone() },
        }
    };
    zones.iter().map(number).collect()
}

/// Tells which of these are about to be served under serials that they are given now.
pub fn tell(zones: &[Zone], served: Option<&Image<Stretch>>) {
    for (zone, given) in zones.iter().filter_map(|zone| Some((zone, zone.given?))) {
        let served = served.and_then(|served| laying::zone(served.view(), &zone.apex));
        if served.is_none_or(|served| served.serial() != Ok(given)) {
            log::info(
                "a zone was edited without a new serial, and is given one",
                &[("zone", &images::name(&zone.apex)), ("serial", &given)],
            );
        }
    }
}

/// Whether a zone may be served under another serial than its file has.
pub fn may_be_numbered(zone: &Zone) -> bool {
    let is_novice = zone.is_owned() && !zone.is_journaled();
    is_novice || zone.numbering != Numbering::Keep
}

/// None: that of the file. A file that is wrong is complained of by whoever reads it next. Returns also what was read. Err: it could not be.
fn given(
    zone: &Zone,
    served: Option<&Image<Stretch>>,
    end: Option<u32>,
    library: &Library,
) -> Result<(Option<u32>, Option<Box<Sources>>), i32> {
    let served = served.and_then(|served| laying::zone(served.view(), &zone.apex));
    if served.is_none() && end.is_none() {
        return Ok((None, None));
    }
    let stock = Stock::below(library.data_dir());
    let mut builder = stock.builder();
    builder.begin_zone(&zone.apex);
    let read = match reading::one(zone, &stock, &mut builder) {
        Ok(read) => read,
        Err(unread) => match unread.why.raw_os_error().filter(|_| may_pass(&unread.why)) {
            Some(code) => return Err(code),
            None => return Ok((None, Some(Box::new(unread.sources)))),
        },
    };
    let mut given = None;
    if read.report.errors == 0 {
        let shown = builder.show(&mut |sorted| given = serial(served.as_ref(), sorted, zone.numbering, end));
        // There was no room for all of it. Whoever needs less of that could read it, and serve it under the serial that others know.
        shown.map_err(|_| libc::ENOSPC)?;
    }
    Ok((given, Some(Box::new(read.sources))))
}

/// `end`: the serial that the history ends with.
fn serial(served: Option<&ImageZone<'_>>, zone: &Sorted<'_>, how: Numbering, end: Option<u32>) -> Option<u32> {
    let (is, wanted) = (served.and_then(|served| served.serial().ok()), audit::serial(zone));
    let last = end.filter(|end| is.is_none_or(|is| is_newer(*end, is))).or(is)?;
    if is_newer(wanted, last) || is_bound(zone) {
        return None;
    }
    // Of what is in no image nobody knows what it held: it is the version that the history ends with if its file says so.
    let is_last = served.map_or(wanted == last, |served| is == Some(last) && is_like(served, zone));
    if is_last {
        return Some(last).filter(|last| *last != wanted);
    }
    if how == Numbering::Keep {
        return None;
    }
    let (next, now) = (next_serial(last), wall_s() as u32);
    Some(if how == Numbering::Unixtime && is_newer(now, last) { now } else { next })
}

/// Its signatures or its digest are of its own serial.
fn is_bound(zone: &Sorted<'_>) -> bool {
    zone.records_at(zone.apex()).into_iter().flatten().any(|rr| matches!(rr.rtype, DNSKEY | ZONEMD))
}

/// The same but for the serial. What cannot be compared is not.
fn is_like(served: &ImageZone<'_>, zone: &Sorted<'_>) -> bool {
    let Ok(Some(diff)) = compare(served, zone, history::CHANGE_OCTETS_MAX) else { return false };
    let bare = |all: &[transfer::Record]| -> Option<Vec<(u32, Vec<u8>)>> {
        all.iter().map(|r| (r.rtype == SOA).then(|| (r.ttl, with_serial(r.rdata(), 0)))).collect()
    };
    bare(diff.removed()).is_some_and(|before| bare(diff.added()) == Some(before))
}

/// True if a difference goes on under the serial before it.
pub fn is_unnumbered(diff: &transfer::Diff) -> bool {
    let serials = |all: &[transfer::Record]| all.iter().find(|r| r.rtype == SOA).and_then(|soa| serial_of(soa.rdata()));
    serials(diff.removed()) == serials(diff.added())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zonetext;

    /// Where the next read found it, it would come under its own serial, and be held for that.
    #[test]
    fn a_file_that_could_not_be_read_for_its_serial_is_not_read_for_its_content() {
        let folder = std::env::temp_dir().join(format!("dunlin-numbering-{}", std::process::id()));
        let library = Library::open(&folder).unwrap();
        // Reading the memory of a process where it has none is an error of the disk's kind.
        let mut zone = Zone::new(b"\x01z\0"[..].into(), "/proc/self/mem".into());
        zone.numbering = Numbering::Increment;
        let zones = [zone];
        let looked_at = numbered(&zones, None, &library, |_| true, |_| Some(1));
        let unread = zonetext::open(&looked_at[0]).err().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((looked_at[0].unread, unread.why.raw_os_error()), (Some(libc::EIO), Some(libc::EIO)));
        assert!(unread.sources.iter().all(|(_, stamp)| stamp.is_none()), "it is looked at again");
    }

    /// Another content would come under the serial that the first one has, and stay there.
    #[test]
    fn a_file_that_is_another_by_then_is_not_read_under_the_serial_that_was_found() {
        let folder = std::env::temp_dir().join(format!("dunlin-numbering-then-{}", std::process::id()));
        let library = Library::open(&folder).unwrap();
        let [file, included] = ["z", "included"].map(|name| folder.join(name));
        let write = |n: u8| {
            std::fs::write(&file, "$TTL 1\n@ SOA a b 7 1 1 1 1\n@ NS a\n$INCLUDE included\n").unwrap();
            std::fs::write(&included, format!("a A 192.0.2.{n}\n")).unwrap();
            while [&file, &included].iter().any(|file| Stamp::of(file).is_none()) {}
        };
        write(1);
        let mut zone = Zone::new(b"\x01z\0"[..].into(), file.clone());
        zone.numbering = Numbering::Increment;
        for changed in [&file, &included] {
            write(1);
            let zones = [zone.clone()];
            let looked_at = numbered(&zones, None, &library, |_| true, |_| Some(1));
            let read = || zonetext::read(&looked_at[0], &mut |_, _| Ok(()));
            assert!(read().is_ok_and(|reading| reading.report.errors == 0));
            std::fs::write(folder.join("next"), std::fs::read(changed).unwrap()).unwrap();
            std::fs::rename(folder.join("next"), changed).unwrap();
            let sources = match read() {
                Ok(reading) => {
                    assert_eq!(reading.report.errors, 1);
                    reading.sources
                }
                Err(unread) => {
                    assert!(unread.text(&looked_at[0]).ends_with("replaced while it was read; reload it once more"));
                    unread.sources
                }
            };
            let stamp = sources.iter().find(|(file, _)| file == changed).map(|(_, stamp)| *stamp);
            assert_eq!(stamp, Some(None), "it is looked at again");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
