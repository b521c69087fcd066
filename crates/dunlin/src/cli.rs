//! What a user may type: commands, options, their help with examples. Manual pages and completions are made from it.

pub use crate::compare::options::Compare;
pub use crate::load::options::Load;
use clap::{Args, Parser, Subcommand, ValueHint};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

#[derive(Parser)]
#[command(
    name = "dunlin",
    version,
    about = "A DNS server: authoritative zones from images in memory",
    after_help = "Examples:
  dunlin serve --zones zones              serves every NAME.zone of a folder on port 5300
  dunlin serve -c /etc/dunlin/dunlin.toml
  dunlin check -c /etc/dunlin/dunlin.toml lists all that is wrong, changes nothing
  dunlin query example.com MX @127.0.0.1:5300
  dunlin ctl status

Exit status: 0 done; 1 the answer is no (a check failed, a difference was found); 2 it could not run.",
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 110
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Serve(Serve),
    Compile(Compile),
    Check(Check),
    #[command(
        subcommand,
        after_help = "Examples:
  dunlin zone check example.com.zone --origin example.com
  dunlin zone diff old.zone new.zone --origin example.com"
    )]
    Zone(Zone),
    Query(Query),
    Explain(Explain),
    Load(Box<Load>),
    Compare(Compare),
    Import(Import),
    Ctl(Ctl),
    Completions(Completions),
    #[command(hide = true)]
    Man(Man),
}

/// The same with one command. To know the others, too, takes a third of all the memory that it touches, and whoever asks a server waits for little else.
#[derive(Parser)]
#[command(name = "dunlin", max_term_width = 110)]
struct Asking {
    #[command(subcommand)]
    command: OfServer,
}

#[derive(Subcommand)]
enum OfServer {
    Ctl(Ctl),
}

/// What was typed; does not return where that is no command.
pub fn typed() -> Command {
    if std::env::args_os().nth(1).is_some_and(|word| word == "ctl") {
        let OfServer::Ctl(ctl) = Asking::parse().command;
        return Command::Ctl(ctl);
    }
    Cli::parse().command
}

/// Where the configuration comes from.
#[derive(Args, Clone, Debug)]
pub struct Source {
    /// The configuration file
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Every NAME.zone of this folder, besides those of the configuration
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub zones: Option<PathBuf>,
    /// Where images, journals and keys lie
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
}

/// Run the server in the foreground
///
/// Prints `ready` with its addresses (and tells systemd) once it answers. Without a configuration file it serves the
/// zones of --zones on port 5300 of the loopback addresses, as whoever starts it; data and the control socket then lie
/// in the XDG folders. SIGHUP reads the configuration and the zones again, SIGTERM answers what has arrived and stops.
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin serve --zones zones
  dunlin serve --zones zones --listen 127.0.0.1:5353 --listen '[::1]:5353'
  dunlin serve -c /etc/dunlin/dunlin.toml")]
pub struct Serve {
    #[command(flatten)]
    pub source: Source,
    /// Answer here, UDP and TCP, instead of where the configuration says; may be repeated
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Vec<SocketAddr>,
    /// Resolve for clients too (not built yet)
    #[arg(long)]
    pub resolve: bool,
    /// Accept resolver.clock = "file:PATH" (not built yet)
    #[arg(long)]
    pub allow_test_clock: bool,
}

const MEMORY: &str = "Records that are held in memory before they are put into files without a name beside the image; \
    a quarter of the machine's memory unless set. The image itself comes on top";

fn octets(text: &str) -> Result<usize, String> {
    let size = server::config::units::size(text).and_then(|size| usize::try_from(size).ok());
    size.filter(|&size| size > 0).ok_or_else(|| "write a number and one of KiB, MiB, GiB: 512MiB".to_string())
}

/// Build every image that the configuration needs, so that the next start serves at once
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin compile -c /etc/dunlin/dunlin.toml
  dunlin compile --zones zones --data-dir data
  dunlin compile -c /etc/dunlin/dunlin.toml --memory 512MiB")]
pub struct Compile {
    #[command(flatten)]
    pub source: Source,
    #[arg(long, value_name = "SIZE", value_parser = octets, help = MEMORY)]
    pub memory: Option<usize>,
    /// Print facts as JSON
    #[arg(long)]
    pub json: bool,
}

/// Read the configuration and every zone it names, print all that is wrong, change nothing
///
/// Exit status 0: nothing is wrong. 1: a zone is. 2: the configuration is, or cannot be read.
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin check -c /etc/dunlin/dunlin.toml
  dunlin check --zones zones --json")]
pub struct Check {
    #[command(flatten)]
    pub source: Source,
    /// Print findings as JSON
    #[arg(long)]
    pub json: bool,
}

/// Zone files and images of zones
#[derive(Subcommand)]
#[command(disable_help_subcommand = true)]
pub enum Zone {
    Compile(ZoneCompile),
    Check(ZoneCheck),
    Dump(ZoneDump),
    Diff(ZoneDiff),
}

