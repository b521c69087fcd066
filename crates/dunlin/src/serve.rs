//! `dunlin serve`: the server in the foreground.

use crate::cli::Serve;
use crate::configuration;
use crate::exit::{Exit, could_not, not_built, remark};
use server::complaint::Complaint;
use server::config::Config;
use server::{log, run};
use std::io::Write;
use std::net::SocketAddr;

pub fn run(args: &Serve) -> Exit {
    if args.resolve {
        return not_built("serve --resolve");
    }
    if args.allow_test_clock {
        return not_built("serve --allow-test-clock");
    }
    let read = || -> Result<Config, Vec<Complaint>> {
        let mut config = configuration::of(&args.source)?;
        if !args.listen.is_empty() {
            config.server.listen.clone_from(&args.listen);
        }
        Ok(config)
    };
    let config = match read() {
        Ok(config) => config,
        Err(complaints) => {
            configuration::show(&complaints, args.source.config.as_deref());
            return Exit::CouldNot;
        }
    };
    let on_ready = |addresses: &[SocketAddr]| {
        ready(addresses);
        if config.file.is_none() {
            hint(&config, addresses);
        }
    };
    match run::serve(&config, &read, on_ready) {
        Ok(()) => Exit::Done,
        Err(why) => could_not(why),
    }
}

fn ready(addresses: &[SocketAddr]) {
    let list: String = addresses.iter().map(|a| format!(" {a}")).collect();
    let mut out = std::io::stdout().lock();
    if let Err(e) = writeln!(out, "ready{list}").and_then(|()| out.flush()) {
        log::warn("nobody reads that we are ready", &[("why", &e)]);
    }
}

/// Whoever starts the server by hand, without a configuration, is told what to type next.
fn hint(config: &Config, addresses: &[SocketAddr]) {
    let zones = config.zones().unwrap_or_default();
    let (Some(zone), Some(address)) = (zones.first(), addresses.first()) else { return };
    let Some(apex) = wire::Name::from_wire(&zone.apex) else { return };
    let program = std::env::args().next().unwrap_or_else(|| "dunlin".into());
    remark(format_args!(
        "In another terminal:\n  {program} query {apex} SOA @{address}\n  {program} ctl status\nCtrl-C stops the server.\n"
    ));
}
