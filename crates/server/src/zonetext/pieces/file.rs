//! The pieces of all long texts that an image was made of, in one file beside it: mapped, and never changed.
//!
//! ```text
//! head      128 octets: version, the image's size and seed, how many zones, the file's length; its checksum
//! zones     640 octets each: apex, origin and TTL, where the apex stands, numbers of what follows; two checksums
//!           and behind each head: pieces (hash u64, octets u32, owners u32)... | owners u64...
//! ```
//!
//! It belongs to one image. What stands for one that is laid over it is in memory; after a start it is read from the texts again,
//! by what the image's own pieces were. Anything odd in the file means that nothing is known, never an error: it is a cache.

use super::cutting::Cutting;
use super::notes::Noted;
use super::{Base, Owners, Piece, Pieces, placed};
use crate::images::manifest::Identity;
use crate::log;
use image::Zone as ImageZone;
use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use store::Map;
use store::atomic;
use wire::Name;
use wire::hash::siphash;
use zonefile::Surroundings;

pub const NAME: &str = "zones.pieces";
const MAGIC: &[u8; 16] = b"dunlin pieces\n\0\0";
/// The program's version, with that of the format: a file of another one is none.
const VERSION: &str = concat!("1 ", env!("CARGO_PKG_VERSION"));
const HEAD: usize = 128;
const ZONE: usize = 640;
const PIECE: usize = 16;
const SUM_KEY: &[u8; 16] = b"dunlin pieces...";
/// Of all zones whose pieces are known.
#[derive(Default)]
pub struct Shelf {
    zones: HashMap<Box<[u8]>, Kept>,
}

enum Kept {
    Filed(Box<Filed>),
    Held(Box<Pieces>),
}

/// A zone's pieces in the file.
struct Filed {
    map: Map,
    cutting: Cutting,
    inside: Surroundings,
    apex: u32,
    body: [Range<usize>; 2],
    sum: u64,
}

/// Owners in the file.
struct Mapped {
    map: Map,
    /// Pieces, owners.
    body: [Range<usize>; 2],
    sum: u64,
    is_sound: OnceLock<bool>,
}

impl Mapped {
    fn part(&self, part: usize) -> &[u8] {
        self.body.get(part).and_then(|range| self.map.get(range.clone())).unwrap_or(&[])
    }
}

impl Base for Mapped {
    fn owners(&self) -> &[[u8; 8]] {
        self.part(1).as_chunks().0
    }

    fn is_sound(&self) -> bool {
        let is_sound = || sum([0, 1].map(|part| self.part(part))) == self.sum;
        *self.is_sound.get_or_init(is_sound) && self.map.faults() == 0
    }
}

impl Filed {
    fn pieces(&self) -> Option<Pieces> {
        let [list, ..] = &self.body;
        let list = placed(self.map.get(list.clone())?.as_chunks::<PIECE>().0.iter().map(unpacked));
        let (map, body) = (self.map.clone(), self.body.clone());
        let base = Mapped { map, body, sum: self.sum, is_sound: OnceLock::new() };
        let Filed { cutting, inside, apex, .. } = *self;
        Some(Pieces { cutting, inside, apex, list, base: Arc::new(base) })
    }
}

impl Shelf {
    /// The pieces of what is served of a zone. None: they are not known.
    pub fn find(&self, apex: &[u8], zone: &ImageZone<'_>) -> Option<Pieces> {
        let pieces = match self.zones.get(apex)? {
            Kept::Filed(filed) => filed.pieces()?,
            Kept::Held(pieces) => (**pieces).clone(),
        };
        pieces.are_of(zone).then_some(pieces)
    }

    /// A zone's pieces from now on.
    pub fn put(&mut self, apex: Box<[u8]>, pieces: Pieces) {
        self.zones.insert(apex, Kept::Held(Box::new(pieces)));
    }

    /// What is in the file, if it is of this image.
    pub fn open(folder: &Path, image: Identity) -> Shelf {
        let zones = Map::open_as_cached(&folder.join(NAME)).ok().and_then(|map| read(&map, image));
        Shelf { zones: zones.unwrap_or_default() }
    }

    /// Writes the pieces of an image's zones. A disk that has no room for them goes without.
    pub fn write(folder: &Path, image: Identity, zones: &[(Box<[u8]>, Pieces)]) -> Shelf {
        // What is there is of another image.
        let _ = std::fs::remove_file(folder.join(NAME));
        if zones.is_empty() {
            return Shelf::default();
        }
        match write(folder, image, zones) {
            Ok(()) => Shelf::open(folder, image),
            Err(why) => {
                let why: [(&str, &dyn std::fmt::Display); 1] = [("why", &why)];
                log::warn("changes of long zone files will be slow: what is known of them cannot be kept", &why);
                Shelf::default()
            }
        }
    }
}

