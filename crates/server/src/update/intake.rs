//! Where updates, and wishes about the zones that take them, are left for the thread that carries them out.

use crate::answering::later::{Desk, Mailboxes};
use crate::answering::queue;
use crate::config::{History, Written};
use crate::history::{self, Past};
use crate::images::laying;
use crate::json::Json;
use crate::publisher::press::Work;
use crate::refusals::{ELSEWHERE, NOT_YET, PROHIBITED, refused, zone_of};
use crate::update::ahead::Made;
use crate::update::lines::{OCTETS_MAX, WAITING_MAX};
use crate::update::novices::Wanted;
use crate::update::owing::UNSERVED;
use front::locks::hold;
use front::{Postponed, Published, Zones};
use stats::{Counter, Counters};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::Stretch;
use transfer::message::Question;
use transfer::tsig::Keys;
use wire::query::CLASS_IN;

/// How long whoever asked for a reload waits for zones to take updates.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);
/// Tries to make a change of what others change meanwhile.
const TRIES: usize = 5;

/// Why such a change is not made.
pub enum Unmade {
    /// The zone has changed meanwhile.
    Misfit,
    /// The last change of it is not served yet.
    Owing,
    /// It has come back to its updates, and has not gone on from its file's serial yet. `is_stuck`: nor will it be soon.
    Behind {
        is_stuck: bool,
    },
    Failed(String),
}

impl From<String> for Unmade {
    fn from(why: String) -> Unmade {
        Unmade::Failed(why)
    }
}

impl Unmade {
    pub fn text(self) -> String {
        match self {
            Unmade::Misfit => "it does not fit what is served".to_string(),
            Unmade::Owing => UNSERVED.to_string(),
            Unmade::Behind { .. } => "it is behind its file's serial for now: see the log".to_string(),
            Unmade::Failed(why) => why,
        }
    }
}

/// How long whoever asks for a change waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// It is in the journal. If it takes a new image others need not wait for that.
    Durable,
    Served,
}

pub enum Order {
    /// `since`: when it came.
    Update { question: Postponed, since: Instant },
    /// There is something else to be done: rules to be adopted, what others ask for, or want done with the press held.
    Work,
}

/// What others than clients ask for.
pub enum Request {
    Freeze {
        zone: String,
        is_frozen: bool,
        done: Sender<Result<(), String>>,
    },
    Change {
        made: Box<Made>,
        until: Until,
        done: Sender<Result<Json, Unmade>>,
        /// What was made goes back to whoever asked, who has time to let go of it.
        rest: Sender<Box<Made>>,
    },
    /// To be told when all zones take updates that are to, and can.
    Settle {
        done: Sender<()>,
    },
}

/// Where updates, and wishes about them, are left.
#[derive(Clone)]
pub struct Intake {
    orders: queue::Sender<Order>,
    /// Of updates that wait, here and in `lines`.
    octets: Arc<AtomicUsize>,
    /// Bound: who hands over something waits until it is done.
    works: queue::Sender<Work>,
    /// Likewise.
    requests: queue::Sender<Request>,
    /// By which rules updates go from now on, where they do not yet.
    wanted: Arc<Mutex<Option<Wanted>>>,
    /// What was said of that last.
    said: Arc<Mutex<Written>>,
}

/// The other end of it.
pub struct Orders {
    pub orders: queue::Receiver<Order>,
    octets: Arc<AtomicUsize>,
    pub works: queue::Receiver<Work>,
    pub requests: queue::Receiver<Request>,
    pub wanted: Arc<Mutex<Option<Wanted>>>,
}

pub fn pair() -> (Intake, Orders) {
    let ((orders, taken), (works, lent)) = (queue::bounded(WAITING_MAX), queue::unbounded());
    let (requests, asked) = queue::unbounded();
    let wanted = Arc::<Mutex<Option<Wanted>>>::default();
    let octets = Arc::<AtomicUsize>::default();
    let said = Arc::default();
    let intake = Intake { orders, octets: Arc::clone(&octets), works, requests, wanted: Arc::clone(&wanted), said };
    (intake, Orders { orders: taken, octets, works: lent, requests: asked, wanted })
}

