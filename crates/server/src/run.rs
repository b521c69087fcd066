//! A server from start to stop: what happens in which order, and which threads there are.
//!
//! ```text
//! main        binds, gives up root, finds the image, starts the others; then waits for signals and wishes
//! udp N       one a core: sockets -> worker -> sockets
//! tcp N       the same for streams
//! task N      what the cache does not know is asked of others, if the resolver is on
//! cache       fills the cache as it was, writes it down, goes on with what a flush has begun
//! publisher   reads zones, builds images, publishes; runs when nobody else wants the CPU, or with a small share where somebody always does
//! updates     carries out dynamic updates, if a zone takes them; goes before other programs, as those who answer do
//! adoption    writes zones down that are to take updates after a reload, and ends
//! scribe      takes in what somebody has edited in the files of such zones, and writes back what updates have made of them
//! secondaries asks primaries whether zones have changed, has a thread for each that is fetched, sends and takes NOTIFYs
//! transfers   judges who asks for a zone as a whole, and has a thread for each that is given away
//! inspector   compares the image with its checksums
//! watcher     notices that zone files change
//! signals     SIGHUP, SIGTERM, SIGINT as events
//! control, http   operators' questions; a thread for each connection, and one for what is read of the history
//! stall       has the stack of an answering thread written down whose turn lasts
//! apart       one for the main thread and one for the publisher: makes what these keep for long (`store::heap::apart`)
//! sweeper     frees what other threads let go of (`store::heap::let_go`)
//! panics      keeps the packets that a worker panicked on
//! ```

mod cookies;
pub(crate) mod first;
mod handed;
mod ownership;
mod sockets;
pub(crate) mod systemd;
mod updating;

use crate::answering::later::{Desks, Mailbox, Mailboxes};
use crate::answering::panics::{self, Panics};
use crate::answering::queue;
use crate::answering::{Answering, Shared};
use crate::clock::Clock;
use crate::config::Config;
use crate::control::http;
use crate::history::{Past, Recorder, know_last};
use crate::images::inspector::{Alarm, Inspector};
use crate::images::serving::Compared;
use crate::images::{self};
use crate::kept;
use crate::publisher::Publisher;
use crate::publisher::attending::{Reread, attend};
use crate::publisher::jobs::{self, Job, Jobs, Why};
use crate::publisher::press::Press;
use crate::publisher::watcher::{Folders, Watcher};
use crate::resolving::keeper::Keeper;
use crate::resolving::{self, Resolution};
use crate::secondaries::{self, Means};
use crate::stall::{self, Meter, Turns};
use crate::state::{Event, State};
use crate::transfers::{self, Transfers};
use crate::update::intake::{self, Entrance};
use crate::{control, log, random};
use first::First;
use front::{Published, Setup, Worker};
use handed::Handed;
use net::Wake;
use net::privilege::{User, is_root};
use net::sched::Rank;
use net::signals::{Signal, Signals};
use net::tcp::TcpLimits;
use ownership::Held;
use policy::RateSettings;
use sockets::Sockets;
use stats::Counters;
use std::fs::{File, TryLockError};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use updating::{Updating, adopt, caution_of_keys, wish};

/// Descriptors for sockets, and for as many TCP connections as are allowed.
const SPARE_FILES: u64 = 512;
/// So long whoever stops the server waits for the history to have what is served: a disk may never answer.
const RECORDED_WITHIN: Duration = Duration::from_secs(5);
/// Descriptors that an answering thread has beside those it listens on.
const FILES_PER_THREAD: usize = 2;
/// Descriptors of a task thread: for each question that may be open, and the ports that wait to be used again.
const FILES_PER_TASK_THREAD: u64 = 8_192;
/// UDP workers that one TCP thread keeps company: streams are the smaller part of the traffic.
const WORKERS_PER_TCP_THREAD: usize = 2;
/// UDP workers that one task thread keeps company: a miss costs more than a hit, and is rarer.
const WORKERS_PER_TASK_THREAD: usize = 2;

