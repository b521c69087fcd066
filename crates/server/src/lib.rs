//! The threads around the worker: configuration, images, sockets, control. Decides nothing about DNS.

pub mod clock;
pub mod complaint;
pub mod config;
mod control;
mod door;
mod http;
pub mod images;
pub mod json;
pub mod log;
pub mod manifest;
mod panics;
pub mod state;
pub mod zonetext;
