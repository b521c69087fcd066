//! Digests of zones: examples of RFC 8976 appendix A, what `ldns-signzone` adds and `kzonecheck` checks, and the rules
//! of which ZONEMD counts.

// A test starts peers and writes their input; only the crate itself never does.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use audit::{Fault, Report, Rules};
use difference::peers::{must, run};
use std::path::PathBuf;
use zonefile::{NoFiles, Objection, Options};

/// Those of the appendix that stand there whole, by their numbers.
const EXAMPLES: &[(&str, &str, &str)] =
    &[("A.1", "example.", A1), ("A.2", "example.", A2), ("A.3", "example.", A3), ("A.5", "root-servers.net.", A5)];

const A1: &str = "
example.      86400 IN SOA    ns1 admin 2018031900 1800 900 604800 86400
              86400 IN NS     ns1
              86400 IN NS     ns2
              86400 IN ZONEMD 2018031900 1 1 c68090d90a7aed716bc459f9340e3d7c1370d4d24b7e2fc3a1ddc0b9a87153b9a9713b3c9ae5cc27777f98b8e730044c
ns1           3600  IN A      203.0.113.63
ns2           3600  IN AAAA   2001:db8::63
";
const A2: &str = "
example.      86400 IN SOA    ns1 admin 2018031900 1800 900 604800 86400
              86400 IN NS     ns1
              86400 IN NS     ns2
              86400 IN ZONEMD 2018031900 1 1 a3b69bad980a3504e1cffcb0fd6397f93848071c93151f552ae2f6b1711d4bd2d8b39808226d7b9db71e34b72077f8fe
ns1           3600  IN A      203.0.113.63
NS2           3600  IN AAAA   2001:db8::63
occluded.sub  7200  IN TXT    \"I'm occluded but must be digested\"
sub           7200  IN NS     ns1
duplicate     300   IN TXT    \"I must be digested just once\"
duplicate     300   IN TXT    \"I must be digested just once\"
foo.test.     555   IN TXT    \"out-of-zone data must be excluded\"
UPPERCASE     3600  IN TXT    \"canonicalize uppercase owner names\"
*             777   IN PTR    dont-forget-about-wildcards
mail          3600  IN MX     20 MAIL1
mail          3600  IN MX     10 Mail2.Example.
sortme        3600  IN AAAA   2001:db8::5:61
sortme        3600  IN AAAA   2001:db8::3:62
sortme        3600  IN AAAA   2001:db8::4:63
sortme        3600  IN AAAA   2001:db8::1:65
sortme        3600  IN AAAA   2001:db8::2:64
non-apex      900   IN ZONEMD 2018031900 1 1 616c6c6f776564206275742069676e6f7265642e20616c6c6f776564206275742069676e6f7265642e20616c6c6f7765
";
const A3: &str = "
example.      86400 IN SOA    ns1 admin 2018031900 1800 900 604800 86400
example.      86400 IN NS     ns1.example.
example.      86400 IN NS     ns2.example.
example.      86400 IN ZONEMD 2018031900 1 1 62e6cf51b02e54b9b5f967d547ce43136792901f9f88e637493daaf401c92c279dd10f0edb1c56f8080211f8480ee306
example.      86400 IN ZONEMD 2018031900 1 2 08cfa1115c7b948c4163a901270395ea226a930cd2cbcf2fa9a5e6eb85f37c8a4e114d884e66f176eab121cb02db7d652e0cc4827e7a3204f166b47e5613fd27
example.      86400 IN ZONEMD 2018031900 1 240 e2d523f654b9422a96c5a8f44607bbee
example.      86400 IN ZONEMD 2018031900 241 1 e1846540e33a9e4189792d18d5d131f605fc283e
ns1.example.  3600  IN A      203.0.113.63
ns2.example.  86400 IN TXT    \"This example has multiple digests\"
NS2.EXAMPLE.  3600  IN AAAA   2001:db8::63
";
const A5: &str = "
$TTL 3600000
$ORIGIN root-servers.net.
@ SOA a nstld.verisign-grs.com. 2018091100 14400 7200 1209600 3600000
@ NS a
@ NS b
@ NS c
@ NS d
@ NS e
@ NS f
@ NS g
@ NS h
@ NS i
@ NS j
@ NS k
@ NS l
@ NS m
a AAAA 2001:503:ba3e::2:30
a A 198.41.0.4
b MX 20 mail.isi.edu.
b AAAA 2001:500:200::b
b A 199.9.14.201
c AAAA 2001:500:2::c
c A 192.33.4.12
d AAAA 2001:500:2d::d
d A 199.7.91.13
e AAAA 2001:500:a8::e
e A 192.203.230.10
f AAAA 2001:500:2f::f
f A 192.5.5.241
g AAAA 2001:500:12::d0d
g A 192.112.36.4
h AAAA 2001:500:1::53
h A 198.97.190.53
i MX 10 mx.i.root-servers.org.
i AAAA 2001:7fe::53
i A 192.36.148.17
j AAAA 2001:503:c27::2:30
j A 192.58.128.30
k AAAA 2001:7fd::1
k A 193.0.14.129
l AAAA 2001:500:9f::42
l A 199.7.83.42
m AAAA 2001:dc3::35
m A 202.12.27.33
@ ZONEMD 2018091100 1 1 f1ca0ccd91bd5573d9f431c00ee0101b2545c97602be0a978a3b11dbfc1c776d5b3e86ae3d973d6b5349ba7f04340f79
";

