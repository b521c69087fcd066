//! A new text of a large zone beside the zone that is served: which names are others now, found while the text is parsed.
//! Nothing is collected, sorted or laid out but what differs; so it costs what parsing costs, and a look at each name.
//!
//! ```text
//! records of one owner that stand together are
//!   what its node holds      the node is ticked, and they are forgotten
//!   something else           kept: in the end all that a name was given makes it what it is from now on
//! a node without a tick      is no more
//! ```
//!
//! Never says what a change means: that is for whoever lays it.
//!
//! Bound: `UNLIKE_MAX` octets of records that differ; a bit for each place of the image, and 4 octets for each record that
//! names a host.

use crate::config::Zone;
use crate::manifest::Entry;
use crate::reading::hands;
use crate::unwritten::Names;
use crate::zonetext::{self, Reading};
use image::edit::{Record, host_of, records_of};
use image::format::{ALIGN, Damaged};
use image::{Candidate, Image, Node, Scope, View, Zone as ImageZone};
use std::collections::btree_map::Entry as Known;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use store::Stretch;
use transfer::{Diff, canonical};
use wire::hash::name_hash;
use wire::name::{NAME_MAX, fold};
use wire::rtype::{CNAME, DS, NS, RRSIG, SOA};

/// Octets of records that are not as in the image, beyond which a new image is not much dearer.
const UNLIKE_MAX: usize = 4 << 20;
/// What a kept name or record takes beside its octets.
const KEPT: usize = 64;
/// Names that are looked up together, so that the memory that one waits for is fetched for all of them.
const BATCH: usize = 64;
/// Records of one name that are compared with each other one by one.
const FEW: usize = 64;

pub struct Edition {
    pub entry: Entry,
    /// Names that are others, with all their records from now on; none: the name is no more.
    pub names: Names,
    pub diff: Diff,
    /// How many records there were, and how many there are to be.
    pub records: (u64, u64),
    /// A delegation that goes on would lose its DS.
    pub is_less_secure: bool,
    seed: u64,
    /// Hashes of the hosts that records name, sorted; a list for each part of the text. Of 500 hosts that nobody names about
    /// one is looked for in vain in a zone of millions.
    named: Vec<Vec<u32>>,
}

impl Edition {
    /// None: the zone has to be read as a whole, because its text is wrong, or much of it is another, or it is not one of
    /// which single names can be laid.
    pub fn of(zone: &Zone, now: &Image<Stretch>, seed: u64) -> Option<Edition> {
        let served = crate::laying::zone(now.view(), &zone.apex)?;
        if !served.is_editable().ok()? {
            return None;
        }
        let ground = Ground::new(now, served, seed).ok()?;
        let (mut collations, reading) = collate(zone, &ground)?;
        if reading.report.errors > 0 || ground.is_much() {
            return None;
        }
        let named = collations.iter_mut().map(|c| std::mem::take(&mut c.named)).collect();
        let found = settled(&ground, collations).ok().filter(|found| !ground.is_much() && !found.is_ambiguous)?;
        let (before, after) = (served.records().ok()?, found.records);
        let entry = Entry { apex: zone.apex.clone(), file: zone.file.clone(), sources: reading.sources, problem: None };
        let edition = Edition {
            entry,
            names: found.names,
            diff: Diff::between(found.removed, found.added),
            records: (before, before.saturating_add_signed(after)),
            is_less_secure: found.is_less_secure,
            seed,
            named,
        };
        Some(edition).filter(|edition| !edition.has_named_alias())
    }

    /// An alias comes or goes where others may name a host: that makes errors of records that are not looked at again.
    fn has_named_alias(&self) -> bool {
        let mut aliases = self.diff.removed().iter().chain(self.diff.added()).filter(|r| r.rtype == CNAME);
        aliases.any(|r| r.owner().starts_with(b"\x01*") || self.may_be_named(r.owner()))
    }

    /// False: certainly no record names the host.
    pub fn may_be_named(&self, host: &[u8]) -> bool {
        let hash = host_hash(self.seed, host);
        self.named.iter().any(|part| part.binary_search(&hash).is_ok())
    }

    /// The serials before and after; None: the zone keeps its own.
    pub fn serials(&self) -> Option<(u32, u32)> {
        self.diff.added().iter().any(|r| r.rtype == SOA).then_some((self.diff.from, self.diff.to))
    }
}