impl Orders {
    /// It does not wait any more.
    pub fn took(&self, question: &Postponed) {
        self.octets.fetch_sub(question.message.len(), Relaxed);
    }

    #[cfg(test)]
    pub fn lent(&self, patience: Duration) -> Option<Work> {
        self.works.recv_timeout(patience).ok()
    }
}

impl Desk for Intake {
    fn take(&self, question: Postponed) -> bool {
        let octets = question.message.len();
        let has_room = self.octets.fetch_add(octets, Relaxed) + octets <= OCTETS_MAX;
        let is_taken = has_room && self.orders.try_send(Order::Update { question, since: Instant::now() }).is_ok();
        if !is_taken {
            self.octets.fetch_sub(octets, Relaxed);
        }
        is_taken
    }
}

/// Where answering threads bring updates. As long as no zone takes any it is closed: then they are refused at once, and nobody
/// has to be there who carries them out.
pub struct Entrance {
    intake: Intake,
    is_open: AtomicBool,
    /// Zones would take them, if the journal could be used.
    is_broken: AtomicBool,
    keys: Arc<Published<Keys>>,
    published: Arc<Published<Zones<Stretch>>>,
    mailboxes: Arc<Mailboxes>,
    pub counters: Arc<Counters>,
}

impl Entrance {
    pub fn new(
        intake: Intake,
        keys: Arc<Published<Keys>>,
        published: Arc<Published<Zones<Stretch>>>,
        mailboxes: Arc<Mailboxes>,
    ) -> Entrance {
        let [is_open, is_broken] = [false; 2].map(AtomicBool::new);
        Entrance { intake, is_open, is_broken, keys, published, mailboxes, counters: Arc::default() }
    }

    /// Somebody carries them out from now on.
    pub fn open(&self) -> &Intake {
        self.is_open.store(true, Relaxed);
        &self.intake
    }

    /// Nobody can for now.
    pub fn bar(&self) {
        self.is_broken.store(true, Relaxed);
    }
}

impl Desk for Entrance {
    fn take(&self, question: Postponed) -> bool {
        if self.is_open.load(Relaxed) {
            return self.intake.take(question);
        }
        let mut counter = Counter::UpdateRefused;
        let is_ours = |zone: &Question| {
            // RFC 2136 section 3.1.2.
            if zone.class != CLASS_IN {
                return false;
            }
            let (now, apex) = (self.published.latest().0, zone.name.fold());
            laying::zone(now.image.view(), apex.bytes()).is_some() || now.unserved.has(apex.bytes())
        };
        let why = |has_key| match zone_of(&question.message) {
            Err(refused) => refused,
            Ok(zone) if !is_ours(&zone) => ELSEWHERE,
            // He may have a right, and comes again.
            Ok(_) if has_key && self.is_broken.load(Relaxed) => {
                counter = Counter::UpdateFailed;
                NOT_YET
            }
            Ok(_) => PROHIBITED,
        };
        let refusal = refused(&question.message, &self.keys.latest().0, why).unwrap_or_default();
        self.counters.count_together(counter);
        self.mailboxes.answer(question, &refusal, &self.counters);
        true
    }
}

impl Intake {
    /// From now on updates of a zone are refused, or taken again.
    pub fn freeze(&self, zone: &str, is_frozen: bool) -> Result<(), String> {
        self.ask(|done| Request::Freeze { zone: zone.to_string(), is_frozen, done })
    }

    /// Who may update what, and how long what has changed is kept, from now on; this is the configuration of that number.
    pub fn adopt(&self, zones: &Written, history: History, number: u64) {
        let mut said = hold(&self.said);
        // It takes as long as there are zones, and who looks at what is wanted does not wait for it.
        let now = Wanted::new(&said, zones, Some(history), number);
        *said = zones.clone();
        let mut wanted = hold(&self.wanted);
        *wanted = Some(now.behind(wanted.take()));
        drop((wanted, said));
        // Where too much waits, he is awake.
        let _ = self.orders.try_send(Order::Work);
    }

