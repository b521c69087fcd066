//! Zones that come from primaries that lie, break off, or send what is not to be served.

use crate::running::{eventually, read};
use crate::secondaries::{PRIMARY, Site, ZONE, configure, primary_telling, secondary_of};
use difference::fleet::{free_port, free_sockets};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Owner, type, rdata.
type Rr = (Vec<u8>, u16, Vec<u8>);

/// How a primary lies: in the records of its messages, then in their octets.
#[derive(Clone, Copy)]
struct Lie(fn(&mut Vec<Vec<Rr>>), fn(&mut Vec<Vec<u8>>));

const APEX: &[u8] = b"\x04open\x04test\0";

/// A primary that says serial 9 and sends what `lie` makes of its zone; how often it was asked for it.
fn liar(lie: Lie) -> (SocketAddr, Arc<AtomicUsize>) {
    let (address, udp, tcp) = free_sockets();
    let asked = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        let mut room = [0; 512];
        while let Ok((n, from)) = udp.recv_from(&mut room) {
            udp.send_to(&message(&room[..n], &[soa(9)]), from).unwrap();
        }
    });
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in tcp.incoming() {
            let mut stream = stream.unwrap();
            let Some(question) = framed(&mut stream) else { continue };
            let ns = (APEX.to_vec(), 2, [b"\x03www", APEX].concat());
            let mut records =
                vec![vec![soa(9), ns], vec![a("www", 1)], vec![a("ns", 2)], vec![a("x", 3)], vec![soa(9)]];
            lie.0(&mut records);
            let mut messages: Vec<Vec<u8>> = records.iter().map(|records| message(&question, records)).collect();
            lie.1(&mut messages);
            count.fetch_add(1, Relaxed);
            for message in messages {
                let len = (message.len() as u16).to_be_bytes();
                if stream.write_all(&[&len[..], &message].concat()).is_err() {
                    break;
                }
            }
        }
    });
    (address, asked)
}

fn a(label: &str, n: u8) -> Rr {
    ([&[label.len() as u8], label.as_bytes(), APEX].concat(), 1, vec![192, 0, 2, n])
}

fn soa(serial: u8) -> Rr {
    let mut rdata = [APEX, APEX].concat();
    rdata.extend([0, 0, 0, serial, 0, 0, 14, 16, 0, 0, 2, 88, 0, 1, 81, 128, 0, 0, 0, 4]);
    (APEX.to_vec(), 6, rdata)
}

/// An answer of these records to a question without a signature.
fn message(question: &[u8], records: &[Rr]) -> Vec<u8> {
    let end = 12 + question[12..].iter().position(|&c| c == 0).unwrap() + 5;
    let mut message = question[..end].to_vec();
    (message[2], message[3], message[7]) = (0x84, 0, records.len() as u8);
    message[8..12].fill(0);
    for (owner, rtype, rdata) in records {
        message.extend(owner);
        message.extend([*rtype, 1, 0, 60, rdata.len() as u16].map(u16::to_be_bytes).concat());
        message.extend(rdata);
    }
    message
}

fn framed(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).ok()?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

const WRONG_DIGEST: Lie =
    Lie(|all| all[1].push((APEX.to_vec(), 63, [&[0, 0, 0, 9, 1, 1][..], &[0; 48]].concat())), |_| ());

const UNSERVED: &str = "what it sent is not served";

