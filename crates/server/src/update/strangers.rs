//! Zones that updates have changed and that are not configured any more, though the journal has changes that their files do
//! not hold: the server was stopped before these were written. A start writes them there, so that the journal need not be
//! read again for them, and nothing is missing when such a zone is configured once more.

use crate::config::Zone;
use crate::images::name;
use crate::update::ledger::{self, push_record};
use crate::zonetext;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::PathBuf;
use transfer::{Entry, Record};
use wire::Rtype;
use wire::rtype::RRSIG;
use zonefile::Objection;

/// By apex. Bound: what the journal holds behind its last fold.
pub struct Strangers {
    folder: PathBuf,
    zones: HashMap<Box<[u8]>, Behind>,
}

/// Zones that lack changes, from where on the journal has these, and why.
pub type Lacking = Vec<(Box<[u8]>, u64, String)>;

struct Behind {
    /// The file holds what stands before this position; beyond all others: there is no file. Err: why it does not say.
    position: Result<u64, String>,
    /// How often a record has come, less how often it has gone.
    net: HashMap<Record, i32>,
}

impl Strangers {
    pub fn of(folder: PathBuf) -> Strangers {
        Strangers { folder, zones: HashMap::new() }
    }

    /// A change of a zone that is not configured.
    pub fn note(&mut self, position: u64, entry: Entry) {
        let behind = self.zones.entry(entry.zone).or_insert_with_key(|apex| {
            let file = ledger::file_of(&self.folder, apex);
            // One of which it cannot be said is not taken for one that is not there.
            let is_gone = file.try_exists().is_ok_and(|is_there| !is_there);
            let position = if is_gone { Ok(u64::MAX) } else { ledger::position_of(&file).map_err(|e| e.to_string()) };
            Behind { position, net: HashMap::new() }
        });
        if behind.position.as_ref().is_ok_and(|from| *from > position) {
            return;
        }
        for (records, n) in [(entry.diff.removed(), -1), (entry.diff.added(), 1)] {
            records.iter().for_each(|r| *behind.net.entry(r.clone()).or_default() += n);
        }
    }

    /// Its file is not to be written.
    pub fn forget(&mut self, apex: &[u8]) {
        self.zones.remove(apex);
    }

    /// Writes the files of those that are behind; they hold then what stands before `end`. Returns what an operator should
    /// hear, and the others; of those that do not say what they hold the journal has what stands behind `released`.
    pub fn catch_up(self, released: u64, end: u64) -> (Vec<String>, Lacking) {
        let (mut remarks, mut unfit) = (Vec::new(), Vec::new());
        for (apex, behind) in self.zones.into_iter().filter(|(_, behind)| !behind.net.is_empty()) {
            let zone = Zone::new(apex.clone(), ledger::file_of(&self.folder, &apex));
            // Whose file could not be read then, it is not written by what it says now: it would lack what was not counted.
            let written = match &behind.position {
                Ok(_) => ledger::write_file(&self.folder, &apex, end, |out| behind.write(&zone, out)),
                Err(why) => Err(io::Error::other(why.clone())),
            };
            remarks.push(match written {
                Ok(()) => format!("{}: got the last updates of a zone that took none", zone.file.display()),
                Err(e) => {
                    unfit.push((apex.clone(), behind.position.unwrap_or(released), e.to_string()));
                    let zone = name(&apex);
                    format!("the last updates of {zone}, which takes none, are kept in the journal only: {e}")
                }
            });
        }
        (remarks, unfit)
    }
}

impl Behind {
    /// The records of the zone's file, but for those that went, and those that came.
    ///
    /// That may be as somebody has written it: a record more than once, in other letters too, and RRsets of several TTLs. What was changed is what was
    /// served: each record once, as it stands first, under the first TTL of its RRset. Signatures have theirs, each of another RRset.
    fn write(&self, zone: &Zone, out: &mut dyn Write) -> io::Result<()> {
        let went: HashSet<Record> = self.net.iter().filter(|(_, n)| **n < 0).map(|(r, _)| in_any_form(r)).collect();
        let mut ttls: HashMap<(Box<[u8]>, Rtype), Option<u32>> =
            went.iter().filter(|r| r.rtype != RRSIG).map(|r| ((r.owner().into(), r.rtype), None)).collect();
        let (mut gone, mut line, mut failed) = (HashSet::new(), String::new(), None);
        let mut push = |owner: &[u8], rtype, ttl, rdata: &[u8]| {
            line.clear();
            push_record(owner, rtype, ttl, rdata, &mut line);
            failed = failed.take().or_else(|| out.write_all(line.as_bytes()).err());
        };
        let came = self.net.iter().filter(|(_, n)| **n > 0).map(|(r, _)| r);
        came.for_each(|r| push(r.owner(), r.rtype, r.ttl, r.rdata()));
        let mut keep = |r: zonefile::Record<'_>, _: &zonefile::Place| {
            let known = Record::new(r.owner, r.rtype, r.ttl, r.rdata);
            let ttl = known.as_ref().and_then(|known| ttls.get_mut(&(known.owner().into(), known.rtype)));
            let ttl = ttl.map_or(r.ttl, |first| *first.get_or_insert(r.ttl));
            match known.map(|known| in_any_form(&known)).filter(|known| went.contains(known)) {
                Some(known) => _ = gone.insert(known),
                None => push(r.owner, r.rtype, ttl, r.rdata),
            }
            Ok::<(), Vec<Objection>>(())
        };
        let odd = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let reading = zonetext::read(zone, &mut keep).map_err(|unread| odd(unread.text(zone)))?;
        if let Some(wrong) = reading.report.first_error() {
            return Err(odd(wrong));
        }
        if gone.len() != self.net.values().filter(|n| **n < 0).count() {
            return Err(odd(format!("{}: it is not the zone that was updated", zone.file.display())));
        }
        failed.map_or(Ok(()), Err)
    }
}

