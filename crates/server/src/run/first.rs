//! What a start serves first: what was served last (`lately`), and over it what the journal says has changed since.

use crate::config::Config;
use crate::history::{Recorder, caution};
use crate::images::Library;
use crate::images::held::Gate;
use crate::images::laying;
use crate::images::serving::{self, Compared, Serving};
use crate::images::sound::Sound;
use crate::log;
use crate::update::ledger::{self, Files, Ledger};
use crate::update::unwritten::{Unwritten, Wish};
use front::Zones;
use image::patch::Limits;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Stretch;

/// So long the first answer may wait for zones with their first `allow-update` to be written down.
const IMPORTED_FOR: Duration = Duration::from_secs(1);

/// What a start serves first.
pub struct First {
    pub library: Library,
    pub zones: Zones<Stretch>,
    pub serving: Serving,
    pub compared: Compared,
    /// None: no zone takes updates. Err: some should, and why none does.
    pub ledger: Result<Option<Ledger>, String>,
    pub unwritten: Unwritten,
    /// Zones of which something is in the journal that is not served.
    pub owed: Vec<Box<[u8]>>,
}

impl First {
    pub fn of(config: &mut Config, recorder: &mut Recorder) -> Result<First, String> {
        let (configured, until) = (config.roster.written.clone(), Instant::now() + IMPORTED_FOR);
        recorder.keep(config.history, &configured);
        loop {
            config.roster.written.clone_from(&configured);
            let opened = ledger::open_files(&config.server.data_dir, &mut config.roster.written, until);
            let (files, remarks) = match opened {
                Ok((files, remarks)) => (Ok(files), remarks),
                Err(e) => (Err(unusable(e)), Vec::new()),
            };
            caution(&remarks);
            let (library, mut zones, serving, compared) = first_image(config, recorder)?;
            let replay = |files: Files| files.replay(zones.image.view(), &serving.manifest, config.history);
            let replayed = files.and_then(|files| files.map(replay).transpose().map_err(unusable));
            let (ledger, unwritten, remarks) = match replayed {
                Ok(Some(replayed)) => replayed,
                none => {
                    let (ledger, unwritten) = (none.map(|_| None), Unwritten::default());
                    return Ok(First { library, zones, serving, compared, ledger, unwritten, owed: vec![] });
                }
            };
            caution(&remarks);
            let wishes = unwritten.since(0).wishes();
            let (laid, owed) = match laying::over(&zones.image, &wishes, Limits::MOST) {
                Ok(laid) => (laid, vec![]),
                Err(unlaid) => {
                    log::info("what has changed takes a new image", &[("why", &unlaid.why)]);
                    if write(config, &zones, &wishes, unwritten.end()) {
                        continue;
                    }
                    // A disk that is full is no reason to answer nobody: the changes stay in the journal. What can be laid is served, and the rest is owed.
                    // Whoever carries out updates asks for an image at once, and says why there is none.
                    let (laid, unlaid) = laying::each_over(&zones.image, &wishes, Limits::MOST);
                    (laid, unlaid.map(|unlaid| unlaid.zones).unwrap_or_default())
                }
            };
            laid.into_iter().for_each(|laid| zones.image = laid.image);
            return Ok(First { library, zones, serving, compared, ledger: Ok(Some(ledger)), unwritten, owed });
        }
    }
}

/// Writes the files of zones for an image to be made of them. True: that is worth another try, for what is left may be laid where others' is written.
fn write(config: &Config, zones: &Zones<Stretch>, wishes: &[Wish], end: u64) -> bool {
    let sound = Sound::compared(&zones.image);
    let (mut are_fewer, mut is_full) = (false, false);
    for wish in wishes {
        match ledger::write(&config.server.data_dir, &sound, &wish.apex, &wish.names, end) {
            Ok(is_written) => are_fewer |= is_written,
            Err(_) => is_full = true,
        }
    }
    are_fewer || !is_full
}

pub fn unusable(e: io::Error) -> String {
    format!("the journal of updates cannot be used: {e}")
}

type Start = (Library, Zones<Stretch>, Serving, Compared);

fn first_image(config: &Config, recorder: &mut Recorder) -> Result<Start, String> {
    let data = config.server.data_dir.display();
    let mut library =
        Library::open(&config.server.data_dir).map_err(|e| format!("the data folder {data} cannot be used: {e}"))?;
    library.gate = Arc::new(Gate::new(config, HashSet::new()));
    let (zones, serving, compared) =
        serving::first(&library, config, recorder).map_err(|complaints| complaints.join("\n"))?;
    Ok((library, zones, serving, compared))
}
