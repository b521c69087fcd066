//! Records by chance, and a pen that writes them in every spelling there is.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::{Name, rtype};
use zonefile::{rdata, rtypes};

pub const ORIGIN: &str = "example.com.";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rr {
    pub owner: Vec<u8>,
    pub ttl: u32,
    pub rtype: u16,
    pub rdata: Vec<u8>,
}

pub fn origin() -> Name {
    Name::from_text(ORIGIN.as_bytes(), None).unwrap()
}

/// A name of up to three labels below one of three ends, any octets in the labels.
pub fn name() -> impl Strategy<Value = Vec<u8>> {
    let octet =
        prop_oneof![4 => b'a'..=b'z', 1 => prop::sample::select(&b".\\\"();@$ \t\r\n*_-AZ09"[..]), 1 => any::<u8>()];
    let end = prop::sample::select(&["", "\x03com", "\x07example\x03com"][..]);
    (vec(vec(octet, 1..8), 0..3), end).prop_map(|(labels, end)| {
        let mut name = Vec::new();
        for label in labels {
            name.push(label.len() as u8);
            name.extend(label);
        }
        name.extend(end.bytes());
        name.push(0);
        name
    })
}

pub fn data() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let strings = vec(vec(any::<u8>(), 0..20), 1..4).prop_map(|strings| {
        strings.into_iter().fold(Vec::new(), |mut all, text| {
            all.push(text.len() as u8);
            all.extend(text);
            all
        })
    });
    prop_oneof![
        any::<[u8; 4]>().prop_map(|a| (rtype::A, a.to_vec())),
        any::<[u8; 16]>().prop_map(|a| (rtype::AAAA, a.to_vec())),
        name().prop_map(|n| (rtype::NS, n)),
        (any::<[u8; 2]>(), name()).prop_map(|(p, n)| (rtype::MX, [&p[..], &n].concat())),
        strings.prop_map(|text| (rtype::TXT, text)),
        (any::<[u8; 4]>(), vec(any::<u8>(), 48)).prop_map(|(n, d)| (rtype::DS, [&n[..3], b"\x04", &d].concat())),
        vec(any::<u8>(), 0..40).prop_map(|d| (65_280, d)),
    ]
}

pub fn zone() -> impl Strategy<Value = Vec<Rr>> {
    let ttl = prop_oneof![Just(3600), 0..100_000u32, 0..=0x7fff_ffffu32];
    let rr = (name(), ttl, data()).prop_map(|(owner, ttl, (rtype, rdata))| Rr { owner, ttl, rtype, rdata });
    vec(rr, 1..12)
}

/// A way of spelling that not every reader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Octets as they are that are not printable ASCII.
    RawOctets,
    /// Zero, vertical tab and form feed as they are.
    RawSeparators,
    CarriageReturns,
    /// `\[`
    EscapedBracket,
    /// CLASS1 instead of IN.
    ClassByNumber,
    /// The class before the TTL.
    ClassFirst,
    /// A ')' right behind a word.
    CloseBehindWord,
}

/// Writes records in a manner that its coins decide.
struct Pen<'h> {
    without: &'h [Habit],
    coins: Vec<u8>,
    next: usize,
    text: Vec<u8>,
    origin: Name,
    ttl: Option<u32>,
    in_parentheses: bool,
}