/// Serves until it is told to stop. Err: it could not start or go on, and why.
pub fn serve(config: &Config, reread: &Reread<'_>, on_ready: impl FnOnce(&[SocketAddr])) -> Result<(), String> {
    prepare(config);
    let signals = Signals::new().map_err(|e| format!("signals cannot be received: {e}"))?;
    let mut crew = Crew::of(config);
    crew.raise_open_files();
    net::sched::allow_priorities();
    let _held = claim(&config.server.data_dir)?;
    know_last(&config.server.data_dir);
    let mut handed = Handed::of(systemd::handed());
    let sockets = sockets::bind(&config.server.listen, crew.udp, crew.tcp, &mut handed)?;
    sockets.keep();
    let memory = handed.memory.take();
    // A socket that nobody reads would swallow its share of the questions.
    drop(handed);
    let mut doors = Doors::open(config)?;
    settle(config, &doors.paths(config))?;
    // Before an image is mapped.
    store::removal::begin(&config.server.data_dir).map_err(|e| no_thread("removal", &e))?;
    let (events, inbox) = queue::unbounded();
    let is_ready = take_signals(signals, &events)?;

    let mut config = config.clone();
    let mut recorder = Recorder::new(&config.server.data_dir, config.history);
    // Before the first file is read: what is edited from then on is seen.
    let folders = Folders::of(&config);
    let First { library, zones, serving, compared, ledger, unwritten, owed } = First::of(&mut config, &mut recorder)?;
    let config = &config;
    folders.follow(&config.roster.directories());
    let (mailboxes, boxes) = Mailboxes::new(crew.udp + crew.tcp).map_err(|e| no_thread("udp 0", &e))?;
    let resolution = Resolution::of(config, crew.tasks, memory).map_err(|e| format!("no resolver: {e}"))?;
    let (intake, orders) = intake::pair();
    let (asks, asked) = transfers::asks();
    let clock = Clock::new();
    let ends = secondaries::ends().map_err(|e| no_thread("secondaries", &e))?;
    let others = ends.0.clone();
    let registrar = secondaries::begin(config, &zones, clock, ends).map_err(|e| no_thread("secondaries", &e))?;
    let mailboxes = Arc::new(mailboxes);
    let keys = Arc::new(Published::new(config.keys.clone()));
    let published = Arc::new(Published::new(zones));
    let entrance = Entrance::new(intake, Arc::clone(&keys), Arc::clone(&published), Arc::clone(&mailboxes));
    let entrance = Arc::new(entrance);
    let press = Arc::new(Press::new(Arc::clone(&published), unwritten).owing(owed));
    press.slate.follow(&config.roster.written, config.guards, Instant::now());
    let shared = Shared {
        published: Arc::clone(&published),
        keys,
        clock,
        stop: Arc::new(AtomicBool::new(false)),
        panics: Arc::new(Panics::start(config.server.data_dir.clone()).map_err(|e| no_thread("panics", &e))?),
        mailboxes,
        desk: Some(Arc::new(Desks {
            resolver: resolution.as_ref().map(Resolution::desk),
            updates: Arc::clone(&entrance),
            transfers: asks.clone(),
            notifies: others.clone(),
        })),
        cache: resolution.as_ref().map(|r| Arc::clone(&r.cache)),
        presence: Arc::clone(&others.presence),
    };
    let are_over_it = serving.manifest.changes() > 0 || press.hold().unwritten.names() > 0;
    shared.govern(serving.fingerprint(), are_over_it);
    let (counters, turns) = (crew.counters(), crew.turns());
    let addresses = sockets.addresses.clone();
    let mut state = State::new(addresses, crew.udp, counters, turns, shared.clock, events.clone());
    state.updated = Arc::clone(&entrance.counters);
    state.folders = Some(Arc::clone(&folders));
    state.press = Some(Arc::clone(&press));
    state.secondaries = Some(others);
    let past = Past { published: Arc::clone(&shared.published), data_dir: config.server.data_dir.clone() };
    state.past = Some(past.clone());
    let state = Arc::new(state);
    // Before others do, of a lower priority: who is first has the sweeper started.
    store::heap::let_go();
    let wakes = wakes(&shared, resolution.as_ref());
    let publisher =
        Publisher::new(library, Arc::clone(&press), shared.clone(), Arc::clone(&state), wakes, serving, recorder);
    let (orders, old_keys, watched) = (Mutex::new(Some(orders)), Mutex::default(), Arc::clone(&folders));
    let updating = Updating { orders, entrance, press, shared, state, folders: watched, past, old_keys };
    // Before anybody is answered, who may send an update next.
    match ledger {
        Ok(Some(ledger)) => updating.start_first(ledger, config)?,
        Ok(None) => {}
        Err(why) => updating.wait(why),
    }
    let Updating { shared, state, .. } = &updating;
    let threads = Threads::start(config, sockets, shared, state, &crew, boxes, resolution)?;
    let transfers = Transfers::new(shared, state, asks);
    spawn("transfers", &state.events, move || transfers.run(&asked))?;
    let jobs = start_publisher(publisher, compared, config, &events)?;
    look_after(shared, state, &folders)?;
    let means = Means::of(shared, state);
    spawn("secondaries", &state.events, move || registrar.run(&means))?;
    watch(state)?;
    doors.serve(state)?;

    // Before anybody is told: who is may send one at once.
    is_ready.store(true, Relaxed);
    on_ready(&state.addresses);
    systemd::tell(systemd::READY);
    if let Some(resolver) = &config.resolver {
        resolving::caution(resolver);
    } else if config.roster.is_empty() {
        log::warn("no zone is configured: every query is refused; name a folder of zones with --zones", &[]);
    } else if state.served().zones == 0 && state.served().problems.is_empty() && config.roster.written.is_empty() {
        log::warn("no zone is served: neither a folder of zones nor the list has one", &[]);
    }
    caution_of_keys(config);
    log::info("ready", &[("workers", &crew.udp), ("zones", &state.served().zones)]);
    let adopt = |config: &Config, reading, zones: &[String], why, number| {
        adopt(config, reading, zones, number, &updating);
        wish(zones, why, &updating);
    };
    let attended = attend(config, reread, &inbox, &jobs, state.secondaries.as_ref(), &adopt);
    tell_stopping(state);
    threads.stop(&shared.stop);
    state.keeper.get().into_iter().for_each(Keeper::finish);
    drop(doors);
    log::info("stopped", &[]);
    attended
}

