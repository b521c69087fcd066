//! The threads around the worker: configuration, images, sockets, control. Decides nothing about DNS.

pub mod complaint;
pub mod config;
