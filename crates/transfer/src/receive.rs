//! A zone that comes as a whole (RFC 5936): its messages one after another, each checked before anything of it is used.
//!
//! Nothing is kept but the SOA that it began with: what has been checked goes to the caller record by record, who throws it
//! away if the transfer turns out wrong. A transfer is whole when that SOA has come again; anything behind it is wrong.

use crate::message::Message;
use crate::record::{counted, is_same_rdata, serial_of};
use wire::name::is_at_or_below;
use wire::query::CLASS_IN;
use wire::rtype::SOA;
use wire::{Name, Rtype};

/// A record of the zone, in the case in which it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received<'a> {
    pub owner: &'a [u8],
    pub rtype: Rtype,
    pub ttl: u32,
    pub rdata: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    More,
    /// The zone is whole.
    Done,
}

/// What is wrong with a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Another id, question or opcode than asked, or no response at all.
    Unrelated,
    Rcode(u8),
    Malformed,
    /// A record of another class, or one that no zone has.
    Foreign(Rtype),
    OutOfZone(Box<Name>),
    /// It begins with something else than its SOA.
    NoSoa,
    /// It ends with another SOA than it began with.
    OtherSoa,
    /// Records behind the last SOA.
    Behind,
    /// A message without a record.
    Empty,
}

pub struct Receiver {
    id: u16,
    apex: Name,
    /// The rdata that it began with.
    soa: Option<Vec<u8>>,
    is_done: bool,
    pub records: u64,
}

impl Receiver {
    /// `id`: of the question. The apex is in lower case.
    pub fn new(id: u16, apex: &Name) -> Receiver {
        Receiver { id, apex: apex.fold(), soa: None, is_done: false, records: 0 }
    }

    /// The serial that it began with.
    pub fn serial(&self) -> Option<u32> {
        serial_of(self.soa.as_ref()?)
    }

