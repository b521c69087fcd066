//! One question sent to one server, and what makes a packet its reply.
//!
//! Whoever forges a reply must know our port, a random id, and the case in which the name was sent (0x20). The first
//! packet that guesses wrong ends the guessing: the question goes out again over TCP, where there is nothing to guess.
//! What is malformed, or answers another question, is as if it had not come (TuDoor): the true reply may follow it.

use crate::chance::Chance;
use crate::question::Question;
use wire::message::Message;
use wire::{Name, Rcode, rtype};

/// A datagram without EDNS (RFC 1035 section 2.3.4).
const PLAIN_MAX: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    Udp,
    Tcp,
}

/// Names an exchange to the driver, once: task or probe, and a number that does not come back soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeId {
    pub slot: u32,
    pub serial: u32,
}

impl ExchangeId {
    /// A number of its own, spread well enough to be its own hash: nobody else chooses it.
    pub fn number(self) -> u64 {
        (u64::from(self.slot) << 32 | u64::from(self.serial)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

pub struct Exchange {
    pub id: ExchangeId,
    /// The number of the server.
    pub server: usize,
    pub via: Via,
    pub sent_ns: u64,
    pub deadline_ns: u64,
    /// Nothing was sent to this server before in this task, so that the reply tells the round trip.
    pub is_first: bool,
    /// It was asked without EDNS, which the server did not understand.
    pub is_plain: bool,
    message_id: u16,
    /// In the case in which it was sent.
    name: Name,
    qtype: u16,
    dnssec_ok: bool,
    checking_disabled: bool,
    /// The longest datagram that was asked for.
    size_max: usize,
}

/// What a packet is to an exchange.
pub enum Heard<'a> {
    /// No reply of this exchange, or one that cannot be read. The exchange goes on.
    Noise,
    /// The right addresses and ports, but a wrong id: somebody may be guessing.
    WrongId,
    /// All is right but the case of the name: a guess, or a server that does not keep it.
    CaseLost,
    /// The server has more to say than fits, or said more than was asked for: a datagram that goes in fragments is not
    /// to be believed (CVE-2025-59024).
    Truncated,
    /// The server says no without saying to what; over UDP that proves as little as a wrong case.
    Bare,
    Reply(Message<'a>),
}

impl Exchange {
    pub fn new(id: ExchangeId, server: usize, via: Via, name: &Name, question: &Question) -> Exchange {
        Exchange {
            id,
            server,
            via,
            sent_ns: 0,
            deadline_ns: u64::MAX,
            is_first: false,
            is_plain: false,
            message_id: 0,
            name: *name,
            qtype: question.qtype,
            dnssec_ok: question.dnssec_ok,
            checking_disabled: question.checking_disabled,
            size_max: PLAIN_MAX,
        }
    }

    /// Draws an id, and the case of each letter if that is wanted; returns the packet, in `packet`, which is empty.
    /// `edns_size` None: without EDNS.
    pub fn packet(
        &mut self,
        edns_size: Option<u16>,
        with_case: bool,
        chance: &mut Chance,
        mut packet: Vec<u8>,
    ) -> Vec<u8> {
        self.message_id = chance.number() as u16;
        if with_case {
            self.name.recase(|| chance.wide());
        }
        packet.reserve(64 + self.name.bytes().len());
        packet.extend_from_slice(&self.message_id.to_be_bytes());
        let (cd, opts) = (u8::from(self.checking_disabled) << 4, u8::from(edns_size.is_some()));
        packet.extend_from_slice(&[1, cd, 0, 1, 0, 0, 0, 0, 0, opts]);
        packet.extend_from_slice(self.name.bytes());
        packet.extend_from_slice(&self.qtype.to_be_bytes());
        packet.extend_from_slice(&[0, 1]);
        self.is_plain = edns_size.is_none();
        if let Some(size) = edns_size {
            self.size_max = PLAIN_MAX.max(usize::from(size));
            packet.extend_from_slice(&[0, 0, rtype::OPT as u8]);
            packet.extend_from_slice(&size.to_be_bytes());
            packet.extend_from_slice(&[0, 0, u8::from(self.dnssec_ok) << 7, 0, 0, 0]);
        }
        packet
    }

    pub fn judge<'a>(&self, packet: &'a [u8]) -> Heard<'a> {
        let (Some(id), Some(flags)) = (packet.first_chunk::<2>(), packet.get(2)) else { return Heard::Noise };
        if flags & 0xF8 != 0x80 {
            return Heard::Noise;
        }
        if u16::from_be_bytes(*id) != self.message_id {
            return if self.via == Via::Udp { Heard::WrongId } else { Heard::Noise };
        }
        if is_bare_refusal(packet) {
            return Heard::Bare;
        }
        let Some(message) = Message::open(packet) else { return Heard::Noise };
        let has_case = self.has_case(&message);
        let is_ours = (message.qtype(), message.qclass()) == (self.qtype, 1)
            && (has_case || message.name().eq_ignore_ascii_case(self.name.bytes()));
        if !is_ours {
            return Heard::Noise;
        }
        if self.via == Via::Udp && !has_case {
            return Heard::CaseLost;
        }
        match message.is_truncated() || self.via == Via::Udp && packet.len() > self.size_max {
            true if self.via == Via::Udp => Heard::Truncated,
            false if message.is_whole() => Heard::Reply(message),
            _ => Heard::Noise,
        }
    }

    /// True if the reply has the name as it was sent.
    pub fn has_case(&self, message: &Message<'_>) -> bool {
        message.name() == self.name.bytes()
    }
}

/// A header that says FORMERR or NOTIMP, and no more: servers of before EDNS know no better (RFC 6891 section 7).
fn is_bare_refusal(packet: &[u8]) -> bool {
    let says_no = packet.get(3).is_some_and(|flags| matches!(flags & 15, 1 | 4));
    says_no && packet.get(4..) == Some(&[0; 8])
}

/// True if the reply may be due to the question's EDNS: the server that says so shows none of its own.
pub fn may_mean_edns(message: &Message<'_>) -> bool {
    let says_no = matches!(message.rcode(), Rcode::FORMERR | Rcode::NOTIMP);
    says_no && !message.records().flatten().any(|record| record.rtype == rtype::OPT)
}

/// RFC 2136 and later rcodes say nothing about a name; who sends them, or says that it will not, is passed over.
pub fn is_answer(rcode: Rcode) -> bool {
    matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::from_text(text.as_bytes(), None).unwrap()
    }

