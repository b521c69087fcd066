//! The threads around the worker: configuration, images, sockets, control. Decides nothing about DNS.

pub mod answering;
pub mod clock;
pub mod complaint;
pub mod config;
mod control;
mod failures;
mod history;
pub mod images;
pub mod json;
pub mod kept;
pub mod log;
#[cfg(test)]
mod patience;
mod publisher;
mod random;
mod refusals;
pub mod resolving;
pub mod run;
mod scribe;
mod secondaries;
pub mod stall;
pub mod stamp;
pub mod state;
mod transfers;
pub mod update;
pub mod zonetext;
