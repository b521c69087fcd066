//! An answer as text: dig's, dig's short one, or JSON.

use super::ask::Answer;
use super::options::{
    ADDITIONAL, ANSWER, AUTHORITY, Ask, COMMAND, COMMENTS, COOKIE, KEEPALIVE, NSID, PADDING, QUESTION, STATS,
    ZONEVERSION,
};
use crate::message::{AA, AD, CD, DO, Message, Opt, QR, RA, RD, Record, TC, Z};
use server::clock;
use server::json::Json;
use std::fmt::Write;
use zonefile::rtypes;

pub fn short(message: &Message) -> String {
    let mut out = String::new();
    for record in &message.sections[0] {
        zonefile::rdata::to_text(record.rtype, &record.rdata, &mut out);
        out.push('\n');
    }
    out
}

pub fn full(ask: &Ask, words: &[String], answer: &Answer, message: &Message) -> String {
    let mut out = String::new();
    let shown = |part| ask.show.parts & part != 0;
    if shown(COMMAND) {
        let _ = writeln!(out, "\n; <<>> dunlin {} <<>> {}", server::state::VERSION, words.join(" "));
    }
    if shown(COMMENTS) {
        for note in &answer.notes {
            let _ = writeln!(out, ";; {note}");
        }
        header(ask, message, &mut out);
        if let Some(opt) = &message.opt {
            edns(opt, &mut out);
        }
    }
    if shown(QUESTION) && !message.questions.is_empty() {
        heading(shown(COMMENTS), "QUESTION", &mut out);
        for q in &message.questions {
            let _ = writeln!(out, ";{}\t\t{}\t{}", q.name, class(q.class), mnemonic(q.rtype));
        }
        out.push('\n');
    }
    for (part, title, records) in [
        (ANSWER, "ANSWER", &message.sections[0]),
        (AUTHORITY, "AUTHORITY", &message.sections[1]),
        (ADDITIONAL, "ADDITIONAL", &message.sections[2]),
    ] {
        if shown(part) && !records.is_empty() {
            heading(shown(COMMENTS), title, &mut out);
            records.iter().for_each(|r| line(r, &mut out));
            out.push('\n');
        }
    }
    if shown(STATS) {
        statistics(answer, &mut out);
    }
    out
}

fn header(ask: &Ask, message: &Message, out: &mut String) {
    let _ = writeln!(out, ";; Got answer:");
    let _ = writeln!(
        out,
        ";; ->>HEADER<<- opcode: {}, status: {}, id: {}",
        opcode(message.opcode()),
        rcode(message.rcode()),
        message.id
    );
    let flags: String = flags(message).iter().map(|f| format!(" {f}")).collect();
    let [query, answer, authority, additional] = message.counts;
    let _ = writeln!(
        out,
        ";; flags:{flags}; QUERY: {query}, ANSWER: {answer}, AUTHORITY: {authority}, ADDITIONAL: {additional}"
    );
    if ask.flags & RD != 0 && message.flags & RA == 0 {
        out.push_str(";; WARNING: recursion requested but not available\n");
    }
    if message.left_over > 0 {
        let _ = writeln!(out, ";; WARNING: {} octets stand behind the message", message.left_over);
    }
    out.push('\n');
}

fn heading(comments: bool, title: &str, out: &mut String) {
    if comments {
        let _ = writeln!(out, ";; {title} SECTION:");
    }
}

fn line(r: &Record, out: &mut String) {
    let _ = write!(out, "{}\t{}\t{}\t{}\t", r.owner, r.ttl, class(r.class), mnemonic(r.rtype));
    zonefile::rdata::to_text(r.rtype, &r.rdata, out);
    out.push('\n');
}

fn edns(opt: &Opt, out: &mut String) {
    let _ = writeln!(out, ";; OPT PSEUDOSECTION:");
    let flags = if opt.flags & DO != 0 { " do" } else { "" };
    let unknown = if opt.flags & !DO != 0 { format!("; MBZ: {:#06x}", opt.flags & !DO) } else { String::new() };
    let _ = writeln!(out, "; EDNS: version: {}, flags:{flags}{unknown}; udp: {}", opt.version, opt.udp_size);
    for (code, data) in &opt.options {
        let (name, value) = option(*code, data);
        let _ = writeln!(out, "; {name}: {value}");
    }
}