/// Make an image of a zone file
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin zone compile example.com.zone --origin example.com -o example.com.image")]
pub struct ZoneCompile {
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The zone's name
    #[arg(long, value_name = "NAME")]
    pub origin: String,
    /// The image to write
    #[arg(short, long, value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    #[arg(long, value_name = "SIZE", value_parser = octets, help = MEMORY)]
    pub memory: Option<usize>,
    /// Print facts as JSON
    #[arg(long)]
    pub json: bool,
}

/// Check the syntax and the meaning of a zone file
///
/// Errors are what named-checkzone or kzonecheck refuses, too. A zone may be served in spite of some of them; --json says
/// whether it would be. Exit status 0: no errors (there may be warnings). 1: errors. 2: the file cannot be read.
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin zone check example.com.zone --origin example.com
  dunlin zone check example.com.zone --origin example.com --json")]
pub struct ZoneCheck {
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The zone's name
    #[arg(long, value_name = "NAME")]
    pub origin: String,
    /// Print findings as JSON
    #[arg(long)]
    pub json: bool,
    /// Warn of more records of one type at a name than this; 100 unless set
    #[arg(long, value_name = "N")]
    pub records_per_type_max: Option<usize>,
    /// Warn of more types at a name than this; 100 unless set
    #[arg(long, value_name = "N")]
    pub types_per_name_max: Option<usize>,
}

/// Print the records of an image or a zone file, one a line, with absolute names
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin zone dump example.com.image
  dunlin zone dump example.com.zone --origin example.com --canonical
  diff <(dunlin zone dump a.image --canonical) <(dunlin zone dump b.zone --origin example.com --canonical)")]
pub struct ZoneDump {
    #[arg(value_name = "IMAGE-or-FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The zone's name; of an image with several zones: print this one only
    #[arg(long, value_name = "NAME")]
    pub origin: Option<String>,
    /// In the order of RFC 4034 (the SOA first) and in lower case, tabs between fields, so that two dumps can be compared
    #[arg(long)]
    pub canonical: bool,
}

/// Print the IXFR between two images or zone files
///
/// The old SOA, what is removed, the new SOA, what is added: each record on a line, in canonical form; nothing if there is
/// no difference. Exit status 0: no difference. 1: they differ. 2: they cannot be compared.
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin zone diff old.image new.image
  dunlin zone diff example.com.zone new.zone --origin example.com --json")]
pub struct ZoneDiff {
    #[arg(value_name = "IMAGE-or-FILE", value_hint = ValueHint::FilePath)]
    pub a: PathBuf,
    #[arg(value_name = "IMAGE-or-FILE", value_hint = ValueHint::FilePath)]
    pub b: PathBuf,
    /// The zone's name; otherwise that of A: its file without .zone, or its only zone
    #[arg(long, value_name = "NAME")]
    pub origin: Option<String>,
    /// Print the difference as JSON
    #[arg(long)]
    pub json: bool,
}

/// Look a name up, with dig's reading habits and output
///
/// Words may come in any order: @SERVER, a type, a class, a name, +options, -options. The server is the first of
/// /etc/resolv.conf unless one is named.
///
/// Options: -p PORT, -x ADDRESS (reverse), -t TYPE, -c CLASS, -q NAME, -4, -6, --json; +tcp +dnssec +short +nsid
/// +cookie[=HEX] +edns[=N] +noedns +bufsize=N +ednsopt=CODE[:HEX] +zoneversion +[no]rec +[no]ad +[no]cd +[no]aa
/// +ignore +time=S +tries=N +[no]all +[no]cmd +[no]comments +[no]question +[no]answer +[no]authority +[no]additional
/// +[no]stats +tls +https +quic +trace (the last four: not built yet).
///
/// Exit status 0: an answer came, whatever it says. 1: none came. 2: it could not ask.
#[derive(Args)]
#[command(
    after_help = "Examples:
  dunlin query example.com
  dunlin query example.com MX @127.0.0.1:5300 +dnssec
  dunlin query -x 192.0.2.1 @192.0.2.53 -p 5300 +short
  dunlin query version.bind CH TXT @::1",
    allow_negative_numbers = true
)]
pub struct Query {
    #[arg(value_name = "NAME [TYPE] [@SERVER[:PORT]] [+OPTION]...", required = true, allow_hyphen_values = true, num_args = 1..)]
    pub words: Vec<String>,
}

/// Ask the running server how an answer comes about (not built yet)
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin explain www.example.com AAAA --client 192.0.2.7")]
pub struct Explain {
    pub name: String,
    #[arg(value_name = "TYPE", default_value = "A")]
    pub rtype: String,
    /// Whose question it is
    #[arg(long, value_name = "ADDR")]
    pub client: Option<IpAddr>,
}