/// Nothing more comes to be served, and the history gets what is.
fn tell_stopping(state: &State) {
    systemd::tell(systemd::STOPPING);
    state.unrecorded.settle(RECORDED_WITHIN);
}

/// What holds for the whole process, before its first thread and file.
fn prepare(config: &Config) {
    store::heap::keep_little();
    store::program::read();
    log::set_level(config.level);
    panics::log_them();
    // Data-dir has what zone files hold, whoever may read those; and the control socket is there before it has its mode.
    net::privilege::keep_from_others();
}

/// How many answering threads there are, where they may run, and what they have.
struct Crew {
    /// Each answering thread listens on.
    addresses: usize,
    udp: usize,
    tcp: usize,
    tasks: usize,
    cpus: Vec<usize>,
    /// Of clients over TCP, in all.
    connections: usize,
}

impl Crew {
    fn of(config: &Config) -> Crew {
        let cpus = net::sched::cpus();
        let udp = config.server.workers.unwrap_or(cpus.len()).max(1);
        let tasks = config.resolver.as_ref().map_or(0, |_| udp.div_ceil(WORKERS_PER_TASK_THREAD));
        let connections = config.limits.tcp_total;
        let addresses = config.server.listen.len();
        Crew { addresses, udp, tcp: udp.div_ceil(WORKERS_PER_TCP_THREAD), tasks, cpus, connections }
    }

    fn counters(&self) -> Vec<Arc<Counters>> {
        (0..self.udp + self.tcp + self.tasks).map(|_| Arc::default()).collect()
    }