    fn exchange(via: Via) -> (Exchange, Vec<u8>) {
        let question = Question::new(&name("www.some-example.com."), 1, false, false);
        let id = ExchangeId { slot: 1, serial: 2 };
        let mut exchange = Exchange::new(id, 0, via, &name("www.some-example.com."), &question);
        let packet = exchange.packet(Some(1232), true, &mut Chance::new([5; 32]), Vec::new());
        (exchange, packet)
    }

    fn verdict(exchange: &Exchange, packet: &[u8]) -> &'static str {
        match exchange.judge(packet) {
            Heard::Noise => "noise",
            Heard::WrongId => "wrong id",
            Heard::CaseLost => "case lost",
            Heard::Truncated => "truncated",
            Heard::Bare => "bare",
            Heard::Reply(_) => "reply",
        }
    }

    fn reply(packet: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut reply = packet[..packet.len() - 11].to_vec();
        (reply[2], reply[11]) = (0x81, 0);
        change(&mut reply);
        reply
    }

    #[test]
    fn what_each_packet_is() {
        let (exchange, sent) = exchange(Via::Udp);
        assert!(sent[12..].iter().any(u8::is_ascii_uppercase) && sent[12..].iter().any(u8::is_ascii_lowercase));
        let is = |change: fn(&mut Vec<u8>), expect: &str| assert_eq!(verdict(&exchange, &reply(&sent, change)), expect);
        is(|_| {}, "reply");
        is(|r| r[0] ^= 1, "wrong id");
        is(|r| r[2] = 1, "noise");
        is(|r| r[2] = 0x83, "truncated");
        is(|r| r[12..].make_ascii_lowercase(), "case lost");
        is(|r| r[13] = b'x', "noise");
        is(|r| *r.last_mut().unwrap() = 3, "noise");
        is(|r| r[7] = 1, "noise");
        is(|r| r.truncate(11), "noise");
        is(|r| r.push(0), "noise");
        is(|r| (r[3], r[5], _) = (0x81, 0, r.truncate(12)), "bare");
        is(|r| (r[3], r[5], _) = (0x85, 0, r.truncate(12)), "noise");
    }

    #[test]
    fn a_datagram_longer_than_was_asked_for_is_asked_for_over_tcp() {
        for (via, padding, expect) in
            [(Via::Udp, 1_100, "reply"), (Via::Udp, 1_300, "truncated"), (Via::Tcp, 1_300, "reply")]
        {
            let (exchange, sent) = exchange(via);
            let long = reply(&sent, |r| {
                r[7] = 1;
                r.extend_from_slice(&[0, 0, 16, 0, 1, 0, 0, 0, 0]);
                r.extend_from_slice(&(padding as u16).to_be_bytes());
                r.resize(r.len() + padding, 0);
            });
            assert_eq!(verdict(&exchange, &long), expect, "{via:?} {}", long.len());
        }
    }

    #[test]
    fn over_tcp_there_is_nothing_to_guess() {
        let (exchange, sent) = exchange(Via::Tcp);
        assert_eq!(verdict(&exchange, &reply(&sent, |r| r[12..].make_ascii_lowercase())), "reply");
        assert_eq!(verdict(&exchange, &reply(&sent, |r| r[0] ^= 1)), "noise");
        assert_eq!(verdict(&exchange, &reply(&sent, |r| r[2] = 0x83)), "noise");
    }
}
