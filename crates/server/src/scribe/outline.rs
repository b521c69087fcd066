//! The text of a zone that is written again and again: what has not changed since the last time is copied from the file that
//! was written then.
//!
//! ```text
//! first line, apex        always anew: the serial is there
//! passage of names        nothing of it has changed: copied, and never comes out of the kernel
//!                         something has: written anew
//! ```
//! Where the passages begin is remembered from one writing to the next: 12 octets for 64 KiB of text. That is good for as long as
//! the names lie over the same image, and the file is the one that was written. After a fold, or when anything is in doubt, all is
//! written anew.

use crate::images::laying::Seen;
use crate::images::sound::damaged;
use crate::stamp::Stamp;
use crate::update::ledger::push_record;
use image::node::APEX;
use image::{Damaged, Image, Walk, Zone};
use std::fs::File;
use std::io::{self, Write};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use store::Stretch;
use store::atomic::Output;
use store::leave_cache;
use wire::rtype::SOA;

/// Octets of text that a passage has at least, but for the last.
pub const PASSAGE: u64 = 64 << 10;
/// When so many octets of the new file have come to the page cache, as many of the old one leave it.
const SLICE: u64 = 4 << 20;

/// Where which names stand in a file that was written.
pub struct Outline {
    /// Of what.
    seen: Seen,
    /// In the order of the text. The first begins with the apex.
    passages: Vec<Passage>,
    length: u64,
    /// None: it is not known yet.
    stamp: Option<Stamp>,
}

#[derive(Clone, Copy)]
struct Passage {
    /// See `image::walk`.
    from: u32,
    /// Where its text begins.
    at: u64,
}

impl Outline {
    /// The file that was written has its name. None: it is not worth remembering, or somebody has touched it.
    pub fn named(mut self, file: &Path) -> Option<Outline> {
        let stamp = Stamp::seen(&std::fs::metadata(file).ok()?);
        self.stamp = Some(stamp).filter(|stamp| stamp.size == self.length && self.passages.len() > 1);
        self.stamp.is_some().then_some(self)
    }

    /// Whether the file is still as it was written.
    pub fn is_of(&self, file: &File) -> bool {
        let is = file.metadata().ok().map(|found| Stamp::seen(&found));
        is.is_some() && is == self.stamp
    }
}

/// Writes a zone that `image` holds: `head`, the SOA, and all else. `passage`: octets of one. `old`: the file that this is to replace, if it is
/// there; `before`: what was written into it, if that is known.
pub fn write(
    passage: u64,
    image: &Image<Stretch>,
    zone: &Zone<'_>,
    head: &str,
    before: Option<&Outline>,
    mut old: Option<File>,
    out: &mut Output,
) -> io::Result<Outline> {
    let walk = Walk::of(*zone).map_err(damaged)?;
    let again =
        before.filter(|outline| outline.seen.is_of(image, &walk)).and_then(|outline| Some((outline, old.take()?)));
    let seen = Seen::of(image, zone).ok_or(Damaged).map_err(damaged)?;
    let mut text = Text { zone, walk, passage, out, at: 0, old, left: 0, lines: String::new(), passages: vec![] };
    text.put(head.as_bytes())?;
    text.put_apex()?;
    match again {
        None => text.anew(text.walk.first(), None)?,
        Some((outline, mut file)) => text.again(outline, &mut file)?,
    }
    let Text { at: length, passages, .. } = text;
    Ok(Outline { seen, passages, length, stamp: None })
}

/// A text in the making.
struct Text<'t, 'z> {
    zone: &'t Zone<'z>,
    walk: Walk<'z>,
    /// Octets of a passage.
    passage: u64,
    out: &'t mut Output,
    at: u64,
    /// The file that this is to replace, unless parts of it are copied: as what comes here comes to the cache, as much of that leaves it.
    old: Option<File>,
    /// How much of it has.
    left: u64,
    /// Of the name at hand.
    lines: String,
    passages: Vec<Passage>,
}

impl Text<'_, '_> {
    fn put(&mut self, octets: &[u8]) -> io::Result<()> {
        self.out.write_all(octets)?;
        self.at += octets.len() as u64;
        if self.at - self.left >= SLICE {
            self.left = self.at;
            self.old.iter().for_each(|old| leave_cache(old, self.at));
        }
        Ok(())
    }

