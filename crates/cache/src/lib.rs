//! The bounded store of what others told us: answers ready to send, RRsets, cuts, keys, what servers are like, failures.
//!
//! It works on memory that it is given once and never asks for more; it never rehashes, never chains, and never makes a
//! reader wait. Time is an argument: seconds of the cache's own clock (`Cache::time`), which never goes back.
//!
//! A hit, in a batch: `hash` each name (the one pass over it), make its `key`, `seek` all, `fetch` all, then `take` each
//! and write `Hit::answer`. Whoever stores takes `generation` before the work begins, packs the
//! message with `pack`, and `insert`s. What is to happen in the background: `stamp` once a second, `sweep` while it
//! returns true, a `Snapshot` now and then.

mod answer;
mod atomic;
mod entry;
mod flush;
mod ghost;
mod header;
mod key;
mod layout;
pub mod matter;
mod record;
mod shard;
mod slot;
mod snapshot;
mod spans;
mod stats;
mod store;
mod takeover;
mod tally;
mod visit;

pub use answer::{Answer, Bounds, Packed, Unfit, Written, enclose, pack, set_authentic, set_ede};
pub use atomic::AtomicU64;
pub use entry::{Dropped, Entry, Freshness, Hit, Scratch, TTL_MAX, VALUE_MAX};
pub use flush::Extent;
pub use header::{Moment, Unusable};
pub use key::{Key, Kind, NameHash, Variant};
pub use snapshot::{HEADER_OCTETS, Restore, Snapshot};
pub use spans::{Span, SpanBounds, SpanCounts, Spans, Unkept};
pub use stats::Stats;
pub use store::{Cache, Config, Sought};
pub use takeover::Takeover;
pub use tally::Event;
pub use visit::{Progress, Sweep, Visited};