/// Calls `see` with the zone's records in canonical order.
fn shown(origin: &str, text: &str, see: &mut dyn FnMut(&image::Sorted<'_>)) {
    let origin = wire::Name::from_text(origin.as_bytes(), None).unwrap();
    let mut builder = image::Builder::new(0);
    builder.begin_zone(origin.bytes());
    let mut sink = |r: zonefile::Record<'_>, _: &_| {
        if !wire::name::is_at_or_below(r.owner, origin.bytes()) {
            return Ok(());
        }
        builder.record(r.owner, r.rtype, r.ttl, r.rdata).map_err(Objection::refusal)
    };
    let read = zonefile::parse("zone", text.as_bytes(), &origin, &mut NoFiles, &Options::default(), &mut sink);
    assert_eq!(read.errors, 0, "{}\n{text}", read.problems[0]);
    builder.show(see).unwrap();
}

/// What is wrong with the digest; none: nothing.
fn fault(origin: &str, text: &str) -> Option<String> {
    let mut report = Report::default();
    shown(origin, text, &mut |zone| report = audit::audit(zone, &Rules::at(1_540_000_000)));
    report.findings.iter().find(|f| f.fault == Fault::Zonemd).map(|f| f.detail.clone())
}

/// The ZONEMD that fits, as a record of the zone.
fn zonemd(origin: &str, text: &str) -> String {
    let mut rdata = Vec::new();
    shown(origin, text, &mut |zone| rdata = audit::zonemd(zone).unwrap());
    let mut record = format!("{origin} 60 IN ZONEMD ");
    zonefile::rdata::to_lower_text(wire::rtype::ZONEMD, &rdata, &mut record);
    record
}

#[test]
fn the_examples_of_the_standard_are_what_they_say() {
    for &(example, origin, text) in EXAMPLES {
        assert_eq!(fault(origin, text), None, "{example}");
        let ours = zonemd(origin, text);
        let digest = ours.rsplit(' ').next().unwrap();
        assert!(text.contains(digest), "{example}: {ours}");
        let changed = text.replacen(" A ", " TXT ", 1);
        assert_eq!(fault(origin, &changed).as_deref(), Some("the digest is another"), "{example}");
    }
}

/// Names in capitals, an occluded name, glue, a record twice.
const ZONE: &str = "$TTL 60\n@ SOA ns host 7 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nMiXed MX 10 NS.Example.\nsub NS ns.sub\n\
    ns.sub A 192.0.2.2\nx.sub TXT occluded\ntwice TXT x\ntwice TXT x\n";
const OTHER: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855e3b0c44298fc1c149afbf4c8996fb924";

