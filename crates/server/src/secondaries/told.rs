//! What operators are told: lines of the log, few enough of them whatever happens; and how each zone is.

use super::Registrar;
use crate::clock::{rfc3339, wall_s};
use crate::control::listing::LISTED_MAX;
use crate::images::{self, name};
use crate::json::Json;
use crate::log;
use std::fmt::Display;
use transfer::refresh::{Ms, Phase, Standing, ZoneId};

/// Lines in so long.
const LINES_MAX: u32 = 20;
const IN_MS: Ms = 1_000;

/// Lines of the log: ten thousand zones that come, expire or are refused at once are not ten thousand lines.
#[derive(Default)]
pub struct Quota {
    since: Ms,
    told: u32,
    left_out: u64,
}

type Facts<'f> = [(&'f str, &'f dyn Display)];

impl Quota {
    fn admits(&mut self, now: Ms) -> bool {
        if now - self.since >= IN_MS {
            if self.left_out > 0 {
                log::warn("and more lines about zones of others, left out", &[("lines", &self.left_out)]);
            }
            *self = Quota { since: now, told: 0, left_out: 0 };
        }
        self.told += 1;
        let is_admitted = self.told <= LINES_MAX;
        self.left_out += u64::from(!is_admitted);
        is_admitted
    }

    pub fn error(&mut self, now: Ms, message: &str, facts: &Facts<'_>) {
        if self.admits(now) {
            log::error(message, facts);
        }
    }

    pub fn warn(&mut self, now: Ms, message: &str, facts: &Facts<'_>) {
        if self.admits(now) {
            log::warn(message, facts);
        }
    }

    pub fn info(&mut self, now: Ms, message: &str, facts: &Facts<'_>) {
        if self.admits(now) {
            log::info(message, facts);
        }
    }
}

impl Registrar {
    /// How zones of these names are, or all that come from others.
    pub(super) fn list(&self, now: Ms, zones: &[String]) -> Result<Json, String> {
        let ids: Vec<ZoneId> = match zones {
            [] => self.entries.secondaries().map(|(id, _)| id).collect(),
            names => names.iter().map(|zone| self.entries.secondary(zone)).collect::<Result<_, _>>()?,
        };
        let mut all: Vec<(ZoneId, &[u8])> =
            ids.into_iter().filter_map(|id| Some((id, &*self.entries.entry(id)?.apex))).collect();
        all.sort_by(|a, b| wire::name::canonical_cmp(a.1, b.1));
        Ok(Json::list(all.into_iter().take(LISTED_MAX), |(id, _)| self.facts(now, id)))
    }

    fn facts(&self, now: Ms, id: ZoneId) -> Json {
        let (Some(entry), Some(standing)) = (self.entries.entry(id), self.refresher.standing(id)) else {
            return Json::Null;
        };
        let at = |ms: Ms| {
            let s = (ms - now).div_euclid(1000);
            Json::text(rfc3339(wall_s().saturating_add_signed(s)))
        };
        let optional = |ms: Option<Ms>| ms.map_or(Json::Null, at);
        let is_waiting = standing.phase == Phase::Waiting;
        Json::Object(vec![
            ("zone", Json::text(name(&entry.apex))),
            ("owner", Json::text("transfer")),
            ("state", Json::text(state(&standing))),
            ("serial", standing.timers.map_or(Json::Null, |timers| Json::Number(timers.serial.into()))),
            ("not_served", standing.unserved.map_or(Json::Null, |serial| Json::Number(serial.into()))),
            (
                "primaries",
                Json::list(&entry.primaries, |p| {
                    Json::text(self.entries.remote(*p).map_or(String::new(), |r| r.to_string()))
                }),
            ),
            ("refreshed", optional(standing.refreshed)),
            ("next", optional(Some(standing.next).filter(|_| is_waiting))),
            ("expires", optional(standing.expires)),
            ("failures", Json::Number(standing.failures.into())),
            ("trouble", entry.trouble.as_ref().map_or(Json::Null, Json::text)),
            ("file", Json::text(images::place(&entry.file))),
        ])
    }
}

fn state(standing: &Standing) -> &'static str {
    match (standing.phase, standing.timers) {
        _ if standing.is_expired => "expired",
        (Phase::Fetching, _) => "transferring",
        (Phase::Laying, _) => "received",
        (Phase::Asking, _) => "asking",
        (Phase::Waiting, None) => "awaited",
        (Phase::Waiting, Some(_)) if standing.failures > 0 => "retrying",
        (Phase::Waiting, Some(_)) => "fresh",
    }
}
