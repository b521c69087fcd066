//! Versions that were received and are not served: held, wrong, taken back.

use super::*;

#[test]
fn a_version_that_is_held_is_not_fetched_again_and_does_not_expire_the_last_good_one() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3], Some(SERVED), Some(0));
    desk.next();
    desk.asked(zone, 3, Asked::Serial(6));
    desk.fetched(zone, 3, Fetched::Whole(6));
    assert_eq!(desk.laid(zone, 6, Some(SERVED)), [Action::Refreshed { zone, at: 100 * S }]);
    assert_eq!(desk.refresher.standing(zone).unwrap().unserved, Some(6));
    desk.next();
    assert_eq!(desk.asked(zone, 3, Asked::Serial(6)), [Action::Refreshed { zone, at: 200 * S }]);
    desk.next();
    assert_eq!(desk.asked(zone, 3, Asked::Serial(7)), [fetch(zone, 3, Some(6))]);
}

#[test]
fn a_first_version_that_is_held_is_not_fetched_again_either() {
    let mut desk = Desk::new();
    let zone = desk.add(&[3], None, None);
    assert_eq!(desk.actions(), [fetch(zone, 3, None)]);
    desk.fetched(zone, 3, Fetched::Whole(6));
    desk.laid(zone, 6, None);
    desk.refresher.on_served(desk.now, zone, None);
    assert_eq!(desk.refresher.standing(zone).unwrap().unserved, Some(6));
    assert_eq!(desk.next().1, [Action::Ask { zone, primary: 3 }]);
    assert!(matches!(desk.asked(zone, 3, Asked::Serial(6))[..], [Action::Refreshed { .. }]));
    desk.next();
    assert_eq!(desk.asked(zone, 3, Asked::Serial(7)), [fetch(zone, 3, Some(6))]);
}

#[test]
fn a_version_that_is_taken_back_is_not_waited_for() {
    // Served is 5, and 9 could not be. What the primary has next, and what it is asked for then.
    for (serial, expect) in [(7, Some(5)), (9, None), (10, Some(9))] {
        let (mut desk, zone) = with_unserved(&[3], 9);
        let refreshed = Action::Refreshed { zone, at: desk.now };
        let expect = expect.map_or(refreshed, |known| fetch(zone, 3, Some(known)));
        assert_eq!(desk.asked(zone, 3, Asked::Serial(serial)), [expect], "{serial}");
    }
}

/// Served is 5; this one came, and was not.
fn with_unserved(primaries: &[PrimaryId], serial: u32) -> (Desk, ZoneId) {
    let mut desk = Desk::new();
    let zone = desk.add(primaries, Some(SERVED), Some(0));
    desk.refresher.on_wish(desk.now, zone);
    assert_eq!(desk.actions(), [fetch(zone, primaries[0], None)]);
    desk.fetched(zone, primaries[0], Fetched::Whole(serial));
    desk.laid(zone, serial, Some(SERVED));
    assert_eq!(desk.refresher.standing(zone).unwrap().unserved, Some(serial));
    assert_eq!(desk.next().1, [ask(zone, primaries[0])]);
    (desk, zone)
}

#[test]
fn where_one_lies_that_was_taken_back_what_is_served_comes_again() {
    for unserved in [9, 3] {
        let again = |zone| fetch(zone, 3, Some(4));
        let (mut desk, zone) = with_unserved(&[3], unserved);
        let refreshed = |desk: &Desk| Action::Refreshed { zone, at: desk.now };
        assert_eq!(desk.asked(zone, 3, Asked::Serial(5)), [refreshed(&desk), again(zone)]);
        assert_eq!(desk.fetched(zone, 3, Fetched::Useless(Useless::Answers)), []);
        assert_eq!(desk.refresher.standing(zone).unwrap().unserved, Some(unserved));
        assert_eq!(desk.next(), (110 * S, vec![ask(zone, 3)]), "what is served is good, and will be tried again");
        assert_eq!(desk.asked(zone, 3, Asked::Serial(5)), [refreshed(&desk), again(zone)]);
        desk.fetched(zone, 3, Fetched::Whole(5));
        assert_eq!(desk.laid(zone, 5, Some(SERVED)), [refreshed(&desk)]);
        assert_eq!(desk.refresher.standing(zone).unwrap().unserved, None);
        desk.next();
        assert_eq!(desk.asked(zone, 3, Asked::Serial(5)), [refreshed(&desk)]);
        // Over TCP it is found out by a transfer.
        let (mut desk, zone) = with_unserved(&[3], unserved);
        assert_eq!(desk.asked(zone, 3, SILENT), [fetch(zone, 3, Some(unserved.max(5)))]);
        assert_eq!(desk.fetched(zone, 3, Fetched::NotNewer(5)), [refreshed(&desk), again(zone)]);
        assert_eq!(desk.fetched(zone, 3, Fetched::NotNewer(5)), [refreshed(&desk)], "it is not asked for for ever");
    }
}