/// Print the dunlin.toml that another server's configuration amounts to (not built yet)
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin import /etc/nsd/nsd.conf > dunlin.toml")]
pub struct Import {
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// Talk to the running server over its control socket
#[derive(Args)]
#[command(
    after_help = "Examples:
  dunlin ctl status
  dunlin ctl stats --json
  dunlin ctl reload
  dunlin ctl --socket /run/dunlin/control.sock stop",
    disable_help_subcommand = true
)]
pub struct Ctl {
    /// The control socket; otherwise that of --config, else /run/dunlin/control.sock or the one in the XDG folders
    #[arg(long, value_name = "PATH", global = true, value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Talk to the server of this configuration file
    #[arg(short, long, value_name = "FILE", global = true, value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub request: Request,
}

#[derive(Subcommand)]
pub enum Request {
    /// What runs: version, addresses, zones, image, workers
    #[command(after_help = "Examples:
  dunlin ctl status
  dunlin ctl status --json | jq .status.held")]
    Status,
    /// All counters
    #[command(after_help = "Examples:
  dunlin ctl stats --json | jq .counters.queries_udp")]
    Stats,
    /// Read the configuration's zones again; with names: succeed only if these are served afterwards, or are to come from their primaries
    #[command(after_help = "Examples:
  dunlin ctl reload
  dunlin ctl reload example.com example.net")]
    Reload { zones: Vec<String> },
    /// Answer what has arrived and stop
    #[command(after_help = "Examples:
  dunlin ctl stop")]
    Stop,
    /// Zones, whose they are and how they are: list [NAME...]. A zone and what it was: log NAME, diff NAME (what its file would
    /// change), diff NAME SERIAL SERIAL, show NAME, rollback NAME SERIAL, publish NAME; if it takes updates: freeze NAME, thaw NAME;
    /// if it comes from primaries: transfer NAME (now, whatever its serial); notify NAME (tells others of it); zones that are kept by
    /// commands: add NAME FILE, modify NAME 'add www 300 A 192.0.2.1' 'delete old', remove NAME
    #[command(after_help = "Examples:
  dunlin ctl zone list example.com
  dunlin ctl zone log example.com
  dunlin ctl zone diff example.com 2026112601 2026112602
  dunlin ctl zone show example.com --serial 2026112601
  dunlin ctl zone rollback example.com 2026112601
  dunlin ctl zone publish --force example.com
  dunlin ctl zone modify example.com 'add www 300 A 192.0.2.1' 'delete old'")]
    Zone {
        #[arg(required = true, num_args = 1..)]
        words: Vec<String>,
        /// With publish, add and modify: serve what the guards would hold, too
        #[arg(long)]
        force: bool,
        /// With show: the version of this serial, and not the one that is served
        #[arg(long, value_name = "SERIAL")]
        serial: Option<u32>,
    },
    /// Look into the cache: stats, lookup NAME, flush NAME, flush-tree NAME, dump [ENTRIES], save
    #[command(after_help = "Examples:
  dunlin ctl cache stats
  dunlin ctl cache flush-tree example.com")]
    Cache {
        /// What to do
        #[arg(required = true, num_args = 1.., allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Try the policy on a name (not built yet)
    #[command(after_help = "Examples:
  dunlin ctl policy test ads.example")]
    Policy {
        #[arg(required = true, num_args = 1.., allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Where answering threads stood still: how long their turns took, at what, and the stacks of the longest
    #[command(after_help = "Examples:
  dunlin ctl stall
  dunlin ctl stall --json | jq '.stall.worst[0]'")]
    Stall,
}

/// Print the completions of a shell
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin completions bash > /etc/bash_completion.d/dunlin
  dunlin completions zsh > ~/.zfunc/_dunlin")]
pub struct Completions {
    pub shell: clap_complete::Shell,
}

/// Write the manual pages into a folder
#[derive(Args)]
#[command(after_help = "Examples:
  dunlin man ~/.local/share/man")]
pub struct Man {
    #[arg(value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_shows_examples() {
        fn look(command: &clap::Command, bare: &mut Vec<String>) {
            let has_any = command.get_after_help().is_some_and(|help| help.to_string().contains("Examples:"));
            bare.extend((!has_any).then(|| command.get_name().to_string()));
            command.get_subcommands().for_each(|below| look(below, bare));
        }
        let mut bare = Vec::new();
        look(&Cli::command(), &mut bare);
        assert_eq!(bare, [""; 0]);
    }

    #[test]
    fn whoever_asks_a_server_reads_what_he_would_if_all_commands_were_known() {
        for words in
            ["", "--help", "-h", "--version", "status --help", "zone", "zone -h", "reload --no", "stats x", "nothing"]
        {
            let line = || ["dunlin", "ctl"].into_iter().chain(words.split_whitespace());
            let told = |e: clap::Error| (e.to_string(), e.exit_code());
            let few = Asking::try_parse_from(line()).map(|_| ()).map_err(told);
            let all = Cli::try_parse_from(line()).map(|_| ()).map_err(told);
            assert!(few.is_err() && few == all, "{words}: {few:?} {all:?}");
        }
    }
}
