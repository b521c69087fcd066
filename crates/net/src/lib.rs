//! Sockets and what surrounds them: datagrams in batches, length-prefixed messages over TCP, wake-ups, signals,
//! privileges, scheduling. Knows no DNS and decides nothing: what a packet means is the caller's business.

pub mod addresses;
pub mod boot;
mod cut;
pub mod epoll;
pub mod generator;
pub mod outbox;
pub mod outgoing;
pub mod privilege;
pub mod sched;
pub mod signals;
pub mod stack;
mod sys;
pub mod systemd;
pub mod tcp;
pub mod udp;
pub mod udp_loop;
pub mod volley;
pub mod wake;

pub use sys::is_writable_within;
pub use wake::{Turn, Wake};
