//! Large files of ours are cut off when they have lost their names. Alone in its process: one that another thread of it had just begun has copies of all
//! descriptors for a moment, and then nothing is cut off.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use store::Map;
use store::atomic::write_atomically;
use store::removal::{begin, remove};

const LARGE: u64 = (24 << 20) + 1;

fn large(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, b"large").unwrap();
    File::options().write(true).open(&path).unwrap().set_len(LARGE).unwrap();
    path
}

/// A descriptor that only says what becomes of a file: it is no use of it.
fn look(path: &Path) -> impl Fn() -> u64 {
    let file = File::options().read(true).custom_flags(libc::O_PATH).open(path).unwrap();
    move || file.metadata().unwrap().len()
}

fn wait(len: &dyn Fn() -> u64) {
    let end = Instant::now() + Duration::from_secs(60);
    while len() > 0 {
        assert!(Instant::now() < end, "it is not cut off");
        thread::yield_now();
    }
}

#[test]
fn a_large_file_of_ours_is_cut_off_when_it_has_lost_its_name() {
    // No overlay, as a container's other folders may be: there nothing is cut off.
    let above = Path::new("/dev/shm").join(format!("dunlin-store-removal-{}", std::process::id()));
    let (ours, others) = (above.join("ours"), above.join("others"));
    [&above, &ours, &others].into_iter().for_each(|dir| fs::create_dir(dir).unwrap());
    begin(&ours).unwrap();

    let path = large(&ours, "removed");
    let len = look(&path);
    remove(&path).unwrap();
    wait(&len);

    let path = large(&ours, "replaced");
    let len = look(&path);
    write_atomically(&ours, "replaced", None, |out| out.write_all(b"new")).unwrap();
    wait(&len);

    let path = large(&ours, "mapped");
    let (len, map) = (look(&path), Map::open(&path).unwrap());
    remove(&path).unwrap();
    // One after another: when this one is gone, that one's turn was before.
    let next = large(&ours, "next");
    let next_len = look(&next);
    remove(&next).unwrap();
    wait(&next_len);
    assert_eq!((len(), map.len() as u64, map.faults()), (LARGE, LARGE, 0), "it is mapped");
    drop(map);
    wait(&len);

    fs::write(ours.join("small"), "s").unwrap();
    remove(&ours.join("small")).unwrap();
    assert_eq!(remove(&ours.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);

    let path = large(&others, "not ours");
    let len = look(&path);
    remove(&path).unwrap();
    let next = large(&ours, "next");
    let next_len = look(&next);
    remove(&next).unwrap();
    wait(&next_len);
    assert_eq!(len(), LARGE);
    fs::remove_dir_all(&above).unwrap();
}
