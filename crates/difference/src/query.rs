//! A query as raw octets, with what the classes need to know of it beside them.

use crate::name::Name;
use crate::rtype::{self as t, Rtype};
use std::fmt;

/// What the query was made for: zone content, or one of the rows of the protocol matrix.
pub type Kind = &'static str;

/// The kind of ordinary questions about zone content.
pub const CONTENT: Kind = "content";

#[derive(Clone)]
pub struct Query {
    pub packet: Vec<u8>,
    pub name: Name,
    pub rtype: Rtype,
    pub dnssec_ok: bool,
    pub kind: Kind,
}

impl Query {
    /// A question of class IN with an OPT record: 1232 octets, as the flag day of 2020 settled.
    pub fn new(name: &Name, rtype: Rtype, dnssec_ok: bool) -> Query {
        Query { kind: CONTENT, ..Query::build(name, rtype, 1).opt(1232, 0, if dnssec_ok { 0x8000 } else { 0 }, &[]) }
    }

    /// A question without EDNS.
    pub fn build(name: &Name, rtype: Rtype, class: u16) -> Query {
        let mut packet = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        packet.extend_from_slice(name.wire());
        packet.extend_from_slice(&rtype.to_be_bytes());
        packet.extend_from_slice(&class.to_be_bytes());
        Query { packet, name: name.clone(), rtype, dnssec_ok: false, kind: CONTENT }
    }

    /// Octets as they are, for what no builder would make.
    pub fn raw(kind: Kind, packet: Vec<u8>) -> Query {
        Query { packet, name: Name::root(), rtype: 0, dnssec_ok: false, kind }
    }

    pub fn kind(mut self, kind: Kind) -> Query {
        self.kind = kind;
        self
    }

    /// Flag bits and opcode of the header's second word.
    pub fn word(mut self, word: u16) -> Query {
        self.packet[2..4].copy_from_slice(&word.to_be_bytes());
        self
    }

    pub fn count(mut self, section: usize, n: u16) -> Query {
        self.packet[4 + 2 * section..6 + 2 * section].copy_from_slice(&n.to_be_bytes());
        self
    }

    pub fn octets(mut self, tail: &[u8]) -> Query {
        self.packet.extend_from_slice(tail);
        self
    }

    /// Appends an OPT record to the additional section and counts it.
    pub fn opt(mut self, udp_size: u16, version: u8, flags: u16, options: &[u8]) -> Query {
        self.packet.push(0);
        self.packet.extend_from_slice(&t::OPT.to_be_bytes());
        self.packet.extend_from_slice(&udp_size.to_be_bytes());
        self.packet.extend_from_slice(&[0, version]);
        self.packet.extend_from_slice(&flags.to_be_bytes());
        self.packet.extend_from_slice(&(options.len() as u16).to_be_bytes());
        self.packet.extend_from_slice(options);
        let n = u16::from_be_bytes([self.packet[10], self.packet[11]]) + 1;
        self.dnssec_ok |= flags & 0x8000 != 0;
        self.count(3, n)
    }

    pub fn with_id(&self, id: u16) -> Vec<u8> {
        let mut packet = self.packet.clone();
        for (octet, id) in packet.iter_mut().zip(id.to_be_bytes()) {
            *octet = id;
        }
        packet
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind != CONTENT {
            write!(f, "[{}] ", self.kind)?;
        }
        let tail = if self.dnssec_ok { " +dnssec" } else { "" };
        write!(f, "{} {}{tail}", self.name, t::text(self.rtype))
    }
}
