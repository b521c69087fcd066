//! Any octets as a signed request: the signature is refused with a reply that says so, or it is ours, and
//! its reply is signed with as many octets as are kept for that.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transfer::tsig::{self, Algorithm, Key, Keys, Refusal};
use wire::Name;

const NOW_S: u64 = 1_800_000_000;

fuzz_target!(|octets: &[u8]| {
    let Some(name) = Name::from_wire(b"\x01k\0") else { return };
    let keys = Keys::new(vec![Key::new(&name, Algorithm::Sha256, b"secret")]);
    match tsig::check_request(octets, &keys, NOW_S) {
        Err(Refusal::Fault(faulty)) => {
            let mut reply =
                tsig::reply_head(octets, wire::Rcode::NOTAUTH).expect("a request with a signature has a head");
            let before = reply.len();
            faulty.end(&mut reply, NOW_S);
            assert!(reply.len() > before && reply[11] == 1);
        }
        Ok(Some(signed)) => {
            assert!(signed.end() <= octets.len());
            let mut reply = tsig::reply_head(octets, wire::Rcode::NOERROR).expect("it was read");
            let before = reply.len();
            signed.sign(&mut reply, NOW_S);
            assert_eq!(reply.len() - before, signed.room());
        }
        Err(Refusal::Malformed) | Ok(None) => {}
    }
});
