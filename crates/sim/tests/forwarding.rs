//! Forwarders that time out, lie, truncate, answer something else, come back after an hour: what clients get of it.

use resolver::{Forward, Forwards, Limits, Outcome, Question, Settings, Via, Why};
use sim::forwarding::{MS, World, address_of, asked_name, name_of, reply, truth};
use sim::rng::Rng;
use stats::Counter;
use std::net::{IpAddr, Ipv4Addr};
use wire::message::Records;
use wire::{Rcode, rtype};

const ONE: &str = "192.0.2.1:53";
const TWO: &str = "192.0.2.2:53";
const SEEDS: u64 = 40;

fn forward(zone: &str, servers: &[&str]) -> Forward {
    Forward { zone: name_of(zone), servers: servers.iter().map(|s| s.parse().unwrap()).collect() }
}

fn world(seed: u64, forwards: &[(&str, &[&str])]) -> World {
    let forwards = forwards.iter().map(|(zone, servers)| forward(zone, servers)).collect();
    World::new(seed, Settings { forwards: Forwards::new(forwards), ..Settings::default() })
}

/// The addresses in the answer that a waiter got. None: none was.
fn addresses(world: &World, waiter: u32) -> Option<Vec<[u8; 4]>> {
    let end = world.ends.iter().find(|e| e.waiter == waiter)?;
    let Outcome::Answer(answer) = &*end.outcome else { return None };
    let message = answer.message(&end.question);
    let at = message.len() - answer.body.len();
    let records = Records::within(&message, at, answer.counts).flatten();
    Some(records.filter(|r| r.rtype == rtype::A).map(|r| r.raw_data().try_into().unwrap()).collect())
}

#[track_caller]
fn assert_true_answer(world: &World, waiter: u32, name: &str) {
    assert_eq!(addresses(world, waiter), Some(vec![address_of(&name_of(name))]), "{name}: {:?}", world.ends);
}

fn why(world: &World, waiter: u32) -> Option<Why> {
    let end = world.ends.iter().find(|e| e.waiter == waiter)?;
    if let Outcome::Failed(why) = &*end.outcome { Some(*why) } else { None }
}

#[test]
fn all_who_ask_the_same_wait_for_one_packet() {
    let mut w = world(1, &[(".", &[ONE])]);
    w.server(ONE, |asked, _| vec![(20 * MS, Some(truth(asked.packet)))]);
    (0..100).for_each(|i| w.ask(i, if i % 2 == 0 { "www.example" } else { "WWW.Example" }, false).unwrap());
    w.run();
    (0..100).for_each(|i| assert_true_answer(&w, i, "www.example"));
    assert_eq!((w.sent_to(ONE, false), w.count(Counter::TaskJoined)), (1, 99));
    assert_eq!((w.open(), w.resolver.waiters()), (0, 0));
}

#[test]
fn a_server_that_is_silent_is_passed_over() {
    for seed in 0..SEEDS {
        let mut w = world(seed, &[(".", &[ONE, TWO])]);
        w.server(TWO, |asked, _| vec![(10 * MS, Some(truth(asked.packet)))]);
        for i in 0..50 {
            w.ask(i, &format!("n{i}.example"), false).unwrap();
            w.run_until(w.now_ns + 100 * MS);
        }
        w.run();
        (0..50).for_each(|i| assert_true_answer(&w, i, &format!("n{i}.example")));
        assert!(w.ends.iter().all(|e| e.at_ns < 50 * 100 * MS + 900 * MS));
    }
}

