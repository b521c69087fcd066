//! The messages of an outgoing zone transfer (RFC 5936 section 2.2): records go in, full messages come out.
//!
//! ```text
//! first:   header | question | records ... | OPT, if the request has one
//! others:  header | records ...
//! ```
//! A message is filled as far as a compression pointer reaches; a record that is larger has one for itself. All owners are
//! compressed, and names in the data of types that every receiver knows (RFC 3597 section 4). What a pointer leads to is
//! the same octet for octet, so nothing changes its case (RFC 5936 section 3.4).

use crate::message::Message;
use wire::name::wire_len;
use wire::query::HEADER;
use wire::rtype::{self, Rtype};

/// Octets of a message: farther in no pointer leads, and it is little enough to be written in one go by a thread that answers others, too.
const FILLED: usize = 16 << 10;
const MESSAGE_MAX: usize = 65_535;
/// QR and AA. Opcode and rcode are zero.
const FLAGS: u8 = 0x84;
const RECURSION_DESIRED: u8 = 1;
const DNSSEC_OK: u32 = 0x8000;
/// What we say that we can take over UDP (RFC 6891 section 6.2.3).
const UDP_SIZE: u16 = 1232;

/// A record that fits into no message: more than 65,000 octets of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge;

/// Messages of one transfer, one after the other.
pub struct Pages {
    message: Vec<u8>,
    /// Of this message.
    records: u16,
    /// The OPT that the first message ends with; empty once it has gone, or if none was asked for.
    opt: Vec<u8>,
    /// Octets that are left free in each message.
    keep: usize,
    names: Names,
}

