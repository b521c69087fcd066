//! What the words of `dunlin query` ask for, read as dig reads its own: in any order, the last one wins.

use crate::message::{AA, AD, CD, RD};
use std::net::IpAddr;
use wire::{Name, Rtype, rtype};

#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    pub name: Name,
    pub rtype: Rtype,
    pub class: u16,
    /// None: the first of /etc/resolv.conf.
    pub server: Option<String>,
    pub port: Option<u16>,
    pub family: Family,
    pub transport: Transport,
    /// Header bits of the query.
    pub flags: u16,
    pub edns: Option<Edns>,
    pub timeout_s: u64,
    pub tries: u32,
    pub show: Show,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Any,
    V4,
    V6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP, and TCP when the answer was truncated.
    Udp,
    /// UDP, whatever comes.
    UdpOnly,
    Tcp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edns {
    pub version: u8,
    pub size: u16,
    pub flags: u16,
    pub options: Vec<(u16, Vec<u8>)>,
    /// Send a client cookie of our own making.
    pub cookie: Cookie,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookie {
    None,
    Fresh,
    Given(Vec<u8>),
}

/// Which parts of an answer are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Show {
    pub form: Form,
    pub parts: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Full,
    Short,
    Json,
}

pub const COMMAND: u16 = 1;
pub const COMMENTS: u16 = 2;
pub const QUESTION: u16 = 4;
pub const ANSWER: u16 = 8;
pub const AUTHORITY: u16 = 16;
pub const ADDITIONAL: u16 = 32;
pub const STATS: u16 = 64;
pub const ALL: u16 = 127;

pub const NSID: u16 = 3;
pub const COOKIE: u16 = 10;
pub const KEEPALIVE: u16 = 11;
pub const PADDING: u16 = 12;
pub const ZONEVERSION: u16 = 19;
const DO: u16 = 1 << 15;

/// Why the words cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    Word(String),
    NotBuilt(String),
}

fn wrong<T>(text: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::Word(text.into()))
}

impl Default for Edns {
    fn default() -> Edns {
        Edns { version: 0, size: 1232, flags: 0, options: Vec::new(), cookie: Cookie::Fresh }
    }
}

impl Default for Ask {
    fn default() -> Ask {
        Ask {
            name: Name::ROOT,
            rtype: rtype::A,
            class: 1,
            server: None,
            port: None,
            family: Family::Any,
            transport: Transport::Udp,
            flags: RD | AD,
            edns: Some(Edns::default()),
            timeout_s: 5,
            tries: 3,
            show: Show { form: Form::Full, parts: ALL },
        }
    }
}

/// What the words have said so far.
#[derive(Default)]
struct Reading {
    ask: Ask,
    name: Option<Name>,
    rtype: Option<Rtype>,
}

pub fn read(words: &[String]) -> Result<Ask, Wrong> {
    let mut r = Reading::default();
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word.as_bytes().first() {
            Some(b'@') => r.server(&word[1..])?,
            Some(b'+') => r.plus(&word[1..])?,
            Some(b'-') if word.len() > 1 => r.dash(word, &mut words)?,
            _ => r.bare(word)?,
        }
    }
    let Reading { mut ask, name, rtype } = r;
    // Without a name: the servers of the root, as dig does.
    ask.rtype = rtype.unwrap_or(if name.is_none() { rtype::NS } else { rtype::A });
    ask.name = name.unwrap_or(Name::ROOT);
    Ok(ask)
}

impl Reading {
    fn server(&mut self, text: &str) -> Result<(), Wrong> {
        let (host, port) = split_port(text);
        if host.is_empty() {
            return wrong("a server is missing behind @; write @127.0.0.1 or @[::1]:5300");
        }
        if let Some(port) = port {
            self.ask.port = Some(port.parse().or_else(|_| wrong(format!("`{port}` is no port; write 1 to 65535")))?);
        }
        self.ask.server = Some(host.to_string());
        Ok(())
    }

