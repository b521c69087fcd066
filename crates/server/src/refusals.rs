//! What is said to whom an update, a transfer or an announcement is not done for: codes, and messages that carry no more than these.

use crate::clock::wall_s;
use crate::log::Seldom;
use front::Postponed;
use std::fmt::Display;
use std::net::IpAddr;
use transfer::message::{Message, Question};
use transfer::tsig::{self, Keys, Refusal};
use transfer::update::{self, Refused};
use wire::{Ede, Name, Rcode, rtype};
use zonefile::rtypes::mnemonic;

/// EDNS option of extended errors (RFC 8914).
const EDE_OPTION: u16 = 15;
const UDP_SIZE: u16 = 1232;
const DNSSEC_OK: u16 = 0x8000;

pub const PROHIBITED: Refused = Refused::new(Rcode::REFUSED, Some(Ede::PROHIBITED));
pub const MALFORMED: Refused = Refused::new(Rcode::FORMERR, None);
pub const ELSEWHERE: Refused = Refused::new(Rcode::NOTAUTH, Some(Ede::NOT_AUTHORITATIVE));
pub const DONE: Refused = Refused::new(Rcode::NOERROR, None);
/// It would be done, and is not for as long as something else lasts.
pub const NOT_NOW: Refused = Refused::new(Rcode::REFUSED, Some(Ede::NOT_READY));
/// It would be done, and cannot be yet: whoever asks comes again.
pub const NOT_YET: Refused = Refused::new(Rcode::SERVFAIL, Some(Ede::NOT_READY));
pub const FAILED: Refused = Refused::new(Rcode::SERVFAIL, None);

/// What the log says of somebody who was refused something: else nobody would find out whose program is set up wrongly, or how.
pub struct Notice {
    zone: String,
    key: String,
    from: IpAddr,
    changes: Option<String>,
    why: String,
    unsaid: u64,
}

/// Changes of an update that are named when it is refused.
const CHANGES_NAMED: usize = 3;

impl Notice {
    /// None: another one was told of a short time ago.
    pub fn of(question: &Postponed, why: impl ToString, seldom: &mut Seldom) -> Option<Notice> {
        let unsaid = seldom.untold()?;
        let message = Message::new(&question.message);
        let zone =
            message.as_ref().and_then(|m| m.question()).map_or(String::new(), |(asked, _)| asked.name.to_string());
        let changes = message.as_ref().filter(|m| m.opcode() == update::OPCODE).and_then(changes);
        let signature = message.and_then(|m| m.places().flatten().find(|rr| rr.rtype == rtype::TSIG));
        let key = signature.and_then(|rr| rr.owner()).map_or("none".to_string(), |owner| owner.to_string());
        Some(Notice { zone, key, from: question.peer.ip, changes, why: why.to_string(), unsaid })
    }

    pub fn facts(&self) -> Vec<(&str, &dyn Display)> {
        let Notice { zone, key, from, changes, why, unsaid } = self;
        let mut facts: Vec<(&str, &dyn Display)> = vec![("zone", zone), ("key", key), ("from", from)];
        facts.extend(changes.iter().map(|changes| ("changes", changes as &dyn Display)));
        facts.extend([("why", why as &dyn Display), ("unsaid", unsaid)]);
        facts
    }
}

/// Whose records of which types an update was to change; None: it says nothing of that.
fn changes(message: &Message<'_>) -> Option<String> {
    let of_changes = message.records().flatten().filter(|rr| rr.section == 2);
    let mut named: Vec<String> =
        of_changes.take(CHANGES_NAMED).map(|rr| format!("{} {}", rr.owner, mnemonic(rr.rtype))).collect();
    let more = usize::from(message.count(2)).saturating_sub(CHANGES_NAMED);
    named.extend((more > 0).then(|| format!("and {more} more")));
    (!named.is_empty()).then(|| named.join(", "))
}

/// Why somebody is refused something.
pub fn why(refused: Refused) -> &'static str {
    if let Some(why) = refused.why {
        return why;
    }
    match (refused.ede, refused.rcode) {
        (Some(Ede::PROHIBITED), _) => "no rule allows it",
        (Some(Ede::NOT_AUTHORITATIVE), _) => "the zone is not there",
        (Some(Ede::NOT_READY), Rcode::SERVFAIL) => "the zone takes no updates yet, or lacks its last ones",
        (Some(Ede::NOT_READY), _) => "not now",
        (_, Rcode::FORMERR) => "FORMERR",
        (_, Rcode::BADVERS) => "BADVERS",
        (_, Rcode::NOTZONE) => "NOTZONE",
        (_, Rcode::SERVFAIL) => "SERVFAIL",
        _ => "REFUSED",
    }
}

/// What is said about a wrong signature.
pub fn unproven(request: &[u8], refusal: &Refusal, now_s: u64) -> Option<Vec<u8>> {
    let mut reply = head(request, refusal.rcode().into())?;
    if let Refusal::Fault(faulty) = refusal {
        faulty.end(&mut reply, now_s);
    }
    Some(reply)
}

/// The same for a request that nobody looks into: first whether its signature is right, then this (RFC 8945 section 5.2), which may depend on
/// whether it has one.
pub fn refused(request: &[u8], keys: &Keys, refused: impl FnOnce(bool) -> Refused) -> Option<Vec<u8>> {
    let now_s = wall_s();
    let signed = match tsig::check_request(request, keys, now_s) {
        Ok(signed) => signed,
        Err(refusal) => return unproven(request, &refusal, now_s),
    };
    let mut reply = head(request, refused(signed.is_some()))?;
    signed.iter().for_each(|signed| signed.sign(&mut reply, now_s));
    Some(reply)
}

