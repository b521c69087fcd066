use super::*;
use proptest::prelude::*;

mod held;

fn timers(serial: u32, refresh_s: u32, retry_s: u32, expire_s: u32) -> Timers {
    Timers { serial, refresh_s, retry_s, expire_s }
}

fn soa(numbers: [u32; 5]) -> Vec<u8> {
    [&b"\0\0"[..], &numbers.map(u32::to_be_bytes).concat()].concat()
}

#[test]
fn times_of_a_soa_are_taken_within_bounds() {
    const DAY: u32 = 86_400;
    for (numbers, expect) in [
        ([7, 14_400, 3600, 7 * DAY, 300], timers(7, 14_400, 3600, 7 * DAY)),
        ([7, 1, 1, 1, 0], timers(7, 2, 2, 4)),
        ([7, 0, 0, 0, 0], timers(7, 2, 2, 4)),
        ([7, 3600, 600, 60, 0], timers(7, 3600, 600, 4200)),
        ([7, u32::MAX, u32::MAX, u32::MAX, 0], timers(7, 28 * DAY, 14 * DAY, 168 * DAY)),
    ] {
        assert_eq!(Timers::of(&soa(numbers)), Some(expect), "{numbers:?}");
    }
    assert_eq!(Timers::of(&[0; 19]), None);
}

#[test]
fn chance_takes_a_tenth_at_most() {
    assert_eq!([spread(1000, 0), spread(1000, u32::MAX)], [1000, 901]);
}

const SERVED: Timers = Timers { serial: 5, refresh_s: 100, retry_s: 10, expire_s: 1000 };
const S: Ms = 1000;

/// A refresher whose driver is the test.
struct Desk {
    refresher: Refresher,
    now: Ms,
    zones: u64,
}

impl Desk {
    fn new() -> Desk {
        Desk { refresher: Refresher::default(), now: 0, zones: 0 }
    }

    fn add(&mut self, primaries: &[PrimaryId], served: Option<Timers>, refreshed: Option<Ms>) -> ZoneId {
        self.zones += 1;
        self.refresher.add(self.now, 0, ZoneId(self.zones), primaries.to_vec(), served, refreshed);
        ZoneId(self.zones)
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.refresher.next_action(self.now, 0)).collect()
    }

    /// What is to be done at the next deadline.
    fn next(&mut self) -> (Ms, Vec<Action>) {
        self.now = self.refresher.next_deadline().unwrap();
        (self.now, self.actions())
    }

    fn asked(&mut self, zone: ZoneId, primary: PrimaryId, asked: Asked) -> Vec<Action> {
        self.refresher.on_asked(self.now, 0, zone, primary, asked);
        self.actions()
    }

    fn fetched(&mut self, zone: ZoneId, primary: PrimaryId, fetched: Fetched) -> Vec<Action> {
        self.refresher.on_fetched(self.now, 0, zone, primary, fetched);
        self.actions()
    }

    fn laid(&mut self, zone: ZoneId, received: u32, served: Option<Timers>) -> Vec<Action> {
        self.refresher.on_laid(self.now, 0, zone, received, served);
        self.actions()
    }
}

fn ask(zone: ZoneId, primary: PrimaryId) -> Action {
    Action::Ask { zone, primary }
}

fn fetch(zone: ZoneId, primary: PrimaryId, known: Option<u32>) -> Action {
    Action::Fetch { zone, primary, known }
}

const SILENT: Asked = Asked::Useless(Useless::Silent);
const REFUSED: Asked = Asked::Useless(Useless::Answers);

