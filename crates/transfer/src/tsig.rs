//! Signatures of messages between peers who share a secret (RFC 8945): checked, made, for requests, replies and streams.
//!
//! Keys and the time are arguments. Nothing says how far a wrong MAC was right: MACs are compared in constant time, and
//! a value of `Signed` exists only after one was found right.
//!
//! HMAC-MD5 is there for programs that know no other, where a key is written with it: RFC 8945 section 6 says that it may be built
//! and must not be used, and whoever configures it is warned. A MAC shorter than its algorithm says is refused with BADTRUNC; who
//! wants short ones configures an algorithm whose name says so.

use crate::message::{Message, split_name, u16_at};
use hmac::{Hmac, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use std::fmt;
use std::sync::Arc;
use wire::name::fold;
use wire::query::HEADER;
use wire::rtype::TSIG;
use wire::{Name, Rcode};

/// Seconds that clocks may differ: what RFC 8945 section 10 recommends.
pub const FUDGE_S: u16 = 300;
const CLASS_ANY: u16 = 255;
/// Messages of a stream that may follow one another unsigned (RFC 8945 section 5.3.1).
const UNSIGNED_MAX: usize = 99;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha256_128,
    Sha384,
    Sha384_192,
    Sha512,
    Sha512_256,
}

/// Name, octets of the MAC, octets of the hash. RFC 8945 section 6.
const ALGORITHMS: [(Algorithm, &str, usize, usize); 9] = [
    (Algorithm::Md5, "hmac-md5", 16, 16),
    (Algorithm::Sha1, "hmac-sha1", 20, 20),
    (Algorithm::Sha224, "hmac-sha224", 28, 28),
    (Algorithm::Sha256, "hmac-sha256", 32, 32),
    (Algorithm::Sha256_128, "hmac-sha256-128", 16, 32),
    (Algorithm::Sha384, "hmac-sha384", 48, 48),
    (Algorithm::Sha384_192, "hmac-sha384-192", 24, 48),
    (Algorithm::Sha512, "hmac-sha512", 64, 64),
    (Algorithm::Sha512_256, "hmac-sha512-256", 32, 64),
];
/// What stands behind the name of the oldest in a message: it was a program's before it was a standard's.
const OF_MD5: &str = ".sig-alg.reg.int";

impl Algorithm {
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALGORITHMS.iter().map(|row| row.1)
    }

    pub fn named(text: &str) -> Option<Algorithm> {
        let text = text.trim_end_matches('.').to_ascii_lowercase();
        let text = text.strip_suffix(OF_MD5).filter(|text| *text == Algorithm::Md5.name()).unwrap_or(&text);
        ALGORITHMS.iter().find(|row| row.1 == text).map(|row| row.0)
    }

    fn row(self) -> (&'static str, usize, usize) {
        // The table has a row for each variant; a test goes through them.
        ALGORITHMS.iter().find(|row| row.0 == self).map_or(("", 0, 0), |row| (row.1, row.2, row.3))
    }

    pub fn name(self) -> &'static str {
        self.row().0
    }

    fn mac_len(self) -> usize {
        self.row().1
    }

    /// The least octets of a MAC that are looked at at all (RFC 8945 section 5.2.2.1).
    fn mac_min(self) -> usize {
        (self.row().2 / 2).max(10)
    }

    fn wire_name(self) -> Vec<u8> {
        let rest = if self == Algorithm::Md5 { OF_MD5 } else { "" };
        let mut wire = Vec::with_capacity(self.name().len() + rest.len() + 2);
        for label in self.name().split('.').chain(rest.split('.').skip(1)) {
            wire.push(label.len() as u8);
            wire.extend(label.as_bytes());
        }
        wire.push(0);
        wire
    }
}

/// Compared with keys of this server only: that takes as long as their secrets are alike.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    name: Box<[u8]>,
    algorithm: Algorithm,
    secret: Box<[u8]>,
}

/// The secret is nobody's to print.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.text(), self.algorithm.name())
    }
}

impl Key {
    pub fn new(name: &Name, algorithm: Algorithm, secret: &[u8]) -> Key {
        Key { name: name.fold().bytes().into(), algorithm, secret: secret.into() }
    }