fn write(folder: &Path, image: Identity, zones: &[(Box<[u8]>, Pieces)]) -> io::Result<()> {
    let octets_of = |pieces: &Pieces| PIECE * pieces.list.len() + pieces.base.owners().as_flattened().len();
    let len = HEAD + zones.iter().map(|(_, pieces)| ZONE + octets_of(pieces)).sum::<usize>();
    let write = |out: &mut atomic::Output| {
        out.write_all(&head(image, zones.len(), len))?;
        for (apex, pieces) in zones {
            let list: Vec<u8> = pieces.list.iter().flat_map(packed).collect();
            let body = [&list[..], pieces.base.owners().as_flattened()];
            out.write_all(&zone_head(apex, pieces, body))?;
            body.iter().try_for_each(|part| out.write_all(part))?;
        }
        Ok(())
    };
    atomic::write_atomically(folder, NAME, Some(len as u64), write).map(|_| ())
}

fn sum(body: [&[u8]; 2]) -> u64 {
    body.iter().fold(0, |all: u64, part| all.rotate_left(21) ^ siphash::<1, 3>(SUM_KEY, part))
}

fn packed(piece: &Piece) -> [u8; PIECE] {
    let owners = if let Owners::Base(_, n) = piece.owners { n } else { 0 };
    (u128::from(piece.hash) | u128::from(piece.octets) << 64 | u128::from(owners) << 96).to_le_bytes()
}

fn unpacked(octets: &[u8; PIECE]) -> Noted {
    let all = u128::from_le_bytes(*octets);
    Noted { hash: all as u64, octets: (all >> 64) as u32, owners: (all >> 96) as u32 }
}

/// Numbers and names of fixed places; the last eight octets are their checksum.
struct Head<const N: usize>([u8; N]);

impl<const N: usize> Head<N> {
    fn put(&mut self, at: usize, octets: &[u8]) {
        if let Some(place) = self.0.get_mut(at..at + octets.len()) {
            place.copy_from_slice(octets);
        }
    }

    fn put_words(&mut self, at: usize, words: &[u64]) {
        (0..).zip(words).for_each(|(i, word): (usize, _)| self.put(at + 8 * i, &word.to_le_bytes()));
    }

