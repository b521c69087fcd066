//! Who makes things apart (`store::heap::apart`).

use std::thread;

#[test]
fn what_is_made_apart_may_panic_and_make_things_apart_itself() {
    let words = ["a".to_string(), "b".to_string()];
    let joined = || store::heap::apart(|| store::heap::apart(|| words.concat()));
    assert_eq!(joined(), "ab");
    let panic = std::panic::catch_unwind(|| store::heap::apart(|| panic!("as it should")) as ());
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"as it should"));
    let many = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(joined)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(many, ["ab"; 8]);
}