    /// In lower case.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        wire::name::push_text(&self.name, &mut text);
        text
    }

    fn mac(&self, parts: &[&[u8]]) -> Vec<u8> {
        let mut mac = self.hash(parts).made();
        mac.truncate(self.algorithm.mac_len());
        mac
    }

    fn is_mac(&self, parts: &[&[u8]], mac: &[u8]) -> bool {
        self.hash(parts).is(mac)
    }

    fn hash(&self, parts: &[&[u8]]) -> Box<dyn Hash> {
        match self.algorithm {
            Algorithm::Md5 => hashed::<Hmac<Md5>>(&self.secret, parts),
            Algorithm::Sha1 => hashed::<Hmac<Sha1>>(&self.secret, parts),
            Algorithm::Sha224 => hashed::<Hmac<Sha224>>(&self.secret, parts),
            Algorithm::Sha256 | Algorithm::Sha256_128 => hashed::<Hmac<Sha256>>(&self.secret, parts),
            Algorithm::Sha384 | Algorithm::Sha384_192 => hashed::<Hmac<Sha384>>(&self.secret, parts),
            Algorithm::Sha512 | Algorithm::Sha512_256 => hashed::<Hmac<Sha512>>(&self.secret, parts),
        }
    }
}

/// A MAC that has taken in all it covers.
trait Hash {
    fn made(self: Box<Self>) -> Vec<u8>;
    /// Whether `mac` is it, or its beginning; takes the same time wherever they differ.
    fn is(self: Box<Self>, mac: &[u8]) -> bool;
}

impl<M: Mac> Hash for M {
    fn made(self: Box<Self>) -> Vec<u8> {
        self.finalize().into_bytes().to_vec()
    }

    fn is(self: Box<Self>, mac: &[u8]) -> bool {
        self.verify_truncated_left(mac).is_ok()
    }
}

fn hashed<M: Mac + hmac::digest::KeyInit + 'static>(secret: &[u8], parts: &[&[u8]]) -> Box<dyn Hash> {
    // A key for HMAC may have any length, so there is always one.
    let keyed = <M as Mac>::new_from_slice(secret).unwrap_or_else(|_| <M as Mac>::new(&Default::default()));
    Box::new(parts.iter().fold(keyed, |mac, part| mac.chain_update(part)))
}

/// The keys that a server or a zone's peers have; their number is the configuration's.
#[derive(Clone, Debug, Default)]
pub struct Keys(Vec<Arc<Key>>);

impl Keys {
    pub fn new(mut keys: Vec<Key>) -> Keys {
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        Keys(keys.into_iter().map(Arc::new).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those whose algorithm must not be used any more.
    pub fn outdated(&self) -> impl Iterator<Item = &Key> {
        self.0.iter().map(|key| &**key).filter(|key| key.algorithm == Algorithm::Md5)
    }

    /// Names compare without regard to case.
    pub fn named(&self, name: &[u8]) -> Option<&Key> {
        self.shared(name).map(|key| &**key)
    }

    fn shared(&self, name: &[u8]) -> Option<&Arc<Key>> {
        let is_at = |key: &Arc<Key>| key.name.iter().copied().cmp(name.iter().map(u8::to_ascii_lowercase));
        self.0.binary_search_by(is_at).ok().and_then(|i| self.0.get(i))
    }
}

/// What is wrong with a signature, as its record's error field says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Fault {
    BadSig = 16,
    BadKey = 17,
    BadTime = 18,
    BadTrunc = 22,
}

/// A TSIG record as it stands at the end of a message.
struct Found<'a> {
    /// Where the record begins.
    at: usize,
    key: Vec<u8>,
    algorithm: Vec<u8>,
    time_s: u64,
    fudge_s: u16,
    mac: &'a [u8],
    original_id: u16,
    error: u16,
    other: &'a [u8],
}

