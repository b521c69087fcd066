//! The threads around the worker: configuration, images, sockets, control. Decides nothing about DNS.

pub mod answering;
pub mod clock;
pub mod complaint;
pub mod config;
mod control;
mod cookies;
mod door;
pub mod findings;
mod http;
pub mod images;
pub mod json;
pub mod later;
pub mod log;
pub mod manifest;
mod ownership;
pub mod panics;
mod publisher;
mod random;
pub mod reading;
pub mod run;
mod sockets;
pub mod state;
mod systemd;
pub mod zonetext;
