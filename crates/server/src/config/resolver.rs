//! [resolver], [[resolver.forward]] and [cache]: whom we resolve for, whom we ask, and how long what they say is kept.

use super::later::RESOLVER;
use super::reader::{Reader, Table, Word};
use super::{apex, loopback, prefixes};
use policy::Prefix;
use resolver::Forward;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use wire::Name;

#[derive(Clone, Debug)]
pub struct Resolver {
    /// Who may ask for what is not ours.
    pub allow: Vec<Prefix>,
    pub forwards: Vec<Forward>,
    /// Source addresses; unspecified ones leave the choice to the system.
    pub outgoing: Vec<IpAddr>,
    pub edns_size: u16,
    pub serve_stale: bool,
    pub prefetch: bool,
    pub case_randomisation: bool,
}

#[derive(Clone, Debug)]
pub struct Cache {
    /// Octets, all of it.
    pub size: u64,
    /// It outlives the process.
    pub persist: bool,
    pub ttl_min_s: u32,
    pub ttl_max_s: u32,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache { size: 256 << 20, persist: true, ttl_min_s: 0, ttl_max_s: 86_400 }
    }
}

const KEYS: [&str; 9] =
    ["enabled", "allow", "forward", "outgoing", "port", "edns-size", "serve-stale", "prefetch", "case-randomisation"];
/// Less than this holds too few answers to be of use.
const SIZE_MIN: u64 = 1 << 20;

/// What is switched off is not looked at: one file can wait for what is not built.
pub fn read(r: &mut Reader<'_>, top: &Table<'_>) -> (Option<Resolver>, Cache) {
    let Some(table) = r.table(top, "resolver") else { return (None, cache(r, top, false)) };
    let enabled = r.boolean(table, "enabled");
    if enabled == Some(false) {
        let later: Vec<&str> = KEYS.into_iter().chain(RESOLVER.iter().map(|l| l.key)).collect();
        r.keys("[resolver]", table, &later, &[]);
        return (None, cache(r, top, true));
    }
    r.keys("[resolver]", table, &KEYS, RESOLVER);
    let found = resolver(r, table);
    let cache = cache(r, top, false);
    if let (Some(true), Some((key, _))) = (enabled, table.get_key_value("enabled"))
        && found.forwards.is_empty()
    {
        let what = "resolving without forwarders: not built yet";
        r.complain(key.span(), what, "write [[resolver.forward]] with zone = \".\" and servers = [\"192.0.2.53\"]");
    }
    let is_on = enabled.unwrap_or(!found.forwards.is_empty());
    (is_on.then_some(found), cache)
}

fn resolver(r: &mut Reader<'_>, t: &Table<'_>) -> Resolver {
    let allow = r.strings(t, "allow", "127.0.0.0/8").map(|words| prefixes(r, &words));
    let port = r.number(t, "port", 1..=65_535).unwrap_or(53) as u16;
    let outgoing = outgoing(r, t);
    let mut forwards: Vec<Forward> = Vec::new();
    for (t, span) in r.tables(t, "forward") {
        let Some(forward) = forward(r, t, span.clone(), port, &outgoing) else { continue };
        if forwards.iter().any(|before| before.zone == forward.zone) {
            let what = format!("there is another forward for {}", forward.zone);
            r.complain(span, what, "write all its servers into one of them");
        }
        forwards.push(forward);
    }
    let on = |r: &mut Reader<'_>, key| r.boolean(t, key).unwrap_or(true);
    Resolver {
        allow: allow.unwrap_or_else(loopback),
        forwards,
        outgoing,
        edns_size: r.number(t, "edns-size", 512..=4096).unwrap_or(1232) as u16,
        serve_stale: on(r, "serve-stale"),
        prefetch: on(r, "prefetch"),
        case_randomisation: on(r, "case-randomisation"),
    }
}

fn outgoing(r: &mut Reader<'_>, t: &Table<'_>) -> Vec<IpAddr> {
    let Some(words) = r.strings(t, "outgoing", "0.0.0.0") else {
        return vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    };
    if words.is_empty() {
        let instead = "remove it, or write [\"0.0.0.0\", \"::\"]";
        r.complain(t["outgoing"].span(), "nobody can be asked from no address", instead);
    }
    let mut found = Vec::new();
    for word in words {
        match word.text.parse() {
            Ok(ip) => found.push(ip),
            Err(_) => r.complain(
                word.span,
                format!("`{}` is no address", word.text),
                "write an address of this machine, or \"0.0.0.0\" and \"::\" for any",
            ),
        }
    }
    found
}

