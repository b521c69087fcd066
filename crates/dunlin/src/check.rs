//! `dunlin check` and `dunlin compile`: the configuration and its zones, before anybody is served.

use crate::cli::{Check, Compile};
use crate::configuration;
use crate::exit::{Exit, could_not, remark, say};
use crate::progress::Progress;
use audit::Rules;
use net::privilege::{User, is_root, keep_from_others};
use server::clock::wall_s;
use server::complaint::Complaint;
use server::config::{Config, OUTDATED, Seen, Zone};
use server::images::admitted::Admitted;
use server::images::held::Gate;
use server::images::lately::Last;
use server::images::serving::noting;
use server::images::{self, Beforehand, Library, Recorder, Shelved};
use server::json::Json;
use server::run::stand_in;
use server::update::ledger;
use server::zonetext::findings::{self, Findings};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

pub fn check(args: &Check) -> Exit {
    let found = configuration::of_or_here(&args.source).and_then(|config| {
        let found = config.roster.gather_but_strays(|_| false)?;
        Ok((config, found))
    });
    let (config, (mut zones, strays)) = match found {
        Ok(found) => found,
        Err(complaints) if args.json => {
            let list = Json::list(&complaints, Json::text);
            let facts = Json::Object(vec![("ok", Json::Bool(false)), ("configuration", list)]);
            return say(format_args!("{facts}\n"), Exit::CouldNot);
        }
        Err(complaints) => {
            configuration::show(&complaints, args.source.config.as_deref());
            return Exit::CouldNot;
        }
    };
    let mut warnings = warnings(&config, &zones);
    warnings.extend(zones.iter_mut().filter_map(|zone| go_on(zone, &config)));
    let rules = Rules::at(wall_s());
    let mut progress = Progress::of(zones.len() as u64).unless(args.json);
    let all: Vec<Findings> = zones
        .iter()
        .zip(1..)
        .map(|(zone, n)| {
            progress.draw(n);
            findings::of(zone, &rules)
        })
        .collect();
    drop(progress);
    let bad = all.iter().filter(|f| f.is_bad()).count();
    let refused = all.iter().filter(|f| f.is_refused).count();
    let exit = if bad > 0 || !strays.is_empty() { Exit::No } else { Exit::Done };
    if args.json {
        let facts = vec![
            ("ok", Json::Bool(exit == Exit::Done)),
            ("configuration", Json::list(&strays, Json::text)),
            ("warnings", Json::list(&warnings, Json::text)),
            ("zones", Json::list(&all, Findings::json)),
        ];
        return say(format_args!("{}\n", Json::Object(facts)), exit);
    }
    let mut text: String = warnings.iter().map(|w| format!("warning: {w}\n")).collect();
    text.extend(strays.iter().map(|stray| format!("{stray}\n")));
    text.extend(all.iter().map(Findings::to_string));
    text += &format!("{} zones, {bad} of them with errors, {refused} cannot be served\n", all.len());
    say(text, exit)
}

fn with_zones(config: Config) -> Result<(Config, Vec<Zone>), Vec<Complaint>> {
    let zones = config.zones()?;
    Ok((config, zones))
}

/// What will go wrong at the start, though the configuration says what it means.
fn warnings(config: &Config, zones: &[Zone]) -> Vec<String> {
    let mut warnings: Vec<String> = config.keys.outdated().map(|key| format!("{OUTDATED}: {}", key.text())).collect();
    let others = User { name: "others".into(), uid: NOBODY, gid: NOBODY };
    let is_open = |file: &&Path| findings::unreadable_by(&others, file).is_none();
    let open = config.secrets().filter(is_open);
    warnings.extend(open.map(|file| format!("{} may be read by everybody here: chmod o= it", file.display())));
    warnings.extend(of_user(config, zones));
    warnings
}

/// Nobody has this number.
const NOBODY: u32 = u32::MAX - 1;

/// What the user cannot do that the server will be.
fn of_user(config: &Config, zones: &[Zone]) -> Vec<String> {
    let Some(name) = config.server.user.as_deref().filter(|_| is_root()) else { return Vec::new() };
    match User::find(name) {
        // Secrets, too: it is root who reads them at the start, and this user at a reload.
        Ok(Some(user)) => {
            let files = config.files().chain(zones.iter().map(|zone| &*zone.file));
            let kept = zones.iter().filter(|zone| zone.write_back.is_some()).filter_map(|zone| closed_to(&user, zone));
            files.filter_map(|file| hidden_from(&user, file)).chain(kept).collect()
        }
        Ok(None) => vec![format!("the user {name} does not exist; create it, or write user = \"\"")],
        Err(e) => vec![format!("the user {name} cannot be looked up: {e}")],
    }
}

/// A zone that updates own needs its file no more: what they have made of it is looked at.
fn go_on(zone: &mut Zone, config: &Config) -> Option<String> {
    // Only what is certain: of a folder that may not be read nobody knows.
    let is = |file: &Path, there| file.try_exists().is_ok_and(|is| is == there);
    let own = ledger::own_file(zone, &config.server.data_dir).filter(|own| is(own, true) && is(&zone.file, false))?;
    let (file, name) = (zone.file.display().to_string(), images::name(&zone.apex).to_string());
    zone.read_from(own);
    Some(format!("{file} is not there; zone {name} is as its updates have left it"))
}