/// Ok(None): not signed. Err: it is not the last record, there are several, or it is malformed (RFC 8945 section 5.1).
fn find<'a>(message: &Message<'a>) -> Result<Option<Found<'a>>, Refusal> {
    let mut last = None;
    for place in message.places() {
        let rr = place.map_err(|_| Refusal::Malformed)?;
        if last.is_some() || rr.rtype == TSIG && rr.section != 3 {
            return Err(Refusal::Malformed);
        }
        if rr.rtype == TSIG {
            last = Some(rr);
        }
    }
    let Some(rr) = last else { return Ok(None) };
    if rr.class != CLASS_ANY || rr.ttl != 0 {
        return Err(Refusal::Malformed);
    }
    rr.owner().and_then(|owner| read(rr.raw_rdata(), rr.at, &owner)).map(Some).ok_or(Refusal::Malformed)
}

fn read<'a>(rdata: &'a [u8], at: usize, owner: &Name) -> Option<Found<'a>> {
    let (algorithm, rest) = split_name(rdata)?;
    let (fixed, rest) = rest.split_first_chunk::<10>()?;
    let time_s = fixed.first_chunk::<6>()?.iter().fold(0, |n, &c| n << 8 | u64::from(c));
    let (mac, rest) = rest.split_at_checked(usize::from(u16_at(fixed, 8)?))?;
    let (fixed_too, other) = rest.split_first_chunk::<6>()?;
    if usize::from(u16_at(fixed_too, 4)?) != other.len() {
        return None;
    }
    let mut algorithm = algorithm.to_vec();
    fold(&mut algorithm);
    Some(Found {
        at,
        key: owner.fold().bytes().to_vec(),
        algorithm,
        time_s,
        fudge_s: u16_at(fixed, 6)?,
        mac,
        original_id: u16_at(fixed_too, 0)?,
        error: u16_at(fixed_too, 2)?,
        other,
    })
}

/// The fields of a TSIG record besides the message that its MAC covers.
struct Variables<'a> {
    key: &'a [u8],
    algorithm: &'a [u8],
    time_s: u64,
    fudge_s: u16,
    error: u16,
    other: &'a [u8],
}

/// What a MAC covers behind the message.
#[derive(Clone, Copy)]
enum Behind {
    /// RFC 8945 section 4.3.3.
    Variables,
    /// In a stream, behind its first message (RFC 8945 section 5.3.1).
    Timers,
}

impl Behind {
    fn of(is_first: bool) -> Behind {
        if is_first { Behind::Variables } else { Behind::Timers }
    }
}

impl Variables<'_> {
    fn timers(&self) -> Vec<u8> {
        [&self.time_s.to_be_bytes()[2..], &self.fudge_s.to_be_bytes()].concat()
    }

    fn covered(&self, behind: Behind) -> Vec<u8> {
        match behind {
            Behind::Variables => self.all(),
            Behind::Timers => self.timers(),
        }
    }

    fn all(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.key.len() + self.algorithm.len() + self.other.len() + 18);
        out.extend(self.key);
        out.extend([0, CLASS_ANY as u8, 0, 0, 0, 0]);
        out.extend(self.algorithm);
        out.extend(self.timers());
        out.extend(self.error.to_be_bytes());
        out.extend((self.other.len() as u16).to_be_bytes());
        out.extend(self.other);
        out
    }

    /// Appends the record, and counts it. The message must have room for one more in its count.
    fn push(&self, mac: &[u8], original_id: u16, message: &mut Vec<u8>) {
        let rdata_len = self.algorithm.len() + 16 + mac.len() + self.other.len();
        message.reserve(self.key.len() + 10 + rdata_len);
        message.extend(self.key);
        message.extend(TSIG.to_be_bytes());
        message.extend(CLASS_ANY.to_be_bytes());
        message.extend([0; 4]);
        message.extend((rdata_len as u16).to_be_bytes());
        message.extend(self.algorithm);
        message.extend(self.timers());
        message.extend((mac.len() as u16).to_be_bytes());
        message.extend(mac);
        message.extend(original_id.to_be_bytes());
        message.extend(self.error.to_be_bytes());
        message.extend((self.other.len() as u16).to_be_bytes());
        message.extend(self.other);
        let count = u16_at(message, 10).unwrap_or(0).wrapping_add(1);
        if let Some(place) = message.get_mut(10..12) {
            place.copy_from_slice(&count.to_be_bytes());
        }
    }
}

