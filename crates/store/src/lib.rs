//! Files: mapped images that survive being cut off, atomic writing, reading below a folder, the journal. Knows no
//! sockets and no DNS, and decides nothing.

pub mod atomic;
pub mod crc;
pub mod folder;
pub mod heap;
pub mod journal;
pub mod map;
pub mod memory;
pub mod pieces;
pub mod program;
pub mod removal;
pub mod sigbus;
#[cfg(test)]
mod testdir;
pub mod watch;

pub use map::{Backing, Map, Stretch, leave_cache};
pub use memory::Memory;
