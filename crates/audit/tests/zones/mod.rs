//! Zones that have a fault, and their neighbours.

use audit::Fault::{self, *};
use difference::peers::must;
use std::path::Path;

pub const HEAD: &str = "$TTL 60\n@ SOA ns host 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

pub struct Case {
    pub fault: Fault,
    from: From,
}

/// How the zone is made that has the fault, and the one that has not.
enum From {
    /// Both behind `HEAD`.
    Tails(&'static str, &'static str),
    /// Whole.
    Texts(&'static str, &'static str),
    /// From `HEAD`, a line by another.
    Repeated(&'static str, usize, usize),
    /// The signed zone, each line as it is or another or none.
    Nsec(fn(&str) -> Option<String>),
    NsecMore(&'static str),
    Nsec3(fn(&str) -> Option<String>),
    Soon,
}

const fn tails(fault: Fault, bad: &'static str, good: &'static str) -> Case {
    Case { fault, from: From::Tails(bad, good) }
}

const fn nsec(fault: Fault, change: fn(&str) -> Option<String>) -> Case {
    Case { fault, from: From::Nsec(change) }
}

pub const CASES: &[Case] = &[
    Case { fault: NoSoa, from: From::Texts("$TTL 60\n@ NS ns\nns A 192.0.2.1\n", HEAD) },
    tails(ManySoas, "@ SOA ns host 2 2 3 4 5", "@ SOA NS Host 1 2 3 4 5"),
    Case { fault: NoNs, from: From::Texts("$TTL 60\n@ SOA ns host 1 2 3 4 5\nns A 192.0.2.1\n", HEAD) },
    tails(CnameBesideData, "a CNAME ns\na TXT x", "a CNAME ns\nb TXT x"),
    tails(ManyCnames, "a CNAME ns\na CNAME b\nb A 192.0.2.1", "a CNAME ns\nA CNAME NS\nb CNAME ns"),
    tails(ManyDnames, "a DNAME b\na DNAME c", "a DNAME b\nA DNAME B\nc DNAME b"),
    tails(
        DsAtApex,
        "@ DS 1 8 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "d NS ns\nd DS 1 8 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ),
    tails(DnameBesideNs, "a DNAME b.other.\na NS ns", "a DNAME b.other.\nc NS ns"),
    tails(BelowDname, "a DNAME b.other.\nx.a TXT x", "a DNAME b.other.\nx.b TXT x"),
    tails(NsAtWildcard, "* NS ns", "* TXT x"),
    tails(
        DsWithoutNs,
        "a DS 1 8 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "a NS ns\na DS 1 8 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ),
    tails(NoGlue, "d NS ns.d", "d NS ns.d\nNS.D A 192.0.2.1"),
    tails(NsWithoutAddress, "d NS gone", "d NS host.wild\n*.wild A 192.0.2.1"),
    Case {
        fault: NsAtAlias,
        from: From::Texts("$TTL 60\n@ SOA ns host 1 2 3 4 5\n@ NS n\nn CNAME ns\nns A 192.0.2.1\n", HEAD),
    },
    tails(NoSiblingGlue, "d NS ns.e\ne NS ns", "d NS ns.e\ne NS ns\nns.e A 192.0.2.1"),
    tails(MxAtAlias, "@ MX 1 n\nn CNAME ns", "@ MX 1 ns\nn CNAME ns"),
    tails(SrvAtAlias, "_a._tcp SRV 1 1 1 n\nn CNAME ns", "_a._tcp SRV 1 1 1 ns"),
    tails(MxWithoutAddress, "@ MX 1 gone", "@ MX 0 ."),
    tails(SrvWithoutAddress, "_a._tcp SRV 1 1 1 gone", "_a._tcp SRV 0 0 0 ."),
    tails(Occluded, "d NS ns\nx.d TXT x", "d NS ns\nx.d A 192.0.2.1\nx TXT x"),
    tails(InnerAsterisk, "a.*.b TXT x", "*.a.b TXT x"),
    tails(UnequalTtls, "a 5 A 192.0.2.1\na 6 A 192.0.2.2", "a 5 A 192.0.2.1\na 6 TXT x"),
    tails(Twice, "a A 192.0.2.1\na A 192.0.2.1", "a A 192.0.2.1\na A 192.0.2.2"),
    Case { fault: ManyRecords, from: From::Repeated("a A 192.0.3.%", 101, 100) },
    Case { fault: ManyTypes, from: From::Repeated("a TYPE65% \\# 1 00", 101, 100) },
    nsec(NoRrsig, |line| (!line.contains("RRSIG A 13 2")).then(|| line.into())),
    nsec(RrsigExpired, |line| Some(dated(line, "20200101000000 20190101000000"))),
    nsec(RrsigEarly, |line| Some(dated(line, "20500101000000 20490101000000"))),
    Case { fault: RrsigSoon, from: From::Soon },
    nsec(RrsigSigner, |line| Some(txt(line, 11, "ns.example."))),
    nsec(RrsigKey, |line| Some(txt(line, 10, "1"))),
    nsec(RrsigLabels, |line| Some(txt(line, 6, "1"))),
    nsec(RrsigTtl, |line| Some(txt(line, 7, "61"))),
    nsec(NoDnskey, |line| (!line.contains(" DNSKEY ")).then(|| line.into())),
    nsec(NoDenial, |line| (!line.contains(" NSEC ")).then(|| line.into())),
    nsec(NoNsec, |line| (!line.starts_with("b.example. 5 ")).then(|| line.into())),
    nsec(NsecChain, |line| Some(line.replace("NSEC b.example.", "NSEC c.example."))),
    nsec(NsecBitmap, |line| Some(line.replace(" TXT RRSIG NSEC", " MX TXT RRSIG NSEC"))),
    Case { fault: NsecExtra, from: From::NsecMore("ns.d.example. 5 IN NSEC ns.example. A") },
    Case {
        fault: RrsigOverGlue,
        from: From::NsecMore("ns.d.example. 60 IN RRSIG A 13 3 60 20500101000000 20190101000000 1 example. AQID"),
    },
    Case {
        fault: Nsec3Param,
        from: From::Nsec3(|line| Some(line.replace("NSEC3PARAM 1 0 0 -", "NSEC3PARAM 1 0 0 AA"))),
    },
    tails(Nsec3Iterations, "@ NSEC3PARAM 1 0 151 -", "@ NSEC3PARAM 1 0 0 -"),
    tails(
        Zonemd,
        "@ ZONEMD 1 1 1 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855e3b0c44298fc1c149afbf4c8996fb924",
        "b ZONEMD 1 1 1 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855e3b0c44298fc1c149afbf4c8996fb924",
    ),
];

/// The signature over the TXT of b, with other dates.
fn dated(line: &str, dates: &str) -> String {
    let old: Vec<&str> = line.split(' ').skip(8).take(2).collect();
    if is_signature_of_txt(line) { line.replace(&old.join(" "), dates) } else { line.into() }
}

/// The signature over the TXT of b, with another field.
fn txt(line: &str, field: usize, value: &str) -> String {
    let mut fields: Vec<&str> = line.split(' ').collect();
    if is_signature_of_txt(line) {
        fields[field] = value;
    }
    fields.join(" ")
}

fn is_signature_of_txt(line: &str) -> bool {
    line.contains(" RRSIG TXT ")
}

/// Zones that BIND has signed, one record a line.
pub struct Zones {
    pub nsec: Vec<String>,
    pub nsec3: Vec<String>,
    pub opt_out: Vec<String>,
    /// Its signatures expire in an hour.
    soon: Vec<String>,
}

/// A delegation with glue, one to a host of the zone with DS, an empty non-terminal, a wildcard.
const SIGNED: &str = "a A 192.0.2.2\nb TXT x\nd NS ns.d\nns.d A 192.0.2.9\ns NS ns\ns DS 1 8 2 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\nx.ent A 192.0.2.1\nd.ent2 NS ns\n*.w TXT x\n";

impl Zones {
    pub fn new() -> Zones {
        let folder =
            std::env::temp_dir().join(format!("audit-keys-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::create_dir_all(&folder).unwrap();
        let keys = folder.display().to_string();
        let key = must("dnssec-keygen", ["-q", "-K", &keys, "-a", "ECDSAP256SHA256", "-f", "KSK", "example."]);
        let public = std::fs::read_to_string(folder.join(format!("{}.key", key.trim()))).unwrap();
        std::fs::write(folder.join("plain"), [HEAD, SIGNED, &public].concat()).unwrap();
        let sign = |more: &[&str]| sign(&folder, key.trim(), more);
        let zones = Zones {
            nsec: sign(&[]),
            nsec3: sign(&["-3", "-", "-H", "0"]),
            opt_out: sign(&["-3", "AABB", "-H", "2", "-A"]),
            soon: sign(&["-e", "now+3600"]),
        };
        let _ = std::fs::remove_dir_all(&folder);
        zones
    }

    /// The zone with a fault, and its neighbour without it.
    pub fn of(&self, fault: Fault) -> (String, String) {
        let case = CASES.iter().find(|c| c.fault == fault).unwrap();
        let changed = |lines: &[String], change: fn(&str) -> Option<String>| {
            let changed: Vec<String> = lines.iter().filter_map(|line| change(line)).collect();
            assert!(changed != lines, "nothing is changed for {fault:?}");
            (changed.join("\n") + "\n", lines.join("\n") + "\n")
        };
        match case.from {
            From::Tails(bad, good) => (format!("{HEAD}{bad}\n"), format!("{HEAD}{good}\n")),
            From::Texts(bad, good) => (bad.into(), good.into()),
            From::Repeated(line, bad, good) => (repeated(line, bad), repeated(line, good)),
            From::Soon => (self.soon.join("\n") + "\n", self.nsec.join("\n") + "\n"),
            From::Nsec(change) => changed(&self.nsec, change),
            From::NsecMore(line) => {
                let good = self.nsec.join("\n") + "\n";
                (format!("{good}{line}\n"), good)
            }
            From::Nsec3(change) => changed(&self.nsec3, change),
        }
    }
}

fn repeated(line: &str, n: usize) -> String {
    let lines: Vec<String> = (101..101 + n).map(|i| line.replace('%', &i.to_string()) + "\n").collect();
    [HEAD, &lines.concat()].concat()
}

fn sign(folder: &Path, key: &str, more: &[&str]) -> Vec<String> {
    let at = |name: &str| folder.join(name).display().to_string();
    let (keys, plain, signed) = (folder.display().to_string(), at("plain"), at("signed"));
    let fixed = ["-q", "-z", "-P", "-O", "full", "-K", &keys, "-d", &keys, "-o", "example.", "-f", &signed];
    must("dnssec-signzone", [&fixed[..], more, &[&plain, key]].concat());
    let text = std::fs::read_to_string(&signed).unwrap();
    let records = text.lines().filter(|line| !line.starts_with(';') && !line.is_empty());
    records.map(|line| line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")).collect()
}
