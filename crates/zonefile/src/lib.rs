//! Presentation format to records and back: master files of RFC 1035 section 5, rdata of every type that has a text form.
//!
//! Text goes in with a sink for records; wire goes in and text comes out. Never opens a file (`Files` is the driver's),
//! never reads a clock, never panics on any bytes, never stops at the first error.
//!
//! ```text
//! text -> scan: tokens of one entry -> zone: owner, TTL, class, type -> rdata::read (the table in rtypes) -> sink
//! wire -> rdata::parts (the same table) -> rdata::write -> text
//! ```

pub mod rdata;
pub mod rtypes;

mod encoding;
mod generate;
mod name;
mod number;
mod problem;
mod scan;
mod string;
mod zone;

pub use encoding::from_base64;
pub use problem::{Flaw, Objection, Place, Problem, Report, Severity};
pub use scan::{Shape, Token, Tokens};
pub use zone::{Files, HEAD, NoFiles, Options, Part, Reading, Record, Surroundings, border, join, parse, parts};

/// One record on one line, absolute and without a line end: `owner TTL IN TYPE rdata`.
pub fn record_to_text(owner: &[u8], ttl: u32, class: u16, rtype: u16, rdata: &[u8], out: &mut String) {
    wire::name::push_text(owner, out);
    out.push(' ');
    number::push(ttl.into(), out);
    out.push(' ');
    rtypes::push_class(class, out);
    out.push(' ');
    rtypes::push_mnemonic(rtype, out);
    let before = out.len();
    out.push(' ');
    rdata::to_text(rtype, rdata, out);
    if out.len() == before + 1 {
        out.truncate(before);
    }
}