impl Pages {
    /// `keep`: octets of each message that its signature will take. None: the request has no question.
    pub fn new(request: &[u8], keep: usize) -> Option<Pages> {
        let message = Message::new(request)?;
        let (_, end) = message.question()?;
        let opt = message.records().flatten().find(|rr| rr.rtype == rtype::OPT);
        let opt = opt.map_or(Vec::new(), |opt| own_opt(opt.ttl & DNSSEC_OK));
        let [id0, id1, flags, ..] = *request.first_chunk::<HEADER>()?;
        let mut first = vec![id0, id1, FLAGS | flags & RECURSION_DESIRED, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        first.extend(request.get(HEADER..end)?);
        let asked = request.get(HEADER..end.saturating_sub(4))?;
        let mut pages = Pages { message: first, records: 0, opt, keep, names: Names::default() };
        pages.learn(&Ends::of(asked), HEADER, asked.len());
        Some(pages)
    }

    /// Adds a record. Some: the message before it was full, and may go.
    pub fn push(&mut self, owner: &[u8], rtype: Rtype, ttl: u32, rdata: &[u8]) -> Result<Option<Vec<u8>>, TooLarge> {
        let before = self.message.len();
        self.write(owner, rtype, ttl, rdata);
        if self.message.len() + self.opt.len() + self.keep <= FILLED {
            self.records += 1;
            return Ok(None);
        }
        let mut full = None;
        if self.records > 0 {
            self.message.truncate(before);
            full = Some(self.turn());
            self.write(owner, rtype, ttl, rdata);
        }
        self.records += 1;
        if self.message.len() + self.opt.len() + self.keep <= MESSAGE_MAX { Ok(full) } else { Err(TooLarge) }
    }

    /// The last message.
    pub fn finish(mut self) -> Vec<u8> {
        self.turn()
    }

    /// The message as it is; the next one begins.
    fn turn(&mut self) -> Vec<u8> {
        let mut next = Vec::with_capacity(FILLED + self.keep);
        // Only the first repeats the question (RFC 5936 section 2.2.1).
        next.extend(self.message.iter().take(4));
        next.resize(HEADER, 0);
        let opt = std::mem::take(&mut self.opt);
        let mut full = std::mem::replace(&mut self.message, next);
        full.extend(&opt);
        for (at, count) in [(6, std::mem::take(&mut self.records)), (10, u16::from(!opt.is_empty()))] {
            if let Some(place) = full.get_mut(at..at + 2) {
                place.copy_from_slice(&count.to_be_bytes());
            }
        }
        self.names.0.fill(0);
        full
    }

    fn write(&mut self, owner: &[u8], rtype: Rtype, ttl: u32, rdata: &[u8]) {
        self.name(owner);
        self.message.extend(rtype.to_be_bytes());
        self.message.extend([0, 1]);
        self.message.extend(ttl.to_be_bytes());
        let len_at = self.message.len();
        self.message.extend([0, 0]);
        self.rdata(rtype, rdata);
        let len = (self.message.len() - len_at - 2) as u16;
        if let Some(place) = self.message.get_mut(len_at..len_at + 2) {
            place.copy_from_slice(&len.to_be_bytes());
        }
    }

    fn rdata(&mut self, rtype: Rtype, rdata: &[u8]) {
        let names = match rtype {
            rtype::SOA | rtype::MINFO => 2,
            t if rtype::is_compressible(t) => 1,
            _ => 0,
        };
        let fixed = if rtype == rtype::MX { 2 } else { 0 };
        let (head, mut rest) = rdata.split_at_checked(fixed).unwrap_or((rdata, &[]));
        self.message.extend(head);
        for _ in 0..names {
            let Some((name, behind)) = wire_len(rest).and_then(|len| rest.split_at_checked(len)) else { break };
            self.name(name);
            rest = behind;
        }
        self.message.extend(rest);
    }

    /// Writes a name, as far as its end does not stand in the message already.
    fn name(&mut self, name: &[u8]) {
        let (ends, from) = (Ends::of(name), self.message.len());
        let known = ends.iter().find_map(|(at, hash)| {
            let found = self.names.find(&self.message, name.get(at..).unwrap_or_default(), hash)?;
            Some((at, found))
        });
        let written = known.map_or(name.len(), |(at, _)| at);
        self.message.extend(name.iter().take(written));
        if let Some((_, stands_at)) = known {
            self.message.extend((0xC000 | stands_at).to_be_bytes());
        }
        self.learn(&ends, from, written);
    }

    /// The first `written` octets of a name with these ends stand at `from`.
    fn learn(&mut self, ends: &Ends, from: usize, written: usize) {
        ends.iter().take_while(|end| end.0 < written).for_each(|(at, hash)| self.names.learn(hash, from + at));
    }
}

/// An OPT of ours, with or without DO.
fn own_opt(dnssec_ok: u32) -> Vec<u8> {
    let [size0, size1] = UDP_SIZE.to_be_bytes();
    let [a, b, c, d] = dnssec_ok.to_be_bytes();
    vec![0, 0, rtype::OPT as u8, size0, size1, a, b, c, d, 0, 0]
}

/// Where names, and the ends of names, begin in a message. Bound: `PLACES`, twice what a message of small records has; a
/// name that finds its places taken takes the first of them. So it can miss an end, and costs the same whatever names come.
struct Names(Box<[u16; PLACES]>);

const PLACES: usize = 2048;
/// Places that are looked at for an end.
const LOOKS: usize = 2;
/// A name has at most so many labels, the root not counted.
const LABELS_MAX: usize = 127;
/// A place that a pointer can name.
const POINTER_MAX: usize = 0x3FFF;

impl Default for Names {
    fn default() -> Names {
        Names(Box::new([0; PLACES]))
    }
}

/// The ends of a name that are not the root: where each begins, and its hash; the longest first.
struct Ends {
    len: usize,
    all: [(u8, u32); LABELS_MAX],
}

impl Ends {
    fn of(name: &[u8]) -> Ends {
        let mut ends = Ends { len: 0, all: [(0, 0); LABELS_MAX] };
        let mut at = 0;
        while let (Some(&n), Some(end)) = (name.get(at).filter(|&&n| n > 0), ends.all.get_mut(ends.len)) {
            *end = (at as u8, 0);
            ends.len += 1;
            at += usize::from(n) + 1;
        }
        // From the right, so that one pass gives the hashes of all ends: FNV-1a, which nobody gains from defeating here.
        let (mut hash, mut behind) = (0x811C_9DC5_u32, at);
        for end in ends.all.iter_mut().take(ends.len).rev() {
            let label = name.get(usize::from(end.0)..behind).unwrap_or_default();
            hash = label.iter().fold(hash, |h, &octet| (h ^ u32::from(octet)).wrapping_mul(0x0100_0193));
            (end.1, behind) = (hash, usize::from(end.0));
        }
        ends
    }