#[test]
fn a_zone_is_asked_for_after_refresh_and_after_retry_and_expires() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3], Some(SERVED), Some(0));
    assert_eq!(desk.next(), (100 * S, vec![ask(zone, 3)]));
    // Nothing new: that is a refresh.
    assert_eq!(desk.asked(zone, 3, Asked::Serial(5)), [Action::Refreshed { zone, at: 100 * S }]);
    assert_eq!(desk.next(), (200 * S, vec![ask(zone, 3)]));
    // From here on there is no answer; an older version is none.
    let mut n = 0;
    loop {
        let answer = [REFUSED, Asked::Serial(4)][n % 2];
        n += 1;
        assert_eq!(desk.asked(zone, 3, answer), []);
        let (at, actions) = desk.next();
        if at == 1100 * S {
            assert_eq!(actions[0], Action::Expired { zone, is_expired: true });
            break;
        }
        assert_eq!((at, actions), ((200 + n as Ms * 10) * S, vec![ask(zone, 3)]));
    }
    assert_eq!(n, 90);
    let standing = desk.refresher.standing(zone).unwrap();
    assert!(standing.is_expired && standing.failures == 90);
    // It goes on being asked for, and is as good as before when somebody says so.
    let fresh = [Action::Refreshed { zone, at: desk.now }, Action::Expired { zone, is_expired: false }];
    assert_eq!(desk.asked(zone, 3, Asked::Serial(5)), fresh);
}

#[test]
fn what_is_newer_is_fetched_and_counts_from_when_it_is_served() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3], Some(SERVED), Some(0));
    desk.next();
    assert_eq!(desk.asked(zone, 3, Asked::Serial(6)), [fetch(zone, 3, Some(5))]);
    assert_eq!(desk.fetched(zone, 3, Fetched::Whole(6)), []);
    assert_eq!(desk.refresher.standing(zone).unwrap().phase, Phase::Laying);
    desk.now += S;
    let laid = desk.laid(zone, 6, Some(timers(6, 50, 10, 1000)));
    assert_eq!(laid, [Action::Refreshed { zone, at: 101 * S }]);
    assert_eq!(desk.next(), (151 * S, vec![ask(zone, 3)]));
}

#[test]
fn serials_are_compared_on_a_circle() {
    for (known, serial, is_newer) in
        [(5, 6, true), (u32::MAX, 0, true), (0, u32::MAX, false), (5, 5, false), (5, 4, false)]
    {
        let mut desk = Desk::new();
        let zone = desk.add(&[0], Some(Timers { serial: known, ..SERVED }), Some(0));
        desk.next();
        let is_fetched = desk.asked(zone, 0, Asked::Serial(serial)) == [fetch(zone, 0, Some(known))];
        assert_eq!(is_fetched, is_newer, "{known} {serial}");
    }
}

#[test]
fn who_says_nothing_over_udp_is_asked_over_tcp_before_it_is_given_up() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3, 4], Some(SERVED), Some(0));
    desk.next();
    assert_eq!(desk.asked(zone, 3, SILENT), [ask(zone, 4)]);
    assert_eq!(desk.asked(zone, 4, SILENT), [fetch(zone, 3, Some(5))]);
    assert_eq!(desk.fetched(zone, 3, Fetched::Useless(Useless::Silent)), [fetch(zone, 4, Some(5))]);
    // As long as it can be had so it does not expire.
    for n in 1..20 {
        let refreshed = Action::Refreshed { zone, at: n * 100 * S };
        assert_eq!(desk.fetched(zone, 4, Fetched::NotNewer(5)), [refreshed], "{n}");
        assert_eq!(desk.next().1, [ask(zone, 3)], "{n}: UDP costs less");
        assert_eq!(desk.asked(zone, 3, SILENT), [ask(zone, 4)], "{n}");
        assert_eq!(desk.asked(zone, 4, SILENT), [fetch(zone, 3, Some(5))], "{n}");
        assert_eq!(desk.fetched(zone, 3, Fetched::Useless(Useless::Silent)), [fetch(zone, 4, Some(5))], "{n}");
    }
    assert_eq!(desk.fetched(zone, 4, Fetched::Useless(Useless::Answers)), [], "once each");
    assert_eq!(desk.refresher.standing(zone).unwrap().failures, 1);
    // Who answers over UDP, and not with this zone, has nothing else to say over TCP.
    let mut desk = Desk::new();
    let zone = desk.add(&[3, 4], Some(SERVED), Some(0));
    desk.next();
    assert_eq!(desk.asked(zone, 3, REFUSED), [ask(zone, 4)]);
    assert_eq!(desk.asked(zone, 4, SILENT), [fetch(zone, 4, Some(5))]);
}