    /// Takes the next message; its records go to `sink`, the SOA once and first.
    pub fn on_message(&mut self, octets: &[u8], sink: &mut dyn FnMut(Received<'_>)) -> Result<Progress, Fault> {
        let message = Message::new(octets).ok_or(Fault::Malformed)?;
        self.check_head(&message)?;
        let mut any = false;
        for record in message.records() {
            let rr = record.map_err(|_| Fault::Malformed)?;
            // What stands beside the answer, signature and all, is not of the zone.
            if rr.section != 1 {
                continue;
            }
            any = true;
            let rdata = rr.rdata().ok_or(Fault::Malformed)?;
            self.on_record(&rr.owner, rr.rtype, rr.class, rr.ttl, &rdata, sink)?;
        }
        match (self.is_done, any) {
            (true, _) => Ok(Progress::Done),
            (false, true) => Ok(Progress::More),
            (false, false) => Err(Fault::Empty),
        }
    }

    fn check_head(&self, message: &Message<'_>) -> Result<(), Fault> {
        if !message.is_response() || message.id() != self.id || message.opcode() != 0 {
            return Err(Fault::Unrelated);
        }
        if message.rcode() != 0 {
            return Err(Fault::Rcode(message.rcode()));
        }
        // RFC 5936 section 2.2.1: the first message has the question, later ones may.
        match message.count(0) {
            0 if self.soa.is_some() => Ok(()),
            _ => match message.question() {
                Some((asked, _)) if asked.name.fold() == self.apex && asked.class == CLASS_IN => Ok(()),
                _ => Err(Fault::Unrelated),
            },
        }
    }

    fn on_record(
        &mut self,
        owner: &Name,
        rtype: Rtype,
        class: u16,
        ttl: u32,
        rdata: &[u8],
        sink: &mut dyn FnMut(Received<'_>),
    ) -> Result<(), Fault> {
        if self.is_done {
            return Err(Fault::Behind);
        }
        if class != CLASS_IN || wire::rtype::is_meta(rtype) {
            return Err(Fault::Foreign(rtype));
        }
        let folded = owner.fold();
        let is_soa = rtype == SOA && folded == self.apex;
        match &self.soa {
            None if !is_soa => return Err(Fault::NoSoa),
            None => self.soa = Some(rdata.to_vec()),
            Some(first) if is_soa => {
                self.is_done = is_same_rdata(SOA, first, rdata);
                return if self.is_done { Ok(()) } else { Err(Fault::OtherSoa) };
            }
            Some(_) if !is_at_or_below(folded.bytes(), self.apex.bytes()) => {
                return Err(Fault::OutOfZone(Box::new(*owner)));
            }
            Some(_) => {}
        }
        self.records += 1;
        sink(Received { owner: owner.bytes(), rtype, ttl: counted(ttl), rdata });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axfr::Pages;
    use proptest::prelude::*;
    use wire::rtype::{A, TXT};

    const APEX: &[u8] = b"\x01z\0";

    fn soa(serial: u8) -> Vec<u8> {
        let mut rdata = b"\x02ns\x01z\0\0".to_vec();
        rdata.extend([0, 0, 0, serial, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]);
        rdata
    }

    /// The octets of an answer's records, each with owner, type, class and rdata.
    fn message(id: u8, is_first: bool, records: &[(&[u8], Rtype, u16, &[u8])]) -> Vec<u8> {
        let mut message = vec![0, id, 0x84, 0, 0, u8::from(is_first), 0, records.len() as u8, 0, 0, 0, 0];
        if is_first {
            message.extend(b"\x01z\0\0\xFC\0\x01");
        }
        for (owner, rtype, class, rdata) in records {
            message.extend(*owner);
            message.extend([*rtype, *class].map(u16::to_be_bytes).concat());
            message.extend([0, 0, 0, 60]);
            message.extend((rdata.len() as u16).to_be_bytes());
            message.extend(*rdata);
        }
        message
    }

    /// What comes of these messages, and how many records were handed on.
    fn outcome(messages: &[Vec<u8>]) -> (Result<Progress, Fault>, u64) {
        let mut receiver = Receiver::new(7, &Name::from_wire(APEX).unwrap());
        let (mut n, mut last) = (0, Ok(Progress::More));
        for message in messages {
            last = receiver.on_message(message, &mut |_| n += 1);
            if last.is_err() {
                break;
            }
        }
        (last, n)
    }

    #[test]
    fn a_transfer_is_whole_or_says_what_is_wrong() {
        let (s, t) = (soa(1), soa(2));
        let (www, out) = (&b"\x03www\x01z\0"[..], &b"\x03www\x01y\0"[..]);
        let first: (&[u8], Rtype, u16, &[u8]) = (APEX, SOA, 1, &s);
        let a: (&[u8], Rtype, u16, &[u8]) = (www, A, 1, &[192, 0, 2, 1]);
        let more =
            |records: &[(&[u8], Rtype, u16, &[u8])]| vec![message(7, true, &[first, a]), message(7, false, records)];
        for (what, messages, expect) in [
            ("one message", vec![message(7, true, &[first, a, first])], (Ok(Progress::Done), 2)),
            ("two messages", more(&[a, first]), (Ok(Progress::Done), 3)),
            ("a SOA alone, and more to come", vec![message(7, true, &[first])], (Ok(Progress::More), 1)),
            ("it goes on", more(&[a]), (Ok(Progress::More), 3)),
            ("another id", vec![message(8, true, &[first])], (Err(Fault::Unrelated), 0)),
            ("another id later", vec![message(7, true, &[first]), message(8, false, &[a])], (Err(Fault::Unrelated), 1)),
            ("no question", vec![message(7, false, &[first])], (Err(Fault::Unrelated), 0)),
            ("no SOA first", vec![message(7, true, &[a])], (Err(Fault::NoSoa), 0)),
            ("another SOA last", more(&[a, (APEX, SOA, 1, &t)]), (Err(Fault::OtherSoa), 3)),
            ("records behind", more(&[first, a]), (Err(Fault::Behind), 2)),
            (
                "out of the zone",
                more(&[(out, A, 1, &[192, 0, 2, 1])]),
                (Err(Fault::OutOfZone(Box::new(Name::from_wire(out).unwrap()))), 2),
            ),
            ("another class", more(&[(www, A, 3, &[192, 0, 2, 1])]), (Err(Fault::Foreign(A)), 2)),
            ("a type that is none", more(&[(www, 255, 1, &[])]), (Err(Fault::Foreign(255)), 2)),
            ("rdata that does not fit", more(&[(www, A, 1, &[192, 0, 2])]), (Err(Fault::Malformed), 2)),
            ("an empty message", more(&[]), (Err(Fault::Empty), 2)),
            ("refused", vec![vec![0, 7, 0x80, 5, 0, 0, 0, 0, 0, 0, 0, 0]], (Err(Fault::Rcode(5)), 0)),
            ("cut off", vec![message(7, true, &[first, a])[..60].to_vec()], (Err(Fault::Malformed), 1)),
            ("too short", vec![vec![0; 11]], (Err(Fault::Malformed), 0)),
        ] {
            assert_eq!(outcome(&messages), expect, "{what}");
        }
    }

    #[test]
    fn a_ttl_of_32_bits_is_none() {
        let s = soa(1);
        let mut octets = message(7, true, &[(APEX, SOA, 1, &s), (APEX, SOA, 1, &s)]);
        let ttl_at = 12 + 7 + APEX.len() + 4;
        for (first, expect) in [(0x7F, 0x7F00_003C), (0x80, 0)] {
            octets[ttl_at] = first;
            let (mut receiver, mut ttls) = (Receiver::new(7, &Name::from_wire(APEX).unwrap()), vec![]);
            assert_eq!(receiver.on_message(&octets, &mut |r| ttls.push(r.ttl)), Ok(Progress::Done));
            assert_eq!(ttls, [expect]);
        }
    }

    type Rr = (Vec<u8>, Rtype, Vec<u8>);

    /// As the text of RFC 5936 says it, with the whole answer at hand. None: it is none.
    fn twin(messages: &[Vec<u8>]) -> Option<Vec<Rr>> {
        let mut all = vec![];
        for (i, octets) in messages.iter().enumerate() {
            let message = Message::new(octets)?;
            let question =
                message.question().filter(|(q, _)| q.class == 1).map(|(q, _)| q.name.fold().bytes().to_vec());
            let is_asked = question.as_deref() == Some(APEX) || message.count(0) == 0 && i > 0;
            if octets.get(..2)? != [0, 7] || octets[2] & 0xF8 != 0x80 || octets[3] & 15 != 0 || !is_asked {
                return None;
            }
            let records: Option<Vec<_>> = message.records().map(|r| r.ok()).collect();
            let answer: Vec<_> = records?.into_iter().filter(|rr| rr.section == 1).collect();
            if answer.is_empty() {
                return None;
            }
            for rr in answer {
                let is_of_zone = is_at_or_below(rr.owner.fold().bytes(), APEX) && rr.class == 1;
                all.push((rr.owner.fold().bytes().to_vec(), rr.rtype, rr.rdata().filter(|_| is_of_zone)?));
            }
        }
        let is_soa = |r: &Rr| r.0 == APEX && r.1 == SOA;
        let (first, last) = (all.first()?, all.last()?);
        let inner = all.get(1..all.len() - 1)?;
        let is_meta = |r: &Rr| wire::rtype::is_meta(r.1);
        let is_end = is_soa(last) && is_same_rdata(SOA, &first.2, &last.2);
        if !is_soa(first) || !is_end || all.iter().any(is_meta) || inner.iter().any(is_soa) {
            return None;
        }
        all.pop();
        Some(all)
    }

    proptest! {
        /// Good transfers in any cut into messages, and what becomes of them when octets are changed.
        #[test]
        fn it_takes_what_the_twin_takes(
            texts in proptest::collection::vec((0u8..5, proptest::collection::vec(any::<u8>(), 0..40)), 0..60),
            cuts in proptest::collection::vec(any::<bool>(), 62),
            spoilt in proptest::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 0..2),
        ) {
            let question = crate::ask::query(7, APEX, wire::rtype::AXFR);
            let rdata = soa(1);
            let mut records: Vec<Rr> = vec![(APEX.to_vec(), SOA, rdata.clone())];
            records.extend(texts.into_iter().map(|(n, t)| {
                (vec![2, b'h', b'0' + n, 1, b'z', 0], TXT, [&[t.len() as u8][..], &t].concat())
            }));
            records.push((APEX.to_vec(), SOA, rdata));
            let mut messages = vec![];
            for (record, cut) in records.iter().zip(cuts) {
                let mut pages = Pages::new(&question, 0).unwrap();
                if cut || messages.is_empty() {
                    pages.push(&record.0, record.1, 60, &record.2).unwrap();
                    messages.push(pages.finish());
                } else if let Some(last) = messages.last_mut() {
                    let octets: &mut Vec<u8> = last;
                    octets.extend(&record.0);
                    octets.extend([record.1, 1, 0, 60, record.2.len() as u16].map(u16::to_be_bytes).concat());
                    octets.extend(&record.2);
                    octets[7] += 1;
                }
            }
            for (message, at, to) in &spoilt {
                let n = messages.len();
                let octets = &mut messages[message % n];
                let at = at % octets.len();
                octets[at] = *to;
            }
            let mut receiver = Receiver::new(7, &Name::from_wire(APEX).unwrap());
            let mut got = vec![];
            let mut sink = |r: Received<'_>| {
                let owner = Name::from_wire(r.owner).unwrap().fold();
                got.push((owner.bytes().to_vec(), r.rtype, r.rdata.to_vec()));
            };
            let (mut progress, mut taken) = (Ok(Progress::More), 0);
            while taken < messages.len() && progress == Ok(Progress::More) {
                progress = receiver.on_message(&messages[taken], &mut sink);
                taken += 1;
            }
            // Where a change has made an end of what stands in the middle, nobody looks at the rest.
            let expect = twin(&messages[..taken]);
            prop_assert_eq!(progress == Ok(Progress::Done), expect.is_some(), "{:?}", progress);
            if let Some(expect) = expect {
                prop_assert_eq!(got, expect);
            }
            prop_assert!(!spoilt.is_empty() || progress == Ok(Progress::Done), "a good one is refused");
        }
    }
}
