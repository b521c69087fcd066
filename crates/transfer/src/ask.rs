//! What a secondary asks its primaries, what a server tells its secondaries, and what their replies say: SOA queries, AXFR
//! (RFC 5936 section 2.1), NOTIFY (RFC 1996).
//!
//! Ids and signatures are the caller's; a reply is looked at only after its signature was found right.

use crate::message::Message;
use wire::query::{CLASS_IN, HEADER};
use wire::{Rtype, rtype};

pub const NOTIFY: u8 = 4;
/// AA, which a NOTIFY carries (RFC 1996 section 3.7).
const AA: u8 = 4;
const RCODE_NOERROR: u8 = 0;
const RCODE_NOTIMP: u8 = 4;

/// A question for a type of a zone's apex.
pub fn query(id: u16, apex: &[u8], rtype: Rtype) -> Vec<u8> {
    let mut message = [&id.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0], apex].concat();
    message.extend([rtype, CLASS_IN].map(u16::to_be_bytes).concat());
    message
}

/// Says that a zone has changed. The SOA is a hint only, and goes along if it is known.
pub fn notify(id: u16, apex: &[u8], soa: Option<(u32, &[u8])>) -> Vec<u8> {
    let mut message = query(id, apex, rtype::SOA);
    if let Some(flags) = message.get_mut(2) {
        *flags = NOTIFY << 3 | AA;
    }
    if let (Some((ttl, rdata)), Some(count)) = (soa, message.get_mut(7)) {
        *count = 1;
        message.extend([0xC000 | HEADER as u16, rtype::SOA, CLASS_IN].map(u16::to_be_bytes).concat());
        message.extend(ttl.to_be_bytes());
        message.extend((rdata.len() as u16).to_be_bytes());
        message.extend(rdata);
    }
    message
}

/// What is wrong with a reply: the peer answers, but not what we need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Not the answer to this question. A datagram that is it may still come.
    Unrelated,
    Malformed,
    Rcode(u8),
    /// No SOA, or one that is no word of an authority.
    NoSoa,
}

/// The reply to a question of ours; Err: it is not, or malformed.
fn reply<'m>(octets: &'m [u8], question: &[u8]) -> Result<Message<'m>, Wrong> {
    let (Some(message), Some(asked)) = (Message::new(octets), Message::new(question)) else {
        return Err(Wrong::Unrelated);
    };
    let is_reply = message.is_response() && message.id() == asked.id() && message.opcode() == asked.opcode();
    let same = |a: &Message<'_>, b: &Message<'_>| match (a.question(), b.question()) {
        (Some((a, _)), Some((b, _))) => a.name.fold() == b.name.fold() && (a.rtype, a.class) == (b.rtype, b.class),
        _ => false,
    };
    // An error may come without its question.
    let is_bare = message.count(0) == 0 && message.rcode() != RCODE_NOERROR;
    if is_reply && (is_bare || same(&message, &asked)) { Ok(message) } else { Err(Wrong::Unrelated) }
}

/// What a primary says of a zone's SOA; None: it does not fit into a datagram.
pub fn soa_reply(octets: &[u8], question: &[u8]) -> Result<Option<Vec<u8>>, Wrong> {
    let message = reply(octets, question)?;
    if message.rcode() != RCODE_NOERROR {
        return Err(Wrong::Rcode(message.rcode()));
    }
    if octets.get(2).is_some_and(|flags| flags & 2 != 0) {
        return Ok(None);
    }
    // A server that only passes on what it has heard is no primary.
    let (asked, _) = message.question().filter(|_| octets.get(2).is_some_and(|f| f & AA != 0)).ok_or(Wrong::NoSoa)?;
    for record in message.records() {
        let rr = record.map_err(|_| Wrong::Malformed)?;
        if rr.section == 1 && rr.rtype == rtype::SOA && rr.owner.fold() == asked.name.fold() && rr.class == CLASS_IN {
            return rr.rdata().map(Some).ok_or(Wrong::Malformed);
        }
    }
    Err(Wrong::NoSoa)
}

/// What a secondary says to a NOTIFY. Whoever does not know them has no use for another one, either.
pub fn notify_reply(octets: &[u8], question: &[u8]) -> Result<(), Wrong> {
    match reply(octets, question)?.rcode() {
        RCODE_NOERROR | RCODE_NOTIMP => Ok(()),
        rcode => Err(Wrong::Rcode(rcode)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::rtype::SOA;

    const APEX: &[u8] = b"\x01z\0";
    const RDATA: &[u8] = b"\x02ns\x01z\0\0\0\0\0\x07\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04";

    /// A reply to `query(7, "z.", SOA)` with a SOA; `change` spoils it.
    fn answer(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut reply = notify(7, APEX, Some((60, RDATA)));
        reply[2] = 0x84;
        change(&mut reply);
        reply
    }

    #[test]
    fn only_an_authority_s_answer_to_the_question_is_believed() {
        let asked = query(7, APEX, SOA);
        type Case = (&'static str, Vec<u8>, Result<Option<Vec<u8>>, Wrong>);
        let cases: [Case; 13] = [
            ("right", answer(|_| ()), Ok(Some(RDATA.to_vec()))),
            ("in capitals", answer(|m| m[13] = b'Z'), Ok(Some(RDATA.to_vec()))),
            ("truncated", answer(|m| m[2] |= 2), Ok(None)),
            ("another id", answer(|m| m[1] = 8), Err(Wrong::Unrelated)),
            ("no reply", answer(|m| m[2] = 4), Err(Wrong::Unrelated)),
            ("another opcode", answer(|m| m[2] = 0xA4), Err(Wrong::Unrelated)),
            ("another zone", answer(|m| m[13] = b'y'), Err(Wrong::Unrelated)),
            ("another type", answer(|m| m[16] = 1), Err(Wrong::Unrelated)),
            ("refused", answer(|m| m[3] = 5), Err(Wrong::Rcode(5))),
            ("refused without a question", vec![0, 7, 0x80, 5, 0, 0, 0, 0, 0, 0, 0, 0], Err(Wrong::Rcode(5))),
            ("not authoritative", answer(|m| m[2] = 0x80), Err(Wrong::NoSoa)),
            ("empty", answer(|m| (m[7] = 0, m.truncate(19)).1), Err(Wrong::NoSoa)),
            ("cut off", answer(|m| m.truncate(40)), Err(Wrong::Malformed)),
        ];
        for (what, reply, expect) in cases {
            assert_eq!(soa_reply(&reply, &asked), expect, "{what}");
        }
        assert_eq!(soa_reply(b"", &asked), Err(Wrong::Unrelated));
    }

    #[test]
    fn a_notify_says_the_soa_and_is_answered() {
        let asked = notify(7, APEX, Some((60, RDATA)));
        let message = Message::new(&asked).unwrap();
        let soa = message.records().next().unwrap().unwrap();
        assert_eq!((message.opcode(), soa.rdata().unwrap(), soa.owner.bytes()), (NOTIFY, RDATA.to_vec(), APEX));
        assert_eq!(notify(7, APEX, None).len(), 19);
        for (rcode, expect) in [(0, Ok(())), (4, Ok(())), (5, Err(Wrong::Rcode(5)))] {
            let mut reply = notify(7, APEX, None);
            (reply[2], reply[3]) = (0xA4, rcode);
            assert_eq!(notify_reply(&reply, &asked), expect);
        }
    }
}
