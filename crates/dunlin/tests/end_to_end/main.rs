//! The program as it is run: its real binary, real sockets, real clients.

mod commands;
mod dumps;
mod running;
mod serving;
mod updates;
