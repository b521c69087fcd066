//! The bounded store of what others told us: answers ready to send, RRsets, cuts, keys, what servers are like, failures.
//!
//! It works on memory that it is given once and never asks for more; it never rehashes, never chains, and never makes a
//! reader wait. Time is an argument: seconds of the cache's own clock (`Clock`), which never goes back.

mod answer;
mod entry;
mod key;
mod store;

pub use answer::{Answer, Bounds, Packed, Unfit, pack, set_authentic, set_ede};
pub use entry::{Dropped, Entry, Freshness, Hit, Scratch, TTL_MAX, VALUE_MAX};
pub use key::{Key, Kind, NameHash, Variant};
pub use store::{Cache, Config};
