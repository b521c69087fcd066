//! Differential tests of the authoritative server: the same zones, the same raw queries, whole messages compared.
//!
//! NSD, Knot, BIND and Dunlin are started as child processes on free loopback ports. Nothing here is taken from the crates
//! under test: names, messages and zones are read and written by code of this crate alone, so that an error in `wire` cannot
//! hide itself. What may differ is a `class`, and each class has its place in docs/ambiguities.md.

pub mod ask;
pub mod class;
pub mod corpus;
pub mod fleet;
pub mod matrix;
pub mod message;
pub mod name;
pub mod odd;
pub mod peers;
pub mod query;
pub mod recipe;
pub mod rtype;
pub mod seed;
pub mod sign;
pub mod validator;
pub mod verdict;
pub mod zone;