    fn bare(&mut self, word: &str) -> Result<(), Wrong> {
        // What spells a class or a type is one, even as the first word: `mx example.com`. -q says that it is a name.
        if let Some(class) = class(word) {
            self.ask.class = class;
            return Ok(());
        }
        if let Some(t) = zonefile::rtypes::from_mnemonic(word.as_bytes()) {
            self.rtype = Some(t);
            return Ok(());
        }
        if self.name.is_some() {
            return wrong(format!("`{word}` is neither a type nor a class; one name a query"));
        }
        self.named(word)
    }

    fn named(&mut self, word: &str) -> Result<(), Wrong> {
        match Name::from_text(word.as_bytes(), Some(&Name::ROOT)) {
            Ok(name) => self.name = Some(name),
            Err(e) => return wrong(format!("`{word}` is no name: {}", e.why)),
        }
        Ok(())
    }

    /// An option of one letter, its value in the same word or in the next.
    fn dash<'w>(&mut self, word: &'w str, words: &mut impl Iterator<Item = &'w str>) -> Result<(), Wrong> {
        match word {
            "-4" => self.ask.family = Family::V4,
            "-6" => self.ask.family = Family::V6,
            "--json" => self.ask.show.form = Form::Json,
            _ => {
                let letter = word.as_bytes()[1];
                if !b"pxtcq".contains(&letter) {
                    return wrong(format!("there is no option `{word}`; see dunlin query --help"));
                }
                let value = if word.len() > 2 { &word[2..] } else { words.next().unwrap_or("") };
                if value.is_empty() {
                    return wrong(format!("a value is missing behind {word}"));
                }
                self.dashed(letter, value)?;
            }
        }
        Ok(())
    }

    fn dashed(&mut self, letter: u8, value: &str) -> Result<(), Wrong> {
        match letter {
            b'p' => match value.parse() {
                Ok(port) => self.ask.port = Some(port),
                Err(_) => return wrong(format!("`{value}` is no port; write 1 to 65535")),
            },
            b'x' => {
                let ip = value.parse().or_else(|_| wrong(format!("`{value}` is no address to look up in reverse")))?;
                self.name = Some(reverse(ip));
                self.rtype = self.rtype.or(Some(rtype::PTR));
            }
            b't' => match zonefile::rtypes::from_mnemonic(value.as_bytes()) {
                Some(t) => self.rtype = Some(t),
                None => return wrong(format!("there is no type `{value}`; write a mnemonic or TYPE and a number")),
            },
            b'c' => match class(value) {
                Some(c) => self.ask.class = c,
                None => {
                    return wrong(format!("there is no class `{value}`; write IN, CH, HS, ANY or CLASS and a number"));
                }
            },
            _ => return self.named(value),
        }
        Ok(())
    }

    fn plus(&mut self, word: &str) -> Result<(), Wrong> {
        let (word, value) = word.split_once('=').map_or((word, None), |(w, v)| (w, Some(v)));
        let (name, on) = full_name(word)?;
        match (PARTS.iter().find(|(n, _)| *n == name), FLAGS.iter().find(|(n, _)| *n == name)) {
            (Some(&(_, bits)), _) => set(&mut self.ask.show.parts, bits, on),
            (_, Some(&(_, bit))) => set(&mut self.ask.flags, bit, on),
            _ => return self.switch(name, on, value),
        }
        Ok(())
    }

    fn switch(&mut self, name: &str, on: bool, value: Option<&str>) -> Result<(), Wrong> {
        let ask = &mut self.ask;
        match name {
            "tls" | "https" | "quic" | "trace" if on => return Err(Wrong::NotBuilt(format!("+{name}"))),
            "tcp" | "vc" => ask.transport = if on { Transport::Tcp } else { Transport::Udp },
            "ignore" => ask.transport = if on { Transport::UdpOnly } else { Transport::Udp },
            "short" => ask.show.form = if on { Form::Short } else { Form::Full },
            "time" | "timeout" => ask.timeout_s = number(name, value, 1..=300)?,
            "tries" => ask.tries = number(name, value, 1..=100)? as u32,
            "retry" => ask.tries = number(name, value, 0..=100)? as u32 + 1,
            "edns" if !on => ask.edns = None,
            "edns" => self.edns().version = value.map_or(Ok(0), |_| number(name, value, 0..=255))? as u8,
            "noedns" => ask.edns = None,
            "bufsize" => self.edns().size = value.map_or(Ok(1232), |_| number(name, value, 0..=65_535))? as u16,
            "dnssec" | "do" => set(&mut self.edns().flags, DO, on),
            "ednsflags" => self.edns().flags = value.map_or(Ok(0), |_| number(name, value, 0..=65_535))? as u16,
            "nsid" => self.option(NSID, on),
            "zoneversion" => self.option(ZONEVERSION, on),
            "keepalive" => self.option(KEEPALIVE, on),
            "cookie" => self.cookie(on, value)?,
            "ednsopt" => self.any_option(on, value)?,
            _ => {}
        }
        Ok(())
    }

    /// EDNS, asked for by any of its parts.
    fn edns(&mut self) -> &mut Edns {
        self.ask.edns.get_or_insert_default()
    }

    fn option(&mut self, code: u16, on: bool) {
        let options = &mut self.edns().options;
        options.retain(|(c, _)| *c != code);
        if on {
            options.push((code, Vec::new()));
        }
    }

    fn cookie(&mut self, on: bool, value: Option<&str>) -> Result<(), Wrong> {
        if !on && self.ask.edns.is_none() {
            return Ok(());
        }
        self.edns().cookie = match value {
            _ if !on => Cookie::None,
            None => Cookie::Fresh,
            Some(hex) => Cookie::Given(octets(hex)?),
        };
        Ok(())
    }

    fn any_option(&mut self, on: bool, value: Option<&str>) -> Result<(), Wrong> {
        if !on {
            self.edns().options.clear();
            return Ok(());
        }
        let (code, data) = value.unwrap_or("").split_once(':').unwrap_or((value.unwrap_or(""), ""));
        let code = code.parse().or_else(|_| wrong("write +ednsopt=CODE:HEX, for instance +ednsopt=65001:00ff"))?;
        let data = octets(data)?;
        self.edns().options.push((code, data));
        Ok(())
    }
}

