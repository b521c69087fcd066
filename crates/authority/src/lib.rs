//! Authoritative answers: an image and a question in, the sections of the answer out. Reads like RFC 1034 section 4.3.2.
//!
//! Knows nothing of caches, resolvers or clients. `Lookup` finds what a name is, in stages that a batch goes through
//! together so that memory latency overlaps; `answer` writes what is found.

mod answer;
mod denial;
mod lookup;

pub use answer::{Outcome, Trail, answer};
pub use lookup::{Found, Lookup};
