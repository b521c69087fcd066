//! Unbound in front of one server: it fetches keys and proofs from there and says with AD what it could prove.

use crate::fleet::{self, Server, ZoneFile};
use crate::peers;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};

pub struct Validator {
    pub address: SocketAddr,
    child: Child,
}

impl Drop for Validator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The DNSKEY records of a signed zone file: what a validator is told to trust.
pub fn anchors(zone: &ZoneFile) -> Vec<String> {
    let text = fs::read_to_string(&zone.path).expect("a zone file that was written");
    let is_key = |l: &&str| {
        l.split_whitespace().any(|w| w == "DNSKEY") && !l.contains("RRSIG") && !l.trim_start().starts_with(';')
    };
    text.lines().filter(is_key).map(|l| with_owner(l, zone)).collect()
}

/// The record with its owner: a signer may leave out an owner that is the line's before.
fn with_owner(line: &str, zone: &ZoneFile) -> String {
    let rdata: Vec<&str> = line.split_whitespace().skip_while(|w| *w != "DNSKEY").skip(1).collect();
    let rdata = rdata.into_iter().take_while(|w| !w.starts_with(';')).filter(|w| !matches!(*w, "(" | ")"));
    format!("{} 3600 IN DNSKEY {}", zone.name, rdata.collect::<Vec<_>>().join(" "))
}

impl Validator {
    pub fn start(server: &Server, zones: &[ZoneFile]) -> Validator {
        let folder = server.folder.join("unbound");
        fs::create_dir_all(&folder).expect("a folder for the validator");
        let address = fleet::free_port();
        let conf = configuration(&folder, address, server, zones);
        let log = File::create(folder.join("log")).expect("a log file");
        let child = peers::command("unbound")
            .args(["-d", "-c"])
            .arg(conf)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle of the log"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("unbound does not start: {e}"));
        let validator = Validator { address, child };
        fleet::await_answer(address, || fs::read_to_string(folder.join("log")).unwrap_or_default());
        validator
    }
}

fn configuration(folder: &Path, address: SocketAddr, server: &Server, zones: &[ZoneFile]) -> std::path::PathBuf {
    let trusted: Vec<String> = zones.iter().flat_map(anchors).collect();
    let keys = folder.join("anchors");
    fs::write(&keys, trusted.join("\n") + "\n").expect("room for the anchors");
    let dir = folder.display();
    let mut conf = format!(
        "server:\n interface: 127.0.0.1@{}\n num-threads: 1\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n directory: \"{dir}\"\n \
         pidfile: \"{dir}/pid\"\n use-syslog: no\n verbosity: 1\n module-config: \"validator iterator\"\n do-not-query-localhost: no\n \
         trust-anchor-file: \"{}\"\n aggressive-nsec: no\n harden-below-nxdomain: no\n qname-minimisation: no\n target-fetch-policy: \"0 0 0 0 0\"\n do-ip6: no\n \
         local-zone: \"test.\" nodefault\n minimal-responses: no\n edns-buffer-size: 1232\n msg-cache-size: 64m\n rrset-cache-size: 64m\n \
         val-log-level: 2\nremote-control:\n control-enable: no\n",
        address.port(),
        keys.display()
    );
    for z in zones {
        let _ = write!(
            conf,
            "stub-zone:\n name: \"{}\"\n stub-addr: 127.0.0.1@{}\n stub-prime: no\n",
            z.name,
            server.address.port()
        );
    }
    let path = folder.join("unbound.conf");
    fs::write(&path, conf).expect("room for a configuration");
    path
}