#[test]
fn guesses_of_ids_end_with_the_first_and_none_is_believed() {
    for seed in 0..SEEDS {
        let mut w = world(seed, &[(".", &[ONE])]);
        let forged = name_of("forged.example");
        w.server(ONE, move |asked, rng| {
            if asked.via == Via::Tcp {
                return vec![(20 * MS, Some(truth(asked.packet)))];
            }
            let guess = |packet: &[u8], id: u16| {
                let mut guess = reply(packet, 0, &[(&asked_name(packet), rtype::A, 9, &address_of(&forged))], &[]);
                let id = id ^ u16::from_be_bytes([packet[0], packet[1]]) | 1;
                guess[0] ^= (id >> 8) as u8;
                guess[1] ^= id as u8;
                guess
            };
            let flood = (0..100).map(|i| (MS + i, Some(guess(asked.packet, rng.number() as u16))));
            flood.chain([(19 * MS, Some(truth(asked.packet)))]).collect()
        });
        w.ask(1, "www.example", false).unwrap();
        w.run();
        assert_true_answer(&w, 1, "www.example");
        assert_eq!((w.count(Counter::UpstreamWrongId), w.sent_to(ONE, false), w.sent_to(ONE, true)), (1, 1, 1));
    }
}

#[test]
fn what_is_no_reply_is_as_if_it_had_not_come() {
    for seed in 0..SEEDS {
        let mut w = world(seed, &[(".", &[ONE])]);
        w.server(ONE, |asked, rng| {
            let mut noise: Vec<(u64, Option<Vec<u8>>)> = Vec::new();
            let true_reply = truth(asked.packet);
            for i in 0..200 {
                let mut other = true_reply.clone();
                match rng.below(6) {
                    // Another name, another type, half a message, a question, octets too many, a count that lies.
                    0 => other[13] = if other[13] == b'z' { b'y' } else { b'z' },
                    1 => other[12 + asked_name(asked.packet).bytes().len() + 1] ^= 2,
                    2 => other.truncate(rng.below(true_reply.len())),
                    3 => other[2] &= 0x7F,
                    4 => other.push(0),
                    _ => other[7] = 9,
                }
                if other != true_reply {
                    noise.push((i, Some(other)));
                }
            }
            noise.push((30 * MS, Some(true_reply)));
            noise
        });
        w.ask(1, "www.example", false).unwrap();
        w.run();
        assert_true_answer(&w, 1, "www.example");
    }
}

#[test]
fn a_truncated_reply_is_asked_for_again_over_tcp() {
    let mut w = world(3, &[(".", &[ONE])]);
    w.server(ONE, |asked, _| {
        let mut reply = truth(asked.packet);
        if asked.via == Via::Udp {
            reply[2] |= 2;
        }
        vec![(5 * MS, Some(reply))]
    });
    w.ask(1, "www.example", false).unwrap();
    w.run();
    assert_true_answer(&w, 1, "www.example");
    assert_eq!((w.sent_to(ONE, false), w.sent_to(ONE, true)), (1, 1));
}

#[test]
fn a_datagram_longer_than_was_asked_for_is_not_believed() {
    let mut w = world(3, &[(".", &[ONE])]);
    w.server(ONE, |asked, _| {
        let name = asked_name(asked.packet);
        let forged = (&name, rtype::A, 9, &[6, 6, 6, 6][..]);
        match asked.via {
            Via::Udp => vec![(5 * MS, Some(reply(asked.packet, 0, &[forged; 60], &[])))],
            Via::Tcp => vec![(5 * MS, Some(truth(asked.packet)))],
        }
    });
    w.ask(1, "www.example", false).unwrap();
    w.run();
    assert_true_answer(&w, 1, "www.example");
}

/// Whether a packet of ours has an OPT record.
fn has_edns(packet: &[u8]) -> bool {
    packet[11] == 1
}

/// With the question or without it, FORMERR or NOTIMP: found out once, and then not asked with EDNS for a while.
#[test]
fn a_server_that_does_not_know_edns_is_asked_without() {
    for (rcode, is_bare) in [(1, false), (4, false), (1, true), (4, true)] {
        let mut w = world(3, &[(".", &[ONE])]);
        w.server(ONE, move |asked, _| {
            let mut answer = match has_edns(asked.packet) {
                true => reply(asked.packet, rcode, &[], &[]),
                false => truth(asked.packet),
            };
            if is_bare && has_edns(asked.packet) {
                answer.truncate(12);
                answer[5] = 0;
            }
            vec![(5 * MS, Some(answer))]
        });
        for i in 0..50 {
            w.ask(i, &format!("n{i}.example"), false).unwrap();
            w.run();
            assert_true_answer(&w, i, &format!("n{i}.example"));
        }
        let by_tcp = if is_bare { 2 } else { 0 };
        assert_eq!((w.sent_to(ONE, false), w.sent_to(ONE, true)), (51 - by_tcp / 2, by_tcp), "{rcode} {is_bare}");
    }
}

