//! Signatures against themselves: who signs, who checks, what is refused and with which words. Against another
//! implementation: `tests/peers.rs`.

use super::*;

const NOW: u64 = 1_800_000_000;
const QUESTION: &[u8] = b"\0\x07\0\0\0\x01\0\0\0\0\0\0\x01a\0\0\x06\0\x01";

fn key(algorithm: Algorithm) -> Key {
    Key::new(&Name::from_text(b"Key.Example.", None).unwrap(), algorithm, b"a secret of ours")
}

fn keys(algorithm: Algorithm) -> Keys {
    let other = Key::new(&Name::ROOT, Algorithm::Sha512, b"x");
    Keys::new(vec![key(algorithm), other])
}

fn signed(key: &Key, time_s: u64) -> Vec<u8> {
    let mut message = QUESTION.to_vec();
    sign_request(key, &mut message, time_s);
    message
}

fn fault(outcome: Result<Option<Signed>, Refusal>) -> Option<Box<Faulty>> {
    match outcome {
        Err(Refusal::Fault(faulty)) => Some(faulty),
        _ => None,
    }
}

#[test]
fn every_algorithm_signs_requests_replies_and_streams() {
    for (algorithm, name, len, _) in ALGORITHMS {
        assert_eq!(Algorithm::named(&name.to_uppercase()), Some(algorithm));
        let (key, keys) = (key(algorithm), keys(algorithm));
        let mut request = QUESTION.to_vec();
        let mut asked = sign_request(&key, &mut request, NOW);
        let signed = check_request(&request, &keys, NOW + 300).unwrap().unwrap();
        assert_eq!((signed.key().name(), signed.end()), (key.name(), QUESTION.len()));
        assert_eq!(request.len() - QUESTION.len(), signed.room(), "{name} {len}");
        let mut stream = signed.stream();
        for n in 0..3 {
            let mut reply = reply_head(&request, Rcode::NOERROR).unwrap();
            stream.sign(&mut reply, NOW + n);
            assert_eq!(asked.check(&reply, NOW), Ok(()), "{name}");
            assert!(asked.ends_signed());
        }
    }
}

#[test]
fn a_message_without_a_signature_is_let_through_as_such() {
    assert!(check_request(QUESTION, &keys(Algorithm::Sha256), NOW).unwrap().is_none());
}

#[test]
fn any_octet_that_changes_is_noticed() {
    let (key, keys) = (key(Algorithm::Sha256), keys(Algorithm::Sha256));
    let message = signed(&key, NOW);
    for at in 0..message.len() {
        let mut changed = message.clone();
        changed[at] ^= 1;
        let outcome = check_request(&changed, &keys, NOW);
        // A resolver on the way may change the id: it stands in the record as it was (RFC 8945 section 4.3.2).
        assert_eq!(matches!(outcome, Ok(Some(_))), at < 2, "octet {at}");
    }
    for len in 0..message.len() {
        assert!(!matches!(check_request(&message[..len], &keys, NOW), Ok(Some(_))));
    }
}

#[test]
fn an_unknown_key_or_algorithm_is_told_unsigned() {
    let other = Key::new(&Name::from_text(b"other.", None).unwrap(), Algorithm::Sha256, b"x");
    for message in [signed(&other, NOW), signed(&key(Algorithm::Sha384), NOW)] {
        let keys = keys(Algorithm::Sha256);
        let faulty = fault(check_request(&message, &keys, NOW)).unwrap();
        assert_eq!(faulty.fault, Fault::BadKey);
        let mut reply = reply_head(&message, Rcode::NOTAUTH).unwrap();
        faulty.end(&mut reply, NOW);
        let found = find(&Message::new(&reply).unwrap()).ok().flatten().unwrap();
        assert_eq!((found.error, found.mac.len(), found.time_s), (17, 0, NOW));
    }
}

#[test]
fn a_wrong_secret_is_told_unsigned() {
    let wrong = Key::new(&Name::from_text(b"key.example.", None).unwrap(), Algorithm::Sha256, b"guessed");
    let mut message = QUESTION.to_vec();
    let mut asked = sign_request(&wrong, &mut message, NOW);
    let keys = keys(Algorithm::Sha256);
    let faulty = fault(check_request(&message, &keys, NOW)).unwrap();
    let mut reply = reply_head(&message, Rcode::NOTAUTH).unwrap();
    faulty.end(&mut reply, NOW);
    assert_eq!(asked.check(&reply, NOW), Err(Disbelief::Theirs(16)));
}

