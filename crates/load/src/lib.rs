//! The load tester: sends queries when they are due, hears what comes back, and tells the truth about both.
//!
//! ```text
//!   template, file, capture -> Source \                          / histogram -> tally -> report -> text, JSON, CSV, page
//!                     schedule -> due -> run: lanes (UDP, TCP) <  outstanding: answer, late, duplicate, wrong ...
//! ```
//!
//! What decides (template, schedule, question, outstanding, tally, verdict, report) has neither clock nor socket; `run`
//! and its lanes have both and decide nothing but when to sleep.

pub mod capture;
pub mod caret;
pub mod chance;
pub mod clock;
pub mod diff;
pub mod file;
pub mod histogram;
pub mod json;
mod kernel;
mod lane;
mod outstanding;
mod packet;
pub mod page;
pub mod quantity;
pub mod question;
pub mod report;
pub mod run;
pub mod schedule;
pub mod search;
pub mod shape;
pub mod source;
mod streams;
pub mod summary;
pub mod tally;
pub mod tcp;
pub mod template;
mod udp;
pub mod verdict;