#[test]
fn a_primary_that_lies_leaves_the_last_good_version_serving() {
    let cases: [(&str, Lie); 11] = [
        ("something else than was asked", Lie(|_| (), |all| all[1][0] ^= 1)),
        ("closes the connection in the middle", Lie(|all| all.truncate(3), |_| ())),
        ("a message is malformed", Lie(|_| (), |all| _ = all[2].pop())),
        (
            "www.else.test., which is not of the zone",
            Lie(|all| all[2][0].0 = b"\x03www\x04else\x04test\0".to_vec(), |_| ()),
        ),
        ("another SOA", Lie(|all| all[4][0] = soa(10), |_| ())),
        ("behind the end", Lie(|all| all[4].push(a("y", 4)), |_| ())),
        ("it says REFUSED", Lie(|_| (), |all| all[0][3] = 5)),
        ("does not begin with the zone's SOA", Lie(|all| _ = all.remove(0), |_| ())),
        ("sends more than 65536 octets", Lie(|all| (0..5000).for_each(|_| all.insert(3, vec![a("x", 3)])), |_| ())),
        // Its digest is wrong.
        (UNSERVED, WRONG_DIGEST),
        ("", Lie(|_| (), |_| ())),
    ];
    let (theirs, ours) = (free_port(), free_port());
    let limits = "[limits]\ntransfer-size = \"64KiB\"\n";
    let good = Site::start(theirs, &PRIMARY.replace("{notify}", ""));
    let secondary = Site::start(ours, &format!("{limits}{}", secondary_of(theirs)));
    secondary.comes_to("open.test", 7);
    drop(good);
    for (why, lie) in cases {
        let (liar, asked) = liar(lie);
        let conf = secondary_of(theirs).replace(&format!("[\"{theirs}\"]"), &format!("[\"{liar}\"]"));
        configure(&secondary.folder, ours, &format!("{limits}{conf}"));
        let said = secondary.ctl(&["reload"]);
        // A version on the disk that is not served, and a reload says so; the one that is asked for now may be there before it ends.
        let is_told = said.contains("ZONEMD");
        assert!(
            said.contains("ok true") && !why.is_empty() || is_told && (why.is_empty() || why == UNSERVED),
            "{why}: {said}"
        );
        if why.is_empty() {
            assert!(secondary.ctl(&["zone", "transfer", "open.test"]).contains("ok true"));
            secondary.comes_to("open.test", 9);
            continue;
        }
        let list = || secondary.ctl(&["zone", "list", "open.test"]);
        eventually(&format!("{why} is found out"), || list().contains(why) && asked.load(Relaxed) > 0);
        let has = (secondary.serial("open.test"), secondary.has("x.wild.open.test", "TXT"));
        assert_eq!(has, (Some(7), "\"star\"\n".into()), "{why}");
        let names = fs::read_dir(secondary.folder.0.join("kept")).unwrap().count();
        assert_eq!(names, 1, "{why}: nothing is left behind");
    }
}

#[test]
fn a_transfer_that_broke_off_is_begun_again_long_before_the_retry_time() {
    static TRANSFERS: AtomicUsize = AtomicUsize::new(0);
    let breaks_off_once = Lie(|all| all.truncate(if TRANSFERS.fetch_add(1, Relaxed) == 0 { 3 } else { 5 }), |_| ());
    let (theirs, ours) = (free_port(), free_port());
    let good = Site::start(theirs, &PRIMARY.replace("{notify}", ""));
    let secondary = Site::start(ours, &secondary_of(theirs));
    secondary.comes_to("open.test", 7);
    drop(good);
    let (liar, asked) = liar(breaks_off_once);
    configure(
        &secondary.folder,
        ours,
        &secondary_of(theirs).replace(&format!("[\"{theirs}\"]"), &format!("[\"{liar}\"]")),
    );
    assert!(secondary.ctl(&["reload"]).contains("ok true"));
    secondary.comes_to("open.test", 9);
    assert!(asked.load(Relaxed) >= 2, "the first was cut off");
}

#[test]
fn what_comes_first_is_not_served_with_a_wrong_digest_unless_the_operator_wants_it() {
    let (liar, asked) = liar(WRONG_DIGEST);
    let mut secondary = Site::start(free_port(), &secondary_of(liar));
    let is_found = |secondary: &Site| secondary.ctl(&["zone", "list", "open.test"]).contains(UNSERVED);
    eventually("it is found out", || asked.load(Relaxed) > 0 && is_found(&secondary));
    assert!(secondary.says("www.open.test", "A").contains("SERVFAIL"));
    assert!(secondary.ctl(&["status", "--json"]).contains("ZONEMD"));
    secondary.restart();
    assert!(secondary.says("www.open.test", "A").contains("SERVFAIL"));
    let shown = secondary.ctl(&["zone", "show", "open.test"]);
    assert!(shown.contains("trouble ") && shown.contains("ZONEMD"), "{shown}");
    assert!(secondary.ctl(&["zone", "publish", "--force", "open.test"]).contains("ok true"));
    eventually("no trouble", || secondary.ctl(&["--json", "zone", "list", "open.test"]).contains("\"trouble\":null"));
    secondary.comes_to("open.test", 9);
    let shown = secondary.ctl(&["--json", "zone", "show", "open.test"]);
    assert!(
        shown.starts_with("{\"ok\":true,\"secondary\":{") && shown.contains("},\"records\":[\"open.test. "),
        "{shown}"
    );
    // It is in an image before anything else is done.
    secondary.ctl(&["reload", "open.test"]);
    secondary.restart();
    assert_eq!(secondary.serial("open.test"), Some(9));
}

