//! Ends that nobody planned: kill -9 at any moment, and disks that are full at any write.

use crate::running::{Folder, Server, ZONE, at_home, command, eventually, read, text};
use crate::versions::by_another_version;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Rounds of killing; DUNLIN_KILLS says how many, DUNLIN_SEED where they begin. A failure prints the seed.
fn rounds() -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    (number("DUNLIN_KILLS").unwrap_or(15), number("DUNLIN_SEED").unwrap_or(1))
}

/// SplitMix64.
fn random(seed: u64) -> u64 {
    let z = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

const CONFIGURATION: &str =
    "[limits]\nenabled = false\n[[zone]]\nname = \"example.com\"\nfile = \"example.com.zone\"\n";

/// Long enough that it takes a while to build.
fn write_zone(folder: &Folder, version: u64, records: usize) {
    let many: String = (0..records).map(|i| format!("n{i} TXT \"of version {version}\"\n")).collect();
    // As whoever replaces a file should: a reader never sees half of it.
    let new = folder.write("new", &format!("{ZONE}version TXT {version}\n{many}"));
    std::fs::rename(new, folder.0.join("example.com.zone")).unwrap();
}

fn version(folder: &Folder, server: &Server) -> String {
    let all = [&["version.example.com", "TXT"][..], &["n7.example.com", "TXT"]];
    all.map(|words| server.short(folder, words)).concat()
}

fn expected(version: u64) -> String {
    format!("\"{version}\"\n\"of version {version}\"\n")
}

fn started(folder: &Folder) -> Server {
    Server::start(folder, &["-c", "dunlin.toml"])
}

fn wait(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
    }
}

/// What writers that died have left below the data folder.
fn left_behind(folder: &Folder) -> Vec<String> {
    let names = std::fs::read_dir(folder.0.join("data/images")).unwrap();
    names.map(|n| n.unwrap().file_name().into_string().unwrap()).filter(|n| n.ends_with(".new")).collect()
}

#[test]
fn a_compile_that_is_killed_at_any_moment_leaves_the_last_good_image() {
    let folder = Folder::new();
    folder.configure(CONFIGURATION);
    write_zone(&folder, 0, 20_000);
    let compile = || command(&folder.0).args(["compile", "-c", "dunlin.toml"]).spawn().unwrap();
    let start = Instant::now();
    assert!(compile().wait().unwrap().success());
    let long = start.elapsed();
    let image = folder.0.join("data/images/zones.image");
    let (rounds, seed) = rounds();
    let mut good = std::fs::read(&image).unwrap();
    for round in 0..rounds {
        write_zone(&folder, round + 1, 20_000);
        let mut child = compile();
        wait(long.mul_f64((random(seed + round) % 1200) as f64 / 1000.0));
        child.kill().unwrap();
        let is_done = child.wait().unwrap().success();
        let now = std::fs::read(&image).unwrap();
        // Either of the two, whole.
        let dump = folder.dunlin(&["zone", "dump", "data/images/zones.image"]);
        assert_eq!(dump.status.code(), Some(0), "seed {seed}, round {round}: {}", text(&dump.stderr));
        assert!(now == good || dump.stdout.windows(20).any(|w| w.starts_with(b"\"of version ")), "seed {seed}");
        assert!(!is_done || now != good, "seed {seed}, round {round}");
        good = now;
    }
    let server = started(&folder);
    assert_eq!(version(&folder, &server), expected(rounds), "seed {seed}");
    assert_eq!(left_behind(&folder), [""; 0], "a start removes what the dead have left");
}

#[test]
fn a_server_that_is_killed_while_it_reloads_comes_back_with_good_data() {
    let folder = Folder::new();
    folder.configure(CONFIGURATION);
    write_zone(&folder, 0, 20_000);
    let (rounds, seed) = rounds();
    let mut long = Duration::from_millis(300);
    for round in 0..rounds {
        let server = started(&folder);
        assert_eq!(version(&folder, &server), expected(round), "seed {seed}, round {round}");
        write_zone(&folder, round + 1, 20_000);
        let asked = Instant::now();
        server.signal("HUP");
        if round == 0 {
            eventually("the first reload", || version(&folder, &server) == expected(1));
            long = asked.elapsed();
        }
        wait(long.mul_f64((random(seed + round) % 1200) as f64 / 1000.0));
        // The new version may come between the two questions: then the next two are both of it.
        let (now, then) = (version(&folder, &server), version(&folder, &server));
        let is_good = [&now, &then].iter().any(|v| **v == expected(round) || **v == expected(round + 1));
        assert!(is_good, "seed {seed}, round {round}: {now}{then}");
        server.killed();
    }
    let server = started(&folder);
    assert_eq!(version(&folder, &server), expected(rounds), "seed {seed}");
    assert_eq!(left_behind(&folder), [""; 0]);
}