fn host_hash(seed: u64, host: &[u8]) -> u32 {
    let mut folded = [0; NAME_MAX];
    let folded = &mut folded[..host.len().min(NAME_MAX)];
    folded.copy_from_slice(&host[..folded.len()]);
    fold(folded);
    (name_hash(seed, folded) >> 32) as u32
}

/// What all threads look at.
struct Ground<'a> {
    view: View<'a>,
    zone: ImageZone<'a>,
    scope: Scope,
    /// A bit for each place in the image where a node may stand.
    ticks: Vec<AtomicU64>,
    /// Octets that are kept.
    unlike: AtomicUsize,
    apex: &'a [u8],
    seed: u64,
}

impl<'a> Ground<'a> {
    fn new(now: &'a Image<Stretch>, zone: ImageZone<'a>, seed: u64) -> Result<Ground<'a>, Damaged> {
        let places = now.bytes().end() / ALIGN;
        let ticks = std::iter::repeat_with(AtomicU64::default).take(places / 64 + 1).collect();
        let apex = zone.apex()?;
        let scope = apex.scope_of(&apex.apex()?)?;
        let apex = apex.apex_name()?;
        Ok(Ground { view: now.view(), zone, scope, ticks, unlike: AtomicUsize::new(0), apex, seed })
    }

    fn is_much(&self) -> bool {
        self.unlike.load(Relaxed) > UNLIKE_MAX
    }

    /// The bit of a node, and the word that it is in.
    fn place(&self, node: &Node<'_>) -> Option<(&AtomicU64, u64)> {
        let at = node.reference();
        self.ticks.get(at as usize / 64).map(|word| (word, 1 << (at % 64)))
    }

    fn is_ticked(&self, node: &Node<'_>) -> bool {
        self.place(node).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// True if this is the first time.
    fn tick(&self, node: &Node<'_>) -> bool {
        self.place(node).is_some_and(|(word, bit)| word.fetch_or(bit, Relaxed) & bit == 0)
    }
}

/// Reads the text, in parts if that can be, and compares as it goes.
fn collate<'g>(zone: &Zone, ground: &'g Ground<'g>) -> Option<(Vec<Collation<'g>>, Reading)> {
    let opened = zonetext::open(zone).ok()?;
    let add = |part: &mut Collation<'_>, r: zonefile::Record<'_>| {
        part.record(&r);
        Ok(())
    };
    let in_parts = match hands() {
        1 => None,
        n => opened.read_in_parts(n, || Collation::new(ground), add),
    };
    let (mut collations, reading) = in_parts.unwrap_or_else(|| {
        // What was found in parts that do not fit together counts for nothing.
        ground.ticks.iter().for_each(|word| word.store(0, Relaxed));
        ground.unlike.store(0, Relaxed);
        let mut whole = Collation::new(ground);
        let reading = opened.read(&mut |r, _| add(&mut whole, r));
        (vec![whole], reading)
    });
    for part in &mut collations {
        part.end();
        part.named.sort_unstable();
        part.named.dedup();
    }
    Some((collations, reading))
}

/// Records of one owner that stood together.
struct Run<'g> {
    hash: u64,
    candidate: Candidate,
    node: Option<Node<'g>>,
    /// The node was ticked before.
    is_ticked: bool,
    name: Range<usize>,
    lines: Range<usize>,
}

struct Line {
    rtype: u16,
    ttl: u32,
    rdata: Range<usize>,
}

/// A part of the text on its way.
struct Collation<'g> {
    ground: &'g Ground<'g>,
    /// The owner of the last run, as it was written.
    owner: Vec<u8>,
    runs: Vec<Run<'g>>,
    lines: Vec<Line>,
    octets: Vec<u8>,
    unlike: Vec<(Box<[u8]>, Vec<Record>)>,
    named: Vec<u32>,
    /// Records of the nodes that were ticked here.
    ticked: u64,
    is_damaged: bool,
}