/// A start would weigh it beside nothing.
#[test]
fn what_came_first_without_guards_is_served_on_after_a_start_with_them() {
    let (liar, _) = liar(WRONG_DIGEST);
    let mut secondary = Site::start(free_port(), &format!("{}[guards]\nenabled = false\n", secondary_of(liar)));
    secondary.comes_to("open.test", 9);
    configure(&secondary.folder, secondary.server.address, &secondary_of(liar));
    secondary.folder.does(&["reload"]);
    secondary.restart();
    assert_eq!(secondary.serial("open.test"), Some(9));
}

#[test]
fn a_kill_in_the_middle_of_a_transfer_leaves_the_last_good_version() {
    let (theirs, ours) = (free_port(), free_port());
    let primary = Site::start(theirs, &primary_telling(ours));
    let mut secondary = Site::start(ours, &secondary_of(theirs));
    secondary.comes_to("open.test", 7);
    drop(primary);
    // This one begins a zone and never goes on.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stuck = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut all = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Some(question) = framed(&mut stream) else { continue };
            let first = message(&question, &[soa(9), a("www", 1)]);
            stream.write_all(&[&(first.len() as u16).to_be_bytes()[..], &first].concat()).unwrap();
            all.push(stream);
        }
    });
    let conf = secondary_of(theirs).replace(&format!("[\"{theirs}\"]"), &format!("[\"{stuck}\"]"));
    configure(&secondary.folder, ours, &conf);
    assert!(secondary.ctl(&["reload"]).contains("ok true"));
    assert!(secondary.ctl(&["zone", "transfer", "open.test"]).contains("ok true"));
    let kept = secondary.folder.0.join("kept");
    let files = || fs::read_dir(&kept).unwrap().count();
    eventually("it is under way", || files() == 2);
    assert!(secondary.ctl(&["zone", "list", "open.test"]).contains("state transferring"));
    assert_eq!(secondary.serial("open.test"), Some(7));
    secondary.restart();
    assert_eq!((secondary.serial("open.test"), files()), (Some(7), 1), "and nothing is left behind");
}

#[test]
fn a_transfer_that_is_called_off_leaves_the_file_to_whose_it_is() {
    let (theirs, ours) = (free_port(), free_port());
    let primary = Site::start(theirs, &primary_telling(ours));
    let secondary = Site::start(ours, &secondary_of(theirs));
    secondary.comes_to("open.test", 7);
    drop(primary);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let slow = listener.local_addr().unwrap();
    let (go_on, told) = std::sync::mpsc::channel::<()>();
    let (ended, end) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let question = framed(&mut stream).unwrap();
        let mut send = |records: &[Rr]| {
            let message = message(&question, records);
            stream.write_all(&[&(message.len() as u16).to_be_bytes()[..], &message].concat()).unwrap();
        };
        let ns = (APEX.to_vec(), 2, [b"\x03www", APEX].concat());
        send(&[soa(9), ns, a("www", 9)]);
        told.recv().unwrap();
        send(&[soa(9)]);
        // Until the other end has gone.
        let _ = stream.read(&mut [0]);
        ended.send(()).unwrap();
    });
    let conf = secondary_of(theirs).replace(&format!("[\"{theirs}\"]"), &format!("[\"{slow}\"]"));
    configure(&secondary.folder, ours, &conf);
    assert!(secondary.ctl(&["reload"]).contains("ok true"));
    assert!(secondary.ctl(&["zone", "transfer", "open.test"]).contains("ok true"));
    let kept = secondary.folder.0.join("kept");
    eventually("it is under way", || fs::read_dir(&kept).unwrap().count() == 2);
    // It is ours from now on.
    configure(&secondary.folder, ours, "[[zone]]\nname = \"open.test\"\nfile = \"kept/open.zone\"\n");
    assert!(secondary.ctl(&["reload"]).contains("ok true"));
    assert!(secondary.ctl(&["zone", "list"]).contains("zones"), "it has heard of it");
    secondary.folder.write("kept/open.zone", &ZONE.replace(" 7 ", " 8 "));
    go_on.send(()).unwrap();
    end.recv().unwrap();
    assert_eq!(read(&kept.join("open.zone")), ZONE.replace(" 7 ", " 8 "));
}
