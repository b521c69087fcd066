//! What is served: an image, what is laid over it, and what tells whether publishing again would change anything.

use crate::complaint::Complaint;
use crate::config::{Allow, Config, Seen, Written, Zone};
use crate::history::{self, Recorder};
use crate::images::admitted::Admitted;
use crate::images::changes::{self, Plan};
use crate::images::comparison::{self, Difference};
use crate::images::lately::Last;
use crate::images::laying;
use crate::images::manifest::{self, Identity, Manifest};
use crate::images::{self, Beforehand, Library, Remark, Shelved};
use crate::log;
use crate::stamp::Looks;
use crate::state::Served;
use crate::zonetext::pieces::file::Shelf;
use front::{Granted, Presence, Unserved, Zones};
use image::Image;
use image::node::APEX;
use policy::{Acl, Lists};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use store::{Backing, Stretch};

/// What was published last: what tells whether publishing again would change anything.
pub struct Serving {
    /// Those whose access lists are published with it.
    pub written: Written,
    pub file: Arc<PathBuf>,
    pub generation: u64,
    pub problems: Arc<[images::Problem]>,
    /// Of the image with what is laid over it.
    pub manifest: Manifest,
    /// Of the texts of long zones.
    pub pieces: Shelf,
    /// Fingerprint of the names of the zones that are served.
    pub names: u64,
    /// How many they are: the image has numbers for those, too, that are no more.
    pub zones: u64,
    /// Octets of the image that huge pages back.
    pub huge_bytes: u64,
    /// Zones of the image as its file is: those that came later have later numbers.
    of_image: u32,
    pub said: Said,
}

/// What is wrong with zones that are served all the same, as it was said last.
pub type Said = HashSet<Remark>;

/// How much of what is configured is known to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    All,
    /// Zones that updates own; the others are as they were served last.
    Owned,
}

/// An image with the access lists of its zones, ready to be published.
pub fn ready(mut shelved: Shelved, config: &Config, generation: u64, said: Said) -> (Zones<Stretch>, Serving) {
    let said = match shelved.remarks.take() {
        Some(remarks) => remark(remarks, &said),
        None => said,
    };
    // They stay until the next image; making this one has taken much else.
    let (file, seen) = store::heap::apart(|| (Arc::new(shelved.file.clone()), shelved.manifest.seen.clone()));
    shelved.manifest.seen = seen;
    let problems = problems(&shelved.manifest);
    let unserved = unserved(&problems, &shelved.image);
    let serving = Serving {
        written: config.roster.written.clone(),
        file,
        generation,
        problems,
        names: shelved.manifest.image().names,
        zones: u64::from(shelved.image.header().zones),
        of_image: shelved.image.header().zones,
        said,
        manifest: shelved.manifest,
        pieces: shelved.pieces,
        huge_bytes: 0,
    };
    (access(&shelved.image, config).to(shelved.image, unserved), serving)
}

/// So many zones, in an image of so many octets, are compared with their files before the first answer is given, and built
/// anew if they differ: it takes some milliseconds. A larger server answers at once as it answered last, and compares after.
const COMPARED_FIRST: usize = 1000;
const BUILT_FIRST: u64 = 16 << 20;

/// What a start serves.
type Start = (Zones<Stretch>, Serving, Compared);

pub fn first(library: &Library, config: &Config, recorder: &mut Recorder) -> Result<Start, Vec<String>> {
    let seen = config.roster.seen();
    let open = || Last::open(library, &config.roster.written);
    let is_large = |last: &Manifest| last.zones() > COMPARED_FIRST || last.image().size > BUILT_FIRST;
    // Without it nothing is weighed: what failed once, as of too many open files, is tried again.
    let mut last = open().or_else(open);
    last.iter().for_each(|last| recorder.follow(last.shelved.manifest.history()));
    if let Some(why) = last.is_none().then(|| library.why_none()).flatten() {
        log::warn(
            "the last image cannot be used: what zone files have is served without being weighed",
            &[("why", &why)],
        );
    }
    let was = last.as_ref().and_then(|last| library.admitted(last.shelved.manifest.image()));
    let is = Admitted::of(config);
    // Where the server's own list is another, that is about all zones.
    let is_for_the_same = was.as_ref().is_some_and(|was| was.are_by_the_same_server(&is));
    // Where nobody knows it is about all as well.
    let is_for_others = |zone: &&Zone| was.as_ref().is_some_and(|was| !was.are_the_same(&is, &zone.apex));
    let others: Vec<Zone> = config.roster.written.iter().filter(is_for_others).cloned().collect();
    if let Some(last) = &last {
        library.admit(last.shelved.manifest.image(), &is);
    }
    let may_answer =
        |last: &mut Last| is_for_the_same && is_large(&last.shelved.manifest) && last.is_of(&seen, &config.roster);
    if let Some(large) = last.take_if(may_answer) {
        match at_once(large, library, config, recorder, true, &others) {
            Some(first) => return Ok(first),
            None => last = open(),
        }
    }
    let is_served = |zone: &Zone| last.as_ref().is_some_and(|last| last.shelved.manifest.has(zone));
    let (zones, strays) = config.roster.gather_but_strays(is_served).map_err(|complaints| told(&complaints))?;
    let seen = seen.beside(&strays);
    match library.first(&zones, &seen, last, Beforehand { recorder, note: &mut noting(library) }) {
        Ok(shelved) => {
            note_admitted(library, shelved.manifest.image(), &is);
            let (zones, serving) = ready(shelved, config, 1, Said::new());
            Ok((zones, serving, Compared::All))
        }
        Err(why) => {
            // What is not served is no version.
            library.gate.forget();
            let others = if is_for_the_same { &others } else { &zones };
            let start = in_spite_of_all(library, config, recorder, &zones, &seen, others);
            let start = start.ok_or_else(|| vec![format!("no image of the zones: {why}")])?;
            log::error("no new image of the zones can be made: the last one is served", &[("why", &why)]);
            Ok(start)
        }
    }
}

