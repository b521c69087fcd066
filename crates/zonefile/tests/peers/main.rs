//! The same zones through our reader and through those of BIND, Knot and ldns: the records must be the same.

// A test starts peers and writes their input; only the crate itself never does.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod odd;
#[path = "../peer/mod.rs"]
mod peer;
#[path = "../pen/mod.rs"]
mod pen;
mod program;
mod spelt;
mod types;
