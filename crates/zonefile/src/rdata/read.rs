//! Text to rdata, field by field as the table says.

use super::{Kind, bitmap, digest, hip, loc, mnemonics, params, parts, ports, prefixes};
use crate::encoding::{Bad, Bits};
use crate::name;
use crate::number;
use crate::problem::Flaw;
use crate::rtypes;
use crate::scan::{Shape, Token, Tokens};
use crate::string;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::Name;

pub(crate) struct Reading<'o> {
    pub(crate) origin: &'o Name,
    pub(crate) out: &'o mut Vec<u8>,
    suspicions: Vec<Flaw>,
    gateway: u8,
}

/// Appends to `out` the rdata that the tokens spell. Takes all tokens. What is legal but hardly meant comes back as a list of
/// suspicions; after an error `out` is as it was.
pub fn from_text(rtype: u16, tokens: &mut Tokens<'_, '_>, origin: &Name, out: &mut Vec<u8>) -> Result<Vec<Flaw>, Flaw> {
    let from = out.len();
    let at = tokens.at();
    let mut reading = Reading { origin, out, suspicions: Vec::new(), gateway: 0 };
    let outcome = reading.rdata(rtype, tokens);
    let suspicions = reading.suspicions;
    let checked = outcome.and_then(|()| check(rtype, out.get(from..).unwrap_or(&[]), at));
    if checked.is_err() {
        out.truncate(from);
    }
    checked.map(|()| suspicions)
}

fn check(rtype: u16, rdata: &[u8], at: usize) -> Result<(), Flaw> {
    if rdata.len() > usize::from(u16::MAX) {
        return Err(Flaw::new(at, "data of more than 65535 octets"));
    }
    match digest::lengths(rtype, rdata) {
        Some((want, have)) if want != have => {
            Err(Flaw::new(at, format!("the digest has {have} octets; one of its type has {want}")))
        }
        _ => Ok(()),
    }
}

/// The mark of RFC 3597 section 5.
fn is_generic(tokens: &Tokens<'_, '_>) -> bool {
    tokens.peek().is_some_and(|t| t.text == b"\\#" && t.shape == Shape::Plain)
}