#[test]
fn zones_of_a_primary_that_is_silent_over_udp_go_on_over_tcp_and_those_of_a_dead_one_try_it_once() {
    for is_dead in [false, true] {
        let mut desk = Desk::new();
        // Nobody comes back before he hears of it.
        let served = timers(5, 100, 5000, 10_000);
        (0..1000).for_each(|_| _ = desk.add(&[3], Some(served), Some(0)));
        desk.add(&[3], Some(timers(5, 100, 70, 10_000)), Some(0));
        let (mut under_way, mut asked, mut fetched) = (desk.next().1, 0, 0);
        while let Some(action) = under_way.pop() {
            under_way.extend(match action {
                Action::Ask { zone, .. } => {
                    asked += 1;
                    desk.asked(zone, 3, SILENT)
                }
                Action::Fetch { zone, .. } => {
                    fetched += 1;
                    let tells = if is_dead { Fetched::Useless(Useless::Silent) } else { Fetched::NotNewer(5) };
                    desk.fetched(zone, 3, tells)
                }
                _ => vec![],
            });
        }
        let expect = if is_dead { fetched <= FETCHES_MAX.0 } else { fetched == 1001 };
        assert!(asked <= ASKS_MAX.0 && expect, "{asked} {fetched}");
        // One is told of a new version, or finds that the primary is back. Those that are as they should be have nothing to ask; the others hear
        // of it.
        if !is_dead {
            desk.now += 61 * S;
            desk.refresher.on_notify(desk.now, ZoneId(7), 3);
        }
        let (mut under_way, mut met) = (desk.actions(), BTreeSet::new());
        loop {
            while let Some(action) = under_way.pop() {
                under_way.extend(match action {
                    Action::Ask { zone, .. } => desk.asked(zone, 3, SILENT),
                    Action::Fetch { zone, .. } => {
                        met.insert(zone);
                        desk.fetched(zone, 3, Fetched::NotNewer(5))
                    }
                    _ => vec![],
                });
            }
            if desk.refresher.next_deadline().is_none_or(|at| at >= 190 * S) {
                break;
            }
            under_way = desk.next().1;
        }
        assert_eq!(met.len(), if is_dead { 1001 } else { 1 });
    }
}

#[test]
fn a_zone_that_is_not_there_is_fetched_at_once_and_then_after_times_that_double() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3, 4], None, None);
    let mut expect = 0;
    for n in 0..12 {
        assert_eq!(desk.next(), (expect, vec![fetch(zone, [3, 4][0], None)]), "{n}");
        assert_eq!(desk.fetched(zone, 3, Fetched::Useless(Useless::Answers)), [fetch(zone, 4, None)]);
        assert_eq!(desk.fetched(zone, 4, Fetched::Useless(Useless::Answers)), []);
        expect += ((2 * S) << n).min(600 * S);
    }
    // What is no good is not asked for again and again, either.
    desk.next();
    desk.fetched(zone, 3, Fetched::Whole(9));
    assert_eq!(desk.laid(zone, 9, None), []);
    assert_eq!(desk.next().1, [ask(zone, 3)], "whether it is another by now");
}

#[test]
fn a_transfer_that_breaks_off_is_begun_again_soon() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3, 4], Some(Timers { retry_s: 10, ..SERVED }), Some(0));
    let mut expect = 100 * S;
    // After 2, 4 and 8 seconds, then as its SOA says.
    for pause in [2, 4, 8, 10, 10] {
        assert_eq!(desk.next(), (expect, vec![ask(zone, 3)]));
        assert_eq!(desk.asked(zone, 3, Asked::Serial(6)), [fetch(zone, 3, Some(5))]);
        assert_eq!(desk.fetched(zone, 3, Fetched::Useless(Useless::BreaksOff)), [ask(zone, 4)], "others come first");
        assert_eq!(desk.asked(zone, 4, REFUSED), []);
        expect += pause * S;
    }
    // A round in which none has begun is like any other.
    assert_eq!(desk.next(), (expect, vec![ask(zone, 3)]));
    assert_eq!(desk.asked(zone, 3, Asked::Serial(5)).len(), 1);
    desk.next();
    desk.asked(zone, 3, REFUSED);
    desk.asked(zone, 4, REFUSED);
    assert_eq!(desk.next().0, expect + 110 * S);
}