/// One of them may lag.
#[test]
fn one_was_taken_back_if_no_primary_has_it() {
    for (other, expect) in [
        (Asked::Serial(9), Action::Refreshed { zone: ZoneId(1), at: 100 * S }),
        (Asked::Serial(10), fetch(ZoneId(1), 4, Some(9))),
        (Asked::Serial(7), fetch(ZoneId(1), 4, Some(5))),
        (Asked::Serial(5), fetch(ZoneId(1), 3, Some(4))),
        (Asked::Serial(4), fetch(ZoneId(1), 3, Some(4))),
        // It may have it, and be starting.
        (REFUSED, Action::Refreshed { zone: ZoneId(1), at: 100 * S }),
        // So may this one: over TCP it is asked once more.
        (SILENT, fetch(ZoneId(1), 4, Some(9))),
    ] {
        let (mut desk, zone) = with_unserved(&[3, 4], 9);
        let refreshed = Action::Refreshed { zone, at: 100 * S };
        assert_eq!(desk.asked(zone, 3, Asked::Serial(5)), [refreshed, ask(zone, 4)]);
        let actions = desk.asked(zone, 4, other);
        assert_eq!(actions.last(), Some(&expect), "{other:?}: {actions:?}");
    }
    let (mut desk, zone) = with_unserved(&[3, 4], 9);
    desk.asked(zone, 3, Asked::Serial(5));
    desk.asked(zone, 4, SILENT);
    let fresh = [Action::Refreshed { zone, at: 100 * S }];
    assert_eq!(desk.fetched(zone, 4, Fetched::Useless(Useless::Silent)), fresh, "it stays");
    let standing = desk.refresher.standing(zone).unwrap();
    assert_eq!((standing.unserved, standing.failures, standing.next), (Some(9), 0, 200 * S));
    // One has it, and it is older than what is served.
    for serials in [[3, 5], [5, 3]] {
        let (mut desk, zone) = with_unserved(&[3, 4], 3);
        desk.asked(zone, 3, Asked::Serial(serials[0]));
        let refreshed = Action::Refreshed { zone, at: 100 * S };
        assert_eq!(desk.asked(zone, 4, Asked::Serial(serials[1])).last(), Some(&refreshed), "{serials:?}");
        assert_eq!(desk.refresher.standing(zone).unwrap().unserved, Some(3));
    }
    // Over TCP one says it once more, and counts once.
    let (mut desk, zone) = with_unserved(&[3, 4], 9);
    let other = desk.add(&[3], Some(SERVED), None);
    desk.next();
    desk.asked(zone, 3, Asked::Serial(5));
    desk.asked(other, 3, SILENT);
    assert_eq!(desk.asked(zone, 4, REFUSED), [fetch(zone, 3, Some(9))]);
    let actions = desk.fetched(zone, 3, Fetched::NotNewer(5));
    assert!(matches!(actions.last(), Some(Action::Refreshed { .. })), "{actions:?}");
    assert_eq!(desk.refresher.standing(zone).unwrap().unserved, Some(9));
    // Somebody forces it meanwhile: what the first one has says nothing of it.
    let (mut desk, zone) = with_unserved(&[3, 4], 9);
    desk.asked(zone, 3, Asked::Serial(5));
    desk.refresher.on_served(desk.now, zone, Some(Timers { serial: 9, ..SERVED }));
    assert_eq!(desk.asked(zone, 4, REFUSED), []);
    assert_eq!(desk.refresher.standing(zone).unwrap().failures, 1);
    // Under its number comes another one.
    let (mut desk, zone) = with_unserved(&[3], 9);
    desk.asked(zone, 3, Asked::Serial(5));
    desk.fetched(zone, 3, Fetched::Useless(Useless::Answers));
    desk.next();
    assert_eq!(desk.asked(zone, 3, Asked::Serial(9)), [fetch(zone, 3, Some(5))]);
}
