//! The program as it is run: its real binary, real sockets, real clients.

mod closed;
mod commands;
mod crashes;
mod damage;
mod digests;
mod disks;
mod dumps;
mod guards;
mod history;
mod kept;
mod liars;
mod many;
mod merging;
mod numbering;
mod owners;
mod process;
mod resolving;
mod running;
mod second_reader;
mod secondaries;
mod serving;
mod survival;
mod transfers;
mod updates;
mod watching;
mod written_back;
