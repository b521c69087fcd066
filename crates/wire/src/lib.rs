//! Bytes of DNS messages: names, questions, EDNS, the reply writer. What the hot path needs and no more.
//!
//! Never allocates on a peer's bytes, never panics on them, knows neither zones nor sockets.

pub mod cpu;
pub mod hash;
pub mod message;
pub mod name;
pub mod query;
pub mod rcode;
pub mod reply;
pub mod rtype;

pub use name::Name;
pub use query::{Parsed, Query};
pub use rcode::{Ede, Rcode};
pub use reply::Reply;
pub use rtype::Rtype;
