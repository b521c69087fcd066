//! What somebody's edit of a zone's file changes of the zone, which updates have changed since the file was written.
//!
//! The version that was edited is what is served and the way back to it, which the history has. Reads; changes nothing.

use crate::clock::wall_s;
use crate::config::Zone;
use crate::history::{self, Past};
use crate::images;
use crate::reading::{self, Stock};
use crate::scratch::{self, Scratch};
use audit::{Rules, audit};
use std::sync::Arc;
use transfer::{Conflict, Diff, compare};
use wire::Name;
use zonefile::Severity;

/// Conflicts that are named; of more it is said how many there are.
const NAMED_MAX: usize = 5;

/// What leads from what is served to that with the edit in it; None: nothing is different. `base`: the serial of the version
/// that was edited.
pub fn change(past: &Past, zone: &Zone, base: u32) -> Result<Option<Diff>, String> {
    let spill = Arc::new(Scratch::new(past.data_dir.join(images::FOLDER)));
    let stock = Stock::new(images::seed(), scratch::memory(), spill);
    let mut builder = stock.builder();
    builder.begin_zone(&zone.apex);
    let read = reading::one(zone, &stock, &mut builder).map_err(|unread| unread.why.to_string())?;
    if let Some(first) = read.report.problems.iter().find(|p| p.severity == Severity::Error) {
        return Err(format!("{}: {}", first.place, first.what));
    }
    history::with_zone(&past.published, &zone.apex, |served| {
        let mut found = Err("it has no records".to_string());
        builder.show(&mut |sorted| {
            found = match audit(sorted, &Rules::at(wall_s())).refusal() {
                Some(why) => Err(why),
                None => compare(served, sorted, history::CHANGE_OCTETS_MAX)
                    .map_err(|_| "the image that is served is damaged".to_string())
                    .and_then(|diff| diff.ok_or_else(|| "it changes more than can be merged".to_string())),
            };
        });
        past.merged(&zone.apex, served, base, &found?)?
            .map_err(|conflicts| told(&conflicts.into_iter().collect::<Vec<_>>()))
    })
}

fn told(conflicts: &[Conflict]) -> String {
    let one = |c: &Conflict| {
        let name = Name::from_wire(&c.owner).unwrap_or(Name::ROOT);
        format!("{name} {}", zonefile::rtypes::mnemonic(c.rtype))
    };
    let named: Vec<String> = conflicts.iter().take(NAMED_MAX).map(one).collect();
    let more = match conflicts.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!(
        "updates have changed the same since: {}{more}; write there what `dunlin ctl zone show` has",
        named.join(", ")
    )
}
