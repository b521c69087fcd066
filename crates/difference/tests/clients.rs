//! dig, kdig, drill, host and dnspython as clients: each gets its answer and complains of nothing.

use difference::fleet::{Fleet, Server, ZoneFile, fresh_folder, kinds};
use difference::sign::{Denial, Signer, Tool};
use difference::{peers, recipe};

/// A client's command line with `{port}` and `{zone}`, and what its output must hold and must not.
struct Call {
    program: &'static str,
    line: &'static str,
    has: &'static [&'static str],
}

const COMPLAINTS: &[&str] = &[
    "WARNING",
    "malformed",
    "Malformed",
    "communications error",
    "timed out",
    "Warning",
    "Got bad packet",
    "Traceback",
];

const CALLS: &[Call] = &[
    Call {
        program: "dig",
        line: "@127.0.0.1 -p {port} host.{zone} A +norec",
        has: &["status: NOERROR", "flags: qr aa;", "192.0.2.80"],
    },
    Call { program: "dig", line: "@127.0.0.1 -p {port} host.{zone} A +norec +tcp", has: &["192.0.2.80", "(TCP)"] },
    Call {
        program: "dig",
        line: "@127.0.0.1 -p {port} host.{zone} A +norec +dnssec",
        has: &["flags: do;", "RRSIG\tA 13"],
    },
    Call {
        program: "dig",
        line: "@127.0.0.1 -p {port} gone.{zone} A +norec +dnssec",
        has: &["status: NXDOMAIN", "NSEC"],
    },
    Call {
        program: "dig",
        line: "@127.0.0.1 -p {port} www.cut.{zone} A +norec +noedns",
        has: &["flags: qr;", "ns.cut.{zone}", "192.0.2.110"],
    },
    Call {
        program: "dig",
        line: "@127.0.0.1 -p {port} two.tree.{zone} A +norec",
        has: &["DNAME\tforest.{zone}", "CNAME\ttwo.forest.{zone}"],
    },
    Call { program: "dig", line: "@127.0.0.1 -p {port} {zone} DNSKEY +norec +nosplit", has: &["257 3 13"] },
    Call {
        program: "dig",
        line: "@127.0.0.1 -p {port} host.{zone} A +norec +edns=1 +noednsnegotiation",
        has: &["status: BADVERS"],
    },
    Call {
        program: "kdig",
        line: "@127.0.0.1 -p {port} host.{zone} A +norec",
        has: &["status: NOERROR", "192.0.2.80"],
    },
    Call {
        program: "kdig",
        line: "@127.0.0.1 -p {port} host.{zone} TYPE65280 +norec +dnssec +tcp",
        has: &["status: NOERROR", "NSEC"],
    },
    Call { program: "kdig", line: "@127.0.0.1 -p {port} x.wild.{zone} TXT +norec", has: &["\"wild\""] },
    Call {
        program: "drill",
        line: "-p {port} -o rd host.{zone} @127.0.0.1 AAAA",
        has: &["rcode: NOERROR", "2001:db8::80"],
    },
    Call { program: "drill", line: "-p {port} -o rd -D secure.{zone} @127.0.0.1 DS", has: &["12345 13 2"] },
    Call { program: "drill", line: "-p {port} -o rd -t -D {zone} @127.0.0.1 SOA", has: &["hostmaster.{zone}"] },
    Call { program: "host", line: "-p {port} -r -t MX {zone} 127.0.0.1", has: &["mail is handled by 10 host.{zone}"] },
];

fn fill(text: &str, port: u16, zone: &str) -> String {
    text.replace("{port}", &port.to_string()).replace("{zone}", zone)
}

fn call(call: &Call, server: &Server, zone: &str) {
    let line = fill(call.line, server.address.port(), zone);
    let out = peers::run(call.program, line.split(' '));
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    for has in call.has {
        let has = fill(has, server.address.port(), zone);
        assert!(said.contains(&has), "{} {line} of {} says no {has:?}:\n{said}", call.program, server.kind.text());
    }
    let complaint = COMPLAINTS.iter().find(|c| said.contains(*c));
    assert!(complaint.is_none(), "{} {line} of {} complains:\n{said}", call.program, server.kind.text());
}

#[test]
fn every_client_gets_its_answers() {
    let folder = fresh_folder(env!("CARGO_TARGET_TMPDIR"), "clients");
    let recipe = recipe::fixed("clients");
    let plain = ZoneFile { name: recipe.zone.origin.clone(), path: recipe.zone.save(&folder) };
    let file = Signer::new(&folder.join("keys"))
        .sign(&plain, Denial::Nsec, Tool::Bind)
        .expect("dnssec-signzone signs the zone");
    let fleet = Fleet::start(&folder, &kinds(), std::slice::from_ref(&file));
    for server in &fleet.servers {
        CALLS.iter().for_each(|c| call(c, server, &file.name.to_string()));
        python(server, &file.name.to_string());
    }
}

/// dnspython reads every message strictly: it raises what it does not like.
fn python(server: &Server, zone: &str) {
    const SCRIPT: &str = "
import sys, dns.message, dns.query, dns.flags, dns.rcode
port, zone = int(sys.argv[1]), sys.argv[2]
for ask in (dns.query.udp, dns.query.tcp):
    for owner, rtype in [('host', 'A'), ('x.wild', 'TXT'), ('gone', 'A'), ('www.cut', 'A'), ('one.tree', 'A'), ('', 'DNSKEY'), ('', 'SOA'), ('secure', 'DS')]:
        name = (owner + '.' if owner else '') + zone
        for dnssec in (False, True):
            query = dns.message.make_query(name, rtype, want_dnssec=dnssec, use_edns=0)
            query.flags &= ~dns.flags.RD
            reply = ask(query, '127.0.0.1', port=port, timeout=5)
            assert query.is_response(reply), reply
            assert reply.edns == 0, reply
            print(name, rtype, dns.rcode.to_text(reply.rcode()), len(reply.answer), len(reply.authority))
";
    let out = peers::run("python3", ["-c", SCRIPT, &server.address.port().to_string(), zone]);
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.lines().count() == 32, "dnspython and {}:\n{said}", server.kind.text());
}