/// The program, where no file may grow beyond so many blocks of 512 octets: each write past that fails.
fn limited(folder: &Folder, blocks: u64, args: &str) -> Command {
    let mut command = at_home(&folder.0, Command::new("sh"));
    let program = env!("CARGO_BIN_EXE_dunlin");
    command.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec {program} {args}")]);
    command
}

#[test]
fn a_disk_that_is_full_at_any_write_leaves_the_last_good_image_and_says_what_is_needed() {
    let folder = Folder::new();
    folder.configure(CONFIGURATION);
    write_zone(&folder, 1, 200);
    assert_eq!(folder.dunlin(&["compile", "-c", "dunlin.toml"]).status.code(), Some(0));
    let image = folder.0.join("data/images/zones.image");
    let good = std::fs::read(&image).unwrap();
    write_zone(&folder, 2, 200);
    let (mut failed, mut done) = (0, false);
    for blocks in 0..good.len() as u64 / 512 + 3 {
        let Output { status, stderr, .. } = limited(&folder, blocks, "compile -c dunlin.toml").output().unwrap();
        done = status.success();
        if done {
            break;
        }
        failed += 1;
        let said = text(&stderr);
        assert_eq!(status.code(), Some(2), "{said}");
        assert!(said.contains("data/images/zones.image: no space: needs 1 MiB"), "{blocks}: {said}");
        assert!(std::fs::read(&image).unwrap() == good, "{blocks}");
        assert_eq!(left_behind(&folder), [""; 0], "{blocks}");
    }
    assert!(done && failed > 10, "{failed}");
    // One image by itself, into a file of the caller's.
    let compile = limited(&folder, 8, "zone compile example.com.zone --origin example.com -o own").output().unwrap();
    assert_eq!(compile.status.code(), Some(2));
    assert!(text(&compile.stderr).contains("own: no space: needs 1 MiB"), "{}", text(&compile.stderr));
    assert!(!folder.0.join("own").exists());
}

#[test]
fn a_server_whose_disk_is_full_serves_on_and_says_so() {
    let folder = Folder::new();
    folder.configure(CONFIGURATION);
    write_zone(&folder, 1, 200);
    assert_eq!(folder.dunlin(&["compile", "-c", "dunlin.toml"]).status.code(), Some(0));
    // So that the start needs no room.
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    std::fs::File::open(folder.0.join("example.com.zone")).unwrap().set_modified(old).unwrap();
    assert_eq!(folder.dunlin(&["compile", "-c", "dunlin.toml"]).status.code(), Some(0));
    let server = Server::start_as(&folder, limited(&folder, 16, "serve -c dunlin.toml"));
    assert_eq!(version(&folder, &server), expected(1));
    write_zone(&folder, 2, 200);
    let reload = folder.ctl(&["reload"]);
    assert_eq!(reload.status.code(), Some(1));
    let said = text(&reload.stderr);
    assert!(said.contains("no new image, the old one stays: data/images/zones.image: no space: needs 1 MiB"), "{said}");
    assert_eq!(version(&folder, &server), expected(1));
    assert!(read(&folder.0.join("log")).contains("error reload why=\"no new image"));
    assert!(folder.does(&["status", "--json"]).contains("\"no_new_image\":\"data/images/zones.image: no space"));
}

/// A script in namespaces of its own, in which `data` is a disk of a MiB of memory. Anybody may make them where the system lets
/// them; a test that cannot have them fails.
fn on_a_small_disk(folder: &Folder, script: &str) -> Command {
    let mut unshare = at_home(&folder.0, Command::new("unshare"));
    let disk = "mkdir -p data && mount -t tmpfs -o size=1m small data || { echo 'no disk of its own can be had here' >&2; exit 77; }";
    unshare.args(["-Urm", "sh", "-ec", &format!("{disk}\n{script}")]).env("DUNLIN", env!("CARGO_BIN_EXE_dunlin"));
    unshare
}

/// Fills the disk but for `$1` KiB.
const FILL: &str = "fill() {
    rm -f data/filler
    head -c $(($(df -k --output=avail data | tail -n 1) - $1))k /dev/zero > data/filler
}
";