/// The message as it was when it was signed: without the record, with the id of its sender (RFC 8945 section 4.3.2).
fn unsigned(message: &[u8], at: usize, original_id: u16) -> Vec<u8> {
    let mut out = message.get(..at).unwrap_or(message).to_vec();
    let count = u16_at(&out, 10).unwrap_or(0).wrapping_sub(1);
    for (place, value) in [(0, original_id), (10, count)] {
        if let Some(place) = out.get_mut(place..place + 2) {
            place.copy_from_slice(&value.to_be_bytes());
        }
    }
    out
}

fn prefixed(mac: &[u8]) -> Vec<u8> {
    [&(mac.len() as u16).to_be_bytes(), mac].concat()
}

/// The proof that a request was signed by the owner of a key, and what its reply's signature needs.
#[derive(Debug)]
pub struct Signed {
    key: Arc<Key>,
    mac: Vec<u8>,
    /// The request without its signature ends here.
    end: usize,
}

/// Why a request is not served.
#[derive(Debug)]
pub enum Refusal {
    /// FORMERR.
    Malformed,
    /// NOTAUTH, with this said in a TSIG record.
    Fault(Box<Faulty>),
}

/// What the reply to a request with a wrong signature needs.
#[derive(Debug)]
pub struct Faulty {
    pub fault: Fault,
    key: Vec<u8>,
    algorithm: Vec<u8>,
    time_s: u64,
    fudge_s: u16,
    /// The key and the request's MAC, where the reply is signed (RFC 8945 section 5.3.2).
    signs: Option<(Key, Vec<u8>)>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed => f.write_str("FORMERR"),
            Refusal::Fault(faulty) => faulty.fault.fmt(f),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::BadSig => "BADSIG",
            Fault::BadKey => "BADKEY: no key has this name and algorithm",
            Fault::BadTime => "BADTIME",
            Fault::BadTrunc => "BADTRUNC",
        })
    }
}

/// Checks a request's signature, in the order of RFC 8945 section 5.2. Ok(None): it has none.
pub fn check_request(octets: &[u8], keys: &Keys, now_s: u64) -> Result<Option<Signed>, Refusal> {
    let message = Message::new(octets).ok_or(Refusal::Malformed)?;
    let Some(found) = find(&message)? else { return Ok(None) };
    let key = keys.shared(&found.key).filter(|key| key.algorithm.wire_name() == found.algorithm);
    let Some(key) = key else { return Err(found.refused(Fault::BadKey, None)) };
    check(key, octets, &found, (&[], Behind::Variables), now_s).map_err(|why| match why {
        Wrong::Malformed => Refusal::Malformed,
        Wrong::Fault(fault @ (Fault::BadTime | Fault::BadTrunc)) => found.refused(fault, Some(key)),
        Wrong::Fault(fault) => found.refused(fault, None),
    })?;
    Ok(Some(Signed { key: Arc::clone(key), mac: found.mac.to_vec(), end: found.at }))
}

enum Wrong {
    Malformed,
    Fault(Fault),
}

/// MAC, time, truncation: in this order. `before`: what is covered ahead of the message.
fn check(
    key: &Key,
    octets: &[u8],
    found: &Found<'_>,
    (before, behind): (&[u8], Behind),
    now_s: u64,
) -> Result<(), Wrong> {
    let allowed = key.algorithm.mac_min()..=key.algorithm.mac_len();
    if !allowed.contains(&found.mac.len()) {
        return Err(Wrong::Malformed);
    }
    let message = unsigned(octets, found.at, found.original_id);
    if !key.is_mac(&[before, &message, &found.variables().covered(behind)], found.mac) {
        return Err(Wrong::Fault(Fault::BadSig));
    }
    if found.time_s.abs_diff(now_s) > u64::from(found.fudge_s) {
        return Err(Wrong::Fault(Fault::BadTime));
    }
    if found.mac.len() < key.algorithm.mac_len() {
        return Err(Wrong::Fault(Fault::BadTrunc));
    }
    Ok(())
}

