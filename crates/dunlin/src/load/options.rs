//! What a user may type behind `dunlin load`.

use clap::{Args, Subcommand, ValueHint};
use std::net::IpAddr;
use std::path::PathBuf;

/// Load a server with queries and measure it
///
/// Open loop (--schedule, --pcap): queries are due at fixed times whatever the server does, and a latency counts from
/// when its query was due. Closed loop (--outstanding): a fixed number of queries waits for answers; that shows the
/// highest rate, and hides stalls. --find-max looks for the highest open-loop rate that keeps --loss and --p99.
///
/// Templates: {random:N} {seq} {pick:a,b} {zipf:FILE} {zone}; behind the type may stand a weight, *N.
/// Schedules, one after another: const(RATE,TIME) line(FROM,TO,TIME) step(FROM,TO,BY,TIME) burst(SIZE,EVERY,TIME).
///
/// Exit status 0: measured, and all --assert hold. 1: one does not. 2: it could not run.
#[derive(Args)]
#[command(
    after_help = "Examples:
  dunlin load 127.0.0.1:5300 --queries names.txt --outstanding 128 --time 10s
  dunlin load 127.0.0.1:5300 --queries names.txt --schedule 'line(1k,200k,60s)' --html report.html
  dunlin load '[::1]:5300' --template '{random:12}.{zone} A' --zone example.com --schedule 'const(50k,30s)'
  dunlin load 127.0.0.1:5300 --template 'www.{pick:a,b}.example {pick:A,AAAA} *3' --template '{seq}.example A'
  dunlin load 127.0.0.1:5300 --pcap queries.pcap --speed 2 --json report.json
  dunlin load 127.0.0.1:5300 --queries names.txt --find-max --loss 0.1% --p99 5ms
  dunlin load 127.0.0.1:5300 --queries names.txt --schedule 'const(10k,10s)' --assert 'p99<2ms,loss<0.01%'
  dunlin load diff before.json after.json",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub struct Load {
    /// The server: ADDR[:PORT], or a name, which is resolved once before the start
    #[arg(value_name = "TARGET", required = true)]
    pub target: Option<String>,
    #[command(flatten)]
    pub what: Questions,
    #[command(flatten)]
    pub when: Timing,
    #[command(flatten)]
    pub how: Wire,
    #[command(flatten)]
    pub told: Telling,
    #[command(subcommand)]
    pub command: Option<LoadCommand>,
}

#[derive(Subcommand)]
pub enum LoadCommand {
    Diff(LoadDiff),
}

/// Compare two reports, with confidence intervals
///
/// Exit status 0: no difference that chance does not explain. 1: there is one. 2: a report cannot be read.
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin load diff before.json after.json")]
pub struct LoadDiff {
    #[arg(value_name = "A.json", value_hint = ValueHint::FilePath)]
    pub a: PathBuf,
    #[arg(value_name = "B.json", value_hint = ValueHint::FilePath)]
    pub b: PathBuf,
    /// Print facts as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[group(id = "questions", multiple = true)]
pub struct Questions {
    /// Queries, `name type` a line; - is the standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["pcap", "template"])]
    pub queries: Option<String>,
    /// Queries of a capture (pcap, pcapng); without another schedule at the times at which they were seen
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "template")]
    pub pcap: Option<String>,
    /// In the capture, queries are what was sent to this port
    #[arg(long, value_name = "N", default_value_t = load::capture::DNS_PORT)]
    pub pcap_port: u16,
    /// Queries made from a pattern, `NAME TYPE [*WEIGHT]`; may be repeated
    #[arg(long, value_name = "TEMPLATE")]
    pub template: Vec<String>,
    /// What {zone} in a template stands for
    #[arg(long, value_name = "NAME", default_value = "")]
    pub zone: String,
    /// The same seed gives the same names
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[derive(Args)]
pub struct Timing {
    /// Open loop: when queries are due
    #[arg(long, value_name = "SCHEDULE", conflicts_with_all = ["outstanding", "find_max"])]
    pub schedule: Option<String>,
    /// Closed loop: so many queries wait for answers at any time
    #[arg(long, value_name = "N", conflicts_with = "find_max")]
    pub outstanding: Option<usize>,
    /// Look for the highest rate that keeps --loss and --p99
    #[arg(long)]
    pub find_max: bool,
    /// With --find-max: the largest part of queries that may be lost
    #[arg(long, value_name = "PART", default_value = "0.1%")]
    pub loss: String,
    /// With --find-max: the largest p99 of the latency
    #[arg(long, value_name = "TIME", default_value = "5ms")]
    pub p99: String,
    /// How long, for --outstanding; each trial's length for --find-max
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub time: String,
    /// Queries of this first part are sent and not counted
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub warm_up: String,
    /// A query without an answer for so long has timed out
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub timeout: String,
    /// Stop after so many queries
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub count: u64,
    /// With --pcap: so many times faster than captured
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub speed: String,
}

#[derive(Args)]
pub struct Wire {
    /// udp, tcp; tls, https and quic are not built yet
    #[arg(long, value_name = "NAME", default_value = "udp")]
    pub transport: String,
    /// UDP sockets or TCP connections; more are opened where message IDs would run out
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub sockets: usize,
    /// Over TCP: a new connection after so many queries (1: each its own); 0 keeps connections
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub per_connection: u32,
    /// Send from this address; may be repeated
    #[arg(long, value_name = "ADDR")]
    pub source: Vec<IpAddr>,
    /// EDNS with this UDP payload size
    #[arg(long, value_name = "SIZE")]
    pub edns: Option<u16>,
    /// Set DO (implies --edns 1232)
    #[arg(long)]
    pub dnssec: bool,
    /// Send a cookie (RFC 7873), and the server's once it is known (implies --edns 1232)
    #[arg(long)]
    pub cookie: bool,
    /// Ask for the server's identity (RFC 5001; implies --edns 1232)
    #[arg(long)]
    pub nsid: bool,
    /// Set RD
    #[arg(long)]
    pub rd: bool,
    /// Set CD
    #[arg(long)]
    pub cd: bool,
    /// Closed loop: take answers' times from the kernel's stamps, as an open loop does; costs a twentieth of the rate
    #[arg(long)]
    pub stamps: bool,
    /// Run on this CPU only, with the highest priority that is allowed
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Allow rates above 10,000/s to an address that is neither loopback nor private
    #[arg(long)]
    pub yes_i_own_it: bool,
}

#[derive(Args)]
pub struct Telling {
    /// Write the report as JSON; - is the standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<String>,
    /// Write a line for each second
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<String>,
    /// Write the report as one page with charts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<String>,
    /// Fail (exit 1) where one of these does not hold: 'p99<2ms,loss<0.01%,rcode.SERVFAIL<1%'
    #[arg(long, value_name = "EXPR")]
    pub assert: Option<String>,
    /// Put the server's own figures from this /metrics address on the same time axis
    #[arg(long, value_name = "URL")]
    pub watch: Option<String>,
    /// No live view
    #[arg(long, short)]
    pub quiet: bool,
}
