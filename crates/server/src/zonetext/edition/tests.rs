use super::*;
use crate::config::Seen;
use crate::images::changes::{self, Plan};
use crate::images::laying;
use crate::images::{Beforehand, Library};
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// A zone file, and the image of what it held at first.
pub struct Desk {
    folder: PathBuf,
    pub zone: Zone,
    library: Library,
    pub image: Image<Stretch>,
}

pub const HEAD: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

impl Desk {
    pub fn new(name: &str, text: &str) -> Desk {
        Desk::with(name, text, &[])
    }

    /// Other zones, which all hold the same, are in the image, too.
    fn with(name: &str, text: &str, others: &[&[u8]]) -> Desk {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let folder = std::env::temp_dir().join(format!("dunlin-edition-{}-{name}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("z"), text).unwrap();
        let zone = Zone::new(b"\x01z\0"[..].into(), folder.join("z"));
        let library = Library::open(&folder).unwrap();
        fs::write(folder.join("other"), HEAD).unwrap();
        let others = others.iter().map(|apex| Zone::new((*apex).into(), folder.join("other")));
        let zones: Vec<Zone> = std::iter::once(zone.clone()).chain(others).collect();
        let image = library.first(&zones, &Seen::default(), None, Beforehand::none(&folder)).unwrap().image;
        Desk { folder, zone, library, image }
    }

    pub fn edition(&self, text: &str) -> Option<Edition> {
        self.edition_over(&self.image, text)
    }

    /// Found by reading all of the text.
    pub fn edition_over(&self, image: &Image<Stretch>, text: &str) -> Option<Edition> {
        self.write(text);
        Edition::of(&self.zone, image, None, self.cutting())
    }

    /// Writes the file, and as if it had been some time ago.
    pub fn write(&self, text: &str) {
        fs::write(&self.zone.file, text).unwrap();
        let old = SystemTime::now() - Duration::from_secs(60);
        fs::File::open(&self.zone.file).unwrap().set_modified(old).unwrap();
    }

    /// So that there are some pieces, however short the text.
    pub fn cutting(&self) -> Cutting {
        Cutting { seed: self.image.header().seed, head: HEAD.len() + 20, one_in: 2 }
    }

    /// The names that are said to be others.
    fn names(&self, text: &str) -> Vec<String> {
        let names = self.edition(text).unwrap().names;
        names.keys().map(|n| crate::images::name(n).to_string()).collect()
    }

    /// The image with a text's changes laid over it.
    pub fn laid(&self, edition: Edition) -> Option<Image<Stretch>> {
        let plan = Plan::of_editions(vec![edition], &self.library);
        changes::lay(&self.image, plan).map(|laid| laid.image)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub fn records(image: &Image<Stretch>) -> Vec<transfer::Record> {
    let mut all = vec![];
    let zone = laying::zone(image.view(), b"\x01z\0").unwrap();
    zone.for_each_record(&mut |owner, rtype, ttl, rdata| all.extend(canonical(owner, rtype, ttl, rdata))).unwrap();
    assert_eq!(zone.records().unwrap(), all.len() as u64, "however often a text had them");
    all.sort_unstable();
    all
}

fn loss(before: &[transfer::Record], after: &[transfer::Record]) -> Loss {
    let of = |all: &[transfer::Record], one: &transfer::Record| {
        all.iter().filter(|r| (r.owner(), r.rtype) == (one.owner(), one.rtype)).count()
    };
    let mut sets: Vec<&transfer::Record> = before.iter().collect();
    sets.dedup_by_key(|r| (r.owner(), r.rtype));
    let lost = sets.iter().map(|one| of(before, one).saturating_sub(of(after, one)));
    Loss { records: lost.sum::<usize>() as u64, of: before.len() as u64 }
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
                prop_assert_eq!(edition.loss, loss(&diff, &records(&twin.image)));
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
    let desk = Desk::new("found", &(HEAD.to_string() + "a A 192.0.2.2\nb TXT x\nc.d NS e.c.d\ne.c.d A 192.0.2.3\n"));
    let text = HEAD.to_string() + "b TXT x\na A 192.0.2.9\nc.d NS E.C.d\nE.c.d A 192.0.2.3\nf TXT y\n";
    assert_eq!(desk.names(&text), ["a.z.", "f.z."]);
    assert_eq!(desk.names(&text.replace("b TXT x\n", "")), ["a.z.", "b.z.", "f.z."]);
    assert_eq!(desk.names(&text.replace("E.c.d A 192.0.2.3", "")), ["a.z.", "e.c.d.z.", "f.z."]);
    let laid = desk.laid(desk.edition(&text).unwrap()).unwrap();
    assert_eq!(laid.header().records, 8);
}

#[test]
fn what_a_zone_has_at_the_apex_of_another_is_its_own() {
    let text = HEAD.to_string() + "a A 192.0.2.2\nd NS ns.d\nns.d A 192.0.2.3\n";
    let desk = Desk::with("others", &text, &[b"\x01d\x01z\0"]);
    assert_eq!(desk.names(&text), [""; 0]);
    let secure = text.clone() + "d DS 1 13 2 0123456789012345678901234567890123456789012345678901234567890123\n";
    assert_eq!(desk.names(&secure), ["d.z."]);
    assert_eq!(desk.names(&text.replace("192.0.2.3", "192.0.2.4")), ["ns.d.z."]);
    let laid = desk.laid(desk.edition(&secure).unwrap()).unwrap();
    let has = |image: &Image<Stretch>| records(image).iter().filter(|r| r.rtype == DS).count();
    assert_eq!((has(&desk.image), has(&laid)), (0, 1));
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

#[test]
fn hashes_that_are_known_do_for_zones_that_hash_alike() {
    let texts = [Some(0), Some(3), None].map(|n| signed_with(&["a", "b", "c"], n));
    let desks = [("alike", 0), ("unlike", 1), ("nsec", 2)].map(|(name, i)| Desk::new(name, &texts[i]));
    let zones: Vec<_> = desks.iter().map(|desk| laying::zone(desk.image.view(), b"\x01z\0").unwrap()).collect();
    let names = || [&b"\x01a\x01z\0"[..], b"\x01c\x01z\0"].into_iter();
    let known: Vec<Hashes> = zones.iter().map(|zone| Hashes::of(zone, names()).unwrap()).collect();
    for zone in &zones {
        for known in &known {
            assert_eq!(audit::links::hold(zone, names(), known), Ok(true));
        }
    }
}

/// A zone of these names, each with an address and a denial that leads to the next. Nothing is said of signatures where
/// there are no keys.
fn signed(names: &[&str], with_nsec3: bool) -> String {
    signed_with(names, with_nsec3.then_some(0))
}

/// The same; with so many iterations, if it is of NSEC3.
fn signed_with(names: &[&str], iterations: Option<u16>) -> String {
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
        let hash = |n| base32hex(&image::zone::nsec3_hash(&whole.concat(), n, &[]));
        links.push((iterations.map_or(name.into(), hash), types));
    }
    links.sort();
    let next = links.iter().map(|link| &*link.0).cycle().skip(1);
    let link = |(link, next): (&(String, &str), &str)| match (iterations, link.1) {
        (None, types) => format!("{} NSEC {next} {types}\n", link.0),
        (Some(n), "A NSEC") => format!("{} NSEC3 1 0 {n} - {next} A\n", link.0),
        (Some(n), _) => format!("{} NSEC3 1 0 {n} - {next} NS SOA RRSIG NSEC3PARAM\n", link.0),
    };
    let param = iterations.map(|n| format!("@ NSEC3PARAM 1 0 {n} -\n")).unwrap_or_default();
    HEAD.to_string() + signature + &param + &addresses + &links.iter().zip(next).map(link).collect::<String>()
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