impl Pen<'_> {
    fn has(&self, habit: Habit) -> bool {
        !self.without.contains(&habit)
    }

    fn toss(&mut self, sides: u8) -> u8 {
        self.next += 1;
        self.coins[self.next % self.coins.len()] % sides
    }

    fn put(&mut self, text: impl AsRef<[u8]>) {
        self.text.extend_from_slice(text.as_ref());
    }

    fn line_end(&mut self) {
        match self.toss(4) {
            0 if self.has(Habit::CarriageReturns) => self.put("\r\n"),
            1 => self.put(" ; said (\"aside\n"),
            _ => self.put("\n"),
        }
    }

    fn space(&mut self) {
        match self.toss(6) {
            0 if self.in_parentheses => {
                self.line_end();
                self.put("  ");
            }
            1 if !self.in_parentheses => {
                self.put(" (");
                self.in_parentheses = true;
            }
            2 => self.put("\t \t"),
            3 if self.in_parentheses => {
                self.put(" ) ");
                self.in_parentheses = false;
            }
            _ => self.put(" "),
        }
    }

    fn may_stand(&self, c: u8) -> bool {
        let is_raw = !matches!(c, b' '..=b'~');
        !is_raw || self.has(Habit::RawOctets) && (!matches!(c, 0 | 11 | 12) || self.has(Habit::RawSeparators))
    }

    fn may_be_escaped(&self, c: u8) -> bool {
        match c {
            // As rdata's first token that is the mark of the generic form (RFC 3597 section 5).
            b'#' => false,
            b'[' => self.has(Habit::EscapedBracket),
            _ => true,
        }
    }

    fn octet(&mut self, c: u8, plain: bool) {
        match self.toss(8) {
            0 => self.put(format!("\\{c:03}")),
            1 if c.is_ascii_graphic() && !c.is_ascii_digit() && self.may_be_escaped(c) => self.put([b'\\', c]),
            _ if plain && self.may_stand(c) => self.put([c]),
            _ => self.put(format!("\\{c:03}")),
        }
    }

    fn name(&mut self, name: &[u8]) {
        let origin = self.origin;
        let relative = name.ends_with(origin.bytes()) && wire::name::is_at_or_below(name, origin.bytes());
        if relative && name.len() == origin.bytes().len() && self.toss(2) == 0 {
            return self.put("@");
        }
        let labels = if relative && name.len() > origin.bytes().len() && self.toss(2) == 0 {
            &name[..name.len() - origin.bytes().len()]
        } else {
            name
        };
        if labels == [0] {
            return self.put(".");
        }
        let mut rest = labels;
        while let [len @ 1..=63, after @ ..] = rest {
            let (label, after) = after.split_at(*len as usize);
            for &c in label {
                self.octet(c, c.is_ascii_alphanumeric() || b"*-_".contains(&c));
            }
            rest = after;
            if !rest.is_empty() {
                self.put(".");
            }
        }
    }

    fn string(&mut self, octets: &[u8]) {
        let bare = !octets.is_empty() && octets.iter().all(u8::is_ascii_alphanumeric) && self.toss(2) == 0;
        if !bare {
            self.put("\"");
        }
        for &c in octets {
            self.octet(c, bare || !b"\"\\\n\r".contains(&c));
        }
        if !bare {
            self.put("\"");
        }
    }

    fn ttl(&mut self, ttl: u32) {
        if self.ttl == Some(ttl) && self.toss(2) == 0 {
            return;
        }
        match self.toss(3) {
            0 => self.put(format!("{}H{}m{}s", ttl / 3600, ttl / 60 % 60, ttl % 60)),
            1 => self.put(format!("{}w{}s", ttl / 604_800, ttl % 604_800)),
            _ => self.put(ttl.to_string()),
        }
        self.space();
    }

    fn class(&mut self) {
        let class = match self.toss(4) {
            0 => "",
            1 => "in",
            2 if self.has(Habit::ClassByNumber) => "CLASS1",
            _ => "IN",
        };
        if !class.is_empty() {
            self.put(class);
            self.space();
        }
    }

    fn rtype(&mut self, rtype: u16) {
        match self.toss(4) {
            0 => self.put(format!("TYPE{rtype}")),
            1 => self.put(rtypes::mnemonic(rtype).to_lowercase()),
            _ => self.put(rtypes::mnemonic(rtype)),
        }
    }

    fn generic(&mut self, octets: &[u8]) {
        self.put(format!("\\# {}", octets.len()));
        for octet in octets {
            if self.toss(3) == 0 {
                self.space();
            } else if octets.as_ptr() == octet {
                self.put(" ");
            }
            self.put(format!("{octet:02x}"));
        }
    }

    /// As it stands, but for the blanks outside of quotes.
    fn words(&mut self, text: &[u8]) {
        let (mut is_quoted, mut is_escaped) = (false, false);
        for &c in text {
            is_quoted ^= c == b'"' && !is_escaped;
            is_escaped = c == b'\\' && !is_escaped;
            if c == b' ' && !is_quoted {
                self.space();
            } else {
                self.put([c]);
            }
        }
    }

    fn rdata(&mut self, rr: &Rr) {
        let data = rr.rdata.as_slice();
        if self.toss(5) == 0 {
            return self.generic(data);
        }
        match rr.rtype {
            rtype::NS => self.name(data),
            rtype::MX => {
                self.put(u16::from_be_bytes([data[0], data[1]]).to_string());
                self.space();
                self.name(&data[2..]);
            }
            rtype::TXT => {
                let mut rest = data;
                while let [len, after @ ..] = rest {
                    let (text, after) = after.split_at(*len as usize);
                    self.string(text);
                    rest = after;
                    if !rest.is_empty() {
                        self.space();
                    }
                }
            }
            _ => {
                let mut text = String::new();
                rdata::to_text(rr.rtype, data, &mut text);
                self.words(text.as_bytes());
            }
        }
    }

    fn directive(&mut self) {
        match self.toss(6) {
            0 => {
                let origin = ["example.com.", "com.", "a.example.com."][self.toss(3) as usize];
                self.put(format!("$ORIGIN {origin}"));
                self.origin = Name::from_text(origin.as_bytes(), None).unwrap();
                self.line_end();
            }
            1 => {
                self.put("$TTL 1h");
                self.ttl = Some(3600);
                self.line_end();
            }
            2 => self.line_end(),
            _ => {}
        }
    }

    fn zone(&mut self, records: &[Rr]) {
        let mut last: &[u8] = b"";
        for rr in records {
            self.directive();
            if rr.owner == last && self.toss(3) > 0 {
                self.put(" ");
            } else {
                self.name(&rr.owner);
            }
            last = &rr.owner;
            self.space();
            if self.toss(2) == 0 || !self.has(Habit::ClassFirst) {
                self.ttl(rr.ttl);
                self.class();
            } else {
                self.class();
                self.ttl(rr.ttl);
            }
            self.rtype(rr.rtype);
            self.space();
            self.rdata(rr);
            if std::mem::take(&mut self.in_parentheses) {
                self.put(if self.has(Habit::CloseBehindWord) { ")" } else { " )" });
            }
            self.line_end();
        }
        if self.toss(2) == 0 {
            while self.text.last().is_some_and(u8::is_ascii_whitespace) {
                self.text.pop();
            }
        }
    }
}

/// The records in a spelling that the coins decide, without some habits.
pub fn spelt(records: &[Rr], coins: Vec<u8>, without: &[Habit]) -> Vec<u8> {
    let mut pen = Pen { without, coins, next: 0, text: Vec::new(), origin: origin(), ttl: None, in_parentheses: false };
    pen.zone(records);
    pen.text
}
