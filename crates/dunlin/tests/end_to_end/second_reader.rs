//! docs/image-format.md is enough to write a reader from: one in Python was, and reads what ours reads.

use crate::running::{Folder, text};
use difference::peers;
use std::path::{Path, PathBuf};
use std::process::Output;

fn read_by_python(image: &Path) -> Output {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end/image_reader.py");
    peers::command("python3").arg(reader).arg(image).output().unwrap()
}

/// Compiles a zone, reads the image in both ways, and compares the records octet for octet.
fn agree(folder: &Folder, zone: &Path, origin: &str) {
    let compile = folder.dunlin(&["zone", "compile", zone.to_str().unwrap(), "--origin", origin, "-o", "image"]);
    assert_eq!(compile.status.code(), Some(0), "{}", text(&compile.stderr));
    let theirs = read_by_python(&folder.0.join("image"));
    assert!(theirs.status.success(), "{}: {}", zone.display(), text(&theirs.stderr));
    // Their records are in generic form; what is read from that text is put into the same canonical form as ours.
    std::fs::write(folder.0.join("theirs"), &theirs.stdout).unwrap();
    let theirs = folder.dunlin(&["zone", "dump", "theirs", "--origin", origin, "--canonical"]);
    assert_eq!(theirs.status.code(), Some(0), "{}", text(&theirs.stderr));
    let ours = folder.dunlin(&["zone", "dump", "image", "--canonical"]);
    assert!(ours.stdout.len() > 100 && ours.stdout == theirs.stdout, "{}", zone.display());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn a_reader_written_from_the_page_reads_the_same_records() {
    let folder = Folder::new();
    let files = std::fs::read_dir(root().join("examples/zones")).unwrap().map(|entry| entry.unwrap().path());
    let zones: Vec<_> = files.filter_map(|file| Some((store::folder::zone_of(&file)?, file))).collect();
    assert!(!zones.is_empty());
    zones.iter().for_each(|(origin, file)| agree(&folder, file, origin));
    agree(&folder, &root().join("benches/data/root-2017082100.signed.zone"), ".");
    // Every kind of node and unit: cuts, aliases, wildcards, names that lie far in, many records.
    let many: String = (0..400).map(|i| format!("many.w A 192.0.{}.{}\n", i / 256, i % 256)).collect();
    let mail: String =
        (0..50).map(|i| format!("mail MX {i} host{i}.a.rather.long.name.of.hosts.example.org.\n")).collect();
    let zone = format!(
        "$TTL 60\n@ SOA ns.sub h.Sub 1 2 3 4 5\n@ NS ns.sub\n@ NS ns.example.net.\n@ MX 10 mail\nsub NS ns.sub\nns.sub A 192.0.2.1\n\
         *.w TXT \"a\"\na.*.w A 192.0.2.3\nc CNAME www.other.\nd DNAME d.other.\nx.d A 192.0.2.4\ne.f.g.h SRV 1 2 3 mail\n{many}{mail}"
    );
    let file = folder.write("odd.zone", &zone);
    agree(&folder, &file, "example.com");
}

#[test]
fn the_other_reader_refuses_a_damaged_page() {
    let folder = Folder::new();
    let file = folder.write("zone", crate::running::ZONE);
    let compile = folder.dunlin(&["zone", "compile", file.to_str().unwrap(), "--origin", "example.com", "-o", "image"]);
    assert_eq!(compile.status.code(), Some(0));
    let image = folder.0.join("image");
    let mut octets = std::fs::read(&image).unwrap();
    let last = octets.len() - 100;
    octets[last] ^= 1;
    std::fs::write(&image, octets).unwrap();
    let output = read_by_python(&image);
    assert!(text(&output.stderr).contains("the checksum of page"), "{}", text(&output.stderr));
}
