//! Versions of zones that are held: what an operator should look at before it takes the place of what is served.
//!
//! Whoever builds or lays out zones asks the gate, with the version that is served and the one that would be. What the
//! gate objects to goes on as it was, like a zone whose file is wrong; and it stays so until the file changes or the
//! operator forces it.

use crate::config::{Config, Zone};
use crate::images::{Problem, name};
use crate::json::Json;
use crate::log;
use crate::reading::Stock;
use audit::{Guards, Report, Rules, Version, weigh};
use image::node::APEX;
use image::{Image, Sorted};
use std::collections::HashSet;
use store::Stretch;

/// Begins what is said of a zone whose new version is held.
const HELD: &str = "held: ";

/// Who lets new versions pass.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    /// None: everybody passes.
    guards: Option<Guards>,
    /// Zones that pass whatever is said of them: as many as are configured so, or were named by the operator.
    open: HashSet<Box<[u8]>>,
}

impl Gate {
    /// `forced`: these pass this time.
    pub fn new(config: &Config, forced: &[Box<[u8]>]) -> Gate {
        let is_open = |zone: &&Zone| !zone.is_guarded || !zone.allow_update.0.is_empty();
        let open = config.zones.iter().filter(is_open).map(|zone| zone.apex.clone());
        Gate { guards: config.guards, open: open.chain(forced.iter().cloned()).collect() }
    }

    /// Why this version of a zone is to be held; none: it may be served.
    pub fn objection(
        &self,
        served: Option<&Image<Stretch>>,
        zone: &Sorted<'_>,
        report: &Report,
        rules: &Rules,
        stock: &Stock,
    ) -> Option<String> {
        let (guards, image) = self.guards.as_ref().zip(served)?;
        if self.open.contains(zone.apex()) {
            return None;
        }
        // What is damaged cannot be compared, and is no reason to keep anything.
        let node = image.view().find_whole(zone.apex()).ok()?.filter(|node| node.is(APEX))?;
        let version = Version { zone, report, rules };
        let why = weigh(&node.zone().ok()?, &version, guards, || stock.builder()).ok()??;
        Some(format!("{HELD}{why}"))
    }
}

/// A zone of which a new version is held.
#[derive(Clone, Debug)]
pub struct Held {
    pub apex: Box<[u8]>,
    pub why: String,
}

impl Held {
    pub fn of(problems: &[Problem]) -> Vec<Held> {
        let held = |p: &Problem| Some(Held { apex: p.apex.clone(), why: p.what.strip_prefix(HELD)?.to_string() });
        problems.iter().filter_map(held).collect()
    }

    pub fn json(&self) -> Json {
        Json::Object(vec![("zone", Json::text(name(&self.apex))), ("why", Json::text(&self.why))])
    }
}

/// What is said of a zone that goes on as it was.
pub fn goes_on(why: &str) -> String {
    match why.strip_prefix(HELD) {
        Some(why) => format!("{HELD}it goes on as it was; the new version: {why}"),
        None => format!("it goes on as it was: {why}"),
    }
}

pub fn is_held(what: &str) -> bool {
    what.starts_with(HELD)
}

/// Tells the operator of a version that is held.
pub fn tell(apex: &[u8], what: &str) {
    let zone = name(apex);
    let publish = format!("dunlin ctl zone publish --force {zone}");
    let facts: [(&str, &dyn std::fmt::Display); 3] = [("zone", &zone), ("why", &what), ("publish", &publish)];
    log::error("a new version of a zone is held", &facts);
}
