//! `zone dump --canonical` beside what `ldns-read-zone -z` prints: byte for byte, but for what ldns adds or leaves out.

use crate::running::{Folder, text};
use difference::peers;
use std::path::Path;

/// Its comments on keys, its blanks at line ends and behind an empty salt are not part of the format; and it leaves the
/// backslash away before an @ that begins a name.
fn by_ldns(zone: &Path) -> String {
    let output = peers::command("ldns-read-zone").arg("-z").arg(zone).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let plain = |line: &str| {
        let line = line.split(" ;{").next().unwrap_or_default().trim_end().replace(" -  ", " - ");
        if line.starts_with('@') { format!("\\{line}\n") } else { line + "\n" }
    };
    text(&output.stdout).lines().map(plain).collect()
}

fn check(folder: &Folder, file: &str, origin: &str) {
    let compile = folder.dunlin(&["zone", "compile", file, "--origin", origin, "-o", "image"]);
    assert_eq!(compile.status.code(), Some(0), "{}", text(&compile.stderr));
    let theirs = by_ldns(&folder.0.join(file));
    for source in [file, "image"] {
        let ours = text(&folder.dunlin(&["zone", "dump", source, "--canonical", "--origin", origin]).stdout);
        let differs = ours.lines().zip(theirs.lines()).find(|(a, b)| a != b);
        assert!(ours == theirs, "{source}: {differs:?}, {} and {} lines", ours.lines().count(), theirs.lines().count());
    }
}

#[test]
fn the_signed_root_is_dumped_as_ldns_does() {
    let folder = Folder::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/data/root-2017082100.signed.zone");
    folder.write("root", &std::fs::read_to_string(root).unwrap());
    check(&folder, "root", ".");
}

const ODD: &str = "\
$ORIGIN Example.COM.
$TTL 1h30m
@ IN SOA Ns Host ( 1 2h ; comment
  3 4 1w )
@ NS Ns
\tNS ns.D
NS A 192.0.2.1
Z TXT \"a b\" c \"q\\\"x;\" \\100
z TXT (\"second\"
 \"piece\") ; end
b\\.c.d\\032e MX 10 NS
\\@ CAA 0 issue \"ca.example\"
*.W HTTPS 1 . port=8443 ipv4hint=192.0.2.1
d NS ns.d\r
ns.d 60 IN AAAA 2001:DB8:0:0:0:0:0:1
 60 CLASS1 TYPE1 \\# 4 C0000209
d DS 1 8 2 E3B0C44298FC1C149AFBF4C8996FB924 27AE41E4649B934CA495991B7852B855
x TYPE65280 \\# 2 0AFF
s SRV 1 2 3 NS
_443._tcp TLSA 3 1 1 (
 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 )
n NAPTR 1 2 \"u\" \"E2U+sip\" \"!^.*$!sip:a@b!\" .
s.s SSHFP 1 1 AABBCCDDEEFF00112233445566778899AABBCCDD
z TXT last";

#[test]
fn a_zone_in_odd_spellings_is_dumped_as_ldns_does() {
    let folder = Folder::new();
    folder.write("odd", ODD);
    check(&folder, "odd", "example.com");
}