/// Keeps what files have changed, which an image brings in before it is served, in the history.
pub fn noting(library: &Library) -> impl FnMut(&mut Recorder, &[manifest::Entry]) {
    |recorder, entries| {
        let unfit = entries.iter().filter(|e| e.problem.is_some()).map(|e| &*e.apex).collect();
        recorder.note(library.gate.take(&unfit), &|_| history::by_file());
    }
}

/// The image that is there, for a disk that has no room for another: changes that are small are laid over it afterwards. Or it is damaged, and of some
/// zone there is nothing else. `others`: as `at_once` has them.
fn in_spite_of_all(
    library: &Library,
    config: &Config,
    recorder: &mut Recorder,
    zones: &[Zone],
    seen: &Seen,
    others: &[Zone],
) -> Option<Start> {
    let mut last = Last::open(library, &config.roster.written)?;
    if !last.is_of(seen, &config.roster) {
        let manifest = &last.shelved.manifest;
        // A zone that was for some, and is configured no more, or elsewhere, would be for all.
        let is_moved = |zone: &&Zone| manifest.find(&zone.apex).is_some_and(|known| known.file != zone.file);
        let moved = zones.iter().filter(is_moved).map(|zone| zone.apex.clone());
        let gone = manifest.beside(zones.iter().map(|zone| &*zone.apex))?;
        let gone = gone.into_iter().chain(moved).collect();
        last.add_new(&config.roster.written);
        if !last.go(gone) {
            return None;
        }
    }
    at_once(last, library, config, recorder, false, others)
}

/// What was served last. Zones that updates own are as they have made them, and those that came are there again. None: that takes a new image.
/// Unless `is_whole`, none can be made: what cannot be laid is as it was in this one, and takes no updates (`ledger`). `others`: zones that may be for
/// others than before, which are as their files say now.
fn at_once(
    last: Last,
    library: &Library,
    config: &Config,
    recorder: &mut Recorder,
    is_whole: bool,
    others: &[Zone],
) -> Option<Start> {
    let (come, pieces) = (last.come(&config.roster.written), &last.shelved.pieces);
    let mut lay = |over: &Image<Stretch>, anew: Vec<Zone>| {
        let difference = Difference { anew, ..Difference::default() };
        changes::lay(over, Plan::of(over, &difference, library, pieces, recorder)?)
    };
    let (manifest, mut looks) = (&last.shelved.manifest, Looks::default());
    let was_there = |zone: &&Zone| !zone.is_owned() && !zone.is_awaited() && manifest.find(&zone.apex).is_some();
    let owned = config.roster.written.iter().filter(|zone| zone.is_owned());
    let changed = owned.chain(others.iter().filter(was_there));
    let changed: Vec<Zone> = changed.filter(|zone| comparison::is_other(zone, manifest, &mut looks)).cloned().collect();
    let (mut image, mut entries, mut portions) = (None, vec![], vec![come]);
    if is_whole && !changed.is_empty() {
        let laid = lay(last.served(), changed)?;
        (image, entries) = (Some(laid.image), laid.entries);
    } else if !changed.is_empty() {
        portions.push(changed);
    }
    // Where they are too much together, or one takes a new image, the others need not wait for that.
    while let Some(mut portion) = portions.pop().filter(|portion| !portion.is_empty()) {
        match lay(image.as_ref().unwrap_or(last.served()), portion.clone()) {
            Some(laid) => (image, entries) = (Some(laid.image), [entries, laid.entries].concat()),
            None if portion.len() == 1 => {}
            None => portions.extend([portion.split_off(portion.len() / 2), portion]),
        }
    }
    let there: HashSet<&[u8]> = entries.iter().map(|entry| &*entry.apex).collect();
    let mut gone = last.gone(image.as_ref().unwrap_or(last.served()));
    gone.retain(|apex| !there.contains(&**apex));
    let (shelved, was_laid) = last.take();
    let (bare, mut serving) = ready(shelved, config, 1, Said::new());
    let Some(image) = image.or(was_laid) else { return Some((bare, serving, Compared::Owned)) };
    serving.take(&bare.image, &image, &entries, &gone);
    let unserved = unserved(&serving.problems, &image);
    Some((access(&image, config).to(image, unserved), serving, Compared::Owned))
}