/// What all forms of a record have in common that are one record where it is served.
fn in_any_form(record: &Record) -> Record {
    let mut any = record.folded();
    any.ttl = 0;
    any
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfer::Diff;

    const APEX: &[u8] = b"\x01z\0";

    fn entry(serial: u32, removed: Vec<Record>, added: Vec<Record>) -> Entry {
        ledger::entry(APEX, String::new(), Diff::new(serial, serial + 1, removed, added))
    }

    #[test]
    fn a_file_gets_what_came_behind_its_position_and_only_that() {
        let folder = std::env::temp_dir().join(format!("dunlin-strangers-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let file = ledger::file_of(&folder, APEX);
        std::fs::write(&file, "; dunlin, position 5\nz. 60 IN A 192.0.2.1\nz. 60 IN A 192.0.2.2\n").unwrap();
        let a = |n: u8| Record::new(APEX, 1, 60, &[192, 0, 2, n]).unwrap();
        let mut strangers = Strangers::of(folder.clone());
        strangers.note(4, entry(1, vec![], vec![a(2)]));
        strangers.note(5, entry(2, vec![a(1)], vec![a(3)]));
        strangers.note(7, entry(3, vec![a(3)], vec![a(4)]));
        strangers.note(7, Entry { zone: b"\x01x\0"[..].into(), ..entry(1, vec![], vec![a(9)]) });
        let (remarks, unfit) = strangers.catch_up(0, 8);
        assert_eq!(unfit, []);
        assert!(remarks.len() == 1 && remarks[0].contains("z.zone: got the last updates"), "{remarks:?}");
        let text = std::fs::read_to_string(&file).unwrap();
        let records = "z. 60 IN A 192.0.2.4\nz. 60 IN A 192.0.2.2\n";
        assert!(text.starts_with(&format!("; dunlin, position 8 (sum at the end)\n{records}; dunlin, sum ")), "{text}");
        // It may be as somebody has written it.
        let ns = |target: &[u8]| Record::new(APEX, 2, 60, target).unwrap();
        let signature = |covered: &str, ttl: u32| {
            format!("z. {ttl} IN RRSIG {covered} 8 1 {ttl} 20300101000000 20200101000000 1 z. AAAA\n")
        };
        let [end, begin] = [1_893_456_000_u32, 1_577_836_800].map(u32::to_be_bytes);
        let rdata = [&[0, 6, 8, 1, 0, 0, 0, 60][..], &end, &begin, &[0, 1, 1, b'z', 0, 0, 0, 0]].concat();
        let gone = Record::new(APEX, RRSIG, 60, &rdata).unwrap();
        let stays = signature("A", 0);
        let lines = "z. 60 IN A 192.0.2.1\nz. 300 IN A 192.0.2.2\nz. 60 IN A 192.0.2.3\nz. 60 IN A 192.0.2.1\n\
            z. 60 IN NS a.\nz. 60 IN NS A.\nz. 60 IN NS b.\n";
        let lines = format!("{lines}{}{stays}", signature("SOA", 60));
        std::fs::write(&file, format!("; dunlin, position 5\n{lines}")).unwrap();
        let mut strangers = Strangers::of(folder.clone());
        strangers.note(5, entry(1, vec![a(1), ns(b"\x01a\0"), gone], vec![]));
        assert_eq!(strangers.catch_up(0, 6).1, []);
        let is = std::fs::read_to_string(&file).unwrap();
        let records = format!("z. 60 IN A 192.0.2.2\nz. 60 IN A 192.0.2.3\nz. 60 IN NS b.\n{stays}");
        assert!(is.starts_with(&format!("; dunlin, position 6 (sum at the end)\n{records}; dunlin, sum ")), "{is}");
        std::fs::write(&file, &text).unwrap();
        // A file that somebody has spoilt stays as it is.
        let mut strangers = Strangers::of(folder.clone());
        strangers.note(8, entry(4, vec![a(1)], vec![a(5)]));
        let (remarks, unfit) = strangers.catch_up(3, 9);
        assert!(remarks[0].contains("in the journal only") && remarks[0].contains("is not the zone"), "{remarks:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        let [(apex, from, why)] = &unfit[..] else { panic!("{unfit:?}") };
        assert_eq!((&**apex, *from), (APEX, 8), "and the journal keeps what it lacks");
        assert!(why.contains("is not the zone that was updated"), "{why}");
        // So does one whose beginning is lost.
        std::fs::write(&file, "z. 60 IN A 192.0.2.4\n").unwrap();
        let mut strangers = Strangers::of(folder.clone());
        strangers.note(8, entry(4, vec![a(4)], vec![a(5)]));
        assert_eq!(strangers.catch_up(3, 9).1[0].1, 3);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