impl<'a> Found<'a> {
    fn variables(&self) -> Variables<'_> {
        Variables {
            key: &self.key,
            algorithm: &self.algorithm,
            time_s: self.time_s,
            fudge_s: self.fudge_s,
            error: self.error,
            other: self.other,
        }
    }

    fn refused(&self, fault: Fault, key: Option<&Key>) -> Refusal {
        Refusal::Fault(Box::new(Faulty {
            fault,
            key: self.key.clone(),
            algorithm: self.algorithm.clone(),
            time_s: self.time_s,
            fudge_s: self.fudge_s,
            signs: key.map(|key| (key.clone(), self.mac.to_vec())),
        }))
    }
}

impl Signed {
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Where the request ends, its signature left out.
    pub fn end(&self) -> usize {
        self.end
    }

    /// Signs a reply. Its id is that of the request.
    pub fn sign(&self, reply: &mut Vec<u8>, now_s: u64) {
        sign(&self.key, (&prefixed(&self.mac), Behind::Variables), reply, now_s);
    }

    /// Signs the messages of a reply that has many.
    pub fn stream(&self) -> Stream {
        Stream { key: Arc::clone(&self.key), before: prefixed(&self.mac), is_first: true }
    }

    /// Octets that a signature adds to a message.
    pub fn room(&self) -> usize {
        room(&self.key)
    }
}

fn room(key: &Key) -> usize {
    key.name.len() + 10 + key.algorithm.wire_name().len() + 16 + key.algorithm.mac_len()
}

/// Returns the MAC.
fn sign(key: &Key, (before, behind): (&[u8], Behind), message: &mut Vec<u8>, now_s: u64) -> Vec<u8> {
    let algorithm = key.algorithm.wire_name();
    let variables =
        Variables { key: &key.name, algorithm: &algorithm, time_s: now_s, fudge_s: FUDGE_S, error: 0, other: &[] };
    let mac = key.mac(&[before, message, &variables.covered(behind)]);
    let id = u16_at(message, 0).unwrap_or(0);
    variables.push(&mac, id, message);
    mac
}

impl Faulty {
    /// Ends the reply with a record that says what was wrong. BADKEY and BADSIG go unsigned, BADTIME with the request's
    /// time and ours (RFC 8945 sections 5.2.3 and 5.3.2).
    pub fn end(&self, reply: &mut Vec<u8>, now_s: u64) {
        let ours = now_s.to_be_bytes();
        let (time_s, other): (u64, &[u8]) = match self.fault {
            Fault::BadTime => (self.time_s, &ours[2..]),
            Fault::BadTrunc => (now_s, &[]),
            Fault::BadKey | Fault::BadSig => (self.time_s, &[]),
        };
        let variables = Variables {
            key: &self.key,
            algorithm: &self.algorithm,
            time_s,
            fudge_s: self.fudge_s,
            error: self.fault as u16,
            other,
        };
        let mac = match &self.signs {
            Some((key, request_mac)) => {
                key.mac(&[&prefixed(request_mac), reply, &variables.covered(Behind::Variables)])
            }
            None => Vec::new(),
        };
        let id = u16_at(reply, 0).unwrap_or(0);
        variables.push(&mac, id, reply);
    }
}

/// Signs message after message of a stream, each over the MAC before it (RFC 8945 section 5.3.1).
#[derive(Clone)]
pub struct Stream {
    key: Arc<Key>,
    before: Vec<u8>,
    is_first: bool,
}

impl Stream {
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Octets that a signature adds to a message.
    pub fn room(&self) -> usize {
        room(&self.key)
    }

    pub fn sign(&mut self, message: &mut Vec<u8>, now_s: u64) {
        let behind = Behind::of(std::mem::take(&mut self.is_first));
        self.before = prefixed(&sign(&self.key, (&self.before, behind), message, now_s));
    }
}

/// A request of ours that was signed: what its reply's signature is checked against.
pub struct Asked {
    key: Key,
    /// The last MAC, with its length before it, and the messages since that came unsigned.
    before: Vec<u8>,
    is_first: bool,
    unsigned: usize,
}

