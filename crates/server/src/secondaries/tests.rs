use super::*;
use crate::config::{Peers, Zone};
use crate::patience::eventually;
use front::{Peer, Purpose, Ticket, Transport, Way};
use wire::Name;

fn name(text: &str) -> Box<[u8]> {
    Name::from_text(text.as_bytes(), None).unwrap().bytes().into()
}

/// A registrar of one zone, with what it needs of a server.
struct Stage {
    registrar: Registrar,
    means: Means,
    own: Secondaries,
    folder: PathBuf,
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
        let zones = Zones { image, allow_query: Arc::default() };
        let mut config = Config::default();
        config.server.data_dir.clone_from(&folder);
        let primaries = vec![transfer::remote::Remote::from_text("127.0.0.1:9").unwrap()];
        let peers = Some(Box::new(Peers { primaries, ..Peers::default() }));
        config.roster.written.push(Zone { peers, ..Zone::new(name("z."), folder.join("z.zone")) });
        let clock = Clock::new();
        let (own, taken) = ends().unwrap();
        let registrar = begin(&config, &zones, clock, (own.clone(), taken)).unwrap();
        let (mailboxes, _) = Mailboxes::new(1).unwrap();
        let means = Means {
            published: Arc::new(Published::new(zones)),
            keys: Arc::new(Published::new(Keys::default())),
            mailboxes: Arc::new(mailboxes),
            state: Arc::new(State::new(vec![], 1, vec![], vec![], clock, channel().0)),
            clock,
        };
        Stage { registrar, means, own, folder }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn whoever_sends_notifies_without_end_keeps_nothing_else_waiting() {
    let mut stage = Stage::new("storm");
    let message = ask::notify(7, &name("z."), None);
    let peer = Peer { ip: [192, 0, 2, 1].into(), port: 4000 };
    let ticket = Ticket { thread: 0, way: Way::Stream(1) };
    let notify = Postponed { ticket, peer, transport: Transport::Tcp, message, purpose: Purpose::Notify };
    assert_eq!((0..2 * ASKED_MAX).filter(|_| stage.own.take(notify.clone())).count(), ASKED_MAX);
    // What comes while these are looked at is for another turn, which there is to be.
    for is_more in [true, false] {
        stage.registrar.taken.wake.clear();
        stage.registrar.take(0, &stage.means);
        assert_eq!(stage.registrar.taken.wake.clear(), is_more);
    }
}

#[test]
fn a_transfer_that_panics_gives_its_place_back_and_is_tried_again() {
    let mut stage = Stage::new("panics");
    stage.registrar.run = |_| panic!("on purpose");
    // More often than there are places.
    for failures in 1..=2 * transfer::refresh::FETCHES_MAX.1 as u64 {
        let now = stage.registrar.refresher.next_deadline().unwrap();
        stage.registrar.act(now, &stage.means);
        assert_eq!(stage.registrar.under_way, 1, "{failures}");
        eventually(|| {
            stage.registrar.take(now, &stage.means);
            stage.registrar.under_way == 0
        });
        assert_eq!(stage.means.state.count(Counter::ZoneNotReceived), failures);
        let id = stage.registrar.entries.of(&name("z.")).unwrap();
        let standing = stage.registrar.refresher.standing(id).unwrap();
        assert_eq!((standing.phase, u64::from(standing.failures)), (Phase::Waiting, failures));
        assert!(standing.next > now);
        let trouble = stage.registrar.entries.entry(id).unwrap().trouble.clone();
        assert_eq!(trouble.as_deref(), Some("the thread that fetched it panicked"));
    }
}
