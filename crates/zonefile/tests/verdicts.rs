//! What is an error and what is not: on none of these zones do we stand alone against BIND, NSD and Knot.

// A test starts peers and writes their input; only the crate itself never does.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod peer;

use wire::Name;
use zonefile::{NoFiles, Options, parse};

const HEAD: &str = "$TTL 60\n@ SOA ns host 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

/// What follows the head of a zone.
const TAILS: &[&str] = &[
    "a 2147483648 A 192.0.2.1",
    "a 4294967295 A 192.0.2.1",
    "a 1h30 A 192.0.2.1",
    "a 1h 60 A 192.0.2.1",
    "a IN IN A 192.0.2.1",
    "a CNAME \"b.example.\"",
    "\"a\" A 192.0.2.1",
    "a A \"192.0.2.1\"",
    "a MX \"10\" b",
    "a A ((192.0.2.1))",
    "a TXT \"b\nc\"",
    "a A 192.0.2.1\rb A 192.0.2.2",
    "a NSEC b",
    " $ORIGIN x.\na A 192.0.2.1",
    "a A 192.0.02.1",
    "a A 127.1",
    "a\\b A 192.0.2.1",
    "$GENERATE 1-2 a$$ A 192.0.2.$",
    "$GENERATE 1-2 a\\$ A 192.0.2.$",
    "$GENERATE 1-2 a$ 77 IN A 192.0.2.$",
    "$GENERATE 1-2 a$ TXT \"x y $\"",
    "$GENERATE 1-2 a$ MX \"10 m$\"",
    "$GENERATE 1-2 a${-5} A 192.0.2.1",
    "$GENERATE 1-2 a${5,,} A 192.0.2.1",
    "$GENERATE 8-9 a${0,3,o} A 192.0.2.1",
    "a MX -1 b",
    "a CH A 192.0.2.1",
    "a A \\# 4 0a000001",
    "a A \\# 3 0a0000",
    "a PTR b c",
    "a@b A 192.0.2.1",
    "a WKS 10.0.0.1 tcp smtp",
    "a TXT x\\",
    "b SOA a",
    "a HTTPS 1 . port=1 port=2",
    "a HTTPS 0 . port=1",
    "a HTTPS 1 . alpn=",
    "a HTTPS 1 . mandatory=mandatory",
    "a HTTPS 1 . mandatory=alpn",
    "a HTTPS 1 . no-default-alpn",
    "a HTTPS 1 . key65535=x",
    "a HTTPS 1 . key3=x",
    "a HTTPS 1 . key3=\\000\\001",
    "a HTTPS 1 . key00003=1",
    "a HTTPS 1 . PORT=1",
    "a HTTPS 1 . \"port=1\"",
    "a HTTPS 1 . dohpath=/x",
    "a CAA 0 ISSUE \"x\"",
    "a CAA 0 iss-ue \"x\"",
    "a URI 0 0 \"\"",
    "a SSHFP 1 1 aa",
    "a DS 1 8 2 aa",
    "a DS 1 8 9 aa",
    "a TLSA 1 1 1 aaa",
    "2T7B4G4VSA5SMI47K61MV5BV1A22BOJR NSEC3 1 0 0 \"\" 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR",
    "a DNSKEY 257 3 8 AQIDB",
    "a DNSKEY 257 3 8 AQIDBB==",
    "a AAAA ::1.2.3.4",
    "a APL 1:192.168.1.1/8",
    "a LOC 1 N 1 E -100001m",
    "a TXT \"\"",
    "a EUI48 0-0-0-0-0-0",
    "a HIP 2 20 AwEA",
    "a A (192.0.2.1)",
    "a A 192.0.2.1;x",
    "a OPT \\# 0",
    "a ANY \\# 0",
    "a TYPE0 \\# 0",
    "a 1H A 192.0.2.1",
    "a RRSIG A 8 2 1h 20301010101010 20201010101010 1 example. AQID",
    "a 60 IN 60 A 192.0.2.1",
    "123 A 192.0.2.1",
    "a TXT a\0b",
    "a TXT \"\u{e9}\"",
    "MX A 192.0.2.1",
    "a A 192.0.2.1\n $TTL 5",
    "$GENERATE 1-2 ${0,4,n}x A 192.0.2.$",
    "$GENERATE 1-1 ${0,4,n}.x A 192.0.2.$",
];

fn is_good_to_us(text: &str) -> bool {
    let origin = Name::from_text(b"example.", None).unwrap();
    parse("zone", text.as_bytes(), &origin, &mut NoFiles, &Options::default(), &mut |_, _| Ok(())).errors == 0
}

fn is_good_to_bind(text: &str) -> bool {
    peer::run("named-checkzone", &["-D", "-i", "none", "-k", "ignore", "-o", "/dev/null", "example"], text)
        .status
        .success()
}

fn is_good_to_nsd(text: &str) -> bool {
    peer::run("nsd-checkzone", &["example"], text).status.success()
}

/// Faults of meaning are no faults of form.
fn is_good_to_knot(text: &str) -> bool {
    let output = peer::run("kzonecheck", &["-d", "off", "-o", "example"], text);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    output.status.success() || !(said.contains("zone loader") || said.contains("failed to run"))
}

#[test]
fn on_no_zone_do_we_stand_alone() {
    let mut alone = Vec::new();
    for tail in TAILS {
        let text = format!("{HEAD}{tail}\n");
        let ours = is_good_to_us(&text);
        let agrees = [is_good_to_bind, is_good_to_nsd, is_good_to_knot].iter().any(|peer| peer(&text) == ours);
        if !agrees {
            alone.push((tail, ours));
        }
    }
    assert!(alone.is_empty(), "{alone:#?}");
}
