//! Any packet, over UDP and TCP, against a signed zone with one of everything: an answer is well-formed and goes to who asked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim::{Server, message};
use std::cell::RefCell;

const NSEC: &str = include_str!("../zones/nsec.zone");
const NSEC3: &str = include_str!("../zones/nsec3.zone");

thread_local! {
    static SERVER: RefCell<Server> = RefCell::new({
        let setup = front::Setup { cookie_secret: Some([7; 16]), nsid: Some(b"fuzz".to_vec()), ..Default::default() };
        Server::with(sim::image_of(&[("example.", NSEC), ("hashed.", NSEC3)]).0, setup)
    });
}

fuzz_target!(|packet: &[u8]| {
    SERVER.with_borrow_mut(|server| {
        for answer in [server.datagram(&packet[..packet.len().min(1472)]), server.message(packet)].into_iter().flatten()
        {
            assert!(packet[2] & 0x80 == 0, "a response was answered");
            assert_eq!(answer[..2], packet[..2]);
            assert!(message::sections(&answer).is_some(), "malformed: {answer:02x?}");
        }
    });
});