impl<'g> Collation<'g> {
    fn new(ground: &'g Ground<'g>) -> Collation<'g> {
        Collation {
            ground,
            owner: vec![],
            runs: Vec::with_capacity(BATCH),
            lines: vec![],
            octets: vec![],
            unlike: vec![],
            named: vec![],
            ticked: 0,
            is_damaged: false,
        }
    }

    fn record(&mut self, r: &zonefile::Record<'_>) {
        if r.owner != self.owner || self.runs.is_empty() {
            self.begin(r.owner);
        }
        if let Some(host) = host_of(r.rtype, r.rdata).filter(|host| ends_alike(host, self.ground.apex)) {
            self.named.push(host_hash(self.ground.seed, host));
        }
        let rdata = push(&mut self.octets, r.rdata);
        self.lines.push(Line { rtype: r.rtype, ttl: r.ttl, rdata });
        if let Some(run) = self.runs.last_mut() {
            run.lines.end = self.lines.len();
        }
    }

    fn begin(&mut self, owner: &[u8]) {
        if self.runs.len() == BATCH {
            self.end();
        }
        self.owner.clear();
        self.owner.extend_from_slice(owner);
        let name = push(&mut self.octets, owner);
        let folded = &mut self.octets[name.clone()];
        fold(folded);
        let hash = name_hash(self.ground.view.seed(), folded);
        self.ground.view.prefetch_line(hash);
        let lines = self.lines.len()..self.lines.len();
        let (candidate, node, is_ticked) = (Candidate::NONE, None, false);
        self.runs.push(Run { hash, candidate, node, is_ticked, name, lines });
    }

    /// Looks at what has come so far, step by step: the memory that one step reads was asked for by the one before it.
    fn end(&mut self) {
        let mut runs = std::mem::take(&mut self.runs);
        for run in &mut runs {
            match self.ground.view.candidate(run.hash) {
                Ok(candidate) => run.candidate = candidate,
                Err(Damaged) => self.is_damaged = true,
            }
        }
        for run in &mut runs {
            self.is_damaged |= self.find(run).is_err();
        }
        for run in &runs {
            self.is_damaged |= self.look(run).is_err();
        }
        runs.clear();
        self.runs = runs;
        self.lines.clear();
        self.octets.clear();
    }

    fn find(&self, run: &mut Run<'g>) -> Result<(), Damaged> {
        let ground = self.ground;
        let name = &self.octets[run.name.clone()];
        run.node = match ground.view.resolve(run.candidate, run.hash, name, ground.scope)? {
            Some(node) => Some(node),
            // It may be hidden.
            None => ground.zone.node(name)?,
        };
        if let Some(node) = &run.node {
            ground.view.prefetch(node.head());
            run.is_ticked = ground.is_ticked(node);
        }
        Ok(())
    }

    fn look(&mut self, run: &Run<'g>) -> Result<(), Damaged> {
        let ground = self.ground;
        let name = &self.octets[run.name.clone()];
        let lines = &self.lines[run.lines.clone()];
        if let Some(node) = &run.node
            && is_like(node, name, lines, &self.octets)?
        {
            let is_new = !run.is_ticked && ground.tick(node);
            self.ticked += if is_new { lines.len() as u64 } else { 0 };
            return Ok(());
        }
        let records =
            lines.iter().map(|l| Record { rtype: l.rtype, ttl: l.ttl, rdata: self.octets[l.rdata.clone()].into() });
        let octets: usize = KEPT + name.len() + lines.iter().map(|l| KEPT + l.rdata.len()).sum::<usize>();
        if ground.unlike.fetch_add(octets, Relaxed) <= UNLIKE_MAX {
            self.unlike.push((name.into(), records.collect()));
        }
        Ok(())
    }
}

/// True for all names at or below the apex, and few others.
fn ends_alike(host: &[u8], apex: &[u8]) -> bool {
    host.len().checked_sub(apex.len()).and_then(|at| host.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(apex))
}

fn push(octets: &mut Vec<u8>, more: &[u8]) -> Range<usize> {
    let at = octets.len();
    octets.extend_from_slice(more);
    at..octets.len()
}

/// True if the node holds these records and no others, octet for octet and each once. False may mean that they come in
/// another spelling.
fn is_like(node: &Node<'_>, name: &[u8], lines: &[Line], octets: &[u8]) -> Result<bool, Damaged> {
    if lines.len() > FEW {
        return Ok(false);
    }
    let all = u64::MAX.checked_shr((FEW - lines.len()) as u32).unwrap_or(0);
    // A bit for each line that was found in the node.
    let (mut found, mut is_like) = (0u64, true);
    let mut look = |fixed: &[u8], rdata: &[u8]| {
        let is_it = |l: &Line| is_of(fixed, l.rtype, l.ttl) && *rdata == octets[l.rdata.clone()];
        let at = (0..lines.len()).find(|&i| found & (1 << i) == 0 && is_it(&lines[i]));
        is_like &= at.is_some();
        found |= at.map_or(0, |i| 1 << i);
    };
    for rrset in node.rrsets() {
        let (_, unit) = rrset?;
        unit.for_each(name, &mut look)?;
        unit.for_each_signature(&mut look)?;
    }
    Ok(is_like && found == all)
}