/// Which zone an update is of, whoever has that.
pub fn zone_of(request: &[u8]) -> Result<Question, Refused> {
    let message = Message::new(request).ok_or(Rcode::FORMERR)?;
    check_edns(&message)?;
    Ok(update::zone(&message)?)
}

/// What is wrong with the OPT of a request whose signature is right (RFC 6891 section 6.1): of one that is signed nobody has looked at it before.
pub fn check_edns(message: &Message<'_>) -> Result<(), Refused> {
    let mut all = message.places().flatten().filter(|rr| rr.rtype == rtype::OPT);
    let Some(opt) = all.next() else { return Ok(()) };
    if all.next().is_some() || opt.section != 3 || opt.owner() != Some(Name::ROOT) || !are_options(opt.raw_rdata()) {
        return Err(MALFORMED);
    }
    if opt.ttl >> 16 & 0xFF == 0 { Ok(()) } else { Err(Rcode::BADVERS.into()) }
}

fn are_options(mut octets: &[u8]) -> bool {
    while let Some((head, rest)) = octets.split_first_chunk::<4>() {
        let Some(behind) = rest.get(usize::from(u16::from_be_bytes([head[2], head[3]]))..) else { return false };
        octets = behind;
    }
    octets.is_empty()
}

/// Header, question or zone section, and an OPT if the request has one.
pub fn head(request: &[u8], refused: Refused) -> Option<Vec<u8>> {
    let mut reply = tsig::reply_head(request, refused.rcode)?;
    if let Some(opt) = Message::new(request)?.places().flatten().find(|rr| rr.rtype == rtype::OPT) {
        let option = refused.ede.map(|ede| [EDE_OPTION, 2, ede.0].map(u16::to_be_bytes).concat()).unwrap_or_default();
        reply.push(0);
        // The rest of the code, and DO as it was (RFC 3225 section 3).
        let (code, flags) = (refused.rcode.0 >> 4 << 8, opt.ttl as u16 & DNSSEC_OK);
        reply.extend([rtype::OPT, UDP_SIZE, code, flags, option.len() as u16].map(u16::to_be_bytes).concat());
        reply.extend(option);
        *reply.get_mut(11)? = 1;
    }
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfer::tsig::{Algorithm, Key};
    use wire::query::HEADER;

    /// An update of z. with this OPT behind it, and others behind that.
    fn request(opts: &[&[u8]]) -> Vec<u8> {
        let head = b"\0\x01\x28\0\0\x01\0\0\0\0\0";
        [&head[..], &[opts.len() as u8], b"\x01z\0\0\x06\0\x01", &opts.concat()].concat()
    }

    #[test]
    fn an_opt_is_looked_at_whoever_signs() {
        const PLAIN: &[u8] = b"\0\0\x29\x04\xD0\0\0\x80\0\0\0";
        for (opts, expect) in [
            (&[][..], None),
            (&[PLAIN], None),
            (&[b"\0\0\x29\x04\xD0\0\0\0\0\0\x06\0\x03\0\x02ab"], None),
            (&[b"\0\0\x29\x04\xD0\0\x01\0\0\0\0"], Some(Rcode::BADVERS)),
            (&[PLAIN, PLAIN], Some(Rcode::FORMERR)),
            (&[b"\x01a\0\0\x29\x04\xD0\0\0\0\0\0\0"], Some(Rcode::FORMERR)),
            (&[b"\0\0\x29\x04\xD0\0\0\0\0\0\x06\0\x03\0\x03ab"], Some(Rcode::FORMERR)),
            (&[b"\0\0\x29\x04\xD0\0\0\0\0\0\x01\0"], Some(Rcode::FORMERR)),
        ] {
            let request = request(opts);
            let found = check_edns(&Message::new(&request).unwrap()).map_err(|refused| refused.rcode);
            assert_eq!(found.err(), expect, "{opts:?}");
        }
        let reply = head(&request(&[PLAIN]), Rcode::BADVERS.into()).unwrap();
        assert_eq!(reply[19..], *b"\0\0\x29\x04\xD0\x01\0\x80\0\0\0", "the rest of the code, and DO");
    }

    #[test]
    fn what_an_update_was_to_change_is_named_as_far_as_one_reads() {
        for (lines, expect) in [
            ("", None),
            ("yes a", None),
            ("add www 60 A 192.0.2.1", Some("www.z. A")),
            ("del www.z.\ndel a.z. TXT", Some("www.z. ANY, a.z. TXT")),
            ("del a.z.\ndel b.z.\ndel c.z.\ndel d.z.\ndel e.z.", Some("a.z. ANY, b.z. ANY, c.z. ANY, and 2 more")),
        ] {
            let request = sim::update::message("z.", lines);
            assert_eq!(changes(&Message::new(&request).unwrap()).as_deref(), expect, "{lines}");
        }
    }

    #[test]
    fn whoever_signs_is_refused_under_his_key() {
        let known =
            |secret: &[u8]| Key::new(&Name::from_text(b"k", Some(&Name::ROOT)).unwrap(), Algorithm::Sha256, secret);
        let keys = Keys::new(vec![known(b"0123456789")]);
        let asked = |key: &Key, zones: usize| {
            let mut request = [&request(&[])[..HEADER], &b"\x01z\0\0\x06\0\x01".repeat(zones)].concat();
            request[5] = zones as u8;
            let mut asked = tsig::sign_request(key, &mut request, wall_s());
            let reply = refused(&request, &keys, |_| PROHIBITED).unwrap();
            (reply[3] & 15, asked.check(&reply, wall_s()).is_ok())
        };
        (0..3).for_each(|zones| assert_eq!(asked(&known(b"0123456789"), zones), (5, true), "{zones}"));
        assert_eq!(asked(&known(b"another one"), 1), (9, false));
    }
}