/// This image is all that is served from now on, to these.
pub fn note_admitted(library: &Library, image: Identity, admitted: &Admitted) {
    if let Err(e) = library.note_admitted(image, admitted) {
        log::warn("the next start may look at files that it need not before its first answer", &[("why", &e)]);
    }
}

impl Serving {
    /// Is of an image with changes from now on.
    pub fn take(
        &mut self,
        before: &Image<Stretch>,
        laid: &Image<Stretch>,
        entries: &[manifest::Entry],
        gone: &[Box<[u8]>],
    ) {
        let is_served = |image: &Image<Stretch>, apex: &[u8]| laying::zone(image.view(), apex).is_some();
        for apex in entries.iter().map(|entry| &entry.apex).chain(gone) {
            let (was, is) = (is_served(before, apex), is_served(laid, apex));
            if was != is {
                self.names ^= images::fingerprint_of(apex);
                self.zones = self.zones.wrapping_add_signed(i64::from(is) - i64::from(was));
            }
        }
        self.manifest.change(entries, gone);
        self.problems = problems(&self.manifest);
    }

    /// Of what is served, but for what is laid over the image: another one may delegate less.
    pub fn fingerprint(&self) -> u64 {
        self.names ^ self.manifest.image().seed
    }

    /// Whether the image as its file is has a zone that is served.
    pub fn has_in_image(&self, served: &Image<Stretch>, apex: &[u8]) -> bool {
        number(served, apex).is_some_and(|number| number < self.of_image)
    }

    /// What names zones is like this.
    pub fn see(&mut self, seen: &Seen) {
        if self.manifest.seen != *seen {
            self.manifest.seen = store::heap::apart(|| seen.clone());
        }
    }
}

/// Whom the zones of an image are for.
#[derive(PartialEq, Eq)]
pub struct Access {
    /// By the zone numbers of the image.
    query: Arc<Lists>,
    transfer: Arc<Granted>,
}

impl Access {
    pub fn of(zones: &Zones<Stretch>) -> Access {
        Access { query: Arc::clone(&zones.allow_query), transfer: Arc::clone(&zones.allow_transfer) }
    }

    pub fn to(self, image: Image<Stretch>, unserved: Arc<Unserved>) -> Zones<Stretch> {
        Zones { image, allow_query: self.query, allow_transfer: self.transfer, unserved }
    }
}

pub fn access(image: &Image<Stretch>, config: &Config) -> Access {
    // It stays until they are for others.
    store::heap::apart(|| {
        let written = &config.roster.written;
        let own = written.iter().filter_map(|zone| own(image, zone)).collect();
        let granted = written.iter().filter(|zone| !zone.allow_transfer.0.is_empty());
        Access {
            query: Arc::new(Lists::new(list(&config.server.allow_query), own)),
            transfer: Arc::new(granted.map(|zone| (zone.apex.clone(), zone.allow_transfer.clone())).collect()),
        }
    })
}

/// As `access` has them, after an image that had those of `written`, and differs in these zones.
pub fn access_after(
    before: &Zones<Stretch>,
    written: &Written,
    image: &Image<Stretch>,
    about: &[Box<[u8]>],
    config: &Config,
) -> Access {
    if !written.is(&config.roster.written) {
        return access(image, config);
    }
    let is_moved = |apex: &&[u8]| number(&before.image, apex) != number(image, apex);
    let moved: Vec<&[u8]> = about.iter().map(|apex| &**apex).filter(is_moved).collect();
    let gone = moved.iter().filter_map(|apex| number(&before.image, apex)).collect();
    let come = moved.iter().filter_map(|apex| own(image, written.find(apex)?)).collect();
    let access = Access::of(before);
    match before.allow_query.with(&gone, come) {
        Some(query) => Access { query: Arc::new(query), ..access },
        None => access,
    }
}

