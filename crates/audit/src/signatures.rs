//! Signatures: there for all that is the zone's own, by a key of the zone, over what is there, valid now. Nothing is verified.

use crate::fault::Fault;
use crate::name::{Sets, covered};
use crate::report::Report;
use crate::walk::{Place, Rules};
use image::Rr;
use wire::rtype::{self, Rtype};

/// The octets of a signature before the signer's name.
const FIXED: usize = 18;

pub(crate) struct Signatures<'a> {
    apex: &'a [u8],
    /// Tag and algorithm of each DNSKEY.
    keys: Vec<(u16, u8)>,
    /// As dates of signatures are: seconds since 1970, without the highest bits (RFC 4034 section 3.1.5).
    now: u32,
    soon_s: u32,
}

impl<'a> Signatures<'a> {
    /// None: the zone is not signed, or nothing can be said of its signatures.
    pub(crate) fn of(apex: &'a [u8], sets: &Sets<'_>, rules: &Rules, report: &mut Report) -> Option<Signatures<'a>> {
        let is_denied = sets.has(rtype::NSEC) || sets.has(rtype::NSEC3PARAM);
        if !sets.has(rtype::DNSKEY) {
            if sets.has(rtype::RRSIG) {
                report.add(Fault::NoDnskey, apex, None, String::new);
            }
            return None;
        }
        if !sets.has(rtype::RRSIG) && !is_denied {
            return None;
        }
        let keys = sets.of(rtype::DNSKEY).iter().filter_map(|k| Some((key_tag(k.rdata), *k.rdata.get(3)?))).collect();
        Some(Signatures { apex, keys, now: rules.now_s as u32, soon_s: rules.soon_s })
    }

    pub(crate) fn on_name(&self, name: &[u8], place: Place, sets: &Sets<'_>, report: &mut Report) {
        let all = sets.of(rtype::RRSIG);
        for set in sets.iter() {
            let rtype = set[0].rtype;
            if rtype == rtype::RRSIG {
                continue;
            }
            let signatures = of(all, rtype);
            let is_ours = match place {
                Place::Apex | Place::Own => true,
                Place::Cut => rtype == rtype::DS || rtype == rtype::NSEC,
                // Hashes of a zone whose apex has a DNAME stand below it.
                Place::Below => rtype == rtype::NSEC3,
            };
            if is_ours {
                self.judge(name, set, sets.ttl(rtype), signatures, report);
            } else if !signatures.is_empty() {
                report.add(Fault::RrsigOverGlue, name, Some(rtype), String::new);
            }
        }
    }

    /// One good signature is enough.
    fn judge(&self, name: &[u8], set: &[Rr<'_>], ttl: u32, signatures: &[Rr<'_>], report: &mut Report) {
        let rtype = set[0].rtype;
        let (mut lasts, mut first) = (None, None);
        for signature in signatures {
            match self.fault(name, ttl, signature) {
                Ok(left_s) => lasts = lasts.max(Some(left_s)),
                Err(fault) => _ = first.get_or_insert((fault, signature)),
            }
        }
        match (lasts, first) {
            (Some(left_s), _) if left_s < self.soon_s => {
                report.add(Fault::RrsigSoon, name, Some(rtype), || format!("in {} hours", left_s / 3600));
            }
            (Some(_), _) => {}
            (None, Some((fault, signature))) => report.add(fault, name, Some(rtype), || detail(fault, signature)),
            (None, None) => report.add(Fault::NoRrsig, name, Some(rtype), String::new),
        }
    }

    /// For how long the signature is still good, in seconds; or what is wrong with it.
    fn fault(&self, name: &[u8], ttl: u32, signature: &Rr<'_>) -> Result<u32, Fault> {
        let Some((fixed, signer)) = signature.rdata.split_first_chunk::<FIXED>() else {
            return Err(Fault::RrsigSigner);
        };
        let u32_at = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        if !signer.get(..self.apex.len()).is_some_and(|s| s.eq_ignore_ascii_case(self.apex)) {
            return Err(Fault::RrsigSigner);
        }
        if !self.keys.contains(&(u16::from_be_bytes([fixed[16], fixed[17]]), fixed[2])) {
            return Err(Fault::RrsigKey);
        }
        let labels = wire::name::label_count(name) - usize::from(name.starts_with(b"\x01*"));
        if usize::from(fixed[3]) != labels {
            return Err(Fault::RrsigLabels);
        }
        if u32_at(4) != ttl {
            return Err(Fault::RrsigTtl);
        }
        let left_s = u32_at(8).wrapping_sub(self.now) as i32;
        if left_s < 0 {
            return Err(Fault::RrsigExpired);
        }
        if (self.now.wrapping_sub(u32_at(12)) as i32) < 0 {
            return Err(Fault::RrsigEarly);
        }
        Ok(left_s as u32)
    }
}

/// The signatures over a type; all of them are sorted by it.
fn of<'s, 'a>(all: &'s [Rr<'a>], rtype: Rtype) -> &'s [Rr<'a>] {
    let from = all.partition_point(|s| covered(s) < rtype);
    let to = all.partition_point(|s| covered(s) <= rtype);
    all.get(from..to).unwrap_or(&[])
}

fn detail(fault: Fault, signature: &Rr<'_>) -> String {
    let mut text = String::new();
    zonefile::rdata::to_text(rtype::RRSIG, signature.rdata, &mut text);
    let field = |n: usize| text.split(' ').nth(n).unwrap_or_default();
    match fault {
        Fault::RrsigExpired => format!("on {}", field(4)),
        Fault::RrsigEarly => format!("before {}", field(5)),
        Fault::RrsigKey => format!("key tag {}, algorithm {}", field(6), field(1)),
        Fault::RrsigSigner => field(7).to_string(),
        Fault::RrsigLabels => field(2).to_string(),
        Fault::RrsigTtl => field(3).to_string(),
        _ => String::new(),
    }
}

/// RFC 4034 appendix B. Algorithm 1, whose tag is another, is long gone (RFC 6944).
fn key_tag(rdata: &[u8]) -> u16 {
    let sum: u32 = rdata.iter().enumerate().map(|(i, &c)| u32::from(c) << (8 * (1 - i % 2))).sum();
    (sum + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_the_root_key_of_2017() {
        let text = "257 3 8 AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTOiW1vkIbzxeF3+/4RgWOq7HrxRixHlFlExOLAJr5emLvN7SWXgnLh4+B5xQlNVz8Og8kvArMtNROxVQuCaSnIDdD5LKyWbRd2n9WGe2R8PzgCmr3EgVLrjyBxWezF0jLHwVN8efS3rCj/EWgvIWgb9tarpVUDK/b58Da+sqqls3eNbuv7pr+eoZG+SrDK6nWeL3c6H5Apxz7LjVc1uTIdsIXxuOLYA4/ilBmSVIzuDWfdRUfhHdY6+cn8HFRm+2hM8AnXGXws9555KrUB5qihylGa8subX2Nn6UwNR1AkUTV74bU=";
        let rdata = zonefile::rdata::from_str(rtype::DNSKEY, text, &wire::Name::ROOT).unwrap();
        assert_eq!(key_tag(&rdata), 20326);
    }
}