    fn iter(&self) -> impl Iterator<Item = (usize, u32)> {
        self.all.iter().take(self.len).map(|&(at, hash)| (usize::from(at), hash))
    }
}

fn places(hash: u32) -> [usize; LOOKS] {
    let first = (hash ^ hash >> 16) as usize;
    [first % PLACES, (first + 1) % PLACES]
}

impl Names {
    /// Where an end of a name stands in the message.
    fn find(&self, message: &[u8], end: &[u8], hash: u32) -> Option<u16> {
        let stood = places(hash).into_iter().filter_map(|i| self.0.get(i)).copied().filter(|&at| at != 0);
        stood.into_iter().find(|&at| is_name_at(message, usize::from(at), end))
    }

    /// An end of a name stands at `at` from now on.
    fn learn(&mut self, hash: u32, at: usize) {
        let [first, ..] = places(hash);
        let free = places(hash).into_iter().find(|&i| self.0.get(i) == Some(&0));
        if let (Some(place), 1..=POINTER_MAX) = (self.0.get_mut(free.unwrap_or(first)), at) {
            *place = at as u16;
        }
    }
}

/// Whether this name stands at `at`, octet for octet. All pointers of a message of ours lead back.
fn is_name_at(message: &[u8], at: usize, name: &[u8]) -> bool {
    let (mut at, mut rest) = (at, name);
    loop {
        let Some(&n) = message.get(at) else { return false };
        if n >= 0xC0 {
            at = usize::from(n & 0x3F) << 8 | message.get(at + 1).copied().map_or(0, usize::from);
            continue;
        }
        let label = message.get(at..=at + usize::from(n)).unwrap_or_default();
        match rest.split_at_checked(label.len()) {
            Some((same, behind)) if same == label && !label.is_empty() => rest = behind,
            _ => return false,
        }
        if n == 0 {
            return true;
        }
        at += label.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;

    fn name(text: &str) -> Vec<u8> {
        wire::Name::from_text(text.as_bytes(), None).unwrap().bytes().to_vec()
    }

    fn request(zone: &str, with_opt: bool) -> Vec<u8> {
        let mut request = vec![7, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(with_opt)];
        request.extend(name(zone));
        request.extend([0, rtype::AXFR as u8, 0, 1]);
        if with_opt {
            request.extend([0, 0, rtype::OPT as u8, 4, 208, 0, 0, 0x80, 0, 0, 0]);
        }
        request
    }

    /// The messages of these records.
    fn all(request: &[u8], keep: usize, records: &[Record]) -> Vec<Vec<u8>> {
        let mut pages = Pages::new(request, keep).unwrap();
        let push = |r: &Record| pages.push(r.owner(), r.rtype, r.ttl, r.rdata()).unwrap();
        let mut messages: Vec<Vec<u8>> = records.iter().filter_map(push).collect();
        messages.push(pages.finish());
        messages
    }

    /// What a receiver reads out of them, with the owner's case.
    fn read(messages: &[Vec<u8>]) -> Vec<(Vec<u8>, Rtype, u32, Vec<u8>)> {
        let records = messages.iter().flat_map(|m| Message::new(m).unwrap().records()).map(Result::unwrap);
        let records = records.filter(|rr| rr.rtype != rtype::OPT);
        records.map(|rr| (rr.owner.bytes().to_vec(), rr.rtype, rr.ttl, rr.rdata().unwrap())).collect()
    }

    fn record(owner: &str, rtype: Rtype, rdata: &[u8]) -> Record {
        Record::new(&name(owner), rtype, 300, rdata).unwrap()
    }

    fn many(n: usize) -> Vec<Record> {
        let owner = |i: usize| format!("h{i}.{}.example.", ["a", "b.c", "d"][i % 3]);
        let each = |i: usize| {
            let to = owner(i * 7 % n);
            match i % 4 {
                0 => record(&owner(i), rtype::A, &[192, 0, 2, i as u8]),
                1 => record(&owner(i), rtype::NS, &name(&to)),
                2 => record(&owner(i), rtype::MX, &[&[0, 10][..], &name(&to)].concat()),
                _ => record(&owner(i), rtype::SRV, &[&[0; 6][..], &name(&to)].concat()),
            }
        };
        (0..n).map(each).collect()
    }

    #[test]
    fn what_goes_in_comes_out() {
        for (n, keep) in [(0, 0), (1, 0), (5_000, 0), (5_000, 9_000), (5_000, 100)] {
            let records = many(n);
            let messages = all(&request("example.", true), keep, &records);
            let expect: Vec<_> =
                records.iter().map(|r| (r.owner().to_vec(), r.rtype, r.ttl, r.rdata().to_vec())).collect();
            assert_eq!(read(&messages), expect, "{n} {keep}");
            assert!(messages.iter().all(|m| m.len() + keep <= FILLED));
            let last = messages.len() - 1;
            assert!(messages[..last].iter().all(|m| m.len() + keep + 300 > FILLED), "they are filled");
        }
    }

    #[test]
    fn the_first_message_alone_has_question_and_opt() {
        let messages = all(&request("example.", true), 0, &many(2_000));
        for (i, octets) in messages.iter().enumerate() {
            let message = Message::new(octets).unwrap();
            assert_eq!((message.id(), octets[2], octets[3]), (0x0708, 0x85, 0), "QR, AA, RD as asked");
            assert_eq!((message.count(0), message.count(3)), if i == 0 { (1, 1) } else { (0, 0) });
        }
        let plain = all(&request("example.", false), 0, &many(3));
        assert_eq!(Message::new(&plain[0]).unwrap().count(3), 0);
    }

    #[test]
    fn small_records_take_little_more_than_their_data() {
        let records: Vec<Record> =
            (0..1_000).map(|i| record(&format!("host{i:04}.some.where.example."), rtype::A, &[192, 0, 2, 1])).collect();
        let octets: usize = all(&request("example.", false), 0, &records).iter().map(Vec::len).sum();
        // Nine octets of a label, a pointer, ten fixed ones, four of data.
        assert!(octets < 1_000 * 25 + 200, "{octets}");
    }

    #[test]
    fn no_name_changes_its_case() {
        let records =
            [record("www.example.", rtype::NS, &name("Www.Example.")), record("a.example.", rtype::A, &[1; 4])];
        let found = read(&all(&request("EXAMPLE.", false), 0, &records));
        assert_eq!((&found[0].0, &found[0].3), (&name("www.example."), &name("Www.Example.")));
        assert_eq!(found[1].0, name("a.example."));
    }

    #[test]
    fn a_large_record_has_a_message_for_itself_and_a_larger_one_none() {
        let large = record("b.example.", rtype::TXT, &[b'x'; 60_000]);
        let records = [many(2), vec![large], many(2)].concat();
        let messages = all(&request("example.", false), 200, &records);
        assert_eq!(messages.iter().map(|m| Message::new(m).unwrap().count(1)).collect::<Vec<_>>(), [2, 1, 2]);
        let mut pages = Pages::new(&request("example.", false), 200).unwrap();
        assert_eq!(pages.push(b"\x01b\0", rtype::TXT, 1, &[0; 65_400]), Err(TooLarge));
    }

    #[test]
    fn the_root_and_names_of_many_labels_are_written() {
        let deep = format!("{}example.", "a.".repeat(120));
        let records = [record(".", rtype::NS, &name(".")), record(&deep, rtype::NS, &name(&deep))];
        let found = read(&all(&request(".", false), 0, &records));
        assert_eq!((&found[0].0[..], &found[1].0, &found[1].3), (&b"\0"[..], &name(&deep), &name(&deep)));
    }
}
