use super::*;
use crate::answering::later::Desk;
use crate::answering::queue;
use crate::config::{Peers, Written, Zone};
use crate::patience::eventually;
use front::{Peer, Ticket, Transport, Way};
use std::collections::HashSet;
use transfer::tsig::{Algorithm, Key};
use wire::Name;

fn name(text: &str) -> Box<[u8]> {
    Name::from_text(text.as_bytes(), None).unwrap().bytes().into()
}

const SECRET: &[u8] = b"0123456789abcdef";

fn key(secret: &[u8]) -> Key {
    Key::new(&Name::from_text(b"key.", None).unwrap(), Algorithm::Sha256, secret)
}

/// A registrar of two zones, one with a key, and what it needs of a server.
struct Stage {
    registrar: Registrar,
    means: Means,
    own: Secondaries,
    folder: PathBuf,
    config: Config,
}

impl Stage {
    fn new(test: &str) -> Stage {
        let folder = std::env::temp_dir().join(format!("dunlin-secondaries-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let (octets, _) = sim::image_of(&[("other.", "@ 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1")]);
        std::fs::write(folder.join("image"), octets).unwrap();
        let map = store::Map::copy_to_memory(&folder.join("image"), 1 << 20).unwrap();
        let image = image::Image::open_to_serve(Stretch::of(map), |_| 0).unwrap();
        let zones = Zones::of(image);
        let mut config = Config::default();
        config.server.data_dir.clone_from(&folder);
        config.keys = Keys::new(vec![key(SECRET)]);
        let zones_of = [("z.", "127.0.0.1:9"), ("k.", "127.0.0.1:9#key")].map(|(zone, primary)| {
            let primaries = vec![transfer::remote::Remote::from_text(primary).unwrap()];
            let peers = Some(Box::new(Peers { primaries, ..Peers::default() }));
            Zone { peers, ..Zone::new(name(zone), folder.join(format!("{zone}zone"))) }
        });
        config.roster.written = Written::new(zones_of.into());
        let clock = Clock::new();
        let (own, taken) = ends().unwrap();
        let registrar = begin(&config, &zones, clock, (own.clone(), taken)).unwrap();
        let (mailboxes, _) = Mailboxes::new(1).unwrap();
        let means = Means {
            published: Arc::new(Published::new(zones)),
            keys: Arc::new(Published::new(config.keys.clone())),
            mailboxes: Arc::new(mailboxes),
            state: Arc::new(State::new(vec![], 1, vec![], vec![], clock, queue::bounded(1).0)),
            clock,
        };
        Stage { registrar, means, own, folder, config }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A NOTIFY of a zone, from an address that its primaries are looked for by.
fn notify(stage: &Stage, zone: &str, key: Option<&Key>) -> Postponed {
    let mut message = ask::notify(7, &name(zone), None);
    key.into_iter().for_each(|key| _ = transfer::tsig::sign_request(key, &mut message, wall_s()));
    let peer = Peer { ip: [127, 0, 0, 1].into(), port: 4000 };
    let ticket = Ticket { thread: 0, way: Way::Stream(1) };
    let (presence, _) = stage.own.presence.current();
    let purpose = Purpose::Notify(Arc::clone(presence.caller(&name(zone), peer.ip).unwrap().unwrap()));
    Postponed { ticket, peer, transport: Transport::Tcp, message, purpose }
}

#[test]
fn however_many_notifies_one_sends_they_take_one_place() {
    let mut stage = Stage::new("storm");
    let (open, keyed) = (notify(&stage, "z.", None), notify(&stage, "k.", None));
    let taken = |n: usize, notify: &Postponed| (0..n).filter(|_| stage.own.take(notify.clone())).count();
    assert_eq!(taken(2 * ASKED_MAX, &open), 1);
    // Under the primary's address, by whoever: without its key.
    assert_eq!(taken(2 * DOUBTFUL_MAX, &keyed), DOUBTFUL_MAX);
    assert_eq!(taken(2 * DOUBTFUL_MAX, &notify(&stage, "z.", Some(&key(b"somebody else's.")))), 0);
    let signed = notify(&stage, "k.", Some(&key(SECRET)));
    assert_eq!(taken(ASKED_MAX, &signed), 1, "those of others take no place of its");
    // What comes while these are looked at is for another turn, which there is to be.
    for is_more in [true, false] {
        stage.registrar.taken.wake.clear();
        stage.registrar.take(0, &stage.means);
        assert_eq!(stage.registrar.taken.wake.clear(), is_more);
    }
    let counted = |counter| stage.means.state.count(counter);
    assert_eq!((counted(Counter::NotifyTaken), counted(Counter::NotifyRefused)), (2, DOUBTFUL_MAX as u64));
    assert!(stage.own.take(open) && stage.own.take(signed), "and then again");
}

#[test]
fn a_transfer_that_panics_gives_its_place_back_and_is_tried_again() {
    let mut stage = Stage::new("panics");
    stage.registrar.run = |_| panic!("on purpose");
    let (mut failures, zones) = (0, ["z.", "k."].map(|zone| stage.registrar.entries.of(&name(zone)).unwrap()));
    // More often than there are places.
    while failures < 2 * transfer::refresh::FETCHES_MAX.1 {
        let now = stage.registrar.refresher.next_deadline().unwrap();
        stage.registrar.act(now, &stage.means);
        assert!(stage.registrar.under_way > 0, "{failures}");
        failures += stage.registrar.under_way;
        eventually(|| {
            stage.registrar.take(now, &stage.means);
            stage.registrar.under_way == 0
        });
        assert!(stage.registrar.refresher.next_deadline().unwrap() > now);
    }
    assert_eq!(stage.means.state.count(Counter::ZoneNotReceived), failures as u64);
    for id in zones {
        let standing = stage.registrar.refresher.standing(id).unwrap();
        assert!(standing.phase == Phase::Waiting && standing.failures > 0);
        let trouble = stage.registrar.entries.entry(id).unwrap().trouble.clone();
        assert_eq!(trouble.as_deref(), Some("the thread that fetched it panicked"));
    }
}

/// A restart tells those again that have not answered.
#[test]
fn a_version_of_which_one_was_not_told_in_the_end_is_not_written_down_as_told() {
    let mut stage = Stage::new("given-up");
    let remote = |port: u16| transfer::remote::Remote::from_text(&format!("127.0.0.1:{port}")).unwrap();
    let peers = Peers { notify: vec![remote(9), remote(10)], ..Peers::default() };
    let zone = Zone { peers: Some(Box::new(peers)), ..Zone::new(name("other."), stage.folder.join("other")) };
    stage.config.roster.written = Written::new(vec![zone]);
    let (zones, _) = stage.means.published.current();
    stage.registrar.adopt(&stage.config, &zones, 0);
    let id = stage.registrar.entries.of(&name("other.")).unwrap();
    let [silent, other] = stage.registrar.entries.entry(id).unwrap().targets[..] else { panic!("two are told") };
    let is_noted = |stage: &Stage| stage.registrar.announced.of(&name("other.")).map(|told| told.serial);
    let hear = |stage: &mut Stage, now, target| {
        let heard = if target == silent { Heard::Silence("it is away".to_string()) } else { Heard::Told };
        stage.registrar.on_heard(now, Matter::Notify { zone: id, target }, heard, &stage.means);
    };
    stage.registrar.announce(0, id);
    let mut last = 0;
    while let Some(now) = stage.registrar.announcer.next_deadline() {
        while let Some((_, target)) = stage.registrar.announcer.next_action(now) {
            hear(&mut stage, now, target);
        }
        last = now;
    }
    stage.registrar.act(last, &stage.means);
    assert_eq!(stage.means.state.count(Counter::NotifyFailed), 1, "that one was not told");
    hear(&mut stage, last, other);
    assert_eq!(is_noted(&stage), None);
    stage.registrar.on_heard(last, Matter::Notify { zone: id, target: silent }, Heard::Told, &stage.means);
    assert_eq!(is_noted(&stage), Some(1));
}

/// What is known of zones and servers that come and go is of those that are configured.
#[test]
fn what_is_known_goes_with_the_zones_and_servers() {
    let mut stage = Stage::new("gone");
    let mut numbers = HashSet::new();
    let file_octets = |stage: &Stage, name| std::fs::metadata(stage.folder.join(SECONDARIES).join(name)).unwrap().len();
    for round in 0..50_i64 {
        // Two zones, of which one has another name each time, both with another primary and another secondary.
        let mut written = stage.config.roster.written.to_vec();
        for (i, zone) in written.iter_mut().enumerate() {
            let remote = |port: i64| transfer::remote::Remote::from_text(&format!("127.0.0.1:{port}")).unwrap();
            let peers = zone.peers.as_mut().unwrap();
            (peers.primaries, peers.notify) = (vec![remote(1000 + round)], vec![remote(2000 + round)]);
            if i == 0 {
                zone.apex = name(&format!("z{round}."));
            }
        }
        stage.config.roster.written = Written::new(written);
        let (zones, _) = stage.means.published.current();
        let now = round * 100_000;
        stage.registrar.adopt(&stage.config, &zones, now);
        let entries = &stage.registrar.entries;
        let ids: Vec<_> = entries.apexes().iter().filter_map(|apex| entries.of(apex)).collect();
        for id in ids {
            let entry = stage.registrar.entries.entry(id).unwrap();
            let (apex, primary, target) = (entry.apex.clone(), entry.primaries[0], entry.targets[0]);
            numbers.extend([primary, target]);
            stage.registrar.entries.falls_silent(primary, Over::Udp);
            let noted = Noted { at_s: 1, serial: 1, unserved: None };
            stage.registrar.times.note(&apex, noted).unwrap();
            stage.registrar.announced.note(&apex, noted).unwrap();
            stage.registrar.announce(now, id);
        }
        // All are told, and nobody answers.
        while let Some((zone, target)) = stage.registrar.announcer.next_action(now) {
            stage.registrar.announcer.on_told(now, (zone, target), Told::Silent);
        }
    }
    assert_eq!(numbers.len(), 100);
    numbers.retain(|number| stage.registrar.entries.is_server(*number));
    assert_eq!(numbers.len(), 2, "the last primary, and the last that is told");
    let far = 50 * 100_000;
    while let Some((zone, target)) = stage.registrar.announcer.next_action(far) {
        assert!(stage.registrar.entries.is_target(zone, target));
        stage.registrar.announcer.on_told(far, (zone, target), Told::Answered);
    }
    for times in [REFRESHED, ANNOUNCED] {
        assert_eq!(file_octets(&stage, times), 2 * 32, "{times}");
    }
}