fn forward(r: &mut Reader<'_>, t: &Table<'_>, span: Range<usize>, port: u16, outgoing: &[IpAddr]) -> Option<Forward> {
    r.keys("[[resolver.forward]]", t, &["zone", "servers", "only"], &[]);
    if r.boolean(t, "only") == Some(false)
        && let Some((key, _)) = t.get_key_value("only")
    {
        r.not_built(key.span(), "asking others where the forwarders fail (`only = false`)");
    }
    let (zone, servers) = (r.string(t, "zone", "."), r.strings(t, "servers", "192.0.2.53"));
    if !t.contains_key("zone") {
        r.complain(span.clone(), "this forward has no zone", "write zone = \".\" for all names");
    }
    if servers.as_ref().is_none_or(Vec::is_empty) {
        r.complain(span, "this forward has no servers", "write servers = [\"192.0.2.53\"]");
    }
    let servers: Vec<SocketAddr> = servers?.iter().filter_map(|w| server(r, w, port)).collect();
    let can_be_asked = |server: &SocketAddr| outgoing.iter().any(|from| from.is_ipv4() == server.is_ipv4());
    if !(servers.is_empty() || outgoing.is_empty() || servers.iter().any(can_be_asked)) {
        let any = if servers[0].is_ipv4() { "0.0.0.0" } else { "::" };
        let what = "`outgoing` has no address that one of these can be asked from";
        r.complain(t["servers"].span(), what, format!("add \"{any}\" to it"));
    }
    Some(Forward { zone: zone_name(r, zone?)?, servers })
}

fn zone_name(r: &mut Reader<'_>, word: Word) -> Option<Name> {
    let found =
        if word.text == "." { Some(Name::ROOT) } else { apex(&word.text).ok().and_then(|a| Name::from_wire(&a)) };
    if found.is_none() {
        r.complain(word.span, format!("`{}` is no name of a zone", word.text), "write zone = \"corp.example\"");
    }
    found
}

/// An address, or one with a port.
fn server(r: &mut Reader<'_>, word: &Word, port: u16) -> Option<SocketAddr> {
    let alone = || Some(SocketAddr::new(word.text.trim_matches(['[', ']']).parse().ok()?, port));
    let found = word.text.parse::<SocketAddr>().ok().or_else(alone);
    if let Some(server) = found.filter(|server| server.port() != 0) {
        return Some(server);
    }
    if ["tls://", "https://", "quic://"].iter().any(|scheme| word.text.starts_with(scheme)) {
        r.not_built(word.span.clone(), &format!("`{}`, a server asked over an encrypted channel", word.text));
        return None;
    }
    r.complain(
        word.span.clone(),
        format!("`{}` is no address of a server", word.text),
        "write \"192.0.2.53\", \"192.0.2.53:5353\" or \"[2001:db8::53]:53\"",
    );
    None
}

fn cache(r: &mut Reader<'_>, top: &Table<'_>, off: bool) -> Cache {
    let mut cache = Cache::default();
    let Some(t) = r.table(top, "cache") else { return cache };
    r.keys("[cache]", t, &["size", "persist", "ttl-min", "ttl-max"], &[]);
    if off {
        return cache;
    }
    cache.persist = r.boolean(t, "persist").unwrap_or(cache.persist);
    if let Some(size) = r.size(t, "size", "256MiB") {
        cache.size = size;
        if size < SIZE_MIN {
            r.complain(t["size"].span(), "this cache holds next to nothing", "write at least size = \"1MiB\"");
        }
    }
    let seconds = |ms: u64| u32::try_from(ms / 1000).unwrap_or(u32::MAX);
    cache.ttl_min_s = r.time_ms(t, "ttl-min", "0s").map_or(cache.ttl_min_s, seconds);
    cache.ttl_max_s = r.time_ms(t, "ttl-max", "1d").map_or(cache.ttl_max_s, seconds);
    if cache.ttl_min_s > cache.ttl_max_s {
        let key = if t.contains_key("ttl-min") { "ttl-min" } else { "ttl-max" };
        r.complain(t[key].span(), "`ttl-min` is above `ttl-max`", "write ttl-min = \"0s\"");
    }
    cache
}