impl Reading<'_> {
    fn rdata(&mut self, rtype: u16, tokens: &mut Tokens<'_, '_>) -> Result<(), Flaw> {
        if is_generic(tokens) {
            return self.generic(rtype, tokens);
        }
        let Some(fields) = rtypes::fields(rtype) else {
            let what = format!("{} has no text form of its own", rtypes::mnemonic(rtype));
            return Err(Flaw::new(tokens.at(), what).instead("\\# <length> <hexadecimal digits> (RFC 3597)"));
        };
        let advise = |flaw: Flaw| if flaw.instead.is_empty() { flaw.instead(super::synopsis(rtype)) } else { flaw };
        for &(what, kind) in fields {
            self.field(kind, what, tokens).map_err(advise)?;
        }
        match tokens.peek() {
            Some(token) => {
                Err(advise(Flaw::new(token.at, format!("more fields than {} has", rtypes::mnemonic(rtype)))))
            }
            None => Ok(()),
        }
    }

    fn generic(&mut self, rtype: u16, tokens: &mut Tokens<'_, '_>) -> Result<(), Flaw> {
        let mark = tokens.want("\\#")?;
        let from = self.out.len();
        let stated = tokens.want("length")?;
        let len = number::decimal(&stated, "length", u16::MAX.into())? as usize;
        self.blob(tokens, "data", Bits::hex, Bits::end_hex)?;
        let rdata = self.out.get(from..).unwrap_or(&[]);
        if rdata.len() != len {
            let what = format!("the length says {len} octets, and {} follow", rdata.len());
            return Err(Flaw::new(stated.at, what).instead(rdata.len().to_string()));
        }
        if !super::is_well_formed(rtype, rdata) {
            let what = format!("these octets are no {} data", rtypes::mnemonic(rtype));
            return Err(Flaw::new(mark.at, what).instead(super::synopsis(rtype)));
        }
        Ok(())
    }

    fn field(&mut self, kind: Kind, what: &str, tokens: &mut Tokens<'_, '_>) -> Result<(), Flaw> {
        if let Some(token) = tokens.peek().filter(|_| !is_string(kind)) {
            name::unquoted(&token)?;
        }
        match kind {
            Kind::Base64 => self.some_blob(tokens, what, Bits::base64, Bits::end_base64),
            Kind::Base64OrNone => self.blob(tokens, what, Bits::base64, Bits::end_base64).map(drop),
            Kind::Hex => self.some_blob(tokens, what, Bits::hex, Bits::end_hex),
            Kind::Base64OrDash if tokens.peek().is_some_and(|t| t.text == b"-") => tokens.want(what).map(drop),
            Kind::Base64OrDash => self.some_blob(tokens, what, Bits::base64, Bits::end_base64),
            Kind::StrOrNone => tokens.next().map_or(Ok(()), |token| self.string(&token, what)),
            Kind::Strs => self.strings(what, tokens),
            Kind::Bitmap => bitmap::read(tokens, self.out),
            Kind::ShortBitmap => bitmap::read_short(tokens, self.out),
            Kind::Params => params::read(tokens, self.out),
            Kind::Loc => loc::read(tokens, self.out),
            Kind::Prefixes => prefixes::read(tokens, self.out),
            Kind::Ports => ports::read(tokens, self.out),
            Kind::Hip => hip::read(tokens, self),
            Kind::Names => tokens.try_for_each(|token| self.name(&token)),
            Kind::RelayType => self.relay_type(tokens),
            Kind::Suffix => self.suffix(tokens),
            Kind::PrefixName if self.gateway == 0 => Ok(()),
            Kind::Gateway => self.gateway(&tokens.want(what)?),
            _ => self.token(kind, what, &tokens.want(what)?),
        }
    }

    /// Fields of exactly one token.
    fn token(&mut self, kind: Kind, what: &str, token: &Token<'_>) -> Result<(), Flaw> {
        match kind {
            Kind::U8 => self.number::<1>(number::decimal(token, what, u8::MAX.into())?),
            Kind::U16 => self.number::<2>(number::decimal(token, what, u16::MAX.into())?),
            Kind::U32 => self.number::<4>(number::decimal(token, what, u32::MAX.into())?),
            Kind::U64 => self.number::<8>(number::decimal(token, what, u64::MAX)?),
            Kind::Ttl => self.number::<4>(number::ttl(token, what, u32::MAX)?.into()),
            Kind::Time => self.number::<4>(number::time(token, what)?.into()),
            Kind::Rtype => self.number::<2>(bitmap::rtype(token)?.into()),
            Kind::Algorithm => self.number::<1>(mnemonics::read(token, mnemonics::ALGORITHMS, what, 255)?.into()),
            Kind::Certificate => {
                self.number::<2>(mnemonics::read(token, mnemonics::CERTIFICATES, what, 65_535)?.into())
            }
            Kind::Scheme => self.number::<1>(mnemonics::read(token, mnemonics::SCHEMES, what, 255)?.into()),
            Kind::Protocol => self.number::<1>(ports::protocol(token)?.into()),
            Kind::GatewayType => {
                self.gateway = number::decimal(token, what, parts::GATEWAY_NAME.into())? as u8;
                self.out.push(self.gateway);
            }
            Kind::Ip4 => self.out.extend(ip4(token)?.octets()),
            Kind::Ip6 => self.out.extend(ip6(token)?.octets()),
            Kind::Str => return self.string(token, what),
            Kind::Text if token.text.is_empty() => return Err(Flaw::new(token.at, format!("the {what} is empty"))),
            Kind::Text | Kind::TextOrNone => return string::unescape(token, self.out),
            Kind::Tag => return self.tag(token),
            Kind::Salt => return self.salt(token, what),
            Kind::Hash => {
                return self
                    .counted(token, what, |reading| reading.digits(token, what, Bits::base32, Bits::end_base32));
            }
            Kind::Nsap => return self.nsap(token),
            Kind::Eui48 => return self.groups::<6>(token, b'-', "six octets: 00-00-5e-00-53-2a"),
            Kind::Eui64 => return self.groups::<8>(token, b'-', "eight octets: 00-00-5e-ef-10-00-00-2a"),
            Kind::Locator => return self.locator(token),
            // All others read any number of tokens, or none, and are in `field`.
            _ => return self.name(token),
        }
        Ok(())
    }

    fn number<const WIDTH: usize>(&mut self, n: u64) {
        self.out.extend(&n.to_be_bytes()[8 - WIDTH..]);
    }

    fn name(&mut self, token: &Token<'_>) -> Result<(), Flaw> {
        let from = self.out.len();
        name::read(token, self.origin, self.out)?;
        let name = self.out.get(from..).unwrap_or(&[]);
        self.suspicions.extend(name::doubled_origin(token, name, self.origin));
        if token.text.first().is_some_and(u8::is_ascii_digit) && is_ip4(token.text) {
            let what = "this is an address where a name belongs";
            self.suspicions.push(Flaw::new(token.at, what).instead("the name of a host that has this address"));
        }
        Ok(())
    }

    /// A length octet, and then what `read` appends.
    fn counted(
        &mut self,
        token: &Token<'_>,
        what: &str,
        read: impl FnOnce(&mut Self) -> Result<(), Flaw>,
    ) -> Result<(), Flaw> {
        let from = self.out.len();
        self.out.push(0);
        read(self)?;
        let len = u8::try_from(self.out.len() - from - 1)
            .map_err(|_| Flaw::new(token.at, format!("the {what} is longer than 255 octets")))?;
        self.out[from] = len;
        Ok(())
    }

    fn string(&mut self, token: &Token<'_>, what: &str) -> Result<(), Flaw> {
        let advise = |flaw: Flaw| {
            if flaw.instead.is_empty() {
                flaw.instead("several strings of at most 255 octets: \"one\" \"two\"")
            } else {
                flaw
            }
        };
        self.counted(token, what, |reading| string::unescape(token, reading.out)).map_err(advise)
    }

    fn strings(&mut self, what: &str, tokens: &mut Tokens<'_, '_>) -> Result<(), Flaw> {
        self.string(&tokens.want(what)?, what)?;
        tokens.try_for_each(|token| self.string(&token, what))
    }

    fn tag(&mut self, token: &Token<'_>) -> Result<(), Flaw> {
        if token.text.is_empty() || !token.text.iter().all(u8::is_ascii_alphanumeric) {
            return Err(
                Flaw::new(token.at, "the tag is not of letters and digits").instead("issue, issuewild or iodef")
            );
        }
        self.string(token, "tag")
    }

    fn salt(&mut self, token: &Token<'_>, what: &str) -> Result<(), Flaw> {
        if token.text == b"-" {
            self.out.push(0);
            return Ok(());
        }
        self.counted(token, what, |reading| reading.digits(token, what, Bits::hex, Bits::end_hex))
    }

    /// The digits of one token, at least one.
    fn digits(&mut self, token: &Token<'_>, what: &str, one: Digit, end: End) -> Result<(), Flaw> {
        if token.text.is_empty() {
            return Err(Flaw::new(token.at, format!("the {what} is empty")));
        }
        self.blob(&mut Tokens::new(std::slice::from_ref(token), token.at), what, one, end).map(drop)
    }

    pub(crate) fn hex_token(&mut self, token: &Token<'_>, what: &str) -> Result<usize, Flaw> {
        let from = self.out.len();
        self.digits(token, what, Bits::hex, Bits::end_hex)?;
        Ok(self.out.len() - from)
    }

    pub(crate) fn base64_token(&mut self, token: &Token<'_>, what: &str) -> Result<usize, Flaw> {
        let from = self.out.len();
        self.digits(token, what, Bits::base64, Bits::end_base64)?;
        Ok(self.out.len() - from)
    }

    /// The digits of all tokens that are left; says how many octets they made.
    fn blob(&mut self, tokens: &mut Tokens<'_, '_>, what: &str, one: Digit, end: End) -> Result<usize, Flaw> {
        let from = self.out.len();
        let mut bits = Bits::default();
        let mut last = tokens.at();
        for token in tokens {
            name::unquoted(&token)?;
            for (i, &c) in token.text.iter().enumerate() {
                let at = token.at + i;
                one(&mut bits, c, self.out).map_err(|why| Flaw::new(at, format!("in the {what}: {why}")))?;
            }
            last = token.at;
        }
        end(&bits).map_err(|why| Flaw::new(last, format!("in the {what}: {why}")))?;
        Ok(self.out.len() - from)
    }

    fn some_blob(&mut self, tokens: &mut Tokens<'_, '_>, what: &str, one: Digit, end: End) -> Result<(), Flaw> {
        let at = tokens.at();
        match self.blob(tokens, what, one, end)? {
            0 => Err(Flaw::new(at, format!("the {what} is missing"))),
            _ => Ok(()),
        }
    }

    fn relay_type(&mut self, tokens: &mut Tokens<'_, '_>) -> Result<(), Flaw> {
        let discovery = number::decimal(&tokens.want("discovery bit")?, "discovery bit", 1)? as u8;
        self.gateway = number::decimal(&tokens.want("relay type")?, "relay type", parts::GATEWAY_NAME.into())? as u8;
        self.out.push(discovery << 7 | self.gateway);
        Ok(())
    }

    fn gateway(&mut self, token: &Token<'_>) -> Result<(), Flaw> {
        match self.gateway {
            parts::GATEWAY_IP4 => self.out.extend(ip4(token)?.octets()),
            parts::GATEWAY_IP6 => self.out.extend(ip6(token)?.octets()),
            parts::GATEWAY_NAME => return self.name(token),
            _ if token.text != b"." => return Err(Flaw::new(token.at, "type 0 has no gateway").instead(".")),
            _ => {}
        }
        Ok(())
    }

    /// The prefix length of A6 and the bits of the address behind it (RFC 2874 section 3.1).
    fn suffix(&mut self, tokens: &mut Tokens<'_, '_>) -> Result<(), Flaw> {
        let length = number::decimal(&tokens.want("prefix length")?, "prefix length", 128)? as u8;
        self.gateway = length;
        self.out.push(length);
        if length == 128 {
            return Ok(());
        }
        let address = ip6(&tokens.want("address")?)?.to_bits() & (u128::MAX >> length);
        self.out.extend(address.to_be_bytes().iter().skip(length as usize / 8));
        Ok(())
    }

    fn nsap(&mut self, token: &Token<'_>) -> Result<(), Flaw> {
        let flaw = |at, why: &str| Flaw::new(at, why).instead("0x and pairs of hexadecimal digits, with dots at will");
        let digits = token.text.strip_prefix(b"0x").or_else(|| token.text.strip_prefix(b"0X"));
        let digits = digits.ok_or_else(|| flaw(token.at, "the address does not begin with 0x"))?;
        let mut bits = Bits::default();
        let from = self.out.len();
        for &c in digits.iter().filter(|&&c| c != b'.') {
            bits.hex(c, self.out).map_err(|why| flaw(token.at, why))?;
        }
        bits.end_hex().map_err(|why| flaw(token.at, why))?;
        if self.out.len() == from { Err(flaw(token.at, "the address is empty")) } else { Ok(()) }
    }

    /// As many pairs of hexadecimal digits, with a separator between them.
    fn groups<const COUNT: usize>(&mut self, token: &Token<'_>, separator: u8, advice: &str) -> Result<(), Flaw> {
        let flaw = || Flaw::new(token.at, "the address is not of pairs of hexadecimal digits").instead(advice);
        if token.text.split(|&c| c == separator).count() != COUNT {
            return Err(flaw());
        }
        for pair in token.text.split(|&c| c == separator) {
            let octet = hex_number(pair).filter(|_| pair.len() == 2).ok_or_else(flaw)?;
            self.out.push(octet as u8);
        }
        Ok(())
    }

    fn locator(&mut self, token: &Token<'_>) -> Result<(), Flaw> {
        let advice = "four groups of up to four hexadecimal digits: 2001:db8:1140:1000";
        let flaw = || Flaw::new(token.at, "this is no 64-bit locator").instead(advice);
        if token.text.split(|&c| c == b':').count() != 4 {
            return Err(flaw());
        }
        for group in token.text.split(|&c| c == b':') {
            self.out.extend(hex_number(group).ok_or_else(flaw)?.to_be_bytes());
        }
        Ok(())
    }
}