    fn turns(&self) -> Vec<Arc<Turns>> {
        let udp = (0..self.udp).map(|i| format!("udp {i}"));
        udp.chain((0..self.tcp).map(|i| format!("tcp {i}"))).map(|name| Arc::new(Turns::new(name))).collect()
    }

    /// Where the limit is low clients have fewer connections.
    fn raise_open_files(&mut self) {
        let of_answering = (self.udp + self.tcp) * (self.addresses + FILES_PER_THREAD);
        let others = SPARE_FILES + of_answering as u64 + self.tasks as u64 * FILES_PER_TASK_THREAD;
        let wanted = self.connections as u64 + others;
        match net::sched::raise_open_files(wanted) {
            Ok(granted) if granted < wanted => {
                self.connections = self.connections.min(connections(granted, others));
                log::warn(
                    "fewer open files than could be needed",
                    &[("granted", &granted), ("wanted", &wanted), ("tcp_connections", &self.connections)],
                );
            }
            Ok(_) => {}
            Err(e) => log::warn("the limit of open files cannot be raised", &[("why", &e)]),
        }
    }

    /// The CPU of a worker, where each can have one of its own. A single worker that the kernel could place on either of two CPUs was found to
    /// stay, for 45 ms, on that of a thread with a higher priority, which took it away for each packet; the other CPU was idle.
    fn cpu(&self, worker: usize) -> Option<usize> {
        self.cpus.get(worker).copied().filter(|_| self.udp <= self.cpus.len())
    }
}

/// Starts who publishes. Returns whom to ask for it.
fn start_publisher(
    publisher: Publisher,
    compared: Compared,
    config: &Config,
    events: &queue::Sender<Event>,
) -> Result<Jobs, String> {
    let (jobs, work) = jobs::jobs();
    spawn("publisher", events, move || publisher.run(&work))?;
    if compared == Compared::Owned {
        let job = Job { is_asked: true, ..Job::new(Arc::new(config.clone()), Why::Started, Vec::new(), None) };
        // Only a publisher that has panicked does not listen, and says so.
        jobs.send(job);
    }
    Ok(jobs)
}

/// Starts who compares the image with its checksums, and who notices changed files.
fn look_after(shared: &Shared, state: &Arc<State>, folders: &Arc<Folders>) -> Result<(), String> {
    let alarm = Arc::new(Alarm::default());
    let inspector = Inspector::new(Arc::clone(&shared.published), Arc::clone(state), Arc::clone(&alarm));
    spawn("inspector", &state.events, move || inspector.run())?;
    let watcher = Watcher::new(Arc::clone(folders), Arc::clone(state), alarm);
    spawn("watcher", &state.events, move || watcher.run())
}

/// Connections that clients may have of so many open files: what the server opens itself, as zone files and journals, is not theirs to take. A
/// quarter in any case.
fn connections(granted: u64, others: u64) -> usize {
    granted.saturating_sub(others).max(granted / 4) as usize
}

/// Where operators come in.
struct Doors {
    control: control::Socket,
    http: Option<TcpListener>,
}

impl Doors {
    fn open(config: &Config) -> Result<Doors, String> {
        let socket = &config.control.socket;
        let bound = control::bind(socket);
        let control = bound.map_err(|e| {
            format!("the control socket {} cannot be had: {e}; write another in [control]", socket.display())
        })?;
        let http = match config.control.http.map(|address| (address, TcpListener::bind(address))) {
            None => None,
            Some((_, Ok(listener))) => Some(listener),
            Some((address, Err(e))) if config.control.http_written => {
                return Err(format!("control.http: {address} cannot be listened on: {e}"));
            }
            Some((address, Err(e))) => {
                log::warn("no metrics: the address cannot be had", &[("address", &address), ("why", &e)]);
                None
            }
        };
        Ok(Doors { control, http })
    }

    /// Of the control socket: it can only be removed by whoever may write to its folder.
    fn paths<'s>(&'s self, config: &'s Config) -> Vec<&'s Path> {
        self.control.folder.iter().chain([&config.control.socket]).map(|path| &**path).collect()
    }