    /// The SOA first, as everybody expects.
    fn put_apex(&mut self) -> io::Result<()> {
        let node = self.zone.apex().map_err(damaged)?;
        let name = node.apex_name().map_err(damaged)?;
        let records = image::edit::records_of(&node, name).map_err(damaged)?;
        let (soa, others): (Vec<_>, Vec<_>) = records.into_iter().partition(|r| r.rtype == SOA);
        let mut lines = String::new();
        soa.iter().chain(&others).for_each(|r| push_record(name, r.rtype, r.ttl, &r.rdata, &mut lines));
        self.put(lines.as_bytes())
    }

    /// Writes the names of a passage anew; what has grown becomes several.
    fn anew(&mut self, from: u32, to: Option<u32>) -> io::Result<()> {
        let (mut lines, mut begin) = (std::mem::take(&mut self.lines), self.at);
        self.passages.push(Passage { from, at: begin });
        for node in self.walk.nodes(from, to).map_err(damaged)? {
            let node = node.map_err(damaged)?;
            if let Some(from) = self.walk.place(&node).filter(|_| self.at - begin >= self.passage) {
                begin = self.at;
                self.passages.push(Passage { from, at: begin });
            }
            if !node.is(APEX) {
                lines.clear();
                let mut record = |owner: &[u8], rtype, ttl, rdata: &[u8]| {
                    push_record(owner, rtype, ttl, rdata, &mut lines);
                    ControlFlow::Continue(())
                };
                let whole = self.zone.each_record_of(&node, &mut record);
                let _: ControlFlow<()> = whole.map_err(damaged)?;
                self.put(lines.as_bytes())?;
            }
        }
        self.lines = lines;
        Ok(())
    }

    /// Copies what is as it was before, and writes the rest anew.
    fn again(&mut self, before: &Outline, file: &mut File) -> io::Result<()> {
        let ends = before.passages.iter().skip(1).map(|next| (Some(next.from), next.at));
        let mut same = 0..0;
        for (passage, (to, end)) in before.passages.iter().zip(ends.chain([(None, before.length)])) {
            if self.walk.has_changed(passage.from, to, before.seen.end()).map_err(damaged)? {
                self.copy(file, std::mem::take(&mut same))?;
                self.anew(passage.from, to)?;
                continue;
            }
            let begin = if same.is_empty() { passage.at } else { same.start };
            self.passages.push(Passage { from: passage.from, at: self.at + (passage.at - begin) });
            same = begin..end;
        }
        self.copy(file, same)
    }