/// One that calls a name malformed whatever the question looks like has not lost its EDNS; nor has one that shows some.
#[test]
fn a_server_that_only_says_no_is_asked_with_edns_again() {
    for shows_edns in [true, false] {
        let mut w = world(3, &[(".", &[ONE])]);
        w.server(ONE, move |asked, _| {
            let mut no = reply(asked.packet, 1, &[], &[]);
            if shows_edns {
                no[11] = 1;
                no.extend_from_slice(&[0, 0, rtype::OPT as u8, 4, 208, 0, 0, 0, 0, 0, 0]);
            }
            vec![(
                5 * MS,
                Some(if has_edns(asked.packet) || asked_name(asked.packet) == name_of("bad.example") {
                    no
                } else {
                    truth(asked.packet)
                }),
            )]
        });
        w.ask(1, "bad.example", false).unwrap();
        w.run();
        assert_eq!(why(&w, 1), Some(Why::Refused));
        let before = w.sent_to(ONE, false);
        assert_eq!(before, if shows_edns { 1 } else { 2 });
        w.ask(2, "bad.example", false).unwrap();
        w.run();
        assert_eq!(w.sent_to(ONE, false), 2 * before, "asked as before");
    }
}

/// Ten thousand forged refusals of every kind: the server is asked as before, with EDNS, over UDP.
#[test]
fn forged_complaints_about_edns_change_nothing() {
    let mut w = world(3, &[(".", &[ONE])]);
    w.server(ONE, |asked, rng| {
        let forgeries = (0..10).map(|i| {
            let mut forged = reply(asked.packet, [1, 4, 5, 2][rng.below(4)], &[], &[]);
            forged[0] ^= 1 + rng.below(255) as u8;
            if rng.one_in(2) {
                forged.truncate(12);
                forged[5] = 0;
            }
            (i, Some(forged))
        });
        let mut all: Vec<_> = forgeries.collect();
        all.push((5 * MS, Some(truth(asked.packet))));
        assert!(has_edns(asked.packet), "nothing was learned");
        all
    });
    for i in 0..1_000 {
        w.ask(i, &format!("a-name-with-letters-{i}.example"), false).unwrap();
        w.run();
        assert_true_answer(&w, i, &format!("a-name-with-letters-{i}.example"));
    }
    assert_eq!((w.sent_to(ONE, false), w.sent_to(ONE, true)), (1_000, 1_000));
}

/// DO and CD make four questions of one name and type. A forger has one of them to hit at a time (RebirthDay).
#[test]
fn variants_of_a_question_are_asked_one_after_another() {
    use std::cell::Cell;
    use std::rc::Rc;
    for seed in 0..SEEDS {
        let mut w = world(seed, &[(".", &[ONE, TWO])]);
        let free_at = Rc::new(Cell::new(0));
        for server in [ONE, TWO] {
            let free_at = Rc::clone(&free_at);
            w.server(server, move |asked, rng| {
                if rng.one_in(5) {
                    return vec![];
                }
                assert!(free_at.get() <= asked.now_ns, "one outstanding at a time");
                free_at.set(asked.now_ns + 100 * MS);
                vec![(100 * MS, Some(truth(asked.packet)))]
            });
        }
        let client = IpAddr::from(Ipv4Addr::new(192, 0, 2, 77));
        for i in 0..12 {
            let question = Question::new(&name_of("www.example"), rtype::A, i & 1 != 0, i & 2 != 0);
            w.ask_variant(i, client, question, i & 4 != 0).unwrap();
            w.run_until(w.now_ns + 10 * MS);
        }
        w.run();
        let answered = w.ends.iter().filter(|e| !matches!(*e.outcome, Outcome::Failed(_))).count();
        assert_eq!((w.ends.len(), answered), (12, 12), "seed {seed}: {:?}", w.ends);
    }
}