    fn serve(&mut self, state: &Arc<State>) -> Result<(), String> {
        let http = self.http.take().map_or(Ok(()), |listener| http::serve(listener, Arc::clone(state)));
        http.and_then(|()| control::serve(&self.control, Arc::clone(state))).map_err(|e| no_thread("control", &e))
    }
}

/// Makes a folder that is there after a power cut, too: what is acknowledged lies in it.
fn make(data: &Path) -> io::Result<()> {
    if data.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(data)?;
    // Which of them were there is not known any more. One that may not be opened is not ours.
    data.ancestors().skip(1).for_each(|folder| _ = store::atomic::sync_folder(folder));
    Ok(())
}

/// For whoever makes images before a start: he does what that would, as its user, and no server has the folder meanwhile.
pub fn stand_in(config: &Config) -> Result<File, String> {
    let data = claim(&config.server.data_dir)?;
    settle(config, &[])?;
    Ok(data)
}

/// Hands the data folder and these to the user we shall be, and becomes that user.
fn settle(config: &Config, doors: &[&Path]) -> Result<(), String> {
    let data = &config.server.data_dir;
    let Some(name) = config.server.user.as_deref().filter(|_| is_root()) else { return Ok(()) };
    let user = match User::find(name) {
        Ok(Some(user)) => user,
        Ok(None) => return Err(format!("the user {name} does not exist; create it, or write user = \"\" in [server]")),
        Err(e) => return Err(format!("the user {name} cannot be looked up: {e}")),
    };
    let given = |path: &Path| {
        let held = Held::open(path).and_then(|held| held.give(&user).map(|()| held));
        held.map_err(|e| format!("{} cannot be given to {name}: {e}", path.display()))
    };
    for path in doors {
        given(path)?;
    }
    give_images(&given(data)?, &user).map_err(|e| format!("the images cannot be given to {name}: {e}"))?;
    user.become_for_good().map_err(|e| format!("cannot become {name}: {e}"))
}

/// Makes the data folder. As long as it is held open no other server has it: two would write one journal, and each drop what the other has
/// acknowledged. Before an address is listened on: that may be shared with the other, and a start that ends all the same would take questions along.
fn claim(data: &Path) -> Result<File, String> {
    make(data).map_err(|e| {
        format!("the data folder {} cannot be made: {e}; write another data-dir in [server]", data.display())
    })?;
    let folder = File::open(data).map_err(|e| format!("the data folder {} cannot be read: {e}", data.display()))?;
    match folder.try_lock() {
        Err(TryLockError::WouldBlock) => Err(format!(
            "the data folder {} is that of a server which runs; stop it, or write another data-dir in [server]",
            data.display()
        )),
        // Not every file system has locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(folder),
    }
}

/// Images, and the folder of zones that are kept by commands, are root's where root has made them with `user = ""`.
fn give_images(data: &Held, user: &User) -> io::Result<()> {
    let there = |found: io::Result<Held>| match found {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        found => found.map(Some),
    };
    there(data.entry(kept::FOLDER))?.map_or(Ok(()), |held| held.give(user))?;
    let Some(folder) = there(data.entry(images::FOLDER))? else { return Ok(()) };
    for name in [images::IMAGE, images::MANIFEST, images::NEXT, images::admitted::FILE] {
        there(folder.entry(name))?.map_or(Ok(()), |held| held.give(user))?;
    }
    folder.give(user)
}

/// What wakes the answering threads, and those that ask others.
fn wakes(shared: &Shared, resolution: Option<&Resolution>) -> Vec<Arc<Wake>> {
    shared.mailboxes.wakes().chain(resolution.into_iter().flat_map(Resolution::wakes)).collect()
}