#[test]
fn an_operator_gets_it_whatever_its_serial() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3], Some(SERVED), Some(0));
    desk.now = 50 * S;
    desk.refresher.on_wish(desk.now, zone);
    assert_eq!(desk.actions(), [fetch(zone, 3, None)]);
    desk.fetched(zone, 3, Fetched::Whole(5));
    desk.laid(zone, 5, Some(SERVED));
    assert_eq!(desk.next(), (150 * S, vec![ask(zone, 3)]), "and only once");
}

#[test]
fn a_notify_is_followed_once_however_often_it_comes() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3, 4], Some(SERVED), Some(0));
    desk.now = 50 * S;
    (0..1000).for_each(|_| desk.refresher.on_notify(desk.now, zone, 4));
    assert_eq!(desk.actions(), [ask(zone, 4)], "whoever told is asked");
    (0..1000).for_each(|_| desk.refresher.on_notify(desk.now, zone, 4));
    assert_eq!(desk.actions(), []);
    assert_eq!(desk.asked(zone, 4, Asked::Serial(5)).len(), 1);
    assert_eq!(desk.next(), (50 * S + NOTIFIED_EVERY_MS, vec![ask(zone, 4)]), "once more, a little later");
    desk.asked(zone, 4, Asked::Serial(5));
    assert_eq!(desk.next().0, 150 * S + NOTIFIED_EVERY_MS);
}

#[test]
fn a_silent_primary_is_tried_by_one_zone_and_the_others_come_when_it_is_back() {
    let mut desk = Desk::new();
    let zones: Vec<ZoneId> = (0..100).map(|_| desk.add(&[3], None, None)).collect();
    let first = desk.next().1;
    assert_eq!(first.len(), FETCHES_MAX.0);
    assert_eq!(desk.fetched(zones[0], 3, Fetched::Useless(Useless::Silent)), []);
    for zone in &zones[1..4] {
        assert_eq!(desk.fetched(*zone, 3, Fetched::Useless(Useless::Silent)), []);
    }
    assert!(zones.iter().all(|z| desk.refresher.standing(*z).unwrap().phase == Phase::Waiting));
    let (at, tries) = desk.next();
    assert_eq!((at, tries.len()), (2 * S, 1), "one tries it");
    let Action::Fetch { zone, .. } = tries[0] else { panic!("{tries:?}") };
    let mut fetched = desk.fetched(zone, 3, Fetched::Whole(1));
    assert_eq!(fetched.len(), FETCHES_MAX.0, "and the others are next");
    let mut n = 1;
    while let Some(Action::Fetch { zone, .. }) = fetched.pop() {
        n += 1;
        fetched.extend(desk.fetched(zone, 3, Fetched::Whole(1)));
    }
    assert_eq!(n, 100, "each once");
}

#[test]
fn a_zone_goes_to_another_primary_while_one_is_silent() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3, 4], Some(SERVED), Some(0));
    desk.next();
    assert_eq!(desk.asked(zone, 3, SILENT), [ask(zone, 4)]);
    assert_eq!(desk.asked(zone, 4, Asked::Serial(6)), [fetch(zone, 4, Some(5))]);
    desk.fetched(zone, 4, Fetched::Whole(6));
    desk.laid(zone, 6, Some(timers(6, 100, 10, 1000)));
    // The other may lag: it is asked while the first says nothing, and no longer.
    assert_eq!(desk.next().1, [ask(zone, 3)]);
    assert_eq!(desk.asked(zone, 3, REFUSED), [ask(zone, 4)]);
    desk.asked(zone, 4, Asked::Serial(6));
    assert_eq!(desk.next().1, [ask(zone, 3)]);
    assert_eq!(desk.asked(zone, 3, Asked::Serial(7)), [fetch(zone, 3, Some(6))]);
}

