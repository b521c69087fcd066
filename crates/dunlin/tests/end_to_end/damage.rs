//! Images that somebody damages, cuts off, removes or replaces, before a start and under a server that runs.

use crate::running::{DIRECTORY, Folder, Server, ZONE, eventually, read, text};
use crate::updates::{DDNS, KEY, update};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const PAGE: u64 = 4096;
const NAMES: usize = 60;

/// A zone of some pages, written in the configuration: its file is not watched.
fn stage() -> Folder {
    let folder = Folder::new();
    let many: String = (0..NAMES).map(|i| format!("n{i} TXT \"{}\"\n", "x".repeat(200))).collect();
    folder.write("example.com.zone", &format!("{ZONE}{many}"));
    folder.configure("[limits]\nenabled = false\n[[zone]]\nname = \"example.com\"\nfile = \"example.com.zone\"\n");
    folder
}

fn start(folder: &Folder) -> Server {
    Server::start(folder, &["-c", "dunlin.toml"])
}

fn image(folder: &Folder) -> PathBuf {
    folder.0.join("data/images/zones.image")
}

fn pages(folder: &Folder) -> u64 {
    std::fs::metadata(image(folder)).unwrap().len().div_ceil(PAGE)
}

fn writable(folder: &Folder) -> File {
    OpenOptions::new().write(true).read(true).open(image(folder)).unwrap()
}

fn flip(folder: &Folder, at: u64) {
    let file = writable(folder);
    let mut octet = [0];
    file.read_exact_at(&mut octet, at).unwrap();
    file.write_all_at(&[octet[0] ^ 0x20], at).unwrap();
}

fn status(folder: &Folder) -> String {
    text(&folder.ctl(&["status", "--json"]).stdout)
}

/// The number behind a key of the status.
fn number(status: &str, key: &str) -> u64 {
    let (_, rest) = status.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key} in {status}"));
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// The answer without what differs from query to query.
fn answer(folder: &Folder, server: &Server, name: &str) -> String {
    let at = format!("@{}", server.address);
    let whole = text(&folder.dunlin(&["query", &at, name, "ANY", "+tcp", "+noedns"]).stdout);
    let status = whole.split("status: ").nth(1).and_then(|s| s.split(',').next()).unwrap_or("none");
    let records = whole.lines().filter(|l| !l.starts_with(';') && !l.is_empty());
    format!("{status}\n{}", records.map(|l| format!("{l}\n")).collect::<String>())
}

const ASKED: [&str; 6] =
    ["example.com", "www.example.com", "n7.example.com", "n42.example.com", "no.example.com", "deep.no.example.com"];

fn answers(folder: &Folder, server: &Server) -> Vec<String> {
    ASKED.iter().map(|name| answer(folder, server, name)).collect()
}

/// Once another image is served than the one of this generation, and all its pages were compared.
fn rebuilt(folder: &Folder, generation: u64) {
    eventually("a new image", || {
        let status = status(folder);
        let whole = number(&status, "damaged") == 0 && number(&status, "rounds") > 0;
        whole && number(&status, "generation") > generation
    });
}

#[test]
fn every_page_that_is_damaged_is_found_and_the_image_is_built_anew() {
    let folder = stage();
    let server = start(&folder);
    let good = answers(&folder, &server);
    assert!(good.iter().all(|a| !a.starts_with("SERVFAIL")), "{good:?}");
    let many = pages(&folder);
    assert!(many > 4);
    for page in 0..many {
        let generation = number(&status(&folder), "generation");
        let at = (page * PAGE + 100).min(std::fs::metadata(image(&folder)).unwrap().len() - 1);
        flip(&folder, at);
        rebuilt(&folder, generation);
        assert_eq!(answers(&folder, &server), good, "page {page}");
    }
    let log = read(&folder.0.join("log"));
    assert_eq!(
        log.matches("error an image is damaged: it is built anew file=data/images/zones.image").count() as u64,
        many,
        "{log}"
    );
}