    fn copy(&mut self, file: &mut File, octets: Range<u64>) -> io::Result<()> {
        let n = octets.end - octets.start;
        self.at += n;
        // What is in the buffer waits on.
        if n == 0 { Ok(()) } else { self.out.copy(file, octets.start, n) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::laying;
    use crate::update::unwritten::{Names, Wish};
    use image::edit::Record;
    use std::path::{Path, PathBuf};
    use store::atomic::write_atomically;
    use wire::rtype::{A, TXT};

    const APEX: &[u8] = b"\x01z\0";
    const HOSTS: u64 = 120;

    struct Stage {
        folder: PathBuf,
        image: Image<Stretch>,
        /// All that has changed of it.
        changed: Names,
        state: u64,
    }

    impl Stage {
        fn new(name: &str, seed: u64, hosts: u64) -> Stage {
            let hosts: String = (0..hosts).map(|n| format!("h{n:03} 60 A 192.0.2.1\n")).collect();
            let (octets, _) = sim::image_of(&[("z.", &format!("@ 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns\n{hosts}"))]);
            let folder = std::env::temp_dir().join(format!("dunlin-outline-{}-{name}-{seed}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("image"), octets).unwrap();
            let image = Stage::map(&folder);
            Stage { folder, image, changed: Names::new(), state: seed }
        }

        fn map(folder: &Path) -> Image<Stretch> {
            let map = store::Map::copy_to_memory(&folder.join("image"), 1 << 20).unwrap();
            Image::open_to_serve(Stretch::of(map), |_| 0).unwrap()
        }

        fn lay(&mut self, names: Names) {
            let wish = Wish { apex: APEX.into(), names };
            let laid =
                laying::over(&self.image, &[wish], image::patch::Limits::MOST).unwrap_or_else(|e| panic!("{}", e.why));
            laid.into_iter().for_each(|laid| self.image = laid.image);
        }

        /// Another map of the same file takes its place, as one on large pages does.
        fn map_again(&mut self) {
            self.image = Stage::map(&self.folder);
            self.lay(self.changed.clone());
        }

        fn draw(&mut self, below: u64) -> u64 {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.state >> 33) % below
        }

        /// Names that come, go, grow or change, before, between, below and behind those that were there.
        fn change(&mut self) {
            let mut names = Names::new();
            for _ in 0..=self.draw(4) {
                let (n, kind) = (self.draw(HOSTS + 20), self.draw(4));
                let host = [&b"\x04"[..], format!("h{n:03}").as_bytes(), APEX].concat();
                let name = if kind == 3 { [&b"\x01x"[..], &host].concat() } else { host };
                let text = |len: u64| Record {
                    rtype: TXT,
                    ttl: 60,
                    rdata: [&[len as u8][..], &[b'a'; 90][..len as usize]].concat().into(),
                };
                let address = Record { rtype: A, ttl: 60, rdata: [10, 0, 0, self.draw(200) as u8][..].into() };
                let records = match self.draw(4) {
                    0 => vec![],
                    1 => vec![address, text(self.draw(90))],
                    _ => vec![address],
                };
                names.insert(name.into(), records);
            }
            self.changed.extend(names.clone());
            self.lay(names);
        }

        fn write(&self, name: &str, passage: u64, before: Option<&Outline>, old: Option<File>) -> (Outline, Vec<u8>) {
            let (mut outline, zone) = (None, laying::zone(self.image.view(), APEX).unwrap());
            let head = format!("; {}\n", self.state);
            let text = |out: &mut Output| {
                outline = Some(write(passage, &self.image, &zone, &head, before, old, out)?);
                Ok(())
            };
            let file = write_atomically(&self.folder, name, None, text).unwrap();
            (outline.unwrap(), std::fs::read(file).unwrap())
        }
    }

    impl Drop for Stage {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn the_text_is_the_same_as_if_all_were_written_anew() {
        for seed in 0..20 {
            let mut stage = Stage::new("same", seed, HOSTS);
            let file = stage.folder.join("z");
            let mut before: Option<Outline> = None;
            for round in 0..25 {
                (0..stage.draw(3)).for_each(|_| stage.change());
                if stage.draw(4) == 0 {
                    stage.map_again();
                }
                let old = File::open(&file).ok();
                let known = before.as_ref().filter(|outline| old.as_ref().is_some_and(|old| outline.is_of(old)));
                assert_eq!(known.is_some(), round % 10 > 0, "seed {seed} round {round}");
                let (outline, again) = stage.write("z", 1 + seed * 20, known, old);
                let (_, anew) = stage.write("anew", 64, None, None);
                assert_eq!(again, anew, "seed {seed} round {round}");
                before = outline.named(&file);
                if round % 10 == 9 {
                    // Whoever touches the file may have edited it.
                    File::options().append(true).open(&file).and_then(|mut f| f.write_all(b";")).unwrap();
                }
            }
        }
    }

    #[test]
    fn what_has_not_changed_is_copied() {
        let mut stage = Stage::new("copied", 7, HOSTS);
        let (outline, text) = stage.write("z", 64, None, None);
        let other = stage.folder.join("other");
        std::fs::write(&other, vec![b'#'; text.len()]).unwrap();
        let copied = |stage: &Stage, outline: &Outline| {
            let (_, text) = stage.write("z", 64, Some(outline), File::open(&other).ok());
            text.iter().filter(|&&c| c == b'#').count()
        };
        let is_current =
            |stage: &Stage| outline.seen.is_current(&stage.image, &laying::zone(stage.image.view(), APEX).unwrap());
        assert!(copied(&stage, &outline) > text.len() - 200 && is_current(&stage), "nothing has changed");
        stage.change();
        assert!(!is_current(&stage));
        assert!((text.len() / 2..text.len()).contains(&copied(&stage, &outline)), "some names have");
        let image = Stage::new("folded", 7, HOSTS + 1);
        assert_eq!(copied(&image, &outline), 0, "another image");
    }
}