#[test]
fn a_zone_of_which_something_is_there_waits_until_that_is_served_or_cannot_be() {
    let mut desk = Desk::new();
    let zones = [desk.add(&[3], None, None), desk.add(&[3], None, None)];
    zones.iter().for_each(|zone| desk.refresher.wait_until(*zone, 60 * S));
    assert_eq!(desk.actions(), []);
    desk.now = 2 * S;
    zones.iter().zip([Some(SERVED), None]).for_each(|(zone, served)| desk.refresher.on_served(2 * S, *zone, served));
    assert_eq!(desk.actions(), [ask(zones[0], 3)]);
    assert_eq!(desk.asked(zones[0], 3, Asked::Serial(4)), []);
    desk.now = 60 * S;
    assert!(desk.actions().contains(&fetch(zones[1], 3, None)));
}

#[test]
fn a_zone_of_which_another_version_is_about_to_be_served_is_asked_for_then() {
    let mut desk = Desk::new();
    let zones = [3, 7].map(|primary| desk.add(&[primary], Some(SERVED), None));
    zones.iter().for_each(|zone| desk.refresher.wait_until(*zone, 5 * S));
    desk.now = S;
    desk.refresher.on_notify(S, zones[0], 3);
    assert_eq!(desk.actions(), []);
    desk.now = 2 * S;
    desk.refresher.on_served(2 * S, zones[0], Some(timers(9, 100, 10, 1000)));
    assert_eq!(desk.actions(), [ask(zones[0], 3)]);
    // What is older than that is not what it should be.
    assert_eq!(desk.asked(zones[0], 3, Asked::Serial(6)), []);
    // Of the other one nothing else has come.
    desk.now = 5 * S;
    assert_eq!(desk.actions(), [ask(zones[1], 7)]);
    assert_eq!(desk.asked(zones[1], 7, Asked::Serial(6)), [fetch(zones[1], 7, Some(5))]);
}

#[test]
fn a_wish_that_comes_to_nothing_is_no_reason_to_let_the_zone_expire() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3], Some(SERVED), Some(0));
    desk.refresher.on_wish(desk.now, zone);
    assert_eq!(desk.next().1, [fetch(zone, 3, None)]);
    // One more meanwhile has a round of its own.
    desk.refresher.on_wish(desk.now, zone);
    assert_eq!(desk.fetched(zone, 3, Fetched::Useless(Useless::Answers)), []);
    assert_eq!(desk.next().1, [fetch(zone, 3, None)]);
    // A NOTIFY is another matter.
    desk.refresher.on_notify(desk.now, zone, 3);
    assert_eq!(desk.fetched(zone, 3, Fetched::Failed), []);
    assert_eq!(desk.next().1, [ask(zone, 3)]);
    assert_eq!(desk.asked(zone, 3, Asked::Serial(5)), [Action::Refreshed { zone, at: desk.now }]);
}

/// A disk that is full: not the time that primaries want to be left alone.
#[test]
fn what_we_could_not_keep_is_fetched_again_soon() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3], Some(SERVED), Some(0));
    let mut at = desk.next().0;
    for pause in [2, 4, 8, 10, 10] {
        assert_eq!(desk.asked(zone, 3, Asked::Serial(6)), [fetch(zone, 3, Some(5))]);
        assert_eq!(desk.fetched(zone, 3, Fetched::Failed), []);
        at += pause * S;
        assert_eq!(desk.next(), (at, vec![ask(zone, 3)]));
    }
}

#[test]
fn new_primaries_are_asked_from_the_first() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3], Some(SERVED), Some(0));
    desk.refresher.set_primaries(desk.now, zone, vec![7, 3]);
    assert_eq!(desk.next().1, [ask(zone, 7)]);
}

/// Primary 3 answers all questions so, and what they lead to, and gives no zone.
fn answered(desk: &mut Desk, mut under_way: Vec<Action>, answer: Asked) {
    while let Some(action) = under_way.pop() {
        under_way.extend(match action {
            Action::Ask { zone, .. } => desk.asked(zone, 3, answer),
            Action::Fetch { zone, .. } => desk.fetched(zone, 3, Fetched::Useless(Useless::Silent)),
            _ => vec![],
        });
    }
}

