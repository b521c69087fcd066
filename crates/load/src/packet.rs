//! From the octets of a captured packet to what it carries for a name server: a question, or a piece of a TCP stream.
//!
//! ```text
//!   link layer (Ethernet, SLL, raw ...) -> VLAN tags -> IPv4 / IPv6 -> UDP to the port -> question
//!                                                                  -> TCP to the port -> segment
//! ```
//!
//! Every length in a packet is checked before it is used; what cannot be used is told by its reason.

use crate::shape::HEADER;

const ETHERNET: u32 = 1;
const RAW: u32 = 101;
const LOOP: u32 = 108;
const NULL: u32 = 0;
const SLL: u32 = 113;
const SLL2: u32 = 276;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;

/// Why a packet is no query that could be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Not {
    Other,
    Fragment,
    Cut,
    Malformed,
}

/// The client's end of a connection, and the server's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    pub client: [u8; 16],
    pub server: [u8; 16],
    pub port: u16,
}

/// A piece of what a client sent to the server over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    pub ends: Ends,
    pub sequence: u32,
    pub flags: u8,
    pub data: &'a [u8],
    /// Octets that were on the wire behind `data`, and are not in the capture.
    pub missing: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried<'a> {
    Question(&'a [u8]),
    Segment(Segment<'a>),
}

/// What IP carried.
struct Payload<'a> {
    client: [u8; 16],
    server: [u8; 16],
    protocol: u8,
    octets: &'a [u8],
    missing: usize,
    is_first_fragment: bool,
}

/// What the packet carries to `port`.
pub fn carried(link: u32, packet: &[u8], port: u16) -> Result<Carried<'_>, Not> {
    let (kind, rest) = match link {
        ETHERNET => untagged(be16(packet, 12)?, packet.get(14..).ok_or(Not::Cut)?)?,
        SLL => untagged(be16(packet, 14)?, packet.get(16..).ok_or(Not::Cut)?)?,
        SLL2 => untagged(be16(packet, 0)?, packet.get(20..).ok_or(Not::Cut)?)?,
        RAW | 12 | 14 | 228 | 229 => (0, packet),
        NULL | LOOP => (0, packet.get(4..).ok_or(Not::Cut)?),
        _ => return Err(Not::Other),
    };
    let payload = match (kind, rest.first().ok_or(Not::Cut)? >> 4) {
        (IPV4 | 0, 4) => ipv4(rest)?,
        (IPV6 | 0, 6) => ipv6(rest)?,
        _ => return Err(Not::Other),
    };
    match payload.protocol {
        UDP => udp(&payload, port).map(Carried::Question),
        TCP if payload.is_first_fragment => Err(Not::Fragment),
        TCP => tcp(&payload, port).map(Carried::Segment),
        _ => Err(Not::Other),
    }
}

fn be16(bytes: &[u8], at: usize) -> Result<u16, Not> {
    bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]])).ok_or(Not::Cut)
}

/// Past any number of VLAN tags (802.1Q, 802.1ad).
fn untagged(mut kind: u16, mut rest: &[u8]) -> Result<(u16, &[u8]), Not> {
    while matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
        (kind, rest) = (be16(rest, 2)?, rest.get(4..).ok_or(Not::Cut)?);
    }
    Ok((kind, rest))
}

/// The part of `rest` that belongs to a packet whose header says how long it is (0: it does not say), and how much of it
/// is not there. Short Ethernet frames have padding behind it.
fn kept(rest: &[u8], said: usize) -> (&[u8], usize) {
    if said == 0 { (rest, 0) } else { (&rest[..said.min(rest.len())], said.saturating_sub(rest.len())) }
}