/// The answering threads.
struct Threads {
    wakes: Vec<Arc<Wake>>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start(
        config: &Config,
        sockets: Sockets,
        shared: &Shared,
        state: &State,
        crew: &Crew,
        boxes: Vec<Mailbox>,
        resolution: Option<Resolution>,
    ) -> Result<Threads, String> {
        let mut setup = setup(config, &sockets).map_err(|e| format!("no random numbers: {e}"))?;
        setup.keys = Arc::clone(&shared.keys);
        setup.presence = Arc::clone(&shared.presence);
        setup.resolving = resolution.as_ref().map(|r| r.resolving.clone());
        let mut threads = Threads { wakes: wakes(shared, resolution.as_ref()), handles: Vec::new() };
        let mut each = state.counters.iter().zip(&state.turns).zip(boxes);
        let mut next = || {
            let ((counters, turns), mailbox) = each.next()?;
            let key = [random::number(), random::number()].map(Result::unwrap_or_default);
            let setup = Setup { rate_key: key, ..setup.clone() };
            let (published, counted) = (Arc::clone(&shared.published), Arc::clone(counters));
            let make = move || Worker::new(Arc::clone(&published), setup.clone(), Arc::clone(&counted));
            let meter = Meter::new(Arc::clone(turns));
            Some(Answering::new(shared.clone(), Arc::clone(counters), mailbox, meter, make))
        };
        // Who goes before a thread that asks others, on the same CPU, hands it a question at a time instead of a batch: a miss costs a tenth more.
        let rank = |rank| resolution.is_none().then_some(rank);
        let (datagrams, streams) = (rank(Rank::Datagrams), rank(Rank::Streams));
        for (i, ports) in sockets.udp.into_iter().enumerate() {
            let (Some(answering), cpu) = (next(), crew.cpu(i)) else { break };
            threads.spawn(format!("udp {i}"), &state.events, move || {
                if let Some(Err(e)) = cpu.map(net::sched::pin) {
                    log::warn("a thread is not pinned to its CPU", &[("why", &e)]);
                }
                answering.serve_udp(&ports, datagrams)
            })?;
        }
        let limits = tcp_limits(config, crew.connections, sockets.tcp.len());
        for (i, listeners) in sockets.tcp.into_iter().enumerate() {
            let (Some(answering), limits) = (next(), limits.clone()) else { break };
            threads
                .spawn(format!("tcp {i}"), &state.events, move || answering.serve_tcp(&listeners, &limits, streams))?;
        }
        if let Some(mut resolution) = resolution {
            // There is one resolver, and one keeper.
            let _ = state.keeper.set(resolution.keep(shared.clock).map_err(|e| no_thread("cache", &e))?);
            threads.start_tasks(resolution, shared, state, crew, &setup)?;
        }
        Ok(threads)
    }

    /// The threads that ask others.
    fn start_tasks(
        &mut self,
        resolution: Resolution,
        shared: &Shared,
        state: &State,
        crew: &Crew,
        setup: &Setup,
    ) -> Result<(), String> {
        let counters = state.counters.get(crew.udp + crew.tcp..).unwrap_or_default();
        let tasks = resolution.tasks(shared, setup, counters).map_err(|e| no_thread("task 0", &e))?;
        for (i, (tasks, upstream)) in tasks.into_iter().enumerate() {
            self.spawn(format!("task {i}"), &state.events, move || tasks.run(upstream))?;
        }
        Ok(())
    }

