//! Any message as a forwarder's answer: what the cache makes of it is, sent to a client, well-formed and not larger than asked
//! for; and any octets as a value of the kinds that recursion asks for.
#![no_main]

use cache::{AtomicU64, Bounds, Cache, Config, Entry, Kind, Moment, Scratch, Variant, matter, pack};
use libfuzzer_sys::fuzz_target;
use sim::message;
use std::cell::RefCell;
use wire::reply::{Flags, Reply};

const NAME: &[u8] = b"\x04name\0";

struct Kept {
    cache: Cache,
    scratch: Scratch,
    value: Vec<u8>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::new({
        let memory: Vec<AtomicU64> = (0..200_000).map(|_| AtomicU64::new(0)).collect();
        let cache = Cache::format(memory.leak(), &Config::default(), Moment::default()).unwrap();
        Kept { cache, scratch: Scratch::default(), value: Vec::new() }
    });
}

/// What a client gets whose question is the message's, in a reply of so many octets.
fn send(kept: &mut Kept, packet: &[u8], question_end: usize, limit: usize) {
    let Kept { cache, scratch, value } = kept;
    let key = cache.key(cache.hash(NAME), NAME, 1, Kind::Answer, Variant::PLAIN);
    let now_s = cache.time(0);
    let entry = Entry { value, ttl_s: 60, source: NAME, generation: cache.generation() };
    cache.insert(&key, &entry, now_s).expect("there is room");
    let hit = cache.probe(&key, now_s, scratch).expect("it was stored");
    assert_eq!(hit.value, value);
    let answer = hit.answer().expect("it was packed");
    let mut buffer = packet[..question_end].to_vec();
    (buffer[4..6].copy_from_slice(&[0, 1]), buffer[6..12].fill(0));
    buffer.resize(limit.max(question_end), 0xEE);
    let mut reply = Reply::begin(&mut buffer, question_end, limit, 0);
    answer.write(&hit, &mut reply);
    let len = reply.finish(Flags::NONE, answer.rcode(), None);
    assert!(len <= limit.max(question_end));
    assert!(message::sections(&buffer[..len]).is_some(), "malformed: {:02x?}", &buffer[..len]);
}

fn read_all(octets: &[u8]) {
    let rrset = matter::read_rrset(octets).map_or(0, |s| s.records.iter().chain(s.signatures.iter()).count());
    let cut = matter::read_cut(octets).map_or(0, |cut| cut.iter().map(|s| s.addresses.len()).sum());
    assert!(rrset.max(cut) <= octets.len());
    let _ = (matter::read_keys(octets), matter::read_server(octets), matter::read_failure(octets));
}

fuzz_target!(|packet: &[u8]| {
    read_all(packet);
    KEPT.with_borrow_mut(|kept| {
        if pack(packet, &Bounds::default(), &mut kept.value).is_err() {
            return;
        }
        let name_len = wire::name::wire_len(&packet[12..]);
        let Some(question_end) = name_len.map(|len| 12 + len + 4) else { return };
        for limit in [65_535, 1232, 512] {
            send(kept, packet, question_end, limit);
        }
    });
});
