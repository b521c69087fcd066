//! What clients may do: who is admitted, how often, and who has proven where they are.
//!
//! Deterministic: addresses, time and keys come as arguments.

pub mod acl;
pub mod cookie;
pub mod grant;
pub mod rate;

pub use acl::{Acl, Lists, Prefix};
pub use grant::{Grant, Grants};
pub use rate::{RateLimit, RateSettings, Standing, Step};