const PARTS: &[(&str, u16)] = &[
    ("all", ALL),
    ("cmd", COMMAND),
    ("comments", COMMENTS),
    ("question", QUESTION),
    ("answer", ANSWER),
    ("authority", AUTHORITY),
    ("additional", ADDITIONAL),
    ("stats", STATS),
];

const FLAGS: &[(&str, u16)] = &[
    ("recurse", RD),
    ("rdflag", RD),
    ("adflag", AD),
    ("cdflag", CD),
    ("aaflag", AA),
    ("aaonly", AA),
    ("rd", RD),
    ("ad", AD),
    ("cd", CD),
    ("aa", AA),
];

const SWITCHES: &[&str] = &[
    "tls",
    "https",
    "quic",
    "trace",
    "tcp",
    "vc",
    "ignore",
    "short",
    "time",
    "timeout",
    "tries",
    "retry",
    "edns",
    "noedns",
    "bufsize",
    "dnssec",
    "do",
    "ednsflags",
    "nsid",
    "zoneversion",
    "keepalive",
    "cookie",
    "ednsopt",
];

/// The whole name of an option that may be shortened as long as it is clear, and whether "no" stood before it.
fn full_name(word: &str) -> Result<(&'static str, bool), Wrong> {
    let known = || PARTS.iter().chain(FLAGS).map(|(n, _)| *n).chain(SWITCHES.iter().copied());
    let find = |part: &str| {
        let exact = known().find(|n| *n == part);
        let mut starting = known().filter(|n| !part.is_empty() && n.starts_with(part));
        exact.or_else(|| starting.next().filter(|first| starting.all(|n| twin(n) == twin(first))))
    };
    let (bare, on) = match (find(word), word.strip_prefix("no")) {
        (Some(found), _) => return Ok((found, true)),
        (None, Some(rest)) => (rest, false),
        (None, None) => (word, true),
    };
    match find(bare) {
        Some(found) => Ok((found, on)),
        None => match server::complaint::nearest(bare, known()) {
            Some(near) => wrong(format!("there is no option `+{word}`; did you mean +{near}?")),
            None => wrong(format!("there is no option `+{word}`; see dunlin query --help")),
        },
    }
}

