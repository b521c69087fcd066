//! Bytes of DNS messages: names, questions, EDNS, the reply writer. What the hot path needs and no more.
//!
//! Never allocates on a peer's bytes, never panics on them, knows neither zones nor sockets.

pub mod name;
pub mod rtype;

pub use name::Name;
pub use rtype::Rtype;
