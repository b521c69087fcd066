//! Signatures beside dnspython's: it checks what we sign, and we check what it signs, with every algorithm both know.

// A test starts peers; only the crate itself never does.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use transfer::tsig::{Algorithm, Key, Keys, check_request, sign_request};
use wire::Name;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: u64 = 1_800_000_000;

/// Reads `algorithm ours` a line, checks our request, and prints a request of its own and the reply to ours, in hexadecimal.
const SCRIPT: &str = r#"
import sys, dns.message, dns.tsig, dns.tsigkeyring, dns.name, time
time.time = lambda: 1800000000
secret = b"0123456789abcdef0123456789abcdef"
for line in sys.stdin:
    algorithm, ours = line.split()
    algorithm = {"hmac-md5": dns.tsig.HMAC_MD5}.get(algorithm, algorithm)
    key = dns.tsig.Key("key.example.", secret, algorithm)
    request = dns.message.from_wire(bytes.fromhex(ours), keyring=key)
    assert request.had_tsig
    theirs = dns.message.make_query("a.", "SOA")
    theirs.use_tsig(key, algorithm=algorithm)
    reply = dns.message.make_response(request, tsig_error=0)
    print(theirs.to_wire().hex(), reply.to_wire().hex())
"#;

fn python() -> Command {
    let folder = std::env::var_os("DUNLIN_PEERS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../peers/bin")), PathBuf::from);
    Command::new(folder.join("python3"))
}

/// What the script prints for some lines; fails if it fails.
fn dnspython(script: &str, input: &str) -> String {
    let child = python().args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("dnspython is there (run scripts/peers)");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "dnspython does not agree");
    String::from_utf8(output.stdout).unwrap()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn dnspython_and_we_agree_on_every_algorithm() {
    let question = b"\0\x07\0\0\0\x01\0\0\0\0\0\0\x01a\0\0\x06\0\x01";
    let key =
        |name| Key::new(&Name::from_text(b"key.example.", None).unwrap(), Algorithm::named(name).unwrap(), SECRET);
    let keys: Vec<Key> = Algorithm::names().map(key).collect();
    let mut input = String::new();
    let mut asked = Vec::new();
    for (name, key) in Algorithm::names().zip(&keys) {
        let mut request = question.to_vec();
        asked.push(sign_request(key, &mut request, NOW));
        input += &format!("{name} {}\n", hex(&request));
    }
    let output = dnspython(SCRIPT, &input);
    assert_eq!(output.lines().count(), keys.len());
    for (((line, key), mut asked), name) in output.lines().zip(&keys).zip(asked).zip(Algorithm::names()) {
        let (theirs, reply) = line.split_once(' ').unwrap();
        let theirs = octets(theirs);
        let ring = Keys::new(vec![key.clone()]);
        assert!(check_request(&theirs, &ring, NOW).is_ok_and(|signed| signed.is_some()), "{name}");
        assert_eq!(asked.check(&octets(reply), NOW), Ok(()), "{name}");
    }
}