/// Two spellings of one option are one name.
fn twin(name: &str) -> &str {
    match name {
        "timeout" => "time",
        "aaonly" => "aaflag",
        "rdflag" => "recurse",
        "vc" => "tcp",
        other => other,
    }
}

fn set(bits: &mut u16, which: u16, on: bool) {
    if on { *bits |= which } else { *bits &= !which }
}

fn number(name: &str, value: Option<&str>, range: std::ops::RangeInclusive<u64>) -> Result<u64, Wrong> {
    let text = value.unwrap_or("");
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    match parsed.filter(|n| range.contains(n)) {
        Some(n) => Ok(n),
        None => wrong(format!(
            "+{name} takes a number from {} to {}: +{name}={}",
            range.start(),
            range.end(),
            range.start()
        )),
    }
}

fn octets(hex: &str) -> Result<Vec<u8>, Wrong> {
    let bad = || Wrong::Word(format!("`{hex}` is not hexadecimal; write pairs of digits: 00ff"));
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return Err(bad());
    }
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).map_err(|_| bad())).collect()
}

/// "host", "host:port", "[v6]:port", "v6", "host#port".
fn split_port(text: &str) -> (&str, Option<&str>) {
    if let Some((host, port)) = text.split_once('#') {
        return (host, Some(port));
    }
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        return (host, rest.strip_prefix(':'));
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}

fn class(word: &str) -> Option<u16> {
    let upper = word.to_ascii_uppercase();
    match upper.as_str() {
        "IN" => Some(1),
        "CH" | "CHAOS" => Some(3),
        "HS" | "HESIOD" => Some(4),
        _ => upper.strip_prefix("CLASS")?.parse().ok(),
    }
}

