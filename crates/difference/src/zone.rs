//! A zone while it is being written: lines of text, and the names in it that are worth asking for.

use crate::name::Name;
use crate::rtype::{self as t, Rtype, number};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// All zones of the generator lie below this name, so that a server holds nothing above them.
pub const SUFFIX: &str = "d.test.";

pub struct Zone {
    pub origin: Name,
    /// Zones below this one that the same servers serve.
    pub children: Vec<Name>,
    /// RRsets whose records have not all one TTL.
    pub unequal: BTreeSet<(Name, Rtype)>,
    text: String,
    nodes: BTreeMap<Name, BTreeSet<Rtype>>,
    ttls: HashMap<(Name, Rtype), u32>,
}

impl Zone {
    pub fn new(label: &str) -> Zone {
        Zone {
            origin: Name::from_text(&format!("{label}.{SUFFIX}")),
            children: Vec::new(),
            unequal: BTreeSet::new(),
            text: String::new(),
            nodes: BTreeMap::new(),
            ttls: HashMap::new(),
        }
    }

    /// A record. The owner is relative to the origin; `@` is the origin. Every RRset gets a TTL of its own, so that one taken from
    /// the wrong place shows; within an RRset they are equal (RFC 2181 section 5.2).
    pub fn add(&mut self, owner: &str, rest: &str) {
        let key = (self.absolute(owner).fold(), number(rest.split(' ').next().unwrap_or_default()));
        let ttl = self.ttls.get(&key).copied().unwrap_or(1000 + 10 * self.ttls.len() as u32);
        self.line(owner, ttl, rest);
    }

    pub fn line(&mut self, owner: &str, ttl: u32, rest: &str) {
        let full = self.absolute(owner);
        let _ = writeln!(self.text, "{full} {ttl} IN {rest}");
        let rtype = number(rest.split(' ').next().unwrap_or_default());
        self.nodes.entry(full.fold()).or_default().insert(rtype);
        if *self.ttls.entry((full.fold(), rtype)).or_insert(ttl) != ttl {
            self.unequal.insert((full.fold(), rtype));
        }
        let mut name = full.parent();
        while let Some(n) = name.filter(|n| n.is_at_or_below(&self.origin)) {
            name = n.parent();
            self.nodes.entry(n.fold()).or_default();
        }
    }

    pub fn absolute(&self, owner: &str) -> Name {
        if owner == "@" { self.origin.clone() } else { Name::from_text(&format!("{owner}.{}", self.origin)) }
    }

    /// All names of the zone, empty non-terminals too, relative to the origin.
    pub fn owners(&self) -> Vec<String> {
        let origin = self.origin.to_string();
        let relative = |n: &Name| n.to_string().strip_suffix(&origin).map(|s| s.trim_end_matches('.').to_string());
        let at = |s: String| if s.is_empty() { "@".to_string() } else { s };
        self.nodes.keys().filter_map(relative).map(at).collect()
    }

    /// The types at a name: none for an empty non-terminal, `None` for a name that is not there.
    pub fn types(&self, name: &Name) -> Option<&BTreeSet<Rtype>> {
        self.nodes.get(name)
    }

    /// The longest ancestor that is there, of a name that is not (RFC 4592 section 3.3.1).
    pub fn closest_encloser(&self, name: &Name) -> Option<Name> {
        let mut at = name.parent();
        while let Some(n) = at {
            if self.nodes.contains_key(&n) {
                return Some(n);
            }
            at = n.parent();
        }
        None
    }

    /// The source of synthesis for a name that is not there, whether it is there itself or not.
    pub fn asterisk_for(&self, name: &Name) -> Option<Name> {
        self.types(name).is_none().then(|| self.closest_encloser(name).map(|n| n.child(b"*"))).flatten()
    }

    /// True below a DNAME that has data of the zone below it.
    pub fn is_occluded_by_dname(&self, name: &Name) -> bool {
        let is_dname = |n: &Name| self.types(n).is_some_and(|types| types.contains(&t::DNAME)) && self.has_children(n);
        self.nodes.keys().any(|n| name.is_below(n) && is_dname(n))
    }

    pub fn has_children(&self, name: &Name) -> bool {
        self.nodes.keys().any(|n| n.is_below(name))
    }

    pub fn save(&self, folder: &Path) -> PathBuf {
        let path = folder.join(format!("{}zone", self.origin));
        fs::write(&path, format!("$ORIGIN {}\n{}", self.origin, self.text)).expect("room for a zone file");
        path
    }
}