    fn word(&self, at: usize) -> u64 {
        self.0.get(at..).and_then(|octets| octets.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
    }

    /// A name with its length before it.
    fn name(&self, at: usize) -> Option<Name> {
        let len = usize::from(*self.0.get(at)?);
        self.0.get(at + 1..at + 1 + len).and_then(Name::from_wire)
    }

    fn put_name(&mut self, at: usize, name: &[u8]) {
        self.put(at, &[name.len() as u8]);
        self.put(at + 1, name);
    }

    fn sum(&self) -> u64 {
        siphash::<1, 3>(SUM_KEY, &self.0[..N - 8])
    }

    fn sealed(mut self) -> [u8; N] {
        self.put_words(N - 8, &[self.sum()]);
        self.0
    }

    fn read(octets: Option<&[u8; N]>) -> Option<Head<N>> {
        octets.map(|octets| Head(*octets)).filter(|head| head.word(N - 8) == head.sum())
    }
}

fn begin() -> Head<HEAD> {
    let mut head = Head([0; HEAD]);
    head.put(0, MAGIC);
    head.put(16, VERSION.as_bytes());
    head
}

fn head(image: Identity, zones: usize, len: usize) -> [u8; HEAD] {
    let mut head = begin();
    head.put_words(48, &[image.size, image.seed, zones as u64, len as u64]);
    head.sealed()
}

const APEX: usize = 80;
const ORIGIN: usize = 336;

fn zone_head(apex: &[u8], pieces: &Pieces, body: [&[u8]; 2]) -> [u8; ZONE] {
    let mut head = Head([0; ZONE]);
    let [list, owners] = body.map(|part| part.len() as u64);
    let Cutting { head: cut_from, one_in, .. } = pieces.cutting;
    // A TTL is 31 bits long (RFC 2181 section 8).
    let ttl = pieces.inside.ttl_default.map_or(u64::MAX, u64::from);
    let place = u64::from(pieces.apex);
    head.put_words(0, &[list, owners, sum(body), cut_from as u64, one_in, place, ttl]);
    head.put_name(APEX, apex);
    head.put_name(ORIGIN, pieces.inside.origin.bytes());
    head.sealed()
}

fn read(map: &Map, image: Identity) -> Option<HashMap<Box<[u8]>, Kept>> {
    let head = Head::<HEAD>::read(map.first_chunk())?;
    let is_ours = head.0[..48] == begin().0[..48] && head.word(72) == map.len() as u64;
    if !is_ours || (head.word(48), head.word(56)) != (image.size, image.seed) {
        return None;
    }
    let (mut zones, mut at) = (HashMap::new(), HEAD);
    for _ in 0..head.word(64) {
        let head = Head::<ZONE>::read(map.get(at..)?.first_chunk())?;
        let mut part = at + ZONE;
        let body = [0, 8].map(|word| {
            let from = part;
            part = part.saturating_add(usize::try_from(head.word(word)).unwrap_or(usize::MAX));
            from..part
        });
        at = part;
        let cutting = Cutting { seed: image.seed, head: usize::try_from(head.word(24)).ok()?, one_in: head.word(32) };
        let inside = Surroundings { origin: head.name(ORIGIN)?, ttl_default: u32::try_from(head.word(48)).ok() };
        let apex = u32::try_from(head.word(40)).ok()?;
        let filed = Filed { map: map.clone(), cutting, inside, apex, body, sum: head.word(16) };
        zones.insert(head.name(APEX)?.bytes().into(), Kept::Filed(Box::new(filed)));
    }
    Some(zones)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zonetext::pieces::notes::{Hashing, Notes};
    use std::fs;
    use std::path::PathBuf;
    use zonefile::Record;

    const IMAGE: Identity = Identity { size: 77, seed: 7, names: 1 };
    const TEXT: &[u8] = b"$TTL 60\n@ SOA ns h 1 2 3 4 5\na NS ns.a\nns.a A 192.0.2.1\nb NS ns.a\nb NS ns.b\n";

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("dunlin-pieces-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn pieces() -> Pieces {
        let cutting = Cutting { seed: IMAGE.seed, head: 8, one_in: 1 };
        let mut notes = Notes::new(Hashing::new(IMAGE.seed, b"\x01z\0"));
        for piece in cutting.pieces(TEXT) {
            for (owner, rtype, rdata) in
                [(&b"\x01a\x01z\0"[..], 2, &b"\x02ns\x01A\x01z\0"[..]), (b"\x01b\x01z\0", 1, &[192, 0, 2, 1])]
            {
                notes.record(&Record { owner, rtype, class: 1, ttl: 60, rdata });
            }
            notes.end_piece(TEXT, &piece, &cutting);
        }
        let inside = Surroundings { origin: Name::from_wire(b"\x01Z\0").unwrap(), ttl_default: Some(60) };
        Pieces { apex: 5, ..Pieces::of(vec![notes], cutting, inside).unwrap() }
    }

    fn shown(pieces: &Pieces) -> String {
        let list: Vec<_> = pieces.list.iter().map(|piece| unpacked(&packed(piece))).collect();
        let Pieces { cutting, inside, apex, base, .. } = pieces;
        format!("{cutting:?} {inside:?} {apex} {list:?} {:?}", base.owners())
    }

    fn read_back(shelf: &Shelf) -> Option<Pieces> {
        match shelf.zones.get(&b"\x01z\0"[..])? {
            Kept::Filed(filed) => filed.pieces(),
            Kept::Held(_) => None,
        }
    }

    #[test]
    fn what_is_written_is_read_back_for_its_image_only() {
        let folder = Folder::new("back");
        let of = pieces();
        assert!(of.list.len() > 2 && of.base.owners().len() == 2 * of.list.len());
        let zones = [(b"\x01z\0"[..].into(), of.clone()), (b"\x01y\0"[..].into(), of.clone())];
        let shelf = Shelf::write(&folder.0, IMAGE, &zones);
        let back = read_back(&shelf).unwrap();
        assert_eq!(shown(&back), shown(&of));
        assert!(back.base.is_sound() && shelf.zones.len() == 2);
        for other in [Identity { size: 78, ..IMAGE }, Identity { seed: 8, ..IMAGE }] {
            assert!(Shelf::open(&folder.0, other).zones.is_empty());
        }
        assert!(Shelf::write(&folder.0, IMAGE, &[]).zones.is_empty() && !folder.0.join(NAME).exists());
    }

    #[test]
    fn with_any_octet_flipped_or_cut_off_nothing_is_known() {
        let folder = Folder::new("flipped");
        drop(Shelf::write(&folder.0, IMAGE, &[(b"\x01z\0"[..].into(), pieces())]));
        let file = folder.0.join(NAME);
        let good = fs::read(&file).unwrap();
        let is_known = |octets: &[u8]| {
            fs::write(&file, octets).unwrap();
            read_back(&Shelf::open(&folder.0, IMAGE)).is_some_and(|pieces| pieces.base.is_sound())
        };
        assert!(is_known(&good));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            assert!(!is_known(&bad), "{at}");
            assert!(!is_known(&good[..at]), "{at}");
        }
    }

    #[test]
    fn where_there_is_no_room_nothing_is_known() {
        let shelf = Shelf::write(Path::new("/nowhere"), IMAGE, &[(b"\x01z\0"[..].into(), pieces())]);
        assert!(shelf.zones.is_empty());
    }

    #[test]
    fn what_is_put_away_is_the_same() {
        let folder = Folder::new("away");
        let of = pieces();
        let away = of.clone().put_away(&crate::images::scratch::Scratch::new(folder.0.clone()));
        assert!(of.base.is_in_memory() && !away.base.is_in_memory());
        assert_eq!(shown(&away), shown(&of));
    }
}