/// The name under which an address is found (RFC 1035 section 3.5, RFC 3596 section 2.5).
fn reverse(ip: IpAddr) -> Name {
    let text = match ip {
        IpAddr::V4(a) => {
            let [a, b, c, d] = a.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(a) => {
            let nibbles = a.octets().into_iter().rev().flat_map(|o| [o & 15, o >> 4]);
            nibbles.map(|n| format!("{n:x}.")).collect::<String>() + "ip6.arpa."
        }
    };
    Name::from_text(text.as_bytes(), None).unwrap_or(Name::ROOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(line: &str) -> Result<Ask, Wrong> {
        read(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn words_come_in_any_order() {
        let expect = Ask {
            name: Name::from_text(b"example.com.", None).unwrap(),
            rtype: rtype::MX,
            server: Some("127.0.0.1".into()),
            port: Some(5300),
            ..Ask::default()
        };
        for line in [
            "example.com MX @127.0.0.1:5300",
            "@127.0.0.1 -p 5300 example.com. mx",
            "-t MX -p5300 @127.0.0.1 -q example.com",
        ] {
            assert_eq!(ask(line).unwrap(), expect, "{line}");
        }
    }

    #[test]
    fn options_are_read_and_taken_back() {
        let base = ask("x").unwrap();
        for (line, check) in [
            ("x +tcp", (|a| a.transport == Transport::Tcp) as fn(&Ask) -> bool),
            ("x +vc +notcp", |a| a.transport == Transport::Udp),
            ("x +ignore", |a| a.transport == Transport::UdpOnly),
            ("x +norec", |a| a.flags == AD),
            ("x +norecurse +noad +cd", |a| a.flags == CD),
            ("x +noedns", |a| a.edns.is_none()),
            ("x +noedns +dnssec", |a| a.edns.as_ref().unwrap().flags == DO),
            ("x +bufsize=4096", |a| a.edns.as_ref().unwrap().size == 4096),
            ("x +nsid +zoneversion +nonsid", |a| a.edns.as_ref().unwrap().options == [(ZONEVERSION, vec![])]),
            ("x +nocookie", |a| a.edns.as_ref().unwrap().cookie == Cookie::None),
            (
                "x +cookie=0011223344556677",
                |a| matches!(&a.edns.as_ref().unwrap().cookie, Cookie::Given(c) if c.len() == 8),
            ),
            ("x +ednsopt=65001:0aFF", |a| a.edns.as_ref().unwrap().options == [(65001, vec![10, 255])]),
            ("x +edns=1", |a| a.edns.as_ref().unwrap().version == 1),
            ("x +short", |a| a.show.form == Form::Short),
            ("x +noall +answer", |a| a.show.parts == ANSWER),
            ("x +time=2 +tries=1", |a| (a.timeout_s, a.tries) == (2, 1)),
            ("x +retry=0", |a| a.tries == 1),
            ("x --json", |a| a.show.form == Form::Json),
            ("x -c CH TXT", |a| (a.class, a.rtype) == (3, rtype::TXT)),
            ("x CH TXT", |a| (a.class, a.rtype) == (3, rtype::TXT)),
            ("x TYPE65280", |a| a.rtype == 65280),
            ("mx a.example", |a| (a.rtype, a.name.to_string().as_str()) == (rtype::MX, "a.example.")),
            ("-q mx", |a| a.name.to_string() == "mx."),
            ("-4 x", |a| a.family == Family::V4),
            ("x @::1", |a| (a.server.as_deref(), a.port) == (Some("::1"), None)),
            ("x @[::1]:53", |a| (a.server.as_deref(), a.port) == (Some("::1"), Some(53))),
            ("x @ns1.example#5353", |a| (a.server.as_deref(), a.port) == (Some("ns1.example"), Some(5353))),
            ("@::1", |a| (a.name.is_root(), a.rtype) == (true, rtype::NS)),
            ("-x 192.0.2.1", |a| a.name.to_string() == "1.2.0.192.in-addr.arpa." && a.rtype == rtype::PTR),
            ("-x 2001:db8::1", |a| a.name.to_string().ends_with(".8.b.d.0.1.0.0.2.ip6.arpa.")),
        ] {
            let found = ask(line).unwrap_or_else(|e| panic!("{line}: {e:?}"));
            assert!(check(&found), "{line}: {found:?} against {base:?}");
        }
    }

    #[test]
    fn what_cannot_be_followed() {
        for (line, expect) in [
            ("x +dnsec", "there is no option `+dnsec`; did you mean +dnssec?"),
            ("x y z", "`y` is neither a type nor a class; one name a query"),
            ("x -p", "a value is missing behind -p"),
            ("x -p 70000", "`70000` is no port; write 1 to 65535"),
            ("x -t NOTYPE", "there is no type `NOTYPE`; write a mnemonic or TYPE and a number"),
            ("a..b", "`a..b` is no name: an empty label"),
            ("-x example", "`example` is no address to look up in reverse"),
            ("x +tries=0", "+tries takes a number from 1 to 100: +tries=1"),
            ("x +cookie=123", "`123` is not hexadecimal; write pairs of digits: 00ff"),
            ("x -z", "there is no option `-z`; see dunlin query --help"),
        ] {
            assert_eq!(ask(line), wrong(expect), "{line}");
        }
        for word in ["tls", "https", "quic", "trace"] {
            assert_eq!(ask(&format!("x +{word}")), Err(Wrong::NotBuilt(format!("+{word}"))));
        }
    }
}