    /// Waits until zones that are to take updates do, for a moment: many are written down one after another.
    pub fn settle(&self) {
        let (done, is_settled) = channel();
        self.request(Request::Settle { done });
        // Where it takes longer, or nobody is there any more, he has waited.
        let _ = is_settled.recv_timeout(SETTLED_WITHIN);
    }

    /// Has a zone as it was at this serial, under a new one. What has changed since is looked for here, where no update waits for it, and by one at a
    /// time, who holds `reading`: it may be a gigabyte.
    pub fn go_back(&self, past: &Past, reading: &Mutex<()>, zone: &str, serial: u32) -> Result<Json, String> {
        let apex = history::named(zone)?;
        for _ in 0..TRIES {
            let turn = hold(reading);
            let diff = history::with_zone(&past.published, &apex, |served| past.back(&apex, served, serial))?;
            drop(turn);
            let made =
                Made::of(&apex, diff, history::by_going_back(serial)).found_out(&past.published.current().0.image);
            match self.change(made, Until::Served) {
                Err(Unmade::Misfit) => {}
                outcome => return outcome.map_err(Unmade::text),
            }
        }
        Err(format!("{}: freeze it until it has gone back", Unmade::Misfit.text()))
    }

    /// Changes a zone without an update. Err: it was not durable, or the zone has changed meanwhile, or owes its last change.
    pub fn change(&self, made: Made, until: Until) -> Result<Json, Unmade> {
        let (rest, has_rest) = channel();
        let outcome = self.ask(|done| Request::Change { made: Box::new(made), until, done, rest });
        let _ = has_rest.recv();
        outcome
    }

    /// Has something done with the press held.
    pub fn lend(&self, work: Work) {
        // Where nobody works any more, the server stops. Where too much waits, he is awake.
        let _ = self.works.try_send(work);
        let _ = self.orders.try_send(Order::Work);
    }

    /// Who asks sees in the end of `done` that nobody is there any more.
    fn request(&self, request: Request) {
        let _ = self.requests.try_send(request);
        // Where too much waits, he is awake.
        let _ = self.orders.try_send(Order::Work);
    }

    fn ask<T, E: From<String>>(&self, request: impl FnOnce(Sender<Result<T, E>>) -> Request) -> Result<T, E> {
        let (done, outcome) = channel();
        self.request(request(done));
        outcome.recv().unwrap_or_else(|_| Err("no updates are taken any more: see the log".to_string().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfer::allow::Rules;

    #[test]
    fn so_many_octets_of_updates_wait_whatever_their_number() {
        let (intake, taken) = pair();
        let ticket = front::Ticket { thread: 0, way: front::Way::Stream(1) };
        let (peer, purpose) = (front::Peer { ip: [127, 0, 0, 1].into(), port: 53 }, front::Purpose::Update);
        let update = Postponed { ticket, peer, transport: front::Transport::Tcp, message: vec![0; 65_000], purpose };
        let fill = || (0..WAITING_MAX).take_while(|_| intake.take(update.clone())).count();
        let room = OCTETS_MAX / update.message.len();
        assert_eq!(fill(), room);
        for _ in 0..2 {
            let Ok(Order::Update { question, .. }) = taken.orders.try_recv() else { panic!("no update") };
            taken.took(&question);
        }
        assert_eq!(fill(), 2);
    }

    #[test]
    fn rules_are_told_however_many_updates_wait() {
        let (intake, taken) = pair();
        assert!((0..WAITING_MAX).all(|_| intake.orders.try_send(Order::Work).is_ok()));
        assert!(intake.orders.try_send(Order::Work).is_err());
        let mut zone = crate::config::Zone::new(b"\x01z\0"[..].into(), "z".into());
        zone.allow_update = Rules(vec![transfer::allow::Rule::from_text("key:ddns").ok().unwrap()]);
        intake.adopt(&Written::new(vec![zone]), crate::config::Config::default().history, 1);
        let wanted = taken.wanted.lock().unwrap();
        assert!(wanted.as_ref().is_some_and(|wanted| wanted.changes.contains_key(&b"\x01z\0"[..])));
    }
}