/// True if what stands between a record's owner and its rdata says this.
fn is_of(fixed: &[u8], rtype: u16, ttl: u32) -> bool {
    fixed.starts_with(&rtype.to_be_bytes()) && fixed.get(4..8) == Some(&ttl.to_be_bytes()[..])
}

/// What all parts together say.
#[derive(Default)]
struct Found {
    names: Names,
    removed: Vec<transfer::Record>,
    added: Vec<transfer::Record>,
    /// How many records more there are.
    records: i64,
    is_less_secure: bool,
    /// What a name is to be depends on what was forgotten.
    is_ambiguous: bool,
}

fn settled(ground: &Ground<'_>, collations: Vec<Collation<'_>>) -> Result<Found, Damaged> {
    let mut accounted: u64 = collations.iter().map(|c| c.ticked).sum();
    if collations.iter().any(|c| c.is_damaged) {
        return Err(Damaged);
    }
    let mut found = Found::default();
    for (name, mut records) in gathered(collations) {
        let node = ground.zone.node(&name)?;
        let before = node.map_or(Ok(vec![]), |node| records_of(&node, &name))?;
        match node {
            // Another run was all that the node holds; which of them came first, nobody knows any more.
            Some(node) if !ground.tick(&node) => {
                records.splice(0..0, before.iter().cloned());
                found.is_ambiguous |= !has_one_ttl_a_type(&records);
            }
            Some(_) => accounted += before.len() as u64,
            None => {}
        }
        found.take(name, &before, records);
    }
    if accounted != ground.zone.records()? {
        found.take_what_is_gone(ground)?;
    }
    Ok(found)
}

/// What each name was given beside its node, in the order of the text.
fn gathered(collations: Vec<Collation<'_>>) -> Names {
    let mut names = Names::new();
    for (name, records) in collations.into_iter().flat_map(|c| c.unlike) {
        match names.entry(name) {
            Known::Vacant(place) => drop(place.insert(records)),
            Known::Occupied(mut known) => known.get_mut().extend(records),
        }
    }
    names
}

impl Found {
    /// A name that may have changed.
    fn take(&mut self, name: Box<[u8]>, before: &[Record], after: Vec<Record>) {
        let (old, new) = (canonical_of(&name, before), canonical_of(&name, &after));
        if old == new {
            return;
        }
        let has = |all: &[Record], rtype| all.iter().any(|r| r.rtype == rtype);
        self.is_less_secure |= has(before, DS) && has(&after, NS) && !has(&after, DS);
        self.records += after.len() as i64 - before.len() as i64;
        self.removed.extend(old.iter().filter(|r| new.binary_search(r).is_err()).cloned());
        self.added.extend(new.iter().filter(|r| old.binary_search(r).is_err()).cloned());
        self.names.insert(name, after);
    }

    /// Names that the text does not hold.
    fn take_what_is_gone(&mut self, ground: &Ground<'_>) -> Result<(), Damaged> {
        let mut room = [0; NAME_MAX];
        for node in ground.zone.nodes() {
            let node = node?;
            if ground.is_ticked(&node) || node.rrsets().next().is_none() {
                continue;
            }
            let name = ground.zone.name_of(&node, &mut room)?;
            let before = records_of(&node, name)?;
            let octets: usize = KEPT + before.iter().map(|r| KEPT + r.rdata.len()).sum::<usize>();
            ground.unlike.fetch_add(octets, Relaxed);
            if ground.is_much() {
                break;
            }
            self.take(name.into(), &before, vec![]);
        }
        Ok(())
    }
}

/// That of the RRset's first record is that of all (RFC 2181 section 5.2).
fn first_ttl(records: &[Record], r: &Record) -> u32 {
    records.iter().find(|first| first.rtype == r.rtype && r.rtype != RRSIG).map_or(r.ttl, |first| first.ttl)
}

fn has_one_ttl_a_type(records: &[Record]) -> bool {
    records.iter().all(|r| first_ttl(records, r) == r.ttl)
}

