//! `dunlin zone diff`: the IXFR (RFC 1995) that leads from one version of a zone to another.
//!
//! Both are walked through in canonical order, once for what went and once for what came: nothing is kept, whatever their size.

use crate::canonical::{Line, Names, walk};
use crate::cli::ZoneDiff;
use crate::exit::{Exit, could_not, told};
use crate::progress::Progress;
use image::Damaged;
use server::images;
use server::json::Json;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::io::{self, BufWriter, Write};
use wire::name::canonical_cmp;
use wire::rtype;

pub fn diff(args: &ZoneDiff) -> Exit {
    let origin = args.origin.as_deref();
    let done = walk(&args.a, origin, args.json, &mut |apex, a| {
        let name = images::name(apex).to_string();
        walk(&args.b, Some(&name), args.json, &mut |_, b| {
            let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
            // Each is walked through once as the old one and once as the new.
            let bar = RefCell::new(Progress::of(a.records() + b.records()).unless(args.json));
            let found = if args.json { json(apex, a, b, &bar, &mut out) } else { text(apex, a, b, &bar, &mut out) };
            drop(bar);
            found.and_then(|differs| out.flush().map(|()| differs).map_err(Stop::Output))
        })
    });
    match done {
        Ok(Ok(Ok(true))) => Exit::No,
        Ok(Ok(Ok(false))) => Exit::Done,
        Ok(Ok(Err(Stop::Output(e)))) => told(Err(e), Exit::No),
        Ok(Ok(Err(Stop::Damaged))) => could_not("an image is damaged; compile it again"),
        Ok(Err(why)) => could_not(format_args!("{}: {why}", args.b.display())),
        Err(why) => could_not(format_args!("{}: {why}", args.a.display())),
    }
}

enum Stop {
    Output(io::Error),
    Damaged,
}

impl From<Damaged> for Stop {
    fn from(_: Damaged) -> Stop {
        Stop::Damaged
    }
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Stop {
        Stop::Output(e)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Removed,
    Added,
}

type Tell<'t> = &'t mut dyn FnMut(Side, &[u8], &Line) -> io::Result<()>;

/// The SOA that a version has.
fn soa(zone: &dyn Names) -> Result<Option<Line>, Damaged> {
    let apex = zone.names().next().transpose()?;
    Ok(apex.and_then(|apex| apex.lines.into_iter().next()).filter(|l| l.rtype == rtype::SOA))
}

type Bar = RefCell<Progress>;

/// Tells the old SOA, what is removed, the new SOA, what is added; nothing if there is no difference.
fn compare(apex: &[u8], a: &dyn Names, b: &dyn Names, bar: &Bar, tell: Tell<'_>) -> Result<bool, Stop> {
    let mut seen = 0;
    let mut see = |records: usize| {
        seen += records as u64;
        bar.borrow_mut().at(seen);
    };
    let soas = [(Side::Removed, soa(a)?), (Side::Added, soa(b)?)];
    let mut told = 0;
    let mut tell_soas = |upto: usize, tell: Tell<'_>| {
        for (side, soa) in soas.iter().take(upto).skip(told) {
            soa.iter().try_for_each(|soa| tell(*side, apex, soa))?;
        }
        told = told.max(upto);
        io::Result::Ok(told)
    };
    if soas[0].1 != soas[1].1 {
        tell_soas(1, tell)?;
    }
    only_in(a, b, &mut see, &mut |owner, line| {
        tell_soas(1, tell)?;
        tell(Side::Removed, owner, line)
    })?;
    if tell_soas(0, tell)? > 0 {
        tell_soas(2, tell)?;
    }
    only_in(b, a, &mut see, &mut |owner, line| {
        tell_soas(2, tell)?;
        tell(Side::Added, owner, line)
    })?;
    Ok(tell_soas(0, tell)? > 0)
}

fn text(apex: &[u8], a: &dyn Names, b: &dyn Names, bar: &Bar, out: &mut impl Write) -> Result<bool, Stop> {
    let mut text = String::new();
    compare(apex, a, b, bar, &mut |_, owner, line| {
        bar.borrow_mut().make_room();
        text.clear();
        line.push(owner, ' ', &mut text);
        out.write_all(text.as_bytes())
    })
}

fn json(apex: &[u8], a: &dyn Names, b: &dyn Names, bar: &Bar, out: &mut impl Write) -> Result<bool, Stop> {
    write!(out, "{{\"zone\":{},\"removed\":[", Json::text(images::name(apex)))?;
    let (mut text, mut last) = (String::new(), Side::Removed);
    let mut between = "";
    let differs = compare(apex, a, b, bar, &mut |side, owner, line| {
        if side != last {
            (last, between) = (side, "],\"added\":[");
        }
        text.clear();
        line.push(owner, ' ', &mut text);
        write!(out, "{between}{}", Json::text(text.trim_end()))?;
        between = ",";
        Ok(())
    })?;
    let end = if last == Side::Removed { "],\"added\":[]" } else { "]" };
    writeln!(out, "{end},\"differs\":{differs}}}")?;
    Ok(differs)
}

/// Calls `f` for each record that `old` has and `new` has not, SOAs left aside; and `see` with how many there are at each name.
fn only_in(
    old: &dyn Names,
    new: &dyn Names,
    see: &mut dyn FnMut(usize),
    f: &mut dyn FnMut(&[u8], &Line) -> io::Result<()>,
) -> Result<(), Stop> {
    let mut others = new.names();
    let mut other = others.next().transpose()?;
    for owner in old.names() {
        let owner = owner?;
        see(owner.lines.len());
        while other.as_ref().is_some_and(|o| canonical_cmp(&o.name, &owner.name) == Ordering::Less) {
            other = others.next().transpose()?;
        }
        let theirs = other.as_ref().filter(|o| o.name == owner.name).map_or(&[][..], |o| &o.lines);
        let is_gone = |l: &&Line| theirs.binary_search_by(|t| t.key().cmp(&l.key())).is_err();
        for line in owner.lines.iter().filter(|l| l.rtype != rtype::SOA).filter(is_gone) {
            f(&owner.name, line)?;
        }
    }
    Ok(())
}