/// What somebody has written into the folder of zones is his to mend; what is served is not to wait for that.
#[test]
fn a_damaged_image_is_built_anew_though_what_names_zones_is_wrong() {
    let folder = Folder::new();
    let configured = "[[zone]]\nname = \"example.com\"\nfile = \"example.com.zone\"\n";
    folder.write("example.com.zone", ZONE);
    folder.write("zones/other.example.zone", ZONE);
    folder.configure(&format!("{DIRECTORY}{configured}"));
    let server = start(&folder);
    let asked = ["www.example.com", "www.other.example"];
    let good = asked.map(|name| answer(&folder, &server, name));
    assert!(good.iter().all(|answer| answer.starts_with("NOERROR")), "{good:?}");
    folder.write("zones/a..b.zone", ZONE);
    folder.refuses(&["reload"], "a..b");
    for page in 0..pages(&folder) {
        let generation = number(&status(&folder), "generation");
        flip(&folder, page * PAGE + 8);
        rebuilt(&folder, generation);
        assert_eq!(asked.map(|name| answer(&folder, &server, name)), good, "page {page}");
    }
    std::fs::remove_file(folder.0.join("zones/a..b.zone")).unwrap();
    folder.write("zones/third.example.zone", ZONE);
    folder.does(&["reload"]);
    assert!(answer(&folder, &server, "www.third.example").starts_with("NOERROR"));
}

#[test]
fn a_file_that_is_cut_off_under_the_server_is_built_anew() {
    let folder = stage();
    let server = start(&folder);
    let good = answers(&folder, &server);
    for page in 0..pages(&folder) {
        let generation = number(&status(&folder), "generation");
        writable(&folder).set_len(page * PAGE).unwrap();
        // Whatever is asked meanwhile is answered well, or not.
        for (answer, good) in answers(&folder, &server).iter().zip(&good) {
            assert!(answer == good || answer.starts_with("SERVFAIL") || answer.starts_with("none"), "{page}: {answer}");
        }
        rebuilt(&folder, generation);
        assert_eq!(answers(&folder, &server), good, "page {page}");
    }
}

#[test]
fn a_damaged_image_whose_source_is_gone_serves_on_what_is_intact() {
    let folder = stage();
    let server = start(&folder);
    let good = answers(&folder, &server);
    let generation = number(&status(&folder), "generation");
    let zone = folder.0.join("example.com.zone");
    std::fs::rename(&zone, folder.0.join("away")).unwrap();
    let before = std::fs::read(image(&folder)).unwrap();
    let mut served = 0;
    // The index last: every name is found through it.
    for (n, page) in (1..).zip((2..pages(&folder)).chain([1])) {
        flip(&folder, page * PAGE + 8);
        // It is damaged, and the new image that it asks for cannot be made.
        eventually("the damage", || number(&status(&folder), "damaged") >= n);
        eventually("the complaint", || {
            let log = read(&folder.0.join("log"));
            log.matches("no new image, the old one stays: the image is damaged").count() as u64 >= n
        });
        for (answer, good) in answers(&folder, &server).iter().zip(&good) {
            assert!(answer == good || answer.starts_with("SERVFAIL"), "page {page}: {answer}");
            served += usize::from(answer == good);
        }
    }
    assert!(served > 0, "a page that is intact goes on serving");
    assert_eq!(number(&status(&folder), "generation"), generation);
    assert_eq!(std::fs::read(image(&folder)).unwrap().len(), before.len());
    let log = read(&folder.0.join("log"));
    assert!(log.contains("restore that: example.com.: it goes on as it was: example.com.zone"), "{log}");
    std::fs::rename(folder.0.join("away"), &zone).unwrap();
    assert_eq!(folder.ctl(&["reload"]).status.code(), Some(0));
    assert_eq!(answers(&folder, &server), good);
}

#[test]
fn an_image_that_is_removed_or_replaced_under_the_server_changes_nothing() {
    let folder = stage();
    let server = start(&folder);
    let good = answers(&folder, &server);
    let path = image(&folder);
    let other = folder.write("other.zone", &ZONE.replace("192.0.2.2", "192.0.2.66"));
    let made = folder.0.join("data/images/other");
    let (other, made) = (other.to_str().unwrap(), made.to_str().unwrap());
    let compile = folder.dunlin(&["zone", "compile", other, "--origin", "example.com", "-o", made]);
    assert_eq!(compile.status.code(), Some(0), "{}", text(&compile.stderr));
    std::fs::rename(made, &path).unwrap();
    assert_eq!(answers(&folder, &server), good);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(answers(&folder, &server), good);
    // What is not there, or is not what its manifest says, is built at the next start.
    drop(server);
    let server = start(&folder);
    assert_eq!(answers(&folder, &server), good);
}

