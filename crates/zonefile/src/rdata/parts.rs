//! Rdata cut into the fields of its type. Every length is checked here, and nowhere else; what comes out is well formed.

use super::{Kind, bitmap, hip, loc, params, ports, prefixes};
use crate::rtypes::{self, Fields};
use wire::name::wire_len;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) kind: Kind,
    /// Offset in the rdata.
    pub(crate) at: usize,
    pub(crate) octets: &'a [u8],
    /// For a gateway: what it is.
    pub(crate) gateway: u8,
}

impl Part<'_> {
    pub(crate) fn is_name(&self) -> bool {
        match self.kind {
            Kind::Name | Kind::Names => true,
            Kind::PrefixName => !self.octets.is_empty(),
            Kind::Gateway => self.gateway == GATEWAY_NAME,
            _ => false,
        }
    }
}

pub(crate) const GATEWAY_NONE: u8 = 0;
pub(crate) const GATEWAY_IP4: u8 = 1;
pub(crate) const GATEWAY_IP6: u8 = 2;
pub(crate) const GATEWAY_NAME: u8 = 3;

pub(crate) struct Parts<'a> {
    fields: Fields,
    rdata: &'a [u8],
    at: usize,
    /// Of the last field that said what a later one will be.
    gateway: u8,
    malformed: bool,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(rtype: u16, rdata: &'a [u8]) -> Parts<'a> {
        match rtypes::fields(rtype) {
            Some(fields) => Parts { fields, rdata, at: 0, gateway: 0, malformed: false },
            None => Parts { fields: &[], rdata, at: rdata.len(), gateway: 0, malformed: false },
        }
    }

    /// Once exhausted: whether the rdata was exactly its fields.
    pub(crate) fn is_whole(&self) -> bool {
        !self.malformed && self.at == self.rdata.len()
    }

    fn part(&mut self, kind: Kind) -> Option<Part<'a>> {
        let at = self.at;
        let rest = self.rdata.get(at..)?;
        let octets = rest.get(..extent(kind, rest, self.gateway)?)?;
        self.at += octets.len();
        match (kind, octets) {
            (Kind::GatewayType, [n]) => self.gateway = *n,
            (Kind::RelayType, [n]) => self.gateway = n & 0x7f,
            (Kind::Suffix, [n, ..]) => self.gateway = *n,
            _ => {}
        }
        Some(Part { kind, at, octets, gateway: self.gateway })
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let (&(_, kind), others) = self.fields.split_first()?;
        if kind == Kind::Names && self.at == self.rdata.len() {
            self.fields = others;
            return None;
        }
        if kind != Kind::Names {
            self.fields = others;
        }
        let part = self.part(kind);
        if part.is_none() {
            self.malformed = true;
            self.fields = &[];
        }
        part
    }
}

/// How many of `rest`'s octets the field takes; None if it is malformed. May be more than there are.
fn extent(kind: Kind, rest: &[u8], gateway: u8) -> Option<usize> {
    let all_if = |fits: bool| if fits { Some(rest.len()) } else { None };
    match kind {
        Kind::Name => wire_len(rest),
        Kind::U8 | Kind::Algorithm | Kind::Scheme | Kind::Protocol | Kind::GatewayType | Kind::RelayType => Some(1),
        Kind::U16 | Kind::Rtype | Kind::Certificate => Some(2),
        Kind::U32 | Kind::Ttl | Kind::Time | Kind::Ip4 => Some(4),
        Kind::Eui48 => Some(6),
        Kind::U64 | Kind::Eui64 | Kind::Locator => Some(8),
        Kind::Ip6 => Some(16),
        Kind::Str | Kind::Salt => counted(rest),
        Kind::StrOrNone if rest.is_empty() => Some(0),
        Kind::StrOrNone => counted(rest),
        Kind::Hash => counted(rest).filter(|&n| n > 1),
        Kind::Tag => tag(rest),
        Kind::Strs => all_if(!rest.is_empty() && are_strings(rest)),
        Kind::Hex | Kind::Base64 | Kind::Nsap | Kind::Text => all_if(!rest.is_empty()),
        Kind::TextOrNone | Kind::Base64OrNone | Kind::Base64OrDash => Some(rest.len()),
        Kind::Bitmap => all_if(bitmap::is_well_formed(rest)),
        Kind::ShortBitmap => all_if(bitmap::is_short_well_formed(rest)),
        Kind::Params => all_if(params::are_well_formed(rest)),
        Kind::Loc => loc::is_well_formed(rest.get(..loc::LEN)?).then_some(loc::LEN),
        Kind::Prefixes => all_if(prefixes::are_well_formed(rest)),
        Kind::Ports => all_if(ports::are_well_formed(rest)),
        Kind::Gateway => gateway_extent(gateway, rest),
        Kind::Hip => hip::extent(rest),
        Kind::Names => wire_len(rest),
        Kind::Suffix => suffix_extent(rest),
        Kind::PrefixName if gateway == 0 => Some(0),
        Kind::PrefixName => wire_len(rest),
    }
}

fn counted(rest: &[u8]) -> Option<usize> {
    rest.first().map(|&n| 1 + n as usize)
}

fn tag(rest: &[u8]) -> Option<usize> {
    let len = counted(rest)?;
    let tag = rest.get(1..len)?;
    (!tag.is_empty() && tag.iter().all(u8::is_ascii_alphanumeric)).then_some(len)
}

fn are_strings(mut rest: &[u8]) -> bool {
    while let Some(&n) = rest.first() {
        match rest.get(1 + n as usize..) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    true
}

/// The octets that hold the address's bits behind the prefix; the bits before them are zero (RFC 2874 section 3.1.1).
fn suffix_extent(rest: &[u8]) -> Option<usize> {
    let &length = rest.first().filter(|&&n| n <= 128)?;
    let padding = match rest.get(1) {
        Some(&first) if length < 128 => first & !(0xff >> (length % 8)),
        _ => 0,
    };
    (padding == 0).then_some(1 + 16 - length as usize / 8)
}

fn gateway_extent(gateway: u8, rest: &[u8]) -> Option<usize> {
    match gateway {
        GATEWAY_NONE => Some(0),
        GATEWAY_IP4 => Some(4),
        GATEWAY_IP6 => Some(16),
        GATEWAY_NAME => wire_len(rest),
        _ => None,
    }
}
