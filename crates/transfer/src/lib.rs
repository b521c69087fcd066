//! How zones change: differences between versions, how the journal spells them, dynamic update, the signatures of peers.
//!
//! Messages, records, keys and the time go in; differences and answers come out. Never opens a file or a socket, never
//! reads a clock, never visits all zones, never panics on a peer's bytes.

pub mod allow;
pub mod announce;
pub mod ask;
pub mod axfr;
pub mod compare;
pub mod contents;
pub mod diff;
pub mod entry;
pub mod merge;
pub mod message;
mod names;
pub mod receive;
pub mod record;
pub mod refresh;
pub mod remote;
pub mod tsig;
pub mod update;

pub use compare::{FirstTtls, canonical, compare, each_difference};
pub use contents::{Content, Contents, Layer, Misfit, Unreadable};
pub use diff::Diff;
pub use entry::{Author, Entry, Head, Kind, When, encode};
pub use merge::{Conflict, merge};
pub use record::Record;