#[test]
fn a_disk_that_is_full_after_any_page_leaves_the_last_good_image() {
    let folder = Folder::new();
    folder.configure(CONFIGURATION);
    write_zone(&folder, 2, 200);
    std::fs::rename(folder.0.join("example.com.zone"), folder.0.join("second")).unwrap();
    write_zone(&folder, 1, 200);
    let script = FILL.to_string()
        + "$DUNLIN compile -c dunlin.toml
        mv second example.com.zone
        cp data/images/zones.image data/images/zones.manifest .
        room=0
        until fill $room; $DUNLIN compile -c dunlin.toml 2> said; do
            grep -q 'data/images/zones[.].*: no space: needs 1 MiB' said
            cmp zones.image data/images/zones.image
            cmp zones.manifest data/images/zones.manifest
            test -z \"$(find data -name '*.new')\"
            room=$((room + 4))
        done
        echo failed at $room
        $DUNLIN zone dump data/images/zones.image | grep -c 'of version 2'";
    let output = on_a_small_disk(&folder, &script).output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let failed = said.lines().find_map(|line| line.strip_prefix("failed at ")?.parse().ok());
    assert!(failed.is_some_and(|kib: u64| kib >= 16) && said.ends_with("\n200\n"), "{said}");
}

/// Also where the image is of another version of the program, and is to be made anew.
#[test]
fn a_start_on_a_full_disk_serves_what_was_there_and_what_can_be_laid_over_it() {
    for is_of_another_version in [false, true] {
        let folder = Folder::new();
        folder.configure(CONFIGURATION);
        write_zone(&folder, 2, 200);
        std::fs::rename(folder.0.join("example.com.zone"), folder.0.join("second")).unwrap();
        write_zone(&folder, 1, 200);
        folder.write("come.zone", ZONE);
        let come = "[[zone]]\nname = \"come.example\"\nfile = \"come.zone\"\n";
        folder.write("more.toml", &(read(&folder.0.join("dunlin.toml")) + come));
        let compiled = folder.dunlin(&["compile", "-c", "dunlin.toml"]);
        assert_eq!(compiled.status.code(), Some(0), "{}", text(&compiled.stderr));
        if is_of_another_version {
            by_another_version(&folder);
        }
        std::fs::rename(folder.0.join("data/images"), folder.0.join("images")).unwrap();
        let script = FILL.to_string()
            + "cp -r images data/images
            mv second example.com.zone
            mv more.toml dunlin.toml
            fill 4
            exec $DUNLIN serve -c dunlin.toml";
        let server = Server::start_as(&folder, on_a_small_disk(&folder, &script));
        assert_eq!(
            server.short(&folder, &["www.come.example"]),
            "192.0.2.2\n",
            "one that came, from the first answer on"
        );
        eventually("the new version", || version(&folder, &server) == expected(2));
        let log = read(&folder.0.join("log"));
        assert!(log.contains("the last one is served") && log.contains("no space: needs 1 MiB"), "{log}");
    }
}

/// What was for some would be for everybody: of a zone that is configured no more, and of one that is read from elsewhere now.
#[test]
fn a_start_on_a_full_disk_serves_nothing_of_zones_that_have_gone_or_moved() {
    let folder = Folder::new();
    let zone = |name: &str| {
        let rest = "file = \"private.zone\"\nallow-query = [\"192.0.2.0/24\"]\n";
        format!("[[zone]]\nname = \"{name}.example\"\n{rest}")
    };
    folder.write("private.zone", ZONE);
    let public = ZONE.replace("192.0.2.2", "192.0.2.9");
    ["moved", "come"].iter().for_each(|name| drop(folder.write(&format!("zones/{name}.example.zone"), &public)));
    folder.configure(&[CONFIGURATION, &zone("gone"), &zone("moved")].concat());
    folder.write("private.toml", &read(&folder.0.join("dunlin.toml")));
    let opened = "[[zone]]\nname = \"open.example\"\nfile = \"open.zone\"\nallow-query = [\"127.0.0.1\"]\n";
    folder
        .write("private.toml", &(read(&folder.0.join("private.toml")) + &opened.replace("127.0.0.1", "192.0.2.0/24")));
    folder.write("open.zone", ZONE);
    folder.write("opened.zone", &public);
    folder.configure(&format!("[zones]\ndirectory = \"zones\"\n{CONFIGURATION}{opened}"));
    write_zone(&folder, 1, 200);
    let script = FILL.to_string()
        + "$DUNLIN compile -c private.toml > said
        mv opened.zone open.zone
        fill 12
        exec $DUNLIN serve -c dunlin.toml";
    let server = Server::start_as(&folder, on_a_small_disk(&folder, &script));
    assert_eq!(version(&folder, &server), expected(1));
    let asked = |name: &str| server.short(&folder, &[&format!("www.{name}.example")]);
    // What was taken out of a zone before it was opened is shown to nobody.
    assert_eq!(asked("open"), "192.0.2.9\n");
    assert_eq!(asked("gone"), "");
    assert_ne!(asked("moved"), "192.0.2.2\n");
    eventually("what is public", || ["moved", "come"].iter().all(|name| asked(name) == "192.0.2.9\n"));
    assert!(read(&folder.0.join("log")).contains("the last one is served"));
}