/// Zones that are configured and that an image has nothing of, for what is wrong with them.
fn unserved(problems: &[images::Problem], image: &Image<Stretch>) -> Arc<Unserved> {
    let all = problems.iter().map(|problem| &problem.apex);
    to_stay(all.filter(|apex| number(image, apex).is_none()).cloned().collect(), image)
}

/// As `unserved` has them, after an image that differs in these zones, of which these entries are what is known now.
pub fn unserved_after(
    before: &Zones<Stretch>,
    image: &Image<Stretch>,
    about: &[Box<[u8]>],
    entries: &[manifest::Entry],
) -> Arc<Unserved> {
    let wrong = entries.iter().filter(|entry| entry.problem.is_some() && number(image, &entry.apex).is_none());
    let wrong: HashSet<&[u8]> = wrong.map(|entry| &*entry.apex).collect();
    // All of them are copied only where one comes or goes.
    if about.iter().all(|apex| before.unserved.has(apex) == wrong.contains(&**apex)) {
        return Arc::clone(&before.unserved);
    }
    let about: HashSet<&[u8]> = about.iter().map(|apex| &**apex).collect();
    let others = before.unserved.zones().iter().filter(|apex| !about.contains(&***apex)).cloned();
    to_stay(others.chain(wrong.iter().map(|apex| Box::from(*apex))).collect(), image)
}

/// They stay until the next change of any of them.
fn to_stay(zones: HashSet<Box<[u8]>>, image: &Image<Stretch>) -> Arc<Unserved> {
    let make = || Arc::new(Unserved::of(zones.clone(), image.header().seed));
    if zones.is_empty() { Arc::default() } else { store::heap::apart(make) }
}

/// What tells the zones that we have the say about from others: the cache is asked for what is none of theirs. `served`: fingerprint of those that are.
pub fn reach(served: u64, unserved: &Unserved, presence: &Presence) -> u64 {
    served ^ unserved.fingerprint() ^ presence.fingerprint()
}

/// The number and the list of a zone that is served, and has one of its own.
fn own(image: &Image<Stretch>, zone: &Zone) -> Option<(u32, Option<Acl>)> {
    let allow = zone.allow_query.as_ref()?;
    Some((number(image, &zone.apex)?, list(allow)))
}

fn list(allow: &Allow) -> Option<Acl> {
    match allow {
        Allow::Any => None,
        Allow::Only(prefixes) => Some(Acl::new(prefixes.clone())),
    }
}

fn number(image: &Image<Stretch>, apex: &[u8]) -> Option<u32> {
    image.view().find_whole(apex).ok().flatten().filter(|node| node.is(APEX))?.zone_number().ok()
}

/// True if a zone that had an access list of its own is none of `[[zone]]` any more, or read from another file: served on as it is, it might be for
/// others than it was made for.
pub fn forsakes(written: &Written, served: &Zones<Stretch>, manifest: &Manifest, config: &Config) -> bool {
    if written.is(&config.roster.written) {
        return false;
    }
    let mut own: HashSet<u32> = served.allow_query.own().collect();
    // Mostly none has one.
    if !own.is_empty() {
        config
            .roster
            .written
            .iter()
            .filter(|zone| manifest.find(&zone.apex).is_some_and(|known| known.file == zone.file))
            .filter_map(|zone| number(&served.image, &zone.apex))
            .for_each(|zone| _ = own.remove(&zone));
    }
    !own.is_empty()
}

/// Zones that are not served as their files say: kept until the next change.
fn problems(manifest: &Manifest) -> Arc<[images::Problem]> {
    store::heap::apart(|| manifest.problems().into())
}

pub fn told(complaints: &[Complaint]) -> Vec<String> {
    complaints.iter().map(ToString::to_string).collect()
}

/// Says which zones are served with something wrong in them, as far as that is news: what is wrong stays so through many images.
pub fn remark(remarks: Vec<Remark>, said: &Said) -> Said {
    for r in remarks.iter().filter(|r| !said.contains(*r)) {
        let facts: [(&str, &dyn std::fmt::Display); 4] =
            [("zone", &images::name(&r.apex)), ("errors", &r.errors), ("warnings", &r.warnings), ("first", &r.what)];
        log::warn("a zone is served, and something in it is wrong; dunlin check says all", &facts);
    }
    remarks.into_iter().collect()
}

pub fn facts(image: &Image<Stretch>, serving: &Serving) -> Served {
    let map = image.bytes().map();
    Served {
        generation: serving.generation,
        zones: serving.zones,
        records: image.header().records,
        bytes: map.len() as u64,
        huge_bytes: serving.huge_bytes,
        in_memory_copy: map.backing() == Backing::Copy,
        file: Arc::clone(&serving.file),
        published_s: crate::clock::wall_s(),
        problems: Arc::clone(&serving.problems),
    }
}