fn ipv4(packet: &[u8]) -> Result<Payload<'_>, Not> {
    let head = packet.get(..20).ok_or(Not::Cut)?;
    let header = usize::from(head[0] & 15) * 4;
    if header < 20 {
        return Err(Not::Malformed);
    }
    // RFC 791 section 3.1: the offset is 13 bits, before it stands "more fragments".
    let fragment = be16(head, 6)?;
    if fragment & 0x1fff != 0 {
        return Err(Not::Fragment);
    }
    let said = usize::from(be16(head, 2)?).saturating_sub(header);
    let (octets, missing) = kept(packet.get(header..).ok_or(Not::Cut)?, said);
    let address = |at: usize| {
        let mut room = [0; 16];
        room[..4].copy_from_slice(&head[at..at + 4]);
        room
    };
    let is_first_fragment = fragment & 0x2000 != 0;
    Ok(Payload { client: address(12), server: address(16), protocol: head[9], octets, missing, is_first_fragment })
}

fn ipv6(packet: &[u8]) -> Result<Payload<'_>, Not> {
    let (head, rest) = packet.split_first_chunk::<40>().ok_or(Not::Cut)?;
    let (mut rest, missing) = kept(rest, usize::from(be16(head, 4)?));
    let mut protocol = head[6];
    let mut is_first_fragment = false;
    // Extension headers (RFC 8200 section 4) are passed over; each takes 8 octets or more.
    while matches!(protocol, 0 | 43 | 44 | 60) {
        let mut len = 8 + usize::from(*rest.get(1).ok_or(Not::Cut)?) * 8;
        if protocol == 44 {
            if be16(rest, 2)? & 0xfff8 != 0 {
                return Err(Not::Fragment);
            }
            is_first_fragment = be16(rest, 2)? & 1 != 0;
            len = 8;
        }
        protocol = rest[0];
        rest = rest.get(len..).ok_or(Not::Cut)?;
    }
    let address =
        |at: usize| -> Result<[u8; 16], Not> { head.get(at..at + 16).and_then(|a| a.try_into().ok()).ok_or(Not::Cut) };
    Ok(Payload { client: address(8)?, server: address(24)?, protocol, octets: rest, missing, is_first_fragment })
}

/// The first fragment of a query has its question, but for one made to be cut there.
fn udp<'a>(payload: &Payload<'a>, port: u16) -> Result<&'a [u8], Not> {
    if be16(payload.octets, 2)? != port {
        return Err(Not::Other);
    }
    let question = question(payload.octets.get(8..).ok_or(Not::Cut)?);
    let is_elsewhere = payload.is_first_fragment && payload.missing == 0;
    if question == Err(Not::Cut) && is_elsewhere { Err(Not::Fragment) } else { question }
}

fn tcp<'a>(payload: &Payload<'a>, port: u16) -> Result<Segment<'a>, Not> {
    let octets = payload.octets;
    if be16(octets, 2)? != port {
        return Err(Not::Other);
    }
    let head = octets.get(..20).ok_or(Not::Cut)?;
    let header = usize::from(head[12] >> 4) * 4;
    if header < 20 {
        return Err(Not::Malformed);
    }
    let (data, missing) = match octets.get(header..) {
        Some(data) => (data, payload.missing),
        None => (&[][..], payload.missing.saturating_sub(header - octets.len())),
    };
    Ok(Segment {
        ends: Ends { client: payload.client, server: payload.server, port: be16(head, 0)? },
        sequence: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
        flags: head[13],
        data,
        missing: missing as u32,
    })
}

/// Name, type and class of a message that is a query with one question.
pub fn question(message: &[u8]) -> Result<&[u8], Not> {
    let head = message.get(..HEADER).ok_or(Not::Cut)?;
    if head[2] & 0x80 != 0 {
        return Err(Not::Other);
    }
    if head[2] & 0x78 != 0 || head[4..6] != [0, 1] {
        return Err(Not::Malformed);
    }
    let rest = &message[HEADER..];
    let Some(len) = wire::name::wire_len(rest) else {
        return Err(if is_cut_name(rest) { Not::Cut } else { Not::Malformed });
    };
    rest.get(..len + 4).ok_or(Not::Cut)
}

fn is_cut_name(mut rest: &[u8]) -> bool {
    loop {
        match rest.first() {
            None => return true,
            Some(&n) if n > 63 => return false,
            Some(&n) => match rest.get(usize::from(n) + 1..) {
                Some(tail) => rest = tail,
                None => return true,
            },
        }
    }
}