fn is_string(kind: Kind) -> bool {
    matches!(kind, Kind::Str | Kind::StrOrNone | Kind::Strs | Kind::Text | Kind::TextOrNone)
}

type Digit = fn(&mut Bits, u8, &mut Vec<u8>) -> Result<(), Bad>;
type End = fn(&Bits) -> Result<(), Bad>;

/// One to four hexadecimal digits.
fn hex_number(text: &[u8]) -> Option<u16> {
    if text.is_empty() || text.len() > 4 {
        return None;
    }
    text.iter().try_fold(0, |n, &c| Some(n << 4 | u16::from(crate::encoding::hex_digit(c)?)))
}

fn is_ip4(text: &[u8]) -> bool {
    parse::<Ipv4Addr>(text).is_some()
}

pub(crate) fn parse<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn ip4(token: &Token<'_>) -> Result<Ipv4Addr, Flaw> {
    let flaw = || match parse::<Ipv6Addr>(token.text) {
        Some(_) => Flaw::new(token.at, "an IPv6 address where an IPv4 address belongs").instead("AAAA as the type"),
        None => Flaw::new(token.at, "this is no IPv4 address").instead("four numbers from 0 to 255: 192.0.2.1"),
    };
    number::four(token.text).map(Ipv4Addr::from).ok_or_else(flaw)
}

fn ip6(token: &Token<'_>) -> Result<Ipv6Addr, Flaw> {
    let flaw = || {
        if is_ip4(token.text) {
            return Flaw::new(token.at, "an IPv4 address where an IPv6 address belongs").instead("A as the type");
        }
        Flaw::new(token.at, "this is no IPv6 address").instead("groups of hexadecimal digits: 2001:db8::1")
    };
    parse(token.text).ok_or_else(flaw)
}
