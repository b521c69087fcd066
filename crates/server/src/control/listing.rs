//! Which zones there are, as operators ask for them: whose each is, and how it is.
//!
//! Whoever asks reads it himself, from what is served and what is configured: no thread that has something else to do waits for it,
//! and it waits for no image that is being made.

use crate::config::{self, Config, Zone};
use crate::images;
use crate::json::Json;
use crate::secondaries::Note;
use crate::state::State;
use image::View;
use std::cell::LazyCell;
use std::collections::HashMap;

/// Zones of one answer.
pub const LISTED_MAX: usize = 100_000;

/// By apex; None: it is served, and nothing names it any more.
type Zones = HashMap<Box<[u8]>, Option<Zone>>;

/// The zones of these names, or all: those that are served and those that are to be.
pub fn list(state: &State, names: &[&str]) -> Result<Json, Vec<String>> {
    let config = state.configured().map_err(|why| vec![why])?;
    let served = state.past.as_ref().map(|past| past.published.current().0);
    let view = served.as_ref().map(|served| served.image.view());
    let zones = if names.is_empty() { all(&config, view) } else { named(&config, view, names)? };
    let mut others = of_others(state, &zones, names.is_empty());
    let amiss = state.amiss();
    let mut sorted: Vec<(&[u8], &Option<Zone>)> = zones.iter().map(|(apex, zone)| (&**apex, zone)).collect();
    sorted.sort_by(|a, b| wire::name::canonical_cmp(a.0, b.0));
    let listed = sorted.iter().take(LISTED_MAX).map(|(apex, zone)| {
        let amiss = amiss.get(*apex);
        match others.remove(*apex) {
            Some(facts) => with_trouble(facts, amiss),
            None => facts(&config, apex, zone.as_ref(), view, amiss),
        }
    });
    let left_out = Json::Number(sorted.len().saturating_sub(LISTED_MAX) as u64);
    Ok(Json::Object(vec![("ok", Json::Bool(true)), ("zones", Json::List(listed.collect())), ("left_out", left_out)]))
}

fn all(config: &Config, view: Option<View<'_>>) -> Zones {
    // Damage is told where it is met.
    let served =
        view.into_iter().flat_map(|view| view.zones()).filter_map(|z| z.and_then(|z| z.apex()?.apex_name()).ok());
    let mut zones: Zones = served.map(|apex| (apex.into(), None)).collect();
    zones.extend(config.roster.known().into_iter().map(|zone| (zone.apex.clone(), Some(zone))));
    zones
}

fn named(config: &Config, view: Option<View<'_>>, names: &[&str]) -> Result<Zones, Vec<String>> {
    let (mut zones, mut wrong) = (Zones::new(), Vec::new());
    let apexes: Vec<_> = names.iter().map(|name| (name, config::apex(name))).collect();
    let wanted = apexes.iter().filter_map(|(_, apex)| apex.clone().ok()).collect();
    let listed = LazyCell::new(|| config.roster.listed_among(&wanted));
    for (name, apex) in apexes {
        match apex {
            Ok(apex) => match config.roster.find(&apex, || listed.get(&apex).cloned()) {
                None if serial(view, &apex).is_none() => {
                    wrong.push(format!("there is no zone {name}: nothing names it, and it is not served"));
                }
                zone => drop(zones.insert(apex, zone)),
            },
            Err(why) => wrong.push(format!("`{name}` is no name of a zone: {why}")),
        }
    }
    if wrong.is_empty() { Ok(zones) } else { Err(wrong) }
}

fn serial(view: Option<View<'_>>, apex: &[u8]) -> Option<u32> {
    view?.zone_of(apex).ok()??.serial().ok()
}

/// How zones are that come from others, as it is known to those who have them fetched.
fn of_others(state: &State, zones: &Zones, is_of_all: bool) -> HashMap<Box<[u8]>, Json> {
    let wanted = zones.values().flatten().filter(|zone| zone.is_secondary());
    let names = wanted.map(|zone| vec![images::name(&zone.apex).to_string()]);
    let asked = if is_of_all { names.take(1).map(|_| vec![]).collect() } else { names.collect::<Vec<_>>() };
    let Some(secondaries) = &state.secondaries else { return HashMap::new() };
    let all = asked.into_iter().flat_map(|zones| match secondaries.ask(|done| Note::List { zones, done }) {
        Ok(Json::List(all)) => all,
        // One that has only just come or gone is told of as others are.
        _ => Vec::new(),
    });
    let apex = |facts: &Json| match facts {
        Json::Object(facts) => facts.iter().find_map(|(key, value)| match value {
            Json::Text(name) if *key == "zone" => config::apex(name).ok(),
            _ => None,
        }),
        _ => None,
    };
    all.filter_map(|facts| Some((apex(&facts)?, facts))).collect()
}

/// How this zone is, if it comes from others.
pub fn of_others_alone(state: &State, zone: &str) -> Option<Json> {
    let list = |done| Note::List { zones: vec![zone.to_string()], done };
    let Ok(Json::List(how)) = state.secondaries.as_ref()?.ask(list) else { return None };
    let apex = config::apex(zone).ok()?;
    how.into_iter().next().map(|facts| with_trouble(facts, state.amiss().get(&apex)))
}

/// Of what comes from others it is known elsewhere what is held or wrong.
fn with_trouble(mut facts: Json, amiss: Option<&(&'static str, String)>) -> Json {
    if let (Json::Object(facts), Some((_, why))) = (&mut facts, amiss) {
        for (_, value) in facts.iter_mut().filter(|(key, _)| *key == "trouble") {
            *value = match value {
                Json::Text(first) => Json::Text(format!("{first}; {why}")),
                _ => Json::text(why),
            };
        }
    }
    facts
}

fn facts(
    config: &Config,
    apex: &[u8],
    zone: Option<&Zone>,
    view: Option<View<'_>>,
    amiss: Option<&(&'static str, String)>,
) -> Json {
    let serial = serial(view, apex);
    let state = match amiss {
        _ if serial.is_none() => "absent",
        Some((state, _)) => state,
        None => "served",
    };
    let optional = |text: Option<String>| text.map_or(Json::Null, Json::Text);
    Json::Object(vec![
        ("zone", Json::text(images::name(apex))),
        ("owner", optional(zone.map(|zone| config.roster.owner_of(zone).to_string()))),
        ("state", Json::text(state)),
        ("serial", serial.map_or(Json::Null, |serial| Json::Number(serial.into()))),
        ("trouble", optional(amiss.map(|(_, why)| why.clone()))),
        ("file", optional(zone.map(|zone| images::place(zone.origin())))),
    ])
}