#[test]
fn a_server_that_does_not_keep_the_case_is_found_out_once() {
    let mut w = world(4, &[(".", &[ONE])]);
    w.server(ONE, |asked, _| {
        let mut reply = truth(asked.packet);
        let end = 12 + asked_name(asked.packet).bytes().len();
        reply[12..end].make_ascii_lowercase();
        vec![(5 * MS, Some(reply))]
    });
    for i in 0..20 {
        w.ask(i, &format!("some-long-name-{i}.example"), false).unwrap();
        w.run();
        assert_true_answer(&w, i, &format!("some-long-name-{i}.example"));
    }
    assert_eq!((w.sent_to(ONE, false), w.sent_to(ONE, true)), (20, 1));
}

#[test]
fn a_forwarder_speaks_for_its_zone_only() {
    let mut w = world(5, &[("corp.example", &[ONE]), (".", &[TWO])]);
    let bank = name_of("www.bank.test");
    w.server(ONE, move |asked, _| {
        let name = asked_name(asked.packet);
        let soa = [name_of("corp.example").bytes(), &[0], &[0; 20]].concat();
        let lies = [(&bank, rtype::A, 9, &[6, 6, 6, 6][..]), (&bank, rtype::NS, 9, &[0][..])];
        let alias = [(&name, rtype::CNAME, 60, bank.bytes()), lies[0]];
        let zone = name_of("corp.example");
        vec![(MS, Some(reply(asked.packet, 0, &alias, &[(&zone, rtype::SOA, 60, &soa), lies[1]])))]
    });
    w.server(TWO, |asked, _| vec![(MS, Some(truth(asked.packet)))]);
    w.ask(1, "www.corp.example", false).unwrap();
    w.run();
    assert_true_answer(&w, 1, "www.bank.test");
    assert_eq!((w.sent_to(ONE, false), w.sent_to(TWO, false)), (1, 1));
    let Outcome::Answer(answer) = &*w.ends[0].outcome else { panic!() };
    assert_eq!((answer.rcode, answer.counts), (Rcode::NOERROR, [2, 0, 0]));
}

#[test]
fn chains_without_end_and_nobody_to_ask_fail() {
    let mut w = world(6, &[("example", &[ONE])]);
    w.server(ONE, |asked, _| {
        let name = asked_name(asked.packet);
        vec![(MS, Some(reply(asked.packet, 0, &[(&name, rtype::CNAME, 60, name.bytes())], &[])))]
    });
    w.ask(1, "loop.example", false).unwrap();
    w.run();
    assert_eq!((why(&w, 1), w.sent_to(ONE, false)), (Some(Why::EndlessChain), 1));
    assert_eq!(w.ask(2, "www.test", false), Err(Why::NobodyToAsk));
}

#[test]
fn who_refuses_is_not_asked_again_and_a_closed_port_costs_no_time() {
    let mut w = world(7, &[(".", &[ONE, TWO])]);
    w.server(ONE, |asked, _| vec![(MS, Some(reply(asked.packet, 5, &[], &[])))]);
    w.server(TWO, |_, _| vec![(MS, None)]);
    w.ask(1, "www.example", false).unwrap();
    w.run();
    assert!(matches!(why(&w, 1), Some(Why::Refused | Why::Unreachable)));
    assert_eq!((w.sent_to(ONE, false), w.sent_to(TWO, false)), (1, 1));
    assert!(w.ends[0].at_ns < 10 * MS);
}

#[test]
fn forged_refusals_change_nothing_about_a_server() {
    let mut w = world(8, &[(".", &[ONE])]);
    w.server(ONE, |asked, _| {
        let mut refusal = reply(asked.packet, 5, &[], &[]);
        refusal[12..].make_ascii_uppercase();
        if asked.via == Via::Udp { vec![(MS, Some(refusal))] } else { vec![(MS, Some(truth(asked.packet)))] }
    });
    for i in 0..1_000 {
        let name = format!("a-name-with-letters-{i}.example");
        w.ask(i, &name, false).unwrap();
        w.run();
        assert_true_answer(&w, i, &name);
    }
}

