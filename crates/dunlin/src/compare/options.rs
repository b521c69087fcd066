//! What a user may type behind `dunlin compare`.

use clap::{Args, ValueHint};

/// Send the same queries to two servers and group their differences
///
/// Where the answers differ, both servers are asked again: what a server answers differently each time (rotated
/// addresses, records that just changed) is told apart from what the two answer differently. Differences of TTL, size
/// and the additional section are shown and do not count against the verdict.
///
/// Exit status 0: they agree. 1: they do not. 2: it could not run.
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin compare 127.0.0.1:5300 192.0.2.53 --queries names.txt
  dunlin compare 127.0.0.1:5300 127.0.0.1:5301 --pcap yesterday.pcap --dnssec --json")]
pub struct Compare {
    /// The first server: ADDR[:PORT] or a name
    #[arg(value_name = "A")]
    pub a: String,
    /// The second
    #[arg(value_name = "B")]
    pub b: String,
    /// Queries, `name type` a line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "pcap", conflicts_with = "pcap")]
    pub queries: Option<String>,
    /// Queries of a capture (pcap, pcapng)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub pcap: Option<String>,
    /// Only the first N queries
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,
    /// Queries that are under way at the same time
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub parallel: usize,
    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub timeout: String,
    /// Set DO
    #[arg(long)]
    pub dnssec: bool,
    /// Do not set RD
    #[arg(long)]
    pub no_rd: bool,
    /// Examples printed of each kind of difference
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub examples: usize,
    /// Print facts as JSON
    #[arg(long)]
    pub json: bool,
}