fn option(code: u16, data: &[u8]) -> (String, String) {
    match code {
        NSID => ("NSID".into(), format!("{} (\"{}\")", spaced(data), data.escape_ascii())),
        COOKIE => ("COOKIE".into(), hex(data)),
        15 if data.len() >= 2 => ("EDE".into(), extended_error(data)),
        KEEPALIVE if data.len() == 2 => {
            let tenths = u16::from_be_bytes([data[0], data[1]]);
            ("TCP KEEPALIVE".into(), format!("{}.{} secs", tenths / 10, tenths % 10))
        }
        PADDING => ("PAD".into(), format!("({} bytes)", data.len())),
        ZONEVERSION if data.len() == 6 && data[1] == 0 => {
            let serial = data[2..].iter().fold(0u32, |n, &o| n << 8 | u32::from(o));
            ("ZONEVERSION".into(), format!("{} (SOA-SERIAL of the zone {} labels deep)", serial, data[0]))
        }
        ZONEVERSION => ("ZONEVERSION".into(), spaced(data)),
        _ => (format!("OPT={code}"), spaced(data)),
    }
}

fn extended_error(data: &[u8]) -> String {
    let code = u16::from_be_bytes([data[0], data[1]]);
    let text = String::from_utf8_lossy(&data[2..]).into_owned();
    let name = EXTENDED_ERRORS.get(usize::from(code)).map_or(String::new(), |n| format!(" ({n})"));
    if text.is_empty() { format!("{code}{name}") } else { format!("{code}{name}: ({text})") }
}

fn statistics(answer: &Answer, out: &mut String) {
    let server = answer.server;
    let _ = writeln!(out, ";; Query time: {} msec", answer.took.as_millis());
    let _ = writeln!(out, ";; SERVER: {}#{}({}) ({})", server.ip(), server.port(), server.ip(), answer.over);
    let _ = writeln!(out, ";; WHEN: {}", when(clock::wall_s()));
    let _ = writeln!(out, ";; MSG SIZE  rcvd: {}\n", answer.octets.len());
}

/// "Fri Nov 20 12:00:00 UTC 2026".
fn when(wall_s: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (day, s) = (wall_s / 86_400, wall_s % 86_400);
    let (year, month, date) = clock::date(day);
    let weekday = DAYS[(day % 7) as usize];
    let month = MONTHS[(month as usize - 1) % 12];
    format!("{weekday} {month} {date:02} {:02}:{:02}:{:02} UTC {year}", s / 3600, s / 60 % 60, s % 60)
}

pub fn json(answer: &Answer, message: &Message) -> String {
    let question = |q: &crate::message::Question| {
        Json::Object(vec![
            ("name", Json::text(q.name)),
            ("class", Json::Text(class(q.class))),
            ("type", Json::Text(mnemonic(q.rtype))),
        ])
    };
    let records = |records: &[Record]| Json::list(records, record);
    let edns = message.opt.as_ref().map_or(Json::Null, edns_json);
    let facts = Json::Object(vec![
        ("id", Json::Number(u64::from(message.id))),
        ("opcode", Json::Text(opcode(message.opcode()))),
        ("rcode", Json::Text(rcode(message.rcode()))),
        ("flags", Json::list(flags(message), Json::text)),
        ("edns", edns),
        ("question", Json::list(&message.questions, question)),
        ("answer", records(&message.sections[0])),
        ("authority", records(&message.sections[1])),
        ("additional", records(&message.sections[2])),
        ("server", Json::text(answer.server)),
        ("transport", Json::text(answer.over)),
        ("time_us", Json::Number(answer.took.as_micros() as u64)),
        ("size", Json::Number(answer.octets.len() as u64)),
    ]);
    format!("{facts}\n")
}

fn record(r: &Record) -> Json {
    let mut data = String::new();
    zonefile::rdata::to_text(r.rtype, &r.rdata, &mut data);
    Json::Object(vec![
        ("name", Json::text(r.owner)),
        ("ttl", Json::Number(u64::from(r.ttl))),
        ("class", Json::Text(class(r.class))),
        ("type", Json::Text(mnemonic(r.rtype))),
        ("data", Json::Text(data)),
    ])
}

fn edns_json(opt: &Opt) -> Json {
    let each = |(code, data): &(u16, Vec<u8>)| {
        let (name, value) = option(*code, data);
        Json::Object(vec![
            ("code", Json::Number(u64::from(*code))),
            ("name", Json::Text(name)),
            ("data", Json::Text(hex(data))),
            ("text", Json::Text(value)),
        ])
    };
    Json::Object(vec![
        ("version", Json::Number(u64::from(opt.version))),
        ("udp", Json::Number(u64::from(opt.udp_size))),
        ("do", Json::Bool(opt.flags & DO != 0)),
        ("options", Json::list(&opt.options, each)),
    ])
}