#[test]
fn who_has_hoped_in_vain_hopes_on() {
    let mut desk = Desk::new();
    for _ in 0..100 {
        desk.add(&[3], Some(SERVED), Some(0));
    }
    let mut under_way = desk.next().1;
    // It is silent, says something, is silent again, says something: each time all are to hear of it.
    for (at, answer) in [(100 * S, SILENT), (101 * S, SILENT), (102 * S, Asked::Serial(5))] {
        desk.now = at;
        if at > 100 * S {
            desk.refresher.on_notify(desk.now, ZoneId(1), 3);
            under_way = desk.actions();
        }
        answered(&mut desk, std::mem::take(&mut under_way), answer);
    }
    let is_fresh = |zone: u64| desk.refresher.standing(ZoneId(zone)).unwrap().refreshed == Some(102 * S);
    assert_eq!((1..=100).filter(|zone| is_fresh(*zone)).count(), 100);
}

/// Anybody may send one, and say that it comes from there.
#[test]
fn a_notify_from_a_silent_primary_has_no_other_zone_asked_for() {
    let mut desk = Desk::new();
    for _ in 0..100 {
        desk.add(&[3], Some(SERVED), Some(0));
    }
    let under_way = desk.next().1;
    answered(&mut desk, under_way, SILENT);
    // Over UDP, and where nothing comes, over TCP.
    for _ in 0..20 {
        desk.now += NOTIFIED_EVERY_MS / 10;
        desk.refresher.on_notify(desk.now, ZoneId(1), 3);
        for asked in desk.actions() {
            assert_eq!(asked, ask(ZoneId(1), 3));
            for fetched in desk.asked(ZoneId(1), 3, SILENT) {
                assert_eq!(fetched, fetch(ZoneId(1), 3, Some(5)));
                assert_eq!(desk.fetched(ZoneId(1), 3, Fetched::Useless(Useless::Silent)), []);
            }
        }
    }
}

#[test]
fn who_hopes_and_is_wanted_is_fetched() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3], Some(SERVED), Some(0));
    desk.next();
    desk.asked(zone, 3, SILENT);
    desk.fetched(zone, 3, Fetched::Useless(Useless::Silent));
    desk.refresher.on_wish(desk.now, zone);
    assert_eq!(desk.actions(), []);
    assert_eq!(desk.next(), (100 * S + NOTIFIED_EVERY_MS, vec![fetch(zone, 3, None)]));
}

#[test]
fn who_has_hoped_and_is_under_way_is_not_sent_for_twice() {
    let mut desk = Desk::new();
    let first = desk.add(&[3], None, None);
    assert_eq!(desk.next().1, [fetch(first, 3, None)]);
    desk.fetched(first, 3, Fetched::Useless(Useless::Silent));
    desk.now = S;
    let zone = desk.add(&[3], None, None);
    assert_eq!(desk.actions(), [], "it hopes");
    desk.refresher.remove(first);
    assert_eq!(desk.next(), (3 * S, vec![fetch(zone, 3, None)]));
    desk.refresher.on_notify(desk.now, zone, 3);
    assert_eq!(desk.actions(), [], "two would write one file");
}

#[test]
fn a_primary_that_answers_and_gives_no_zone_is_not_asked_for_ever() {
    let mut desk = Desk::new();
    for _ in 0..60 {
        desk.add(&[3], Some(SERVED), Some(0));
    }
    let (mut under_way, mut asked) = (desk.next().1, 0);
    while let Some(action) = under_way.pop() {
        under_way.extend(match action {
            Action::Ask { zone, .. } => {
                asked += 1;
                desk.asked(zone, 3, Asked::Serial(6))
            }
            Action::Fetch { zone, .. } => desk.fetched(zone, 3, Fetched::Useless(Useless::Silent)),
            other => panic!("{other:?}"),
        });
    }
    assert!(asked <= 2 * 60, "{asked}");
}

