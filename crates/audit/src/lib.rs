//! What a zone means, and what of it cannot be meant: the checks beyond syntax, in one walk over its records in canonical order.
//!
//! Never reads a clock: whether signatures have expired depends on a time that is an argument. Never verifies a signature:
//! it looks at who signed, with which key, from when to when, and whether anything is missing. Never looks outside the zone.

mod denial;
mod digest;
mod fault;
mod guard;
mod hosts;
pub mod links;
mod name;
mod nsec3;
mod report;
mod signatures;
mod walk;

pub use digest::zonemd;
pub use fault::{Fault, Rating};
pub use guard::{Guards, Loss, Version, is_weighed, serial, weigh, weigh_numbers};
pub use report::{Finding, Report};
pub use walk::{Rules, audit};
