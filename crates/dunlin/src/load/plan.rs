//! From what was typed to a plan: all that can be wrong is found here, before the first query.

use super::options::{Load, Questions, Timing, Wire};
use super::{heading, target};
use load::capture::{Capture, Replay};
use load::file::QueryFile;
use load::quantity;
use load::report::Heading;
use load::run::{Pacing, Plan, Transport};
use load::schedule::Schedule;
use load::shape::{Edns, Flags, Shape};
use load::source::Source;
use load::tcp::Turnover;
use load::template::{Names, Surroundings, Templates};

const EDNS_SIZE: u16 = 1232;

pub struct Prepared {
    pub plan: Plan,
    pub source: Source,
    pub heading: Heading,
}

pub fn prepare(args: &Load) -> Result<Prepared, String> {
    let transport = transport(&args.how)?;
    let (target, name) = target::resolve(args.target.as_deref().unwrap_or_default())?;
    let source = source(&args.what)?;
    let pacing = pacing(&args.when, &source)?;
    let plan = Plan {
        target,
        sources: sources(&args.how, target.is_ipv4())?,
        sockets: args.how.sockets.max(args.how.source.len()),
        transport,
        shape: shape(&args.how),
        warm_ns: time("--warm-up", &args.when.warm_up)?,
        timeout_ns: time("--timeout", &args.when.timeout)?.max(1_000_000),
        stamps: args.how.stamps || !matches!(pacing, Pacing::Outstanding { .. }),
        pacing,
        cpu: args.how.cpu,
        seed: args.what.seed,
        limit: args.when.count,
    };
    allowed(args, &plan)?;
    Ok(Prepared { plan, source, heading: heading(name) })
}

/// A closed loop at a stranger's counts as above the cap: nobody knows where it ends.
fn allowed(args: &Load, plan: &Plan) -> Result<(), String> {
    let ip = plan.target.ip();
    let rate = match &plan.pacing {
        Pacing::Outstanding { .. } => f64::INFINITY,
        _ => plan.peak_rate(),
    };
    if args.how.yes_i_own_it || target::is_own(ip) || rate <= target::CAP && !args.when.find_max {
        return Ok(());
    }
    Err(format!(
        "{ip} is neither a loopback nor a private address: more than {}/s may be sent to it only with --yes-i-own-it",
        target::CAP
    ))
}

fn transport(how: &Wire) -> Result<Transport, String> {
    match how.transport.as_str() {
        "udp" => Ok(Transport::Udp),
        "tcp" if how.per_connection == 0 => Ok(Transport::Tcp(Turnover::Kept)),
        "tcp" => Ok(Transport::Tcp(Turnover::After(how.per_connection))),
        other @ ("tls" | "https" | "quic") => Err(format!("--transport {other}: not built yet")),
        other => Err(format!("--transport {other}: there is no such transport; write udp or tcp")),
    }
}

fn sources(how: &Wire, v4: bool) -> Result<Vec<std::net::IpAddr>, String> {
    match how.source.iter().find(|ip| ip.is_ipv4() != v4) {
        Some(ip) => Err(format!("--source {ip}: the target's address is of the other family")),
        None => Ok(how.source.clone()),
    }
}

fn shape(how: &Wire) -> Shape {
    let implied = how.dnssec || how.cookie || how.nsid;
    let size = how.edns.or(implied.then_some(EDNS_SIZE));
    let edns = size.map(|size| Edns { size, dnssec_ok: how.dnssec, nsid: how.nsid, cookie: how.cookie });
    Shape { flags: Flags { rd: how.rd, cd: how.cd, ad: false }, edns }
}

fn source(what: &Questions) -> Result<Source, String> {
    if let Some(path) = &what.queries {
        return QueryFile::open(path).map(Source::File);
    }
    if let Some(path) = &what.pcap {
        let octets = std::fs::read(path).map_err(|e| format!("{path}: cannot be read: {e}"))?;
        let capture = Capture::parse(&octets, what.pcap_port).map_err(|why| format!("{path}: {why}"))?;
        return Ok(Source::Capture(Replay::new(capture, path)));
    }
    if what.template.is_empty() {
        return Err("what to ask is missing: say --queries FILE, --pcap FILE or --template 'NAME TYPE'".to_string());
    }
    let names = |path: &str| match std::fs::read(path) {
        Ok(text) => Ok(Names::new(&text)),
        Err(e) => Err(format!("{path} cannot be read: {e}")),
    };
    let around = Surroundings { zone: &what.zone, names: &names };
    let templates = Templates::parse(&what.template, &around, what.seed).map_err(|e| e.to_string())?;
    Ok(Source::Templates(templates))
}

fn pacing(when: &Timing, source: &Source) -> Result<Pacing, String> {
    let time_ns = time("--time", &when.time)?;
    let factor = quantity::number(&when.speed).filter(|f| *f > 0.0);
    let factor = factor.ok_or_else(|| format!("--speed {}: a factor such as 2 or 0.5 belongs here", when.speed))?;
    match (&when.schedule, when.outstanding, source) {
        (Some(text), ..) => Ok(Pacing::Schedule(Schedule::parse(text).map_err(|e| e.to_string())?)),
        (None, Some(0), _) => Err("--outstanding 0: nothing would ever be sent".to_string()),
        (None, Some(queries), _) => Ok(Pacing::Outstanding { queries, time_ns }),
        (None, None, Source::Capture(replay)) if !when.find_max => {
            Ok(Pacing::Times { times_ns: replay.capture().times_ns.clone(), factor })
        }
        _ if when.find_max => Ok(Pacing::Schedule(Schedule::constant(1000.0, time_ns as f64 / 1e9))),
        _ => Err("when to ask is missing: say --schedule 'const(1k,10s)', --outstanding N or --find-max".to_string()),
    }
}

pub fn time(option: &str, text: &str) -> Result<u64, String> {
    let ns = quantity::time_ns(text).filter(|ns| *ns <= 7.0 * 86_400e9);
    ns.map(|ns| ns as u64).ok_or_else(|| format!("{option} {text}: a time such as 10s or 500ms belongs here"))
}
