//! The digest of a zone that updates have changed (RFC 8976), made anew.
//!
//! An update leaves the ZONEMD as it is, and its serial is not the SOA's any more: whoever verifies must not believe it then
//! (section 4), and knows that it is old. A digest takes a walk through the whole zone, so it is made once nothing has
//! changed for a moment, in the background, and comes with a serial of its own. Reads; changes nothing.

use crate::images::sound::DAMAGED;
use crate::zonetext::reading::Stock;
use image::edit::records_of;
use image::{Damaged, Zone};
use transfer::record::{next_serial, serial_of, with_serial};
use transfer::{Diff, Record};
use wire::rtype::{DNSKEY, SOA, ZONEMD};

/// True if the zone has digests, and none of them is of its serial. In a signed zone they are for whoever signs it.
pub fn is_stale(zone: &Zone<'_>) -> Result<bool, Damaged> {
    let apex = zone.apex()?;
    let records = records_of(&apex, apex.apex_name()?)?;
    let serial = zone.serial()?.to_be_bytes();
    let mut digests = records.iter().filter(|r| r.rtype == ZONEMD).peekable();
    let has_any = digests.peek().is_some();
    let fits = digests.any(|r| r.rdata.get(..4) == Some(&serial));
    Ok(has_any && !fits && records.iter().all(|r| r.rtype != DNSKEY))
}

/// What puts a digest that fits in the place of the old ones, under the next serial; None: they fit, or there are none.
pub fn renewal(zone: &Zone<'_>, stock: &Stock) -> Result<Option<Diff>, String> {
    let damaged = |_| DAMAGED.to_string();
    if !is_stale(zone).map_err(damaged)? {
        return Ok(None);
    }
    let apex = zone.apex().and_then(|node| node.apex_name()).map_err(damaged)?;
    let mut builder = stock.builder();
    builder.begin_zone(apex);
    let (mut removed, mut added, mut refused) = (Vec::new(), Vec::new(), Ok(()));
    let whole = zone.for_each_record(&mut |owner, rtype, ttl, rdata| {
        let mut rdata = std::borrow::Cow::Borrowed(rdata);
        if owner == apex && matches!(rtype, SOA | ZONEMD) {
            removed.extend(Record::new(owner, rtype, ttl, &rdata));
            if rtype == ZONEMD {
                return;
            }
            let next = next_serial(serial_of(&rdata).unwrap_or_default());
            rdata = with_serial(&rdata, next).into();
            added.extend(Record::new(owner, rtype, ttl, &rdata));
        }
        if let Err(why) = builder.record(owner, rtype, ttl, &rdata) {
            refused = Err(why);
        }
    });
    whole.map_err(damaged)?;
    refused?;
    let mut digest = None;
    builder.show(&mut |zone| digest = audit::zonemd(zone))?;
    let ttl = removed.iter().find(|r| r.rtype == ZONEMD).map_or(0, |r| r.ttl);
    added.extend(digest.and_then(|rdata| Record::new(apex, ZONEMD, ttl, &rdata)));
    Ok(Some(Diff::between(removed, added)))
}