/// A name a 100 ms for two hours; the only forwarder says nothing in the first.
#[test]
fn a_forwarder_that_comes_back_after_an_hour_is_used_within_two_seconds() {
    for (seed, forwarders) in [(9, &[ONE][..]), (10, &[ONE, TWO])] {
        let mut w = world(seed, &[(".", forwarders)]);
        let back_ns = 3_600_000 * MS;
        let behaviour = move |asked: &sim::forwarding::Asked<'_>, _: &mut Rng| {
            if asked.now_ns < back_ns { vec![] } else { vec![(30 * MS, Some(truth(asked.packet)))] }
        };
        forwarders.iter().for_each(|f| w.server(f, behaviour));
        let step = 100 * MS;
        for i in 0..(back_ns + 10_000 * MS) / step {
            let _ = w.ask(i as u32, &format!("n{i}.example"), false);
            w.run_until((i + 1) * step);
        }
        let good: Vec<u64> =
            w.ends.iter().filter(|e| matches!(*e.outcome, Outcome::Answer(_))).map(|e| e.at_ns).collect();
        assert!(good[0] > back_ns && good[0] < back_ns + 2_000 * MS, "{} ms", (good[0] - back_ns) / MS);
        let late = w.ends.iter().filter(|e| e.at_ns > back_ns + 2_000 * MS);
        assert!(late.clone().count() > 70 && late.clone().all(|e| matches!(*e.outcome, Outcome::Answer(_))));
        let probes = w.sent_to(ONE, false);
        assert!(probes < 2 * 3_600 + 300, "{probes} packets in an hour of silence");
    }
}

#[test]
fn of_two_forwarders_the_one_that_comes_back_is_used_again_too() {
    let mut w = world(11, &[(".", &[ONE, TWO])]);
    let back_ns = 600_000 * MS;
    w.server(ONE, move |asked, _| if asked.now_ns < back_ns { vec![] } else { vec![(MS, Some(truth(asked.packet)))] });
    w.server(TWO, |asked, _| vec![(50 * MS, Some(truth(asked.packet)))]);
    let (mut before, step) = (0, 100 * MS);
    for i in 0..(back_ns + 4_000 * MS) / step {
        w.ask(i as u32, &format!("n{i}.example"), false).unwrap();
        w.run_until((i + 1) * step);
        if i == (back_ns + 2_000 * MS) / step {
            before = w.sent_to(ONE, false);
        }
    }
    assert!(w.ends.iter().all(|e| matches!(*e.outcome, Outcome::Answer(_))));
    assert!(w.sent_to(ONE, false) > before + 15, "the faster one has the traffic again");
}

#[test]
fn clients_are_told_to_take_what_has_expired_after_1800_ms_and_the_task_goes_on() {
    let mut w = world(12, &[(".", &[ONE])]);
    w.server(ONE, |asked, _| if asked.now_ns < 2_000 * MS { vec![] } else { vec![(MS, Some(truth(asked.packet)))] });
    w.ask(1, "www.example", true).unwrap();
    w.ask(2, "other.example", false).unwrap();
    w.run();
    let end = |waiter| w.ends.iter().find(|e| e.waiter == waiter).unwrap();
    assert!(matches!(*end(1).outcome, Outcome::Stale));
    assert_eq!(end(1).at_ns / MS, 1_800);
    assert_true_answer(&w, 2, "other.example");
    assert_eq!(w.count(Counter::TaskAnswered), 2);
}