fn flags(message: &Message) -> Vec<&'static str> {
    let names = [(QR, "qr"), (AA, "aa"), (TC, "tc"), (RD, "rd"), (RA, "ra"), (Z, "z"), (AD, "ad"), (CD, "cd")];
    names.into_iter().filter(|(bit, _)| message.flags & bit != 0).map(|(_, name)| name).collect()
}

fn mnemonic(t: u16) -> String {
    let mut out = String::new();
    rtypes::push_mnemonic(t, &mut out);
    out
}

fn class(c: u16) -> String {
    let mut out = String::new();
    rtypes::push_class(c, &mut out);
    out
}

fn hex(data: &[u8]) -> String {
    data.iter().map(|o| format!("{o:02x}")).collect()
}

fn spaced(data: &[u8]) -> String {
    data.iter().map(|o| format!("{o:02x}")).collect::<Vec<_>>().join(" ")
}

fn opcode(n: u8) -> String {
    let names = [(0, "QUERY"), (1, "IQUERY"), (2, "STATUS"), (4, "NOTIFY"), (5, "UPDATE"), (6, "DSO")];
    named(u16::from(n), &names, "OPCODE")
}

fn rcode(n: u16) -> String {
    named(n, RCODES, "RCODE")
}

fn named(n: u16, names: &[(u16, &str)], else_: &str) -> String {
    names.iter().find(|(k, _)| *k == n).map_or_else(|| format!("{else_}{n}"), |(_, name)| (*name).to_string())
}

const RCODES: &[(u16, &str)] = &[
    (0, "NOERROR"),
    (1, "FORMERR"),
    (2, "SERVFAIL"),
    (3, "NXDOMAIN"),
    (4, "NOTIMP"),
    (5, "REFUSED"),
    (6, "YXDOMAIN"),
    (7, "YXRRSET"),
    (8, "NXRRSET"),
    (9, "NOTAUTH"),
    (10, "NOTZONE"),
    (11, "DSOTYPENI"),
    (16, "BADVERS"),
    (17, "BADKEY"),
    (18, "BADTIME"),
    (19, "BADMODE"),
    (20, "BADNAME"),
    (21, "BADALG"),
    (22, "BADTRUNC"),
    (23, "BADCOOKIE"),
];

/// The purposes that RFC 8914 and the registry it made give to the codes, from 0.
const EXTENDED_ERRORS: &[&str] = &[
    "Other",
    "Unsupported DNSKEY Algorithm",
    "Unsupported DS Digest Type",
    "Stale Answer",
    "Forged Answer",
    "DNSSEC Indeterminate",
    "DNSSEC Bogus",
    "Signature Expired",
    "Signature Not Yet Valid",
    "DNSKEY Missing",
    "RRSIGs Missing",
    "No Zone Key Bit Set",
    "NSEC Missing",
    "Cached Error",
    "Not Ready",
    "Blocked",
    "Censored",
    "Filtered",
    "Prohibited",
    "Stale NXDOMAIN Answer",
    "Not Authoritative",
    "Not Supported",
    "No Reachable Authority",
    "Network Error",
    "Invalid Data",
    "Signature Expired before Valid",
    "Too Early",
    "Unsupported NSEC3 Iterations Value",
    "Unable to conform to policy",
    "Synthesized",
    "Invalid Query Type",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_as_text() {
        for (code, data, expect) in [
            (NSID, &b"ns1"[..], ("NSID", "6e 73 31 (\"ns1\")")),
            (COOKIE, b"\x01\xff", ("COOKIE", "01ff")),
            (15, b"\x00\x12no", ("EDE", "18 (Prohibited): (no)")),
            (15, b"\x00\x14", ("EDE", "20 (Not Authoritative)")),
            (KEEPALIVE, b"\x00\x67", ("TCP KEEPALIVE", "10.3 secs")),
            (PADDING, b"\0\0\0", ("PAD", "(3 bytes)")),
            (ZONEVERSION, b"\x02\x00\x00\x00\x00\x07", ("ZONEVERSION", "7 (SOA-SERIAL of the zone 2 labels deep)")),
            (65001, b"\x0a", ("OPT=65001", "0a")),
        ] {
            assert_eq!(option(code, data), (expect.0.to_string(), expect.1.to_string()));
        }
    }

    #[test]
    fn the_day_of_the_week() {
        assert_eq!(when(1_795_176_000), "Fri Nov 20 12:00:00 UTC 2026");
        assert_eq!(when(0), "Thu Jan 01 00:00:00 UTC 1970");
    }
}