fn hidden_from(user: &User, file: &Path) -> Option<String> {
    let place = findings::unreadable_by(user, file)?;
    let (file, name, place) = (file.display(), &user.name, place.display());
    Some(format!("{file} cannot be read by {name}, whom the server runs as: see the mode of {place}"))
}

/// A zone is written back into a new file beside its own, which takes its name.
fn closed_to(user: &User, zone: &Zone) -> Option<String> {
    let place = findings::unwritable_by(user, zone.origin().parent()?)?;
    let (file, name, place) = (zone.origin().display(), &user.name, place.display());
    Some(format!("{file} cannot be written back by {name}, whom the server runs as: see the mode of {place}"))
}

pub fn compile(args: &Compile) -> Exit {
    // The folder is the server's, as is what is made there.
    keep_from_others();
    let found = configuration::of_or_here(&args.source).and_then(|mut config| {
        ledger::own(&mut config.roster.written, &config.server.data_dir);
        let seen = config.roster.seen();
        with_zones(config).map(|(config, zones)| (config, zones, seen))
    });
    let (config, zones, seen) = match found {
        Ok(found) => found,
        Err(complaints) => {
            configuration::show(&complaints, args.source.config.as_deref());
            return Exit::CouldNot;
        }
    };
    // Edits that an image has without anybody having served them are in no history; and what is there already would be served under their serials.
    let _stands_in = match stand_in(&config) {
        Ok(data) => data,
        Err(why) => return could_not(why),
    };
    let mut library = match Library::open(&config.server.data_dir) {
        Ok(library) => library,
        Err(e) => return could_not(format_args!("{}: {e}", config.server.data_dir.display())),
    };
    library.gate = Arc::new(Gate::new(&config, std::collections::HashSet::new()));
    library.memory = args.memory.unwrap_or(library.memory);
    let mut recorder = Recorder::new(&config.server.data_dir, config.history);
    recorder.position();
    let last = Last::open(&library, &config.roster.written);
    last.iter().for_each(|last| recorder.follow(last.shelved.manifest.history()));
    let beforehand = Beforehand { recorder: &mut recorder, note: &mut noting(&library) };
    let found = current(&library, &zones, &seen, last, beforehand, args.json);
    match found {
        Ok(shelved) => {
            // The start that maps this image does not see it any more.
            let unnumbered = library.gate.take_unnumbered().into_iter().filter(|(_, is_unnumbered)| *is_unnumbered);
            for apex in unnumbered.map(|(apex, _)| apex).collect::<BTreeSet<_>>() {
                remark(format_args!("warning: zone {}: it was edited without a new serial\n", images::name(&apex)));
            }
            match library.note_admitted(shelved.manifest.image(), &Admitted::of(&config)) {
                Ok(()) => tell(args, &shelved),
                Err(e) => could_not(e),
            }
        }
        Err(e) => could_not(e),
    }
}

/// The image of these zones; on a terminal a bar shows meanwhile how much of their files has been read.
fn current(
    library: &Library,
    zones: &[Zone],
    seen: &Seen,
    last: Option<Last>,
    beforehand: Beforehand<'_>,
    is_json: bool,
) -> io::Result<Shelved> {
    let build = || library.first(zones, seen, last, beforehand);
    if !Progress::of(0).unless(is_json).is_watched() {
        return build();
    }
    let octets = zones.iter().filter_map(|zone| Some(std::fs::metadata(&zone.file).ok()?.len())).sum();
    let (work, is_over) = channel();
    thread::scope(|scope| {
        scope.spawn(move || Progress::of(octets).follow(&library.read, "laying out", &is_over));
        let built = build();
        drop(work);
        built
    })
}

fn tell(args: &Compile, shelved: &Shelved) -> Exit {
    let problems = shelved.manifest.problems();
    for problem in &problems {
        remark(format_args!("error: zone {}: {}\n", images::name(&problem.apex), problem.what));
    }
    for r in shelved.remarks.iter().flatten() {
        let (zone, errors, warnings) = (images::name(&r.apex), r.errors, r.warnings);
        remark(format_args!("warning: zone {zone}: {errors} errors, {warnings} warnings, the first: {}\n", r.what));
    }
    let (header, file) = (shelved.image.header(), shelved.file.display());
    let exit = if problems.is_empty() { Exit::Done } else { Exit::No };
    if args.json {
        let facts = vec![
            ("image", Json::text(&file)),
            ("zones", Json::Number(u64::from(header.zones))),
            ("records", Json::Number(header.records)),
            ("bytes", Json::Number(header.length)),
        ];
        return say(format_args!("{}\n", Json::Object(facts)), exit);
    }
    let (zones, records, octets) = (header.zones, header.records, header.length);
    say(format_args!("{file}: {zones} zones, {records} records, {octets} octets\n"), exit)
}