#[test]
fn a_clock_that_is_off_is_told_signed_and_with_our_time() {
    let (key, keys) = (key(Algorithm::Sha512), keys(Algorithm::Sha512));
    for theirs in [NOW - 301, NOW + 301] {
        let mut message = QUESTION.to_vec();
        let mut asked = sign_request(&key, &mut message, theirs);
        let faulty = fault(check_request(&message, &keys, NOW)).unwrap();
        let mut reply = reply_head(&message, Rcode::NOTAUTH).unwrap();
        faulty.end(&mut reply, NOW);
        let found = find(&Message::new(&reply).unwrap()).ok().flatten().unwrap();
        assert_eq!((found.error, found.time_s, found.other), (18, theirs, &NOW.to_be_bytes()[2..]));
        assert_eq!(asked.check(&reply, theirs), Err(Disbelief::Theirs(18)));
        assert_eq!(asked.check(&reply, theirs), Err(Disbelief::Theirs(18)), "whoever asks again is told the same");
    }
}

/// A request whose MAC was cut to `len` octets.
fn cut(key: &Key, len: usize) -> Vec<u8> {
    let message = signed(key, NOW);
    let found = find(&Message::new(&message).unwrap()).ok().flatten().unwrap();
    let mut out = QUESTION.to_vec();
    found.variables().push(&found.mac[..len], 7, &mut out);
    out
}

#[test]
fn a_short_mac_is_refused_and_a_shorter_one_is_malformed() {
    let (key, keys) = (key(Algorithm::Sha256), keys(Algorithm::Sha256));
    let faulty = fault(check_request(&cut(&key, 16), &keys, NOW)).unwrap();
    assert_eq!(faulty.fault, Fault::BadTrunc);
    let mut reply = reply_head(QUESTION, Rcode::NOTAUTH).unwrap();
    faulty.end(&mut reply, NOW);
    let found = find(&Message::new(&reply).unwrap()).ok().flatten().unwrap();
    assert_eq!((found.error, found.mac.len()), (22, 32));
    for len in [0, 10, 15] {
        assert!(matches!(check_request(&cut(&key, len), &keys, NOW), Err(Refusal::Malformed)), "{len}");
    }
}

#[test]
fn the_record_stands_last_and_once() {
    let (key, keys) = (key(Algorithm::Sha256), keys(Algorithm::Sha256));
    let mut twice = signed(&key, NOW);
    sign_request(&key, &mut twice, NOW);
    assert!(matches!(check_request(&twice, &keys, NOW), Err(Refusal::Malformed)));
    let mut followed = signed(&key, NOW);
    followed.extend(b"\0\0\x01\0\x01\0\0\0\0\0\x04\x01\x02\x03\x04");
    followed[11] += 1;
    assert!(matches!(check_request(&followed, &keys, NOW), Err(Refusal::Malformed)));
}

#[test]
fn a_stream_may_leave_some_messages_unsigned_but_neither_first_nor_too_many() {
    let (key, keys) = (key(Algorithm::Sha256), keys(Algorithm::Sha256));
    let mut request = QUESTION.to_vec();
    let mut asked = sign_request(&key, &mut request, NOW);
    let plain = reply_head(&request, Rcode::NOERROR).unwrap();
    assert_eq!(asked.check(&plain, NOW), Err(Disbelief::Unsigned));
    let signed = check_request(&request, &keys, NOW).unwrap().unwrap();
    let mut stream = signed.stream();
    let mut first = plain.clone();
    stream.sign(&mut first, NOW);
    assert_eq!(asked.check(&first, NOW), Ok(()));
    for _ in 0..99 {
        assert_eq!(asked.check(&plain, NOW), Ok(()));
    }
    assert!(!asked.ends_signed());
    assert_eq!(asked.check(&plain, NOW), Err(Disbelief::Unsigned));
}

#[test]
fn keys_are_printed_without_their_secrets() {
    assert_eq!(format!("{:?}", key(Algorithm::Sha256_128)), "key.example. hmac-sha256-128");
}