#[test]
fn a_version_that_is_lost_is_fetched_at_once() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3], Some(SERVED), Some(0));
    desk.next();
    desk.asked(zone, 3, Asked::Serial(6));
    desk.fetched(zone, 3, Fetched::Whole(6));
    desk.laid(zone, 6, Some(SERVED));
    desk.now = 110 * S;
    desk.refresher.on_served(desk.now, zone, None);
    assert_eq!(desk.actions(), [fetch(zone, 3, None)], "whatever was held");
}

#[test]
fn what_was_known_before_a_start_is_known_after_it() {
    for (refreshed, next, is_expired) in
        [(-50 * S, 50 * S, false), (-150 * S, 0, false), (-1000 * S, 0, true), (900 * S, 0, false)]
    {
        let mut desk = Desk::new();
        let zone = desk.add(&[3], Some(SERVED), Some(refreshed));
        let standing = desk.refresher.standing(zone).unwrap();
        assert_eq!((standing.next.max(0), standing.is_expired), (next, is_expired), "{refreshed}");
    }
}

#[test]
fn who_stays_a_primary_goes_on_with_what_is_under_way() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3], Some(SERVED), Some(0));
    desk.next();
    assert_eq!(desk.asked(zone, 3, Asked::Serial(6)), [fetch(zone, 3, Some(5))]);
    desk.refresher.set_primaries(desk.now, zone, vec![7, 3]);
    assert_eq!(desk.actions(), [], "two would write one file");
    desk.fetched(zone, 3, Fetched::Whole(6));
    assert_eq!(desk.laid(zone, 6, Some(timers(6, 100, 10, 1000))).len(), 1);
    assert_eq!(desk.next(), (100 * S + NOTIFIED_EVERY_MS, vec![ask(zone, 7)]), "and they are asked once more");
}

#[test]
fn primaries_may_change_and_zones_go_at_any_time() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3], Some(SERVED), Some(0));
    desk.next();
    desk.refresher.set_primaries(desk.now, zone, vec![7]);
    assert_eq!(desk.next().1, [ask(zone, 7)]);
    assert_eq!(desk.asked(zone, 3, Asked::Serial(9)), [], "nobody asked him");
    assert_eq!(desk.asked(zone, 7, Asked::Serial(6)), [fetch(zone, 7, Some(5))]);
    desk.refresher.remove(zone);
    assert_eq!(desk.fetched(zone, 7, Fetched::Whole(6)), []);
    assert_eq!(desk.refresher.next_deadline(), None);
}

/// What may happen next to zones that are under way.
#[derive(Clone, Debug)]
enum Event {
    Pass(Ms),
    Notify(usize, PrimaryId),
    Wish(usize),
    /// One of those under way ends so.
    End(usize, u8),
    Primaries(usize, Vec<PrimaryId>),
    Remove(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1..400_000i64).prop_map(Event::Pass),
        1 => (0..12usize, 0..4u32).prop_map(|(z, p)| Event::Notify(z, p)),
        1 => (0..12usize).prop_map(Event::Wish),
        8 => (any::<usize>(), 0..6u8).prop_map(|(i, how)| Event::End(i, how)),
        1 => (0..12usize, proptest::collection::vec(0..4u32, 1..4)).prop_map(|(z, p)| Event::Primaries(z, p)),
        1 => (0..12usize).prop_map(Event::Remove),
    ]
}

