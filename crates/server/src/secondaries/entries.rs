//! Which zones have to do with other servers, and these servers, by numbers.

use crate::config::{Config, Zone, apex};
use crate::images;
use crate::secondaries::fetching::Wanted;
use front::Caller;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use transfer::refresh::ZoneId;
use transfer::remote::Remote;
use transfer::tsig::Keys;
use wire::Name;

/// A zone that comes from others, or is announced to them.
pub struct Entry {
    pub apex: Box<[u8]>,
    pub file: PathBuf,
    /// By number; none: it is ours.
    pub primaries: Vec<u32>,
    /// Who is told, by number.
    pub targets: Vec<u32>,
    source: Vec<IpAddr>,
    /// A digest of it that does not fit any more is made anew.
    pub has_digests_made: bool,
    /// The last that was told to others, or was there at the start.
    pub serial: Option<u32>,
    /// Whom it came from last.
    pub from: String,
    /// Why it could not be asked for last; none: it could.
    pub trouble: Option<String>,
    /// From whom it was sent for; none: what was sent for is served, or did not come.
    pub errand: Option<(u32, Wanted)>,
}

impl Entry {
    /// Our address towards another server.
    pub fn source(&self, to: &Remote) -> Option<IpAddr> {
        self.source.iter().find(|ip| ip.is_ipv4() == to.address.is_ipv4()).copied()
    }

    /// Its primaries as senders of NOTIFYs: an address once, with all keys that stand beside it.
    pub fn callers<'r>(&self, remote: impl Fn(u32) -> Option<&'r Remote>, keys: &Keys) -> Vec<Arc<Caller>> {
        let remotes: Vec<&Remote> = self.primaries.iter().filter_map(|primary| remote(*primary)).collect();
        let ips: BTreeSet<IpAddr> = remotes.iter().map(|remote| remote.address.ip()).collect();
        let caller = |ip: IpAddr| {
            let of_it = || remotes.iter().filter(|remote| remote.address.ip() == ip).map(|remote| remote.key.as_ref());
            let named = of_it().flatten().filter_map(|key| keys.named(key.bytes()).cloned());
            Caller::new(ip, of_it().any(|key| key.is_none()), Keys::new(named.collect()))
        };
        ips.into_iter().map(caller).collect()
    }

    /// What it was sent for is not its any more.
    pub fn call_off(&mut self) {
        self.errand.take().into_iter().for_each(|(_, is_wanted)| is_wanted.call_off());
    }

    /// True if that is news.
    pub fn set_trouble(&mut self, text: String) -> bool {
        let is_news = self.trouble.as_ref() != Some(&text);
        self.trouble = Some(text);
        is_news
    }
}

/// What a server is silent over: the other may get through.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Over {
    Udp,
    Tcp,
}

/// Bound: what is configured.
#[derive(Default)]
pub struct Entries {
    zones: HashMap<ZoneId, Entry>,
    by_apex: HashMap<Box<[u8]>, ZoneId>,
    last_id: u64,
    /// A number is never given again: what is still under way for a server that is gone is nobody else's.
    remotes: HashMap<u32, Remote>,
    by_remote: HashMap<String, u32>,
    last_remote: u32,
    silent: HashSet<(u32, Over)>,
}

/// What another configuration changes.
#[derive(Default)]
pub struct Change {
    pub anew: Vec<ZoneId>,
    /// Their primaries may be others.
    pub moved: Vec<ZoneId>,
    /// What comes is kept in another file, and that is not there, or was on its way into the one before.
    pub rehoused: Vec<ZoneId>,
    /// Servers that were not told of these zones before.
    pub new_targets: Vec<(ZoneId, u32)>,
    pub gone: Vec<(ZoneId, Entry)>,
}

