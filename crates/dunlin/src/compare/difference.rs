//! What two answers to the same question differ in. Knows no servers.

use crate::message::{AA, AD, DO, Message, RA, Record, TC};
use std::collections::BTreeMap;
use zonefile::rtypes;

const EDE: u16 = 15;
const FLAGS: u16 = AA | TC | RA | AD;
/// Sizes that differ by less than this part of the larger are alike.
const SIZE_PART: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    NoAnswer,
    Rcode,
    Flags,
    Answer,
    Authority,
    Ede,
    Additional,
    Ttl,
    Size,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::NoAnswer => "no answer",
            Kind::Rcode => "rcode",
            Kind::Flags => "flags",
            Kind::Answer => "answer section",
            Kind::Authority => "authority section",
            Kind::Ede => "extended error",
            Kind::Additional => "additional section",
            Kind::Ttl => "TTL",
            Kind::Size => "size",
        }
    }

    /// What a client would notice.
    pub fn counts(self) -> bool {
        !matches!(self, Kind::Additional | Kind::Ttl | Kind::Size)
    }
}

/// An answer, or why there is none.
pub type Reply = Result<(Message, usize), String>;

/// Each kind of difference with what A and B said.
pub fn differences(a: &Reply, b: &Reply) -> BTreeMap<Kind, (String, String)> {
    let mut found = BTreeMap::new();
    let (left, right) = match (a, b) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(_), Err(_)) => return found,
        _ => {
            let told = |reply: &Reply| reply.as_ref().map_or_else(Clone::clone, |(m, _)| rcode(m));
            found.insert(Kind::NoAnswer, (told(a), told(b)));
            return found;
        }
    };
    let ((a, size_a), (b, size_b)) = (left, right);
    let mut note = |kind, of: &dyn Fn(&Message) -> String| {
        let (x, y) = (of(a), of(b));
        if x != y {
            found.insert(kind, (x, y));
        }
    };
    note(Kind::Rcode, &rcode);
    note(Kind::Flags, &flags);
    note(Kind::Answer, &|m| records(&m.sections[0]));
    note(Kind::Authority, &|m| records(&m.sections[1]));
    note(Kind::Additional, &|m| records(&m.sections[2]));
    note(Kind::Ede, &extended_errors);
    if !found.contains_key(&Kind::Answer) && !found.contains_key(&Kind::Authority) {
        let of = |m: &Message| ttls(m);
        if of(a) != of(b) {
            found.insert(Kind::Ttl, (of(a), of(b)));
        }
    }
    if size_a.abs_diff(*size_b) as f64 > SIZE_PART * *size_a.max(size_b) as f64 {
        found.insert(Kind::Size, (size_a.to_string(), size_b.to_string()));
    }
    found
}

fn rcode(m: &Message) -> String {
    let high = m.opt.as_ref().map_or(0, |opt| usize::from(opt.extended_rcode));
    load::report::rcode_name(high << 4 | usize::from(m.flags & 15))
}

fn flags(m: &Message) -> String {
    let set = [(AA, "aa"), (TC, "tc"), (RA, "ra"), (AD, "ad")].iter().filter(|(bit, _)| m.flags & FLAGS & bit != 0);
    let mut names: Vec<&str> = set.map(|(_, name)| *name).collect();
    if m.opt.as_ref().is_some_and(|opt| opt.flags & DO != 0) {
        names.push("do");
    }
    names.join(" ")
}

fn lines(section: &[Record], with_ttl: bool) -> Vec<String> {
    let mut lines: Vec<String> = section
        .iter()
        .map(|r| {
            let mut text = String::new();
            let ttl = if with_ttl { r.ttl } else { 0 };
            zonefile::record_to_text(r.owner.fold().bytes(), ttl, r.class, r.rtype, &r.rdata, &mut text);
            if with_ttl { format!("{} {} {ttl}", r.owner.fold(), rtypes::mnemonic(r.rtype)) } else { text }
        })
        .collect();
    lines.sort();
    lines.dedup();
    lines
}

/// The records in an order of ours, without their TTLs: the order of records means nothing (RFC 2181 section 5).
fn records(section: &[Record]) -> String {
    lines(section, false).concat().trim_end().replace('\n', "; ")
}

fn ttls(m: &Message) -> String {
    m.sections[..2].iter().flat_map(|section| lines(section, true)).collect::<Vec<_>>().join("; ")
}

fn extended_errors(m: &Message) -> String {
    let options = m.opt.iter().flat_map(|opt| &opt.options).filter(|(code, data)| *code == EDE && data.len() > 1);
    let mut codes: Vec<String> = options.map(|(_, data)| u16::from_be_bytes([data[0], data[1]]).to_string()).collect();
    codes.sort();
    codes.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Name;

    fn message(flags: u16, addresses: &[u8], ttl: u32) -> Message {
        let owner = Name::from_text(b"www.example.", None).unwrap();
        let record = |last: &u8| Record { owner, rtype: 1, class: 1, ttl, rdata: vec![192, 0, 2, *last] };
        Message {
            id: 1,
            flags,
            counts: [1, 0, 0, 0],
            questions: vec![],
            sections: [addresses.iter().map(record).collect(), vec![], vec![]],
            opt: None,
            left_over: 0,
        }
    }

    fn kinds(a: &Reply, b: &Reply) -> Vec<Kind> {
        differences(a, b).into_keys().collect()
    }

    #[test]
    fn each_difference_has_its_kind() {
        let base = || Ok((message(AA, &[1, 2], 300), 100));
        for (other, expect) in [
            (Ok((message(AA, &[2, 1], 300), 105)), vec![]),
            (Ok((message(AA | 3, &[1, 2], 300), 100)), vec![Kind::Rcode]),
            (Ok((message(RA, &[1, 2], 300), 100)), vec![Kind::Flags]),
            (Ok((message(AA, &[1, 3], 300), 100)), vec![Kind::Answer]),
            (Ok((message(AA, &[1, 2], 299), 100)), vec![Kind::Ttl]),
            (Ok((message(AA, &[1, 2], 300), 200)), vec![Kind::Size]),
            (Err("no answer in time".to_string()), vec![Kind::NoAnswer]),
        ] {
            assert_eq!(kinds(&base(), &other), expect);
            assert_eq!(kinds(&other, &base()), expect);
        }
        assert_eq!(kinds(&Err("x".to_string()), &Err("y".to_string())), []);
    }

    #[test]
    fn extended_errors_are_compared_by_code() {
        let with = |code: u8, text: &[u8]| {
            let mut m = message(0, &[], 0);
            let data = [&[0, code], text].concat();
            m.opt = Some(crate::message::Opt { options: vec![(EDE, data)], ..Default::default() });
            Ok((m, 50))
        };
        assert_eq!(kinds(&with(15, b"blocked"), &with(15, b"on a list")), []);
        assert_eq!(kinds(&with(15, b""), &with(22, b"")), [Kind::Ede]);
    }
}