#[test]
fn one_client_and_one_victim_have_their_share_and_no_more() {
    let limits =
        Limits { tasks_max: 100, waiters_per_client_max: 10, tasks_per_neighbourhood_max: 25, waiters_max: 1000 };
    let forwards = Forwards::new(vec![forward(".", &[ONE])]);
    let mut w = World::new(13, Settings { forwards, limits, ..Settings::default() });
    let client = |i: u32| IpAddr::from(Ipv4Addr::from(0x0A00_0000 + i));
    let mut from_one = 0;
    for i in 0..50 {
        from_one += usize::from(w.ask_from(i, client(0), &format!("n{i}.z{i}.test"), false).is_ok());
    }
    assert_eq!((from_one, w.count(Counter::ShedClient)), (10, 40));
    let mut near = 0;
    for i in 0..50 {
        near += usize::from(w.ask_from(i, client(100 + i), &format!("n{i}.victim.example"), false).is_ok());
    }
    assert_eq!((near, w.count(Counter::ShedZone)), (25, 25));
    let mut all = 0;
    for i in 0..200 {
        all += usize::from(w.ask_from(i, client(1_000 + i), &format!("n{i}.y{i}.test"), false).is_ok());
    }
    assert_eq!((all, w.count(Counter::ShedTasks)), (65, 135));
    w.run();
    assert_eq!((w.resolver.tasks(), w.resolver.waiters(), w.open()), (0, 0, 0));
}

/// Everything at once, by the seed: losses, doubles, delays, liars, servers that come and go. Nobody is told anything
/// about a name that he did not ask for, everybody is told something, nothing is left behind.
#[test]
fn no_answer_is_ever_for_a_wrong_asker() {
    for seed in 0..SEEDS {
        let mut w = world(seed, &[(".", &[ONE, TWO]), ("corp.example", &[TWO])]);
        for server in [ONE, TWO] {
            w.server(server, move |asked, rng| {
                if rng.one_in(3) {
                    return vec![];
                }
                let mut replies = vec![];
                for _ in 0..1 + rng.below(3) {
                    let mut packet = truth(asked.packet);
                    match rng.below(15) {
                        12 => packet = reply(asked.packet, [1, 4][rng.below(2)], &[], &[]),
                        13 => {
                            packet = reply(asked.packet, [1, 4][rng.below(2)], &[], &[]);
                            packet.truncate(12);
                            packet[5] = 0;
                        }
                        0 => packet[0] ^= 1 << rng.below(8),
                        1 => packet[2] |= 2,
                        2 => packet[3] |= 1 + rng.below(5) as u8,
                        3 => packet.truncate(rng.below(packet.len())),
                        4 => packet[12..12 + asked_name(asked.packet).bytes().len()].make_ascii_lowercase(),
                        5 => {
                            let other = name_of(&format!("n{}.example", rng.below(200)));
                            packet = reply(asked.packet, 0, &[(&other, rtype::A, 300, &address_of(&other))], &[]);
                        }
                        6 => {
                            let at = 12 + rng.below(packet.len() - 12);
                            if at < packet.len() - 4 {
                                packet[at] ^= 1 << rng.below(8);
                            }
                        }
                        _ => {}
                    }
                    let reply = if rng.one_in(20) { None } else { Some(packet) };
                    replies.push((rng.number() % (600 * MS), reply));
                }
                replies
            });
        }
        let mut rng = Rng::new(seed ^ 0xABCD);
        let mut asked = Vec::new();
        for waiter in 0..400u32 {
            let zone = if rng.one_in(4) { "corp.example" } else { "example" };
            let name = format!("n{}.{zone}", rng.below(200));
            let client = IpAddr::from(Ipv4Addr::from(0x0A00_0000 + rng.below(9) as u32));
            w.ask_from(waiter, client, &name, false).unwrap();
            asked.push(name);
            w.run_until(w.now_ns + rng.number() % (30 * MS));
        }
        w.run();
        assert_eq!(w.ends.len(), 400, "seed {seed}: each is told once");
        for end in &w.ends {
            let name = name_of(&asked[end.waiter as usize]);
            assert_eq!(end.question.name(), name.fold().bytes(), "seed {seed}");
            if let Some(addresses) = addresses(&w, end.waiter) {
                assert!(addresses.iter().all(|a| *a == address_of(&name)), "seed {seed}: {name}");
            }
        }
        let answered = w.ends.iter().filter(|e| matches!(*e.outcome, Outcome::Answer(_))).count();
        assert!(answered > 250, "seed {seed}: {answered}");
        assert_eq!((w.resolver.tasks(), w.resolver.waiters()), (0, 0), "seed {seed}");
        assert!(w.open() <= 64, "seed {seed}: only probes are left");
    }
}
