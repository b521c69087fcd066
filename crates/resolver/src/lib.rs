//! Finds out what the cache does not know, by asking others: as steps, without clock, sockets or chance of its own.
//!
//! A driver tells it what happens (`on_question`, `on_reply`, `on_failed`, `on_deadline`) and then does what it says
//! (`next_action` until there is none) by `next_deadline` at the latest. Knows no zones of ours, no cache, no client
//! but by a value that it hands back. What is built is forwarding; recursion is not.

mod answer;
mod chance;
mod choice;
mod exchange;
mod forward;
mod limits;
mod ports;
mod question;
mod resolver;
mod scrub;
mod server;
mod task;
mod why;

pub use answer::{Answer, Draft, TtlRange};
pub use chance::{Chance, Seed};
pub use exchange::{ExchangeId, Via};
pub use forward::{Forward, Forwards};
pub use limits::{ByHash, Limits};
pub use ports::{Drawn, Line, Ports, random_port};
pub use question::Question;
pub use resolver::{Action, Outcome, Resolver, Settings};
pub use why::Why;