impl Entries {
    /// Takes over which zones there are.
    pub fn adopt(&mut self, config: &Config) -> Change {
        let (mut change, mut stay) = (Change::default(), HashSet::new());
        for zone in config.roster.written.iter().filter(|zone| zone.peers.is_some()) {
            let entry = self.made_of(zone);
            let known = self.by_apex.get(&zone.apex).copied();
            match known.and_then(|id| Some((id, self.zones.get_mut(&id)?))) {
                Some((id, old)) if old.primaries.is_empty() == entry.primaries.is_empty() => {
                    let is_rehoused = !entry.primaries.is_empty() && old.file != entry.file;
                    let is_awaited = zone.is_awaited() || old.errand.is_some();
                    if is_rehoused || old.errand.as_ref().is_some_and(|(from, _)| !entry.primaries.contains(from)) {
                        old.call_off();
                    }
                    change.rehoused.extend((is_rehoused && is_awaited).then_some(id));
                    let new = entry.targets.iter().filter(|target| !old.targets.contains(target));
                    change.new_targets.extend(new.map(|target| (id, *target)).filter(|_| old.serial.is_some()));
                    let (serial, from) = (old.serial, std::mem::take(&mut old.from));
                    *old = Entry { serial, from, trouble: old.trouble.take(), errand: old.errand.take(), ..entry };
                    change.moved.push(id);
                    stay.insert(id);
                }
                _ => {
                    self.last_id += 1;
                    let id = ZoneId(self.last_id);
                    self.zones.insert(id, entry);
                    change.gone.extend(known.and_then(|id| Some((id, self.zones.remove(&id)?))));
                    self.by_apex.insert(zone.apex.clone(), id);
                    change.anew.push(id);
                    stay.insert(id);
                }
            }
        }
        let gone: Vec<ZoneId> = self.zones.keys().filter(|id| !stay.contains(id)).copied().collect();
        for id in gone {
            if let Some(entry) = self.zones.remove(&id) {
                self.by_apex.remove(&entry.apex);
                change.gone.push((id, entry));
            }
        }
        let servers: HashSet<u32> =
            self.zones.values().flat_map(|e| e.primaries.iter().chain(&e.targets)).copied().collect();
        self.remotes.retain(|number, _| servers.contains(number));
        self.by_remote.retain(|_, number| servers.contains(number));
        self.silent.retain(|(number, _)| servers.contains(number));
        change
    }

    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    fn made_of(&mut self, zone: &Zone) -> Entry {
        let peers = zone.peers.as_deref().cloned().unwrap_or_default();
        Entry {
            apex: zone.apex.clone(),
            file: zone.file.clone(),
            primaries: peers.primaries.into_iter().map(|remote| self.number(remote)).collect(),
            targets: peers.notify.into_iter().map(|remote| self.number(remote)).collect(),
            source: peers.source,
            has_digests_made: zone.is_owned(),
            serial: None,
            from: String::new(),
            trouble: None,
            errand: None,
        }
    }

    fn number(&mut self, remote: Remote) -> u32 {
        let number = *self.by_remote.entry(remote.to_string()).or_insert(self.last_remote + 1);
        if number > self.last_remote {
            self.last_remote = number;
            self.remotes.insert(number, remote);
        }
        number
    }

    /// Whether it has to do with any zone.
    pub fn is_server(&self, number: u32) -> bool {
        self.remotes.contains_key(&number)
    }

    pub fn is_target(&self, zone: ZoneId, number: u32) -> bool {
        self.entry(zone).is_some_and(|entry| entry.targets.contains(&number))
    }

    pub fn remote(&self, number: u32) -> Option<&Remote> {
        self.remotes.get(&number)
    }

    /// True if it was not silent before.
    pub fn falls_silent(&mut self, number: u32, over: Over) -> bool {
        self.silent.insert((number, over))
    }

    /// True if it was silent before.
    pub fn is_heard(&mut self, number: u32, over: Over) -> bool {
        self.silent.remove(&(number, over))
    }

    pub fn entry(&self, id: ZoneId) -> Option<&Entry> {
        self.zones.get(&id)
    }

    pub fn entry_mut(&mut self, id: ZoneId) -> Option<&mut Entry> {
        self.zones.get_mut(&id)
    }

    pub fn of(&self, apex: &[u8]) -> Option<ZoneId> {
        self.by_apex.get(apex).copied()
    }

    pub fn name(&self, id: ZoneId) -> Name {
        self.entry(id).map_or(Name::ROOT, |entry| images::name(&entry.apex))
    }

    /// Those that come from others.
    pub fn secondaries(&self) -> impl Iterator<Item = (ZoneId, &Entry)> {
        self.zones.iter().filter(|(_, entry)| !entry.primaries.is_empty()).map(|(id, entry)| (*id, entry))
    }

    /// The apexes of those of which others are told.
    pub fn told(&self) -> impl Iterator<Item = &[u8]> {
        self.zones.values().filter(|entry| !entry.targets.is_empty()).map(|entry| &*entry.apex)
    }

    pub fn apexes(&self) -> Vec<Box<[u8]>> {
        self.by_apex.keys().cloned().collect()
    }

    /// A zone that an operator names.
    pub fn named(&self, zone: &str) -> Result<ZoneId, String> {
        let apex = apex(zone).map_err(|why| format!("`{zone}` is no name of a zone: {why}"))?;
        self.of(&apex).ok_or_else(|| format!("the zone {zone} has no primaries and no notify, or is not configured"))
    }

    /// The same if it comes from others.
    pub fn secondary(&self, zone: &str) -> Result<ZoneId, String> {
        let id = self.named(zone)?;
        let is_secondary = self.entry(id).is_some_and(|entry| !entry.primaries.is_empty());
        if is_secondary {
            Ok(id)
        } else {
            Err(format!("the zone {zone} does not come from others: it has no primaries"))
        }
    }
}
