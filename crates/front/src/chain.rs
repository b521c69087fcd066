//! An alias of ours that leads out of its zone: the parts of the chain, each from whoever knows it, in one message.
//!
//! Slow, rare, and never on an answering thread: whoever drives the resolver asks for it. Each part is a whole message
//! to its own question; their records are put together under the first. At most `PARTS_MAX` of them.

use crate::resolving::Told;
use crate::worker::Worker;
use crate::{Miss, Now, Peer, Purpose, Ticket, Transport, Verdict, Wanted, Way};
use resolver::{Draft, Question};
use wire::message::Message;
use wire::reply::{Flags, Section};
use wire::{Name, Rcode, rtype};

const PARTS_MAX: usize = 12;
const MESSAGE_MAX: usize = 65_535;

/// Nothing is posted to it: what a part needs is the whole's to find out.
const NOBODYS: Ticket = Ticket { thread: u16::MAX, way: Way::Stream(0) };

pub enum Composed {
    /// The answer stands in the buffer, this long.
    Reply(usize),
    Drop,
    /// This is to be found out first.
    Needs(Miss),
}

/// The parts of a chain: none of them is an answer to anybody.
enum Gathered {
    All(Vec<Vec<u8>>),
    Needs(Miss),
    /// The chain is too long, or somebody who was asked before is to be asked again.
    Not,
    Drop,
}

impl<M: AsRef<[u8]>> Worker<M> {
    /// Answers the packet of `len` octets in `buffer`, whose chain leaves our zones. `known`: what was found out.
    pub fn compose(
        &mut self,
        now: Now,
        peer: Peer,
        transport: Transport,
        buffer: &mut [u8],
        len: usize,
        known: Option<(&Question, &Told<'_>)>,
    ) -> Composed {
        self.writes_parts = true;
        let parts = self.gather(now, peer, buffer.get(..len).unwrap_or_default(), known);
        self.writes_parts = false;
        match parts {
            Gathered::All(parts) => self.merge(now, peer, transport, buffer, len, &parts),
            Gathered::Needs(miss) => Composed::Needs(miss),
            Gathered::Not => self.give_up(now, peer, transport, buffer, len),
            Gathered::Drop => Composed::Drop,
        }
    }

    fn gather(&mut self, now: Now, peer: Peer, packet: &[u8], known: Option<(&Question, &Told<'_>)>) -> Gathered {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut packet = packet.to_vec();
        while parts.len() < PARTS_MAX {
            let mut room = vec![0; MESSAGE_MAX];
            room[..packet.len()].copy_from_slice(&packet);
            let asked = asked(&packet);
            let told = known.filter(|(question, _)| asked.as_ref() == Some(question)).map(|(_, told)| told);
            let verdict = match told {
                Some(told) => self.tell(now, peer, Transport::Tcp, &mut room, packet.len(), told),
                None => self.part(now, peer, NOBODYS, &mut room, packet.len()),
            };
            let miss = self
                .next_postponed()
                .and_then(|p| if let Purpose::Resolve(miss) = p.purpose { Some(miss) } else { None });
            match (verdict, miss) {
                (Verdict::Reply(n), _) => {
                    parts.push(room[..n].to_vec());
                    return Gathered::All(parts);
                }
                (Verdict::Later, Some(miss)) if miss.wanted == Wanted::RestOfChain => {
                    let Verdict::Reply(n) = self.part_of_ours(now, peer, &mut room, packet.len()) else {
                        return Gathered::Drop;
                    };
                    parts.push(room[..n].to_vec());
                    packet = question_packet(&miss.question);
                }
                (Verdict::Later, Some(miss)) if known.is_none() => return Gathered::Needs(miss),
                _ => break,
            }
        }
        Gathered::Not
    }

    fn give_up(&mut self, now: Now, peer: Peer, transport: Transport, buffer: &mut [u8], len: usize) -> Composed {
        match self.tell(now, peer, transport, buffer, len, &Told::Failed(Rcode::SERVFAIL, None)) {
            Verdict::Reply(len) => Composed::Reply(len),
            _ => Composed::Drop,
        }
    }

    fn merge(
        &mut self,
        now: Now,
        peer: Peer,
        transport: Transport,
        buffer: &mut [u8],
        len: usize,
        parts: &[Vec<u8>],
    ) -> Composed {
        let (merged, flags) = match merged(buffer.get(..len).unwrap_or_default(), parts) {
            Some(merged) => merged,
            None => return self.give_up(now, peer, transport, buffer, len),
        };
        match self.tell_with(now, peer, transport, buffer, len, &Told::Answer(&merged), flags) {
            Verdict::Reply(len) => Composed::Reply(len),
            _ => Composed::Drop,
        }
    }
}

/// The question of a packet of ours.
fn asked(packet: &[u8]) -> Option<Question> {
    let message = Message::open(packet)?;
    let dnssec_ok = message.records().flatten().any(|r| r.rtype == rtype::OPT && r.ttl_s & 0x8000 != 0);
    Some(Question::new(&Name::from_wire(message.name())?, message.qtype(), dnssec_ok, message.flags() & 0x10 != 0))
}

/// A query as a client would send it, with RD.
fn question_packet(question: &Question) -> Vec<u8> {
    let mut packet = vec![0, 0, 1, u8::from(question.checking_disabled) << 4, 0, 1, 0, 0, 0, 0, 0, 1];
    packet.extend_from_slice(question.name());
    packet.extend_from_slice(&question.qtype.to_be_bytes());
    packet.extend_from_slice(&[0, 1, 0, 0, rtype::OPT as u8, 0xFF, 0xFF, 0, 0]);
    packet.extend_from_slice(&[u8::from(question.dnssec_ok) << 7, 0, 0, 0]);
    packet
}

/// The records of all parts under the first question. AA is that of the first part: whose name was asked.
fn merged(packet: &[u8], parts: &[Vec<u8>]) -> Option<(resolver::Answer, Flags)> {
    let mut draft = Draft::new(&asked(packet)?);
    let (mut rcode, mut flags) = (Rcode::SERVFAIL, Flags::NONE);
    for (section, is_wanted) in [(Section::Answer, true), (Section::Authority, false)] {
        for (i, part) in parts.iter().enumerate() {
            let message = Message::open(part)?;
            if i == 0 && message.is_authoritative() {
                flags = Flags::AUTHORITATIVE;
            }
            rcode = message.rcode();
            let is_last = i + 1 == parts.len();
            for record in message.records() {
                let record = record?;
                let proves = matches!(record.rtype, rtype::NSEC | rtype::NSEC3 | rtype::RRSIG);
                if record.section == section && (is_wanted || is_last || proves) {
                    draft.add(section, &record.owner()?, &record, record.ttl_s).ok()?;
                }
            }
        }
    }
    if rcode == Rcode::SERVFAIL { None } else { Some((draft.finish(rcode, 0), flags)) }
}
