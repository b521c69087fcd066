//! [limits] and [limits.rrl]: what clients may ask for, and how long they may be silent.

use super::reader::{Reader, Table, Value};
use super::{loopback, prefixes};
use policy::{Prefix, Step};

#[derive(Clone, Debug)]
pub struct Limits {
    /// False: no limit on clients at all.
    pub enabled: bool,
    pub rrl: Option<Rrl>,
    pub tcp_total: usize,
    pub tcp_per_address: usize,
    pub tcp_idle_ms: u64,
    /// Octets of a zone that comes from others, as it comes.
    pub transfer_octets: u64,
}

/// The response rate limit; what is absent is the policy's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rrl {
    pub per_second: Option<u32>,
    pub slip: Option<u32>,
    pub dry_run: bool,
    /// Of IPv4 and of IPv6.
    pub prefixes: [Option<[Step; 4]>; 2],
    pub exempt: Vec<Prefix>,
}

/// Less than this and a connection may be closed before its first query is read.
const TCP_IDLE_MS_MIN: u64 = 100;
/// The least that a zone comes in, with its SOA twice and a signature.
const TRANSFER_OCTETS_MIN: u64 = 512;

pub fn read(r: &mut Reader<'_>, t: &Table<'_>, limits: &mut Limits) {
    r.keys("[limits]", t, &["enabled", "rrl", "tcp-connections", "tcp-per-address", "tcp-idle", "transfer-size"], &[]);
    limits.enabled = r.boolean(t, "enabled").unwrap_or(true);
    match t.get("rrl").map(|v| v.get_ref()) {
        Some(v) if v.is_table() => limits.rrl = r.table(t, "rrl").map(|t| rrl(r, t)),
        Some(_) if r.boolean(t, "rrl") == Some(false) => limits.rrl = None,
        _ => {}
    }
    if let Some(n) = r.number(t, "tcp-connections", 1..=1_000_000) {
        limits.tcp_total = n as usize;
    }
    if let Some(n) = r.number(t, "tcp-per-address", 1..=1_000_000) {
        limits.tcp_per_address = n as usize;
    }
    if let Some(ms) = r.time_ms(t, "tcp-idle", "10s") {
        if ms < TCP_IDLE_MS_MIN {
            r.complain(t["tcp-idle"].span(), "nobody can ask within that time", "write tcp-idle = \"10s\"");
        }
        limits.tcp_idle_ms = ms;
    }
    if let Some(octets) = r.size(t, "transfer-size", "16GiB") {
        if octets < TRANSFER_OCTETS_MIN {
            let instead = "write as much as a zone may have; there is no way to write \"without limit\"";
            r.complain(t["transfer-size"].span(), "no zone could come in that", instead);
        }
        limits.transfer_octets = octets;
    }
}

fn rrl(r: &mut Reader<'_>, t: &Table<'_>) -> Rrl {
    r.keys("[limits.rrl]", t, &["per-second", "slip", "dry-run", "exempt", "prefixes"], &[]);
    let lengths = r.table(t, "prefixes").map(|t| {
        r.keys("prefixes of [limits.rrl]", t, &["ipv4", "ipv6"], &[]);
        [steps(r, t, "ipv4", 32), steps(r, t, "ipv6", 128)]
    });
    let exempt = r.strings(t, "exempt", "127.0.0.0/8").map(|words| prefixes(r, &words));
    Rrl {
        per_second: r.number(t, "per-second", 1..=1_000_000_000).map(|n| n as u32),
        slip: r.number(t, "slip", 0..=100).map(|n| n as u32),
        dry_run: r.boolean(t, "dry-run").unwrap_or(false),
        prefixes: lengths.unwrap_or_default(),
        exempt: exempt.unwrap_or_else(loopback),
    }
}

/// Four prefix lengths, each with how many times the rate of an address it may have.
fn steps(r: &mut Reader<'_>, t: &Table<'_>, key: &str, bits_max: u64) -> Option<[Step; 4]> {
    let value = t.get(key)?;
    let number = |v: &Value<'_>| v.get_ref().as_integer().and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok());
    let step = |v: &Value<'_>| {
        let pair: Vec<u64> = v.get_ref().as_array()?.iter().map(number).collect::<Option<_>>()?;
        let [bits, times] = pair[..] else { return None };
        let is_right = (1..=bits_max).contains(&bits) && (1..=1_000_000).contains(&times);
        is_right.then_some(Step { bits: bits as u8, times: times as u32 })
    };
    let all = value.get_ref().as_array().and_then(|items| items.iter().map(step).collect::<Option<Vec<_>>>());
    let found = all.and_then(|all| <[Step; 4]>::try_from(all).ok());
    let found = found.filter(|all| all.is_sorted_by(|a, b| a.bits > b.bits && a.times <= b.times));
    if found.is_none() {
        r.complain(
            value.span(),
            format!("`{key}` is four pairs of a prefix length and a number of rates, the longest first"),
            match bits_max {
                32 => "write ipv4 = [[32, 1], [24, 32], [20, 256], [18, 768]]",
                _ => "write ipv6 = [[128, 1], [64, 2], [56, 4], [48, 16]]",
            },
        );
    }
    found
}