proptest! {
    /// Whatever happens: no zone is forgotten, none is asked for twice at once, limits hold, and each is taken for expired
    /// exactly while its time is over.
    #[test]
    fn no_zone_is_forgotten(events in proptest::collection::vec(event(), 0..300)) {
        let mut desk = Desk::new();
        let served = |i: usize| (!i.is_multiple_of(3)).then_some(Timers { serial: 5, ..SERVED });
        let mut zones: Vec<Option<ZoneId>> =
            (0..12).map(|i| Some(desk.add(&[i as u32 % 4, (i as u32 + 1) % 4], served(i), None))).collect();
        let mut under_way: Vec<Action> = vec![];
        let mut laying: Vec<ZoneId> = vec![];
        let mut expired: HashMap<ZoneId, bool> = HashMap::new();
        for event in events {
            let named = |z: usize| zones[z];
            match event {
                Event::Pass(ms) => desk.now += ms,
                Event::Notify(z, p) => named(z).into_iter().for_each(|z| desk.refresher.on_notify(desk.now, z, p)),
                Event::Wish(z) => named(z).into_iter().for_each(|z| desk.refresher.on_wish(desk.now, z)),
                Event::Primaries(z, p) => named(z).into_iter().for_each(|z| desk.refresher.set_primaries(desk.now, z, p.clone())),
                Event::Remove(z) => {
                    if let Some(id) = zones[z].take() {
                        desk.refresher.remove(id);
                        laying.retain(|zone| *zone != id);
                    }
                }
                Event::End(_, _) if under_way.is_empty() => {
                    if let Some(zone) = laying.pop() {
                        desk.refresher.on_laid(desk.now, 0, zone, 6, Some(Timers { serial: 6, ..SERVED }));
                    }
                }
                Event::End(i, how) => match under_way.swap_remove(i % under_way.len()) {
                    Action::Ask { zone, primary } => {
                        let asked = [SILENT, REFUSED, Asked::Serial(4), Asked::Serial(5), Asked::Serial(6), Asked::Serial(7)];
                        desk.refresher.on_asked(desk.now, 0, zone, primary, asked[usize::from(how)]);
                    }
                    Action::Fetch { zone, primary, known } => {
                        let fetched = match (how, known) {
                            (0, _) => Fetched::Useless(Useless::Silent),
                            (1, _) => Fetched::Useless(Useless::Answers),
                            (2, _) => Fetched::Failed,
                            (3, Some(known)) => Fetched::NotNewer(known),
                            _ => Fetched::Whole(6),
                        };
                        desk.refresher.on_fetched(desk.now, 0, zone, primary, fetched);
                        if desk.refresher.standing(zone).is_some_and(|s| s.phase == Phase::Laying) && !laying.contains(&zone) {
                            laying.push(zone);
                        }
                    }
                    other => panic!("{other:?} is not under way"),
                },
            }
            for action in desk.actions() {
                match action {
                    Action::Ask { .. } | Action::Fetch { .. } => under_way.push(action),
                    Action::Expired { zone, is_expired } => _ = expired.insert(zone, is_expired),
                    Action::Refreshed { .. } => {}
                }
            }
            for p in 0..4 {
                let of = |is_fetch: bool| under_way.iter().filter(|a| match a {
                    Action::Ask { primary, .. } => !is_fetch && *primary == p,
                    Action::Fetch { primary, .. } => is_fetch && *primary == p,
                    _ => false,
                }).count();
                prop_assert!(of(false) <= ASKS_MAX.0 && of(true) <= FETCHES_MAX.0);
            }
            for zone in zones.iter().flatten() {
                let s = desk.refresher.standing(*zone).unwrap();
                let over = s.expires.is_some_and(|at| at <= desk.now);
                prop_assert_eq!(expired.get(zone).copied().unwrap_or(false), over);
                let deadline = desk.refresher.next_deadline();
                match s.phase {
                    Phase::Waiting => prop_assert!(s.next > desk.now && deadline.is_some_and(|at| at <= s.next)),
                    Phase::Laying => prop_assert!(laying.contains(zone)),
                    // Somebody is under way for it, or for whom it waits.
                    Phase::Asking | Phase::Fetching => prop_assert!(!under_way.is_empty()),
                }
            }
        }
    }
}

/// Its file was there before any primary was asked.
#[test]
fn nobody_has_confirmed_what_was_never_asked_for() {
    let mut desk = Desk::new();
    let [ours, theirs] = [None, Some(0)].map(|refreshed| desk.add(&[3], Some(SERVED), refreshed));
    let [ours, theirs] = [ours, theirs].map(|zone| desk.refresher.standing(zone).unwrap());
    assert_eq!((ours.refreshed, theirs.refreshed), (None, Some(0)));
    assert!(ours.expires.is_some() && ours.expires == theirs.expires, "its time runs all the same");
}
