//! The reply writer. The answer grows in the buffer that the query came in, so ID, question and its case need no work.
//!
//! Truncation is decided here and nowhere else: what is optional and does not fit is left out silently; once something
//! that is needed does not fit, the reply ends as header, question and OPT with TC set (RFC 2181 section 9).

use crate::query::HEADER;
use crate::rcode::{Ede, Rcode};
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Answer,
    Authority,
    Additional,
}

/// What becomes of records that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Required,
    Optional,
}

pub struct Reply<'a> {
    buffer: &'a mut [u8],
    question_end: usize,
    at: usize,
    limit: usize,
    counts: [u16; 3],
    truncated: bool,
    left_out: bool,
}

/// The flags of an answer's header that are decided while answering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    pub const NONE: Flags = Flags(0);
    pub const AUTHORITATIVE: Flags = Flags(0x0400);
    pub const RECURSION_AVAILABLE: Flags = Flags(0x0080);
    pub const AUTHENTIC: Flags = Flags(0x0020);
    pub const CHECKING_DISABLED: Flags = Flags(0x0010);

    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The OPT record of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opt<'a> {
    pub udp_size: u16,
    pub dnssec_ok: bool,
    /// None: what most clients get.
    options: Option<Options<'a>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    pub nsid: Option<&'a [u8]>,
    /// Client and server cookie, RFC 9018.
    pub cookie: Option<[u8; 24]>,
    pub ede: Option<Ede>,
    /// Labels of the zone's name and its SOA serial, RFC 9660.
    pub zone_version: Option<(u8, u32)>,
    /// Idle time-out in units of 100 ms, RFC 7828.
    pub keepalive: Option<u16>,
}

/// Room kept free for an OPT's options besides NSID: cookie 28, zone version 10, keepalive 6, EDE 6.
const OPTION_ROOM: usize = 50;
const EDE_ROOM: usize = 6;
const OPT_FIXED: usize = 11;

impl<'a> Opt<'a> {
    /// Without options.
    #[inline(always)]
    pub fn plain(udp_size: u16, dnssec_ok: bool) -> Opt<'a> {
        Opt { udp_size, dnssec_ok, options: None }
    }

    /// The options, to be set.
    #[inline]
    pub fn options(&mut self) -> &mut Options<'a> {
        self.options.get_or_insert_default()
    }

    #[inline]
    pub fn has_cookie(&self) -> bool {
        self.options.is_some_and(|o| o.cookie.is_some())
    }

    /// How much room to keep for this record, whatever will be known of it at the end.
    #[inline]
    pub fn room(&self) -> usize {
        OPT_FIXED + self.options.as_ref().map_or(0, Options::room)
    }
}

impl Options<'_> {
    #[cold]
    fn room(&self) -> usize {
        let has_more = self.cookie.is_some() || self.zone_version.is_some() || self.keepalive.is_some();
        let ede_room = if self.ede.is_some() { EDE_ROOM } else { 0 };
        self.nsid.map_or(0, |n| 4 + n.len()) + if has_more { OPTION_ROOM } else { ede_room }
    }
}

impl<'a> Reply<'a> {
    /// `limit`: the largest message that may be sent; `keep`: octets of it kept for OPT.
    #[inline]
    pub fn begin(buffer: &'a mut [u8], question_end: usize, limit: usize, keep: usize) -> Reply<'a> {
        let limit = limit.min(buffer.len()).saturating_sub(keep);
        Reply { buffer, question_end, at: question_end, limit, counts: [0; 3], truncated: false, left_out: false }
    }

    #[inline]
    pub fn question_end(&self) -> usize {
        self.question_end
    }

    /// Where the next record will stand.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    pub fn left_out(&self) -> bool {
        self.left_out
    }

    /// What is written so far.
    #[inline]
    pub fn written(&self) -> &[u8] {
        &self.buffer[..self.at]
    }