/// Why a reply is not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disbelief {
    Unsigned,
    Malformed,
    /// Another key or algorithm than ours.
    OtherKey,
    BadSig,
    /// Their clock differs from ours by more than the fudge.
    BadTime,
    BadTrunc,
    /// The peer found a fault in our signature: the number that its record says.
    Theirs(u16),
}

/// Signs a request of ours.
pub fn sign_request(key: &Key, message: &mut Vec<u8>, now_s: u64) -> Asked {
    let mac = sign(key, (&[], Behind::Variables), message, now_s);
    Asked { key: key.clone(), before: prefixed(&mac), is_first: true, unsigned: 0 }
}

impl Asked {
    /// Checks the next message of the reply. The first, and at least every hundredth, must be signed; whether the last
    /// one was, `ends_signed` tells.
    pub fn check(&mut self, octets: &[u8], now_s: u64) -> Result<(), Disbelief> {
        let message = Message::new(octets).ok_or(Disbelief::Malformed)?;
        let Some(found) = find(&message).map_err(|_| Disbelief::Malformed)? else { return self.on_unsigned(octets) };
        if found.key[..] != *self.key.name || found.algorithm != self.key.algorithm.wire_name() {
            return Err(Disbelief::OtherKey);
        }
        // Errors about our key or our MAC come unsigned: nothing more can be known.
        if found.mac.is_empty() && found.error != 0 {
            return Err(Disbelief::Theirs(found.error));
        }
        self.check_mac(octets, &found, now_s)?;
        // One that finds our clock wrong begins no stream: the next reply is to the same request.
        if found.error != 0 {
            return Err(Disbelief::Theirs(found.error));
        }
        self.before = prefixed(found.mac);
        (self.is_first, self.unsigned) = (false, 0);
        Ok(())
    }

    fn check_mac(&self, octets: &[u8], found: &Found<'_>, now_s: u64) -> Result<(), Disbelief> {
        let told = |wrong| match wrong {
            Wrong::Malformed => Disbelief::Malformed,
            Wrong::Fault(Fault::BadTime) => Disbelief::BadTime,
            Wrong::Fault(Fault::BadTrunc) => Disbelief::BadTrunc,
            Wrong::Fault(_) => Disbelief::BadSig,
        };
        // BADTIME's reply carries our own time back, however late it is.
        let now_s = if found.error == Fault::BadTime as u16 { found.time_s } else { now_s };
        check(&self.key, octets, found, (&self.before, Behind::of(self.is_first)), now_s).map_err(told)
    }

    fn on_unsigned(&mut self, octets: &[u8]) -> Result<(), Disbelief> {
        if self.is_first || self.unsigned == UNSIGNED_MAX {
            return Err(Disbelief::Unsigned);
        }
        self.unsigned += 1;
        self.before.extend(octets);
        Ok(())
    }

    /// Whether the message checked last was signed: the last of a stream must be.
    pub fn ends_signed(&self) -> bool {
        !self.is_first && self.unsigned == 0
    }
}

/// The rcode of the reply to a refused request.
impl Refusal {
    pub fn rcode(&self) -> Rcode {
        match self {
            Refusal::Malformed => Rcode::FORMERR,
            Refusal::Fault(_) => Rcode::NOTAUTH,
        }
    }
}

/// A message without its records behind the question, for replies: header and question are the request's.
pub fn reply_head(request: &[u8], rcode: Rcode) -> Option<Vec<u8>> {
    let head: &[u8; HEADER] = request.first_chunk()?;
    let end = Message::new(request)?.question().map(|(_, end)| end);
    let mut reply = request.get(..end.unwrap_or(HEADER))?.to_vec();
    let flags = [0x80 | head[2] & 0x78, (rcode.0 & 15) as u8];
    reply.get_mut(2..4)?.copy_from_slice(&flags);
    reply.get_mut(4..HEADER)?.copy_from_slice(&[0, u8::from(end.is_some()), 0, 0, 0, 0, 0, 0]);
    Some(reply)
}

#[cfg(test)]
mod tests;
