//! Zones as one file that is mapped and served as it stands: the format, the lookup, the builder.
//!
//! Follows offsets only, each one checked; never a pointer, never a file: the bytes come from the caller.

pub mod builder;
mod chain;
mod collected;
mod drafts;
pub mod edit;
pub mod followers;
pub mod format;
mod hosts;
mod index;
mod judge;
mod layout;
mod named;
pub mod node;
mod order;
pub mod overlay;
pub mod patch;
mod render;
mod row;
mod sets;
mod shared;
mod sheet;
mod sorted;
mod spill;
mod sums;
mod table;
mod tables;
mod trust;
pub mod unit;
mod view;
pub mod walk;
mod xxh64;
pub mod zone;

pub use builder::{Builder, Complaint, Hands, InTurn, Judge, Summary};
pub use collected::Records;
pub use format::{Damaged, OpenError};
pub use judge::fault;
pub use named::Hosts;
pub use node::{Apex, Node, Scope};
pub use render::Rr;
pub use sets::{distinct, is_same};
pub use sorted::{Onward, Sorted};
pub use spill::{Kept, Spill};
pub use sums::PAGE;
pub use unit::{Owner, Part, Unit};
pub use view::{Candidate, Image, View};
pub use walk::Walk;
pub use zone::Zone;