    fn spawn(
        &mut self,
        name: String,
        events: &queue::Sender<Event>,
        serve: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<(), String> {
        let (thread, events) = (name.clone(), events.clone());
        let body = move || {
            net::sched::name_thread(&thread);
            // A sandbox that refuses it takes promptness away, no answer.
            let _ = net::sched::prompt();
            let why = match catch_unwind(AssertUnwindSafe(serve)) {
                Ok(Ok(())) => return,
                Ok(Err(e)) => e.to_string(),
                Err(_) => PANICKED.to_string(),
            };
            // Who is stopping already does not listen.
            let _ = events.try_send(Event::Lost { thread, why });
        };
        let handle = std::thread::Builder::new().name(name.clone()).spawn(body);
        self.handles.push(handle.map_err(|e| no_thread(&name, &e))?);
        Ok(())
    }

    /// What has arrived is answered first.
    fn stop(self, stop: &AtomicBool) {
        stop.store(true, Relaxed);
        self.wakes.iter().for_each(|w| w.ring());
        self.handles.into_iter().for_each(|h| drop(h.join()));
    }
}

fn setup(config: &Config, sockets: &Sockets) -> io::Result<Setup> {
    let server = &config.server;
    let rrl = config.limits.rrl.as_ref().filter(|_| config.limits.enabled);
    let usual = RateSettings::default();
    let rate = rrl.map(|r| RateSettings {
        per_second: r.per_second.unwrap_or(usual.per_second),
        slip: r.slip.unwrap_or(usual.slip),
        dry_run: r.dry_run,
        prefixes: [r.prefixes[0].unwrap_or(usual.prefixes[0]), r.prefixes[1].unwrap_or(usual.prefixes[1])],
        exempt: r.exempt.clone(),
        threads: sockets.udp.len() as u32,
    });
    Ok(Setup {
        nsid: server.nsid.clone().map(String::into_bytes),
        version: server.version.clone(),
        identity: server.identity.clone(),
        rotate: server.rotate,
        cookie_secret: Some(cookies::secret(&server.data_dir)?),
        rate,
        own: own_addresses(&sockets.addresses),
        // The entrance knows whether a zone does.
        takes_updates: true,
        gives_transfers: true,
        keepalive_tenths: u16::try_from(config.limits.tcp_idle_ms / 100).unwrap_or(u16::MAX),
        ..Setup::default()
    })
}

/// Where our own answers could come back from.
fn own_addresses(listen: &[SocketAddr]) -> Vec<(IpAddr, u16)> {
    let interfaces = net::addresses::own_addresses().unwrap_or_default();
    let behind = |a: &SocketAddr| {
        if !a.ip().is_unspecified() {
            return vec![(a.ip(), a.port())];
        }
        interfaces.iter().filter(|ip| ip.is_ipv4() == a.is_ipv4()).map(|&ip| (ip, a.port())).collect()
    };
    listen.iter().flat_map(behind).collect()
}

/// The limits of one of so many threads; what clones of them count by address, they count together. Of the connections in all
/// each thread has its share, for each can make room among its own only.
fn tcp_limits(config: &Config, connections: usize, threads: usize) -> TcpLimits {
    let limits = &config.limits;
    let share = |all: usize| (all / threads).max(1);
    let total = share(connections);
    TcpLimits {
        connections_max: total,
        per_peer_max: if limits.enabled { limits.tcp_per_address } else { usize::MAX },
        idle: Duration::from_millis(limits.tcp_idle_ms),
        ..TcpLimits::default()
    }
}

/// Starts a thread that works beside those that answer. One that panics is missed: others would wait for it.
fn spawn(
    name: &'static str,
    events: &queue::Sender<Event>,
    body: impl FnOnce() + Send + 'static,
) -> Result<(), String> {
    let events = events.clone();
    let watched = move || {
        if catch_unwind(AssertUnwindSafe(body)).is_err() {
            // Who is stopping already does not listen.
            let _ = events.try_send(Event::Lost { thread: name.to_string(), why: PANICKED.to_string() });
        }
    };
    std::thread::Builder::new().name(name.to_string()).spawn(watched).map(drop).map_err(|e| no_thread(name, &e))
}

const PANICKED: &str = "it panicked";

/// Without it turns are timed all the same, and only the stacks are missing.
fn watch(state: &Arc<State>) -> Result<(), String> {
    match net::stack::Stacks::new(state.turns.len()) {
        Ok(stacks) => {
            let (all, watched) = (state.turns.clone(), Arc::clone(state));
            spawn("stall", &state.events, move || {
                stall::watch(all, watched.clock, stacks, |now_ns| watched.writing.look(now_ns));
            })
        }
        Err(e) => {
            log::warn("stalls are told without stacks", &[("why", &e)]);
            Ok(())
        }
    }
}

fn no_thread(name: &str, e: &io::Error) -> String {
    format!("the thread {name} cannot be started: {e}")
}

/// Returns where it is to be said that the server is ready.
fn take_signals(signals: Signals, events: &queue::Sender<Event>) -> Result<Arc<AtomicBool>, String> {
    let (is_ready, ends) = (Arc::new(AtomicBool::new(false)), events.clone());
    let may_wait = Arc::clone(&is_ready);
    spawn("signals", events, move || forward(&signals, &ends, &may_wait))?;
    Ok(is_ready)
}

/// Passes signals on. Nothing is lost by an end at once, as by any other: where nobody listens yet, who makes an image or waits for a disk, nobody is
/// waited for; nor where somebody asks twice.
fn forward(signals: &Signals, events: &queue::Sender<Event>, is_ready: &AtomicBool) {
    let mut is_asked = false;
    loop {
        let event = match signals.wait(None) {
            Ok(Some(Signal::Reload)) => Event::Reload { zones: Vec::new(), done: None },
            Ok(Some(Signal::Stop)) if is_asked || !is_ready.load(Relaxed) => {
                let when = if is_asked { "a second signal came" } else { "it was not ready yet" };
                log::info("stopped at once", &[("why", &when)]);
                std::process::exit(0)
            }
            Ok(Some(Signal::Stop)) => {
                is_asked = true;
                Event::Stop
            }
            Ok(None) => continue,
            Err(e) => Event::Lost { thread: "signals".to_string(), why: e.to_string() },
        };
        let is_last = matches!(event, Event::Lost { .. });
        if events.try_send(event).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a server ends whose answering thread does this.
    fn outcome(serve: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<(), String> {
        let mut threads = Threads { wakes: Vec::new(), handles: Vec::new() };
        let (events, inbox) = queue::unbounded();
        threads.spawn("udp 0".to_string(), &events, serve).unwrap();
        threads.stop(&AtomicBool::new(false));
        // Only after what the thread may have sent.
        assert!(events.try_send(Event::Stop).is_ok());
        attend(&Config::default(), &|| Err(Vec::new()), &inbox, &jobs::jobs().0, None, &|_, _, _, _, _| ())
    }

    #[test]
    fn a_server_that_lost_an_answering_thread_stops_and_says_why() {
        assert_eq!(outcome(|| Ok(())), Ok(()));
        assert_eq!(outcome(|| Err(io::Error::other("no socket"))), Err("the thread udp 0 ended: no socket".into()));
        assert_eq!(outcome(|| panic!("on purpose")), Err("the thread udp 0 ended: it panicked".into()));
    }

    #[test]
    fn each_worker_has_a_cpu_of_its_own_where_there_are_enough() {
        let cpus = |udp| {
            let crew = Crew { addresses: 1, udp, tcp: 1, tasks: 0, cpus: vec![2, 3, 5], connections: 0 };
            (0..udp).map(|worker| crew.cpu(worker)).collect::<Vec<_>>()
        };
        assert_eq!(cpus(1), [Some(2)]);
        assert_eq!(cpus(3), [Some(2), Some(3), Some(5)]);
        assert_eq!(cpus(4), [None; 4]);
    }

    #[test]
    fn clients_do_not_take_the_open_files_that_the_server_needs() {
        for (granted, others, expect) in [(10_600, 600, 10_000), (1024, 514, 510), (600, 514, 150), (256, 17_000, 64)] {
            assert_eq!(connections(granted, others), expect, "{granted}");
        }
    }

    #[test]
    fn threads_share_connections_and_each_knows_the_limit_of_an_address() {
        let mut config = Config::default();
        config.limits.tcp_per_address = 150;
        for (threads, total, of_peer) in [(1, 1000, 150), (2, 500, 150), (4, 250, 150), (200, 5, 150)] {
            let limits = tcp_limits(&config, 1000, threads);
            assert_eq!((limits.connections_max, limits.per_peer_max), (total, of_peer), "{threads} threads");
        }
        config.limits.enabled = false;
        assert_eq!(tcp_limits(&config, 1000, 2).per_peer_max, usize::MAX, "no limit of an address");
    }
}