    #[inline]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.at)
    }

    /// Appends octets that are `records` whole records; returns where they begin, and what was written, to be amended.
    /// None: they did not fit.
    #[inline]
    pub fn records(&mut self, section: Section, need: Need, octets: &[u8], records: u16) -> Option<(usize, &mut [u8])> {
        let place = self.take(need, octets.len())?;
        self.count(section, records);
        let (base, written) = (place.start, &mut self.buffer[place]);
        written.copy_from_slice(octets);
        Some((base, written))
    }

    /// Appends a part of a record; its end must be announced by `count`.
    #[inline]
    pub fn append(&mut self, need: Need, octets: &[u8]) -> Option<()> {
        let place = self.take(need, octets.len())?;
        self.buffer[place].copy_from_slice(octets);
        Some(())
    }

    /// Room for so many octets, which are written next. None: there is not as much.
    #[inline]
    fn take(&mut self, need: Need, octets: usize) -> Option<Range<usize>> {
        let (at, end) = (self.at, self.at + octets);
        if end > self.limit || end > self.buffer.len() {
            self.does_not_fit(need);
            return None;
        }
        self.at = end;
        Some(at..end)
    }

    #[cold]
    pub fn does_not_fit(&mut self, need: Need) {
        match need {
            Need::Required => self.truncated = true,
            Need::Optional => self.left_out = true,
        }
    }

    #[inline]
    pub fn count(&mut self, section: Section, records: u16) {
        // A damaged image may claim any number.
        let count = &mut self.counts[section as usize];
        *count = count.saturating_add(records);
    }

    /// Takes back everything behind the question.
    pub fn clear(&mut self) {
        (self.at, self.counts, self.truncated, self.left_out) = (self.question_end, [0; 3], false, false);
    }

    /// Takes back what was written from `at` on.
    pub fn back_to(&mut self, at: usize) {
        self.at = at.min(self.at);
    }

    /// What was written from `at` on, to be amended.
    #[inline]
    pub fn written_mut(&mut self, at: usize) -> &mut [u8] {
        self.buffer.get_mut(at..self.at).unwrap_or_default()
    }

    #[inline]
    pub fn u16_at(&self, at: usize) -> u16 {
        self.buffer.get(at..).and_then(|b| b.first_chunk::<2>()).map_or(0, |b| u16::from_be_bytes(*b))
    }

    #[inline]
    pub fn set_u16(&mut self, at: usize, value: u16) {
        if let Some(room) = self.buffer.get_mut(at..).and_then(|b| b.first_chunk_mut::<2>()) {
            *room = value.to_be_bytes();
        }
    }

    /// Ends the message; returns its length. Opcode and RD stay as asked; RA, AD and CD are as `flags` say.
    #[inline]
    pub fn finish(mut self, flags: Flags, rcode: Rcode, opt: Option<&Opt<'_>>) -> usize {
        let mut flags = flags.0;
        if self.truncated {
            self.at = self.question_end;
            self.counts = [0; 3];
            flags |= 0x0200;
        }
        if let Some(opt) = opt {
            self.write_opt(opt, rcode);
        }
        let questions = u8::from(self.question_end > HEADER);
        let [an, ns, ar] = self.counts.map(u16::to_be_bytes);
        let head = &mut self.buffer[2..HEADER];
        head[0] = head[0] & 0x79 | 0x80 | (flags >> 8) as u8;
        head[1] = flags as u8 | rcode.0 as u8 & 15;
        head[2..].copy_from_slice(&[0, questions, an[0], an[1], ns[0], ns[1], ar[0], ar[1]]);
        self.at
    }

    #[inline]
    fn write_opt(&mut self, opt: &Opt<'_>, rcode: Rcode) {
        let start = self.at;
        let [hi, lo] = opt.udp_size.to_be_bytes();
        let fixed = [0, 0, 41, hi, lo, (rcode.0 >> 4) as u8, 0, u8::from(opt.dnssec_ok) << 7, 0, 0, 0];
        let Some(room) = self.buffer.get_mut(start..start + OPT_FIXED) else { return };
        room.copy_from_slice(&fixed);
        self.at += OPT_FIXED;
        self.count(Section::Additional, 1);
        if let Some(options) = &opt.options {
            self.write_options(options, start + OPT_FIXED);
        }
    }

    #[inline(never)]
    fn write_options(&mut self, options: &Options<'_>, from: usize) {
        if let Some(nsid) = options.nsid {
            self.option(3, nsid);
        }
        if let Some(cookie) = options.cookie {
            self.option(10, &cookie);
        }
        if let Some(tenths) = options.keepalive {
            self.option(11, &tenths.to_be_bytes());
        }
        if let Some(ede) = options.ede {
            self.option(15, &ede.0.to_be_bytes());
        }
        if let Some((labels, serial)) = options.zone_version {
            let s = serial.to_be_bytes();
            // Version type 0: SOA serial.
            self.option(19, &[labels, 0, s[0], s[1], s[2], s[3]]);
        }
        self.set_u16(from - 2, (self.at - from) as u16);
    }

    fn option(&mut self, code: u16, data: &[u8]) {
        let end = self.at + 4 + data.len();
        let Some(room) = self.buffer.get_mut(self.at..end) else { return };
        room[..2].copy_from_slice(&code.to_be_bytes());
        room[2..4].copy_from_slice(&(data.len() as u16).to_be_bytes());
        room[4..].copy_from_slice(data);
        self.at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> Vec<u8> {
        let mut b = b"\x12\x34\x01\x10\0\x01\0\0\0\0\0\x01\x01a\0\0\x01\0\x01".to_vec();
        b.resize(512, 0xEE);
        b
    }

    #[test]
    fn an_empty_answer_keeps_id_question_and_rd() {
        let mut b = query();
        let n = Reply::begin(&mut b, 19, 512, 0).finish(Flags::AUTHORITATIVE, Rcode::NXDOMAIN, None);
        assert_eq!(&b[..n], b"\x12\x34\x85\x03\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01");
    }

    #[test]
    fn what_is_needed_and_does_not_fit_truncates_the_whole() {
        let mut b = query();
        let mut r = Reply::begin(&mut b, 19, 50, 11);
        assert!(r.records(Section::Answer, Need::Required, &[1; 15], 1).is_some());
        assert!(r.records(Section::Additional, Need::Optional, &[1; 15], 1).is_none());
        assert!(!r.is_truncated() && r.left_out());
        assert!(r.records(Section::Authority, Need::Required, &[1; 15], 1).is_none());
        let opt = Opt::plain(1232, false);
        let n = r.finish(Flags::NONE, Rcode::NOERROR, Some(&opt));
        assert_eq!(n, 19 + 11);
        assert_eq!(b[2..12], [0x83, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn claims_of_more_records_than_can_be_counted_do_no_harm() {
        let mut b = query();
        let mut r = Reply::begin(&mut b, 19, 512, 0);
        for section in [Section::Authority, Section::Additional] {
            (0..2).for_each(|_| assert!(r.records(section, Need::Required, &[1; 15], 65_000).is_some()));
        }
        r.finish(Flags::NONE, Rcode::NOERROR, Some(&Opt::plain(1232, false)));
        assert_eq!(b[8..12], [0xFF; 4]);
    }

    #[test]
    fn an_opt_carries_the_high_bits_of_the_rcode_and_its_options() {
        let mut b = query();
        let mut opt = Opt::plain(1232, true);
        (opt.options().nsid, opt.options().ede) = (Some(b"ns1".as_slice()), Some(Ede::NOT_AUTHORITATIVE));
        let n = Reply::begin(&mut b, 19, 512, opt.room()).finish(Flags::NONE, Rcode::BADVERS, Some(&opt));
        assert_eq!(&b[19..n], b"\0\0\x29\x04\xd0\x01\0\x80\0\0\x0d\0\x03\0\x03ns1\0\x0f\0\x02\0\x14");
        assert_eq!(b[3] & 15, 0);
    }
}