#[test]
fn of_several_one_that_fits_is_enough_and_two_of_a_kind_are_wrong() {
    let good = zonemd("example.", ZONE);
    let again = good.replace(" 7 1 1 ", " 7 1 240 ");
    for (more, expect) in [
        (good.clone(), None),
        (format!("@ ZONEMD 7 1 1 {OTHER}"), Some("the digest is another")),
        // A line that stands there twice is one record.
        (format!("{good}\n{good}"), None),
        (format!("@ ZONEMD 7 1 1 {OTHER}\n@ ZONEMD 7 1 1 {OTHER}"), Some("the digest is another")),
        (good.replace(" 7 1 1 ", " 6 1 1 "), Some("its serial is not the SOA's")),
        // Unknown scheme, unknown algorithm: no verdict.
        (format!("@ ZONEMD 7 2 1 {OTHER}"), None),
        (format!("@ ZONEMD 7 1 3 {OTHER}"), None),
        // RFC 8976 section 2: there is one of each scheme and algorithm.
        (format!("{good}\n@ ZONEMD 7 1 1 {OTHER}"), Some("there are two of one scheme and hash algorithm")),
        (format!("{good}\n@ ZONEMD 6 1 1 {OTHER}"), Some("there are two of one scheme and hash algorithm")),
        (format!("@ ZONEMD 7 1 3 {OTHER}\n@ ZONEMD 6 1 3 {OTHER}"), None),
        (format!("{good}\n@ ZONEMD 7 1 2 {OTHER}e3b0c44298fc1c149afbf4c8996fb924"), None),
        (format!("{again}\n@ ZONEMD 7 1 1 {OTHER}"), Some("the digest is another")),
        // Not at the apex it is data like any other.
        (format!("{}\nb ZONEMD 7 1 1 {OTHER}", zonemd("example.", &format!("{ZONE}b ZONEMD 7 1 1 {OTHER}\n"))), None),
        (format!("{good}\nb ZONEMD 7 1 1 {OTHER}"), Some("the digest is another")),
    ] {
        assert_eq!(fault("example.", &format!("{ZONE}{more}\n")).as_deref(), expect, "{more}");
    }
}

/// One TTL is served of an RRset, that of the record that was given first: whoever gets the zone digests that.
#[test]
fn a_digest_is_of_the_ttls_that_are_served() {
    let zone = |ttls: [u32; 2]| format!("{ZONE}w {} TXT b\nw {} TXT a\n", ttls[0], ttls[1]);
    let good = zonemd("example.", &zone([60, 60]));
    assert_eq!(zonemd("example.", &zone([60, 30])), good);
    assert_eq!(fault("example.", &format!("{}{good}\n", zone([60, 30]))), None);
    let other = zonemd("example.", &zone([30, 30]));
    assert_eq!(fault("example.", &format!("{}{other}\n", zone([60, 30]))).as_deref(), Some("the digest is another"));
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn peers_digest_as_we_do() {
    let folder = Folder(std::env::temp_dir().join(format!("audit-digests-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).unwrap();
    let file = |name: &str| folder.0.join(name).display().to_string();
    std::fs::write(file("plain"), format!("$ORIGIN example.\n{ZONE}")).unwrap();
    let keys = must("dnssec-keygen", ["-q", "-K", &file(""), "-a", "ECDSAP256SHA256", "-f", "KSK", "example."]);
    let key = file(keys.trim());
    let sign = |options: &[&str], key: &[&str]| {
        let (plain, digested) = (file("plain"), file("digested"));
        must("ldns-signzone", [&["-o", "example.", "-f", &digested], options, &[&plain], key].concat());
        std::fs::read_to_string(digested).unwrap()
    };
    for text in [
        sign(&["-Z", "-z", "1:1", "-z", "1:2"], &[]),
        sign(&["-z", "1:2"], &[&key]),
        sign(&["-n", "-z", "1:1"], &[&key]),
    ] {
        assert!(text.contains("ZONEMD"), "{text}");
        assert_eq!(fault("example.", &text), None, "{text}");
        assert!(fault("example.", &text.replace("192.0.2.1", "192.0.2.3")).is_some());
    }
    std::fs::write(file("ours"), format!("{ZONE}{}\n", zonemd("example.", ZONE))).unwrap();
    let says = run("kzonecheck", ["-z", "-o", "example", &file("ours")]);
    assert!(says.status.success(), "{}", String::from_utf8_lossy(&says.stdout));
}