/// Records as an image has them: each once, an RRset with one TTL.
fn canonical_of(name: &[u8], records: &[Record]) -> Vec<transfer::Record> {
    let as_kept = |r: &Record| canonical(name, r.rtype, first_ttl(records, r), &r.rdata);
    let mut all: Vec<_> = records.iter().filter_map(as_kept).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::{self, Plan};
    use crate::config::Seen;
    use crate::images::Library;
    use crate::laying;
    use proptest::prelude::*;
    use std::fs;
    use std::path::PathBuf;

    /// A zone file, and the image of what it held at first.
    struct Desk {
        folder: PathBuf,
        zone: Zone,
        library: Library,
        image: Image<Stretch>,
    }

    const HEAD: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

    impl Desk {
        fn new(name: &str, text: &str) -> Desk {
            let folder = std::env::temp_dir().join(format!("dunlin-edition-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("z"), text).unwrap();
            let zone = Zone::new(b"\x01z\0"[..].into(), folder.join("z"));
            let library = Library::open(&folder).unwrap();
            let image = library.current(std::slice::from_ref(&zone), &Seen::default(), None).unwrap().image;
            Desk { folder, zone, library, image }
        }

        fn edition(&self, text: &str) -> Option<Edition> {
            fs::write(&self.zone.file, text).unwrap();
            Edition::of(&self.zone, &self.image, 7)
        }

        /// The names that are said to be others.
        fn names(&self, text: &str) -> Vec<String> {
            let names = self.edition(text).unwrap().names;
            names.keys().map(|n| crate::images::name(n).to_string()).collect()
        }

        /// The image with a text's changes laid over it.
        fn laid(&self, edition: Edition) -> Option<Image<Stretch>> {
            let plan = Plan::of_editions(vec![edition], &self.library);
            changes::lay(&self.image, plan).map(|laid| laid.image)
        }
    }

    impl Drop for Desk {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    fn records(image: &Image<Stretch>) -> Vec<transfer::Record> {
        let mut all = vec![];
        let zone = laying::zone(image.view(), b"\x01z\0").unwrap();
        zone.for_each_record(&mut |owner, rtype, ttl, rdata| all.extend(canonical(owner, rtype, ttl, rdata))).unwrap();
        all.sort_unstable();
        all
    }

    /// Lines of few names, so that they come again, apart from one another, in other spellings, above and below others.
    fn line() -> impl Strategy<Value = String> {
        let owner = prop::sample::select(vec!["a", "b", "A", "x.a", "y.x.a", "*.b", "x.b", "c", "ns.c"]);
        let data = prop::sample::select(vec![
            "A 192.0.2.1",
            "A 192.0.2.2",
            "61 A 192.0.2.2",
            "NS ns.c",
            "NS NS.a",
            "MX 1 a",
            "MX 1 x.b",
            "TXT t",
            "SRV 1 2 3 A",
            "CNAME b",
        ]);
        (owner, data).prop_map(|(owner, data)| format!("{owner} {data}\n"))
    }

    fn text() -> impl Strategy<Value = String> {
        let lines = proptest::collection::vec(line(), 0..24);
        (1..3u8, lines).prop_map(|(serial, lines)| HEAD.replace("h 1 ", &format!("h {serial} ")) + &lines.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn laid_over_the_old_image_it_is_the_new_one(before in text(), after in text()) {
            let desk = Desk::new("twin", &before);
            let twin = Desk::new("twin-new", &after);
            if let Some(edition) = desk.edition(&after) {
                if laying::zone(twin.image.view(), b"\x01z\0").is_some() {
                    let mut diff = records(&desk.image);
                    diff.retain(|r| edition.diff.removed().binary_search(r).is_err());
                    diff.extend(edition.diff.added().iter().cloned());
                    diff.sort_unstable();
                    prop_assert_eq!(&diff, &records(&twin.image));
                }
                if let Some(laid) = desk.laid(edition) {
                    prop_assert_eq!(records(&laid), records(&twin.image));
                }
            }
        }
    }

    #[test]
    fn names_that_came_went_or_changed_are_found() {
        let desk =
            Desk::new("found", &(HEAD.to_string() + "a A 192.0.2.2\nb TXT x\nc.d NS e.c.d\ne.c.d A 192.0.2.3\n"));
        let text = HEAD.to_string() + "b TXT x\na A 192.0.2.9\nc.d NS E.C.d\nE.c.d A 192.0.2.3\nf TXT y\n";
        assert_eq!(desk.names(&text), ["a.z.", "f.z."]);
        assert_eq!(desk.names(&text.replace("b TXT x\n", "")), ["a.z.", "b.z.", "f.z."]);
        assert_eq!(desk.names(&text.replace("E.c.d A 192.0.2.3", "")), ["a.z.", "e.c.d.z.", "f.z."]);
        let laid = desk.laid(desk.edition(&text).unwrap()).unwrap();
        assert_eq!(laid.header().records, 8);
    }

    #[test]
    fn records_of_one_name_may_stand_anywhere() {
        let desk = Desk::new("apart", &(HEAD.to_string() + "a A 192.0.2.2\nb TXT x\na TXT y\n"));
        assert_eq!(desk.names(&(HEAD.to_string() + "b TXT x\na TXT y\nb TXT x\na A 192.0.2.2\n")), [""; 0]);
        assert_eq!(desk.names(&(HEAD.to_string() + "a TXT y\na A 192.0.2.2\nb TXT x\na TXT z\n")), ["a.z."]);
        assert_eq!(desk.names(&(HEAD.to_string() + "a TXT y\nb TXT x\n")), ["a.z."]);
    }

    #[test]
    fn a_long_text_read_in_parts_gives_the_same() {
        let line = |i: usize| format!("n{} NS ns.n{}\nns.n{} A 192.0.2.1\n", i, i / 3, i / 2);
        let text = |n: usize| HEAD.to_string() + &(0..n).map(line).collect::<String>();
        let desk = Desk::new("parts", &text(20_000));
        assert_eq!(desk.names(&text(20_000)), [""; 0]);
        assert_eq!(desk.names(&(text(20_000) + "ns.n77 A 192.0.2.2\n")), ["ns.n77.z."]);
        assert_eq!(desk.names(&text(19_999)), ["n19999.z."]);
        assert_eq!(desk.names(&(text(20_000) + "$ORIGIN other\nn1 TXT x\n")), ["n1.other.z."]);
    }

    #[test]
    fn an_alias_where_others_name_a_host_takes_the_whole_zone() {
        let desk = Desk::new("alias", &(HEAD.to_string() + "m MX 1 t\nt TXT x\nu TXT x\n"));
        assert!(desk.edition(&(HEAD.to_string() + "m MX 1 t\nt CNAME ns\nu TXT x\n")).is_none());
        assert!(desk.edition(&(HEAD.to_string() + "m MX 1 t\nt TXT x\nu CNAME ns\n")).is_some());
    }

    #[test]
    fn what_is_wrong_or_much_takes_the_whole_zone() {
        let desk = Desk::new("much", HEAD);
        let good = HEAD.to_string() + "a A 192.0.2.1\n";
        assert!(desk.laid(desk.edition(&good).unwrap()).is_some());
        assert!(desk.edition(&(good.clone() + "b A none\n")).is_none(), "an error of syntax");
        for (doubt, what) in [
            ("a TXT x\na CNAME ns\n", "an alias beside data"),
            ("b MX 1 c\n", "a host without an address"),
            ("b NS ns.b\n", "no glue"),
            ("b TXT x\nb 9 TXT y\n", "unequal times to live"),
            (
                "@ ZONEMD 1 1 1 00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\n",
                "a digest",
            ),
        ] {
            let edition = desk.edition(&(good.clone() + doubt));
            assert!(edition.is_none_or(|e| desk.laid(e).is_none()), "{what}");
        }
        let many: String = (0..40_000).map(|i| format!("n{i} TXT x\n")).collect();
        assert!(desk.edition(&(good.clone() + &many)).is_none(), "much");
        let signed = "a RRSIG A 8 2 60 20300101000000 20260101000000 1 z. aaaa\n";
        assert!(desk.edition(&(good + signed)).is_none_or(|e| desk.laid(e).is_none()), "signed");
    }

    #[test]
    fn what_was_wrong_at_the_apex_before_is_no_reason_to_read_all() {
        for wrong in ["@ MX 1 none\n", "@ 61 NS ns.b\nns.b A 192.0.2.1\n", "@ NS ns\n"] {
            let desk = Desk::new("apex", &(HEAD.to_string() + wrong));
            let next = HEAD.replace("h 1 ", "h 2 ") + wrong + "a A 192.0.2.1\n";
            assert!(desk.laid(desk.edition(&next).unwrap()).is_some(), "{wrong}");
            let worse = next + "@ NS other\n";
            assert!(desk.laid(desk.edition(&worse).unwrap()).is_none(), "{wrong}");
        }
    }

    /// A zone of these names, each with an address and a denial that leads to the next. Nothing is said of signatures where
    /// there are no keys.
    fn signed(names: &[&str], with_nsec3: bool) -> String {
        let signature = "@ RRSIG SOA 8 1 60 20300101000000 20260101000000 1 z. aaaa\n";
        let addresses: String = names.iter().map(|name| format!("{name} A 192.0.2.7\n")).collect();
        let mut links: Vec<(String, &str)> = vec![];
        for (name, types) in
            [("@", "NS SOA RRSIG NSEC"), ("ns", "A NSEC")].into_iter().chain(names.iter().map(|n| (*n, "A NSEC")))
        {
            let whole = [
                if name == "@" { vec![] } else { [&[name.len() as u8][..], name.as_bytes()].concat() },
                b"\x01z\0".to_vec(),
            ];
            let owner =
                if with_nsec3 { base32hex(&image::zone::nsec3_hash(&whole.concat(), 0, &[])) } else { name.into() };
            links.push((owner, types));
        }
        links.sort();
        let next = links.iter().map(|link| &*link.0).cycle().skip(1);
        let link = |(link, next): (&(String, &str), &str)| match (with_nsec3, link.1) {
            (false, types) => format!("{} NSEC {next} {types}\n", link.0),
            (true, "A NSEC") => format!("{} NSEC3 1 0 0 - {next} A\n", link.0),
            (true, _) => format!("{} NSEC3 1 0 0 - {next} NS SOA RRSIG NSEC3PARAM\n", link.0),
        };
        let param = if with_nsec3 { "@ NSEC3PARAM 1 0 0 -\n" } else { "" };
        HEAD.to_string() + signature + param + &addresses + &links.iter().zip(next).map(link).collect::<String>()
    }

    fn base32hex(hash: &[u8; 20]) -> String {
        let digit =
            |bits: u64, i: usize| char::from(b"0123456789abcdefghijklmnopqrstuv"[(bits >> (35 - 5 * i)) as usize & 31]);
        let five = |five: &[u8]| five.iter().fold(0u64, |bits, &octet| bits << 8 | u64::from(octet));
        hash.chunks(5).map(five).flat_map(|bits| (0..8).map(move |i| digit(bits, i))).collect()
    }

    /// The line of this owner and type that stands in one text and not in the other.
    fn lines_only_in<'t>(text: &'t str, other: &str) -> Vec<&'t str> {
        text.lines().filter(|line| !other.lines().any(|l| l == *line)).collect()
    }

    #[test]
    fn names_of_a_signed_zone_are_laid_if_its_chain_holds() {
        for with_nsec3 in [false, true] {
            let (few, more) = (signed(&["a", "c"], with_nsec3), signed(&["a", "b", "c"], with_nsec3));
            for (before, after) in [(&few, &more), (&more, &few)] {
                let desk = Desk::new("signed", before);
                let laid = desk.laid(desk.edition(after).unwrap()).expect("the chain holds");
                let twin = Desk::new("signed-new", after);
                assert_eq!(records(&laid), records(&twin.image));
                // Each line of the difference left out: an address without denial, a chain that leads past or to nobody.
                for left_out in lines_only_in(after, before).into_iter().filter(|line| !line.starts_with("b A")) {
                    let broken = after.replace(&format!("{left_out}\n"), "");
                    let edition = desk.edition(&broken).unwrap();
                    assert!(desk.laid(edition).is_none(), "{left_out}");
                }
                for left in lines_only_in(before, after) {
                    let edition = desk.edition(&format!("{after}{left}\n"));
                    assert!(edition.is_none_or(|edition| desk.laid(edition).is_none()), "{left}");
                }
            }
        }
    }

    #[test]
    fn a_zone_that_comes_to_be_signed_in_another_way_is_read_as_a_whole() {
        let texts = [HEAD.to_string(), signed(&["a"], false), signed(&["a"], true)];
        for (before, after) in [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)] {
            let desk = Desk::new("resigned", &texts[before]);
            let edition = desk.edition(&texts[after]);
            assert!(edition.is_none_or(|edition| desk.laid(edition).is_none()), "{before} {after}");
        }
    }
}