#[test]
fn a_start_builds_anew_what_it_cannot_use() {
    let folder = stage();
    let first = start(&folder);
    let good = answers(&folder, &first);
    drop(first);
    let whole = std::fs::read(image(&folder)).unwrap();
    let mut odd: Vec<Vec<u8>> = (0..whole.len()).step_by(PAGE as usize).map(|len| whole[..len].to_vec()).collect();
    let mut future = whole.clone();
    future[8] += 1;
    let mut header = whole.clone();
    header[20] ^= 1;
    odd.extend([future, header, b"DunlinZ\n".to_vec(), vec![0; whole.len()]]);
    for (i, octets) in odd.iter().enumerate() {
        std::fs::write(image(&folder), octets).unwrap();
        let server = start(&folder);
        assert_eq!(answers(&folder, &server), good, "{i}");
        assert_ne!(&std::fs::read(image(&folder)).unwrap(), octets, "{i}");
    }
}

#[test]
fn damage_from_before_the_start_is_found_after_it() {
    let folder = stage();
    drop(start(&folder));
    // So that the file is believed unchanged, and the image is mapped as it is.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    File::open(folder.0.join("example.com.zone")).unwrap().set_modified(old).unwrap();
    assert_eq!(folder.dunlin(&["compile", "-c", "dunlin.toml"]).status.code(), Some(0));
    flip(&folder, 2 * PAGE);
    let server = start(&folder);
    rebuilt(&folder, 1);
    assert!(answers(&folder, &server).iter().all(|a| !a.starts_with("SERVFAIL")));
}

/// Of the zone that is held there is nothing but the image, and that is damaged.
#[test]
fn a_damaged_image_of_which_a_zone_is_held_keeps_no_other_from_its_updates() {
    let folder = stage();
    folder.write("ddns.key", &format!("{KEY}\n"));
    folder.write("z.zone", ZONE);
    let updated = "[[key]]\nname = \"ddns\"\nsecret-file = \"ddns.key\"\n\
        [[zone]]\nname = \"z.example\"\nfile = \"z.zone\"\nallow-update = [\"key:ddns\"]\n";
    let all = read(&folder.0.join("dunlin.toml")) + updated;
    folder.write("dunlin.toml", &all);
    let mut server = start(&folder);
    let add = |server: &Server, n: u8| {
        let change = format!("zone z.example\nadd n{n}.z.example 60 A 192.0.2.{n}");
        assert_eq!(update(server, &[], DDNS, &change), "");
    };
    add(&server, 1);
    eventually("it is folded in", || folder.0.join("data/journal/released").exists());
    add(&server, 2);
    server.signal("KILL");
    server.wait();
    let octets = std::fs::read(image(&folder)).unwrap();
    let of_texts = octets.windows(200).enumerate().filter(|(_, octets)| octets.iter().all(|octet| *octet == b'x'));
    let (among_them, _) = of_texts.collect::<Vec<_>>()[NAMES / 2];
    flip(&folder, among_them as u64);
    folder.write("example.com.zone", ZONE);
    // As a fold has left it that came to no image.
    let own = "data/journal/z.example.zone";
    folder.write_long_ago(own, &read(&folder.0.join(own)));
    let server = start(&folder);
    assert!(read(&folder.0.join("log")).contains("the last one is served why=\"the image is damaged"));
    for n in [1, 2] {
        assert_eq!(server.short(&folder, &[&format!("n{n}.z.example"), "A"]), format!("192.0.2.{n}\n"));
    }
}

#[test]
fn a_folder_of_images_that_was_removed_is_made_again() {
    let folder = Folder::new();
    folder.configure(DIRECTORY);
    folder.write("zones/example.com.zone", ZONE);
    let server = Server::start(&folder, &["-c", "dunlin.toml"]);
    std::fs::remove_dir_all(folder.0.join("data/images")).unwrap();
    // Laid over what is served, and noted there; then one that takes a new image.
    for zone in ["example.net", "below.example.com"] {
        folder.write(&format!("zones/{zone}.zone"), ZONE);
        folder.does(&["reload", zone]);
        assert_eq!(server.short(&folder, &[&format!("www.{zone}")]), server.short(&folder, &["www.example.com"]));
    }
    assert!(folder.0.join("data/images/zones.image").exists());
}
