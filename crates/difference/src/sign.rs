//! Signs zones with the peers' tools: `dnssec-signzone` of BIND and `kzonesign` of Knot. One P-256 key serves all zones of a run.

use crate::fleet::ZoneFile;
use crate::name::Name;
use crate::peers;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    Unsigned,
    Nsec,
    Nsec3 { iterations: u16, opt_out: bool },
}

pub const DENIALS: [Denial; 5] = [
    Denial::Unsigned,
    Denial::Nsec,
    Denial::Nsec3 { iterations: 0, opt_out: false },
    Denial::Nsec3 { iterations: 5, opt_out: false },
    Denial::Nsec3 { iterations: 0, opt_out: true },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Bind,
    Knot,
}

pub struct Signer {
    folder: PathBuf,
    key: PathBuf,
}

impl Signer {
    pub fn new(folder: &Path) -> Signer {
        let folder = folder.to_path_buf();
        fs::create_dir_all(&folder).expect("a folder for keys");
        let base = peers::must(
            "dnssec-keygen",
            ["-q", "-K", &folder.display().to_string(), "-a", "ECDSAP256SHA256", "-f", "KSK", "example."],
        );
        let key = folder.join(base.trim());
        Signer { folder, key }
    }

    /// The signed zone beside the unsigned one; `None` if the tool refuses to sign it.
    pub fn sign(&self, zone: &ZoneFile, denial: Denial, tool: Tool) -> Option<ZoneFile> {
        let signed = match (denial, tool) {
            (Denial::Unsigned, _) => return Some(zone.clone()),
            (_, Tool::Bind) => self.with_bind(zone, denial),
            (_, Tool::Knot) => self.with_knot(zone, denial),
        }?;
        Some(ZoneFile { name: zone.name.clone(), path: signed })
    }

    /// The key's tag does not depend on its owner: the same files serve every zone under another name.
    fn key_for(&self, name: &Name) -> PathBuf {
        let file = self.key.file_name().and_then(|f| f.to_str()).expect("dnssec-keygen prints a file name");
        let to = self.folder.join(file.replacen("Kexample.", &format!("K{name}"), 1));
        let public =
            fs::read_to_string(self.key.with_extension("").with_file_name(format!("{file}.key"))).expect("the key");
        fs::write(format!("{}.key", to.display()), public.replace("example. IN", &format!("{name} IN"))).expect("room");
        fs::copy(self.folder.join(format!("{file}.private")), format!("{}.private", to.display()))
            .expect("the private key");
        to
    }

    fn with_bind(&self, zone: &ZoneFile, denial: Denial) -> Option<PathBuf> {
        let key = self.key_for(&zone.name);
        let with_key = zone.path.with_extension("keyed");
        let public = fs::read_to_string(format!("{}.key", key.display())).expect("the key was written");
        let text = fs::read_to_string(&zone.path).expect("the zone was written");
        fs::write(&with_key, text + &public).expect("room for a zone file");
        let out = zone.path.with_extension("signed");
        let (folder, origin) = (self.folder.display().to_string(), zone.name.to_string());
        let mut args = vec!["-q", "-z", "-P", "-O", "full", "-d", &folder, "-K"];
        let (from, to, key) = (with_key.display().to_string(), out.display().to_string(), key.display().to_string());
        args.extend([&folder[..], "-o", &origin, "-f", &to]);
        let iterations =
            if let Denial::Nsec3 { iterations, .. } = denial { iterations.to_string() } else { String::new() };
        if let Denial::Nsec3 { opt_out, .. } = denial {
            args.extend(["-3", if iterations == "0" { "-" } else { "AABBCCDD" }, "-H", &iterations]);
            args.extend(opt_out.then_some("-A"));
        }
        args.extend([&from[..], &key]);
        peers::run("dnssec-signzone", args).status.success().then_some(out)
    }

    fn with_knot(&self, zone: &ZoneFile, denial: Denial) -> Option<PathBuf> {
        let home = self.folder.join(format!("knot-{}", zone.name));
        for part in ["out", "db"] {
            fs::create_dir_all(home.join(part)).expect("folders for the signer");
        }
        let nsec3 = match denial {
            Denial::Nsec3 { iterations, opt_out } => format!(
                "    nsec3: on\n    nsec3-iterations: {iterations}\n    nsec3-opt-out: {}\n    nsec3-salt-length: {}\n",
                if opt_out { "on" } else { "off" },
                if iterations == 0 { 0 } else { 4 }
            ),
            _ => String::new(),
        };
        let conf = home.join("knot.conf");
        let text = format!(
            "database:\n    storage: \"{0}/db\"\npolicy:\n  - id: p\n    algorithm: ecdsap256sha256\n    single-type-signing: on\n{nsec3}\
             zone:\n  - domain: \"{1}\"\n    file: \"{2}\"\n    dnssec-policy: p\n    semantic-checks: soft\n",
            home.display(),
            zone.name,
            zone.path.display()
        );
        fs::write(&conf, text).expect("room for a configuration");
        let (conf, out) = (conf.display().to_string(), home.join("out"));
        let signed =
            peers::run("kzonesign", ["-r", "-c", &conf, "-o", &out.display().to_string(), &zone.name.to_string()]);
        let made = fs::read_dir(&out).ok()?.next()?.ok()?.path();
        signed.status.success().then_some(made)
    }
}
