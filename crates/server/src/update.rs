//! Dynamic updates: the thread that carries them out, and the intake where answering threads leave them.
//!
//! ```text
//! answering thread -> intake (bounded) -> TSIG -> transfer::update -> journal, one sync a group -> publish -> answers
//! ```
//! What waits when the disk is free again is one group. An answer of success leaves only after its change is durable and
//! served. A change that cannot be made durable is taken back, and its sender is told SERVFAIL.

use crate::clock::{rfc3339, wall_s};
use crate::images::name;
use crate::json::Json;
use crate::later::{Desk, Mailboxes};
use crate::ledger::{self, Ledger, Owned, Version};
use crate::log;
use crate::state::{Event, State};
use front::Postponed;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use transfer::message::Message;
use transfer::tsig::{self, Keys, Refusal, Signed};
use transfer::update::{self, Refused};
use transfer::{Diff, Entry};
use wire::query::CLASS_IN;
use wire::{Ede, Rcode, rtype};

/// Updates that wait; more are dropped and counted, and their clients ask again.
const WAITING_MAX: usize = 4096;
/// Updates of one group.
const GROUP_MAX: usize = 1024;
/// EDNS option of extended errors (RFC 8914).
const EDE_OPTION: u16 = 15;
const UDP_SIZE: u16 = 1232;

enum Order {
    Update(Postponed),
    Freeze { zone: String, is_frozen: bool, done: Sender<Result<(), String>> },
    Log { zone: String, done: Sender<Result<Json, String>> },
}

/// Where updates, and wishes about them, are left.
#[derive(Clone)]
pub struct Intake(SyncSender<Order>);

/// The other end of it.
pub struct Orders(Receiver<Order>);

pub fn intake() -> (Intake, Orders) {
    let (sender, orders) = sync_channel(WAITING_MAX);
    (Intake(sender), Orders(orders))
}

impl Desk for Intake {
    fn take(&self, question: Postponed) -> bool {
        self.0.try_send(Order::Update(question)).is_ok()
    }
}

impl Intake {
    /// From now on updates of a zone are refused, or taken again.
    pub fn freeze(&self, zone: &str, is_frozen: bool) -> Result<(), String> {
        self.ask(|done| Order::Freeze { zone: zone.to_string(), is_frozen, done })
    }

    /// The versions that a zone has had, newest last.
    pub fn log(&self, zone: &str) -> Result<Json, String> {
        self.ask(|done| Order::Log { zone: zone.to_string(), done })
    }

    fn ask<T>(&self, order: impl FnOnce(Sender<Result<T, String>>) -> Order) -> Result<T, String> {
        let (done, outcome) = channel();
        let is_sent = self.0.send(order(done)).is_ok();
        let told = if is_sent { outcome.recv().ok() } else { None };
        told.unwrap_or_else(|| Err("no updates are taken any more: see the log".to_string()))
    }
}

pub struct Updates {
    pub ledger: Ledger,
    pub keys: Arc<Keys>,
    /// All zones that are configured, by apex.
    pub zones: HashSet<Box<[u8]>>,
    pub mailboxes: Arc<Mailboxes>,
    pub state: Arc<State>,
}

/// What is to be said to the sender of an update.
enum Judged<'k> {
    /// About its signature.
    Unproven(Refusal),
    /// Nothing changes.
    Settled(Option<Signed<'k>>, Refused),
    /// As it was wished, once that is durable.
    Staged(Signed<'k>),
}

const DONE: Refused = Refused { rcode: Rcode::NOERROR, ede: None };
const PROHIBITED: Refused = Refused { rcode: Rcode::REFUSED, ede: Some(Ede::PROHIBITED) };
const FROZEN: Refused = Refused { rcode: Rcode::REFUSED, ede: Some(Ede::NOT_READY) };
const FAILED: Refused = Refused { rcode: Rcode::SERVFAIL, ede: None };
const ELSEWHERE: Refused = Refused { rcode: Rcode::NOTAUTH, ede: Some(Ede::NOT_AUTHORITATIVE) };

impl Updates {
    /// Works until nobody can ask for anything any more.
    pub fn run(mut self, orders: &Orders) {
        while let Ok(first) = orders.0.recv() {
            let (mut group, mut next) = (Vec::new(), Some(first));
            while let Some(order) = next {
                match order {
                    Order::Update(question) => group.push(question),
                    Order::Freeze { zone, is_frozen, done } => {
                        // Whoever asked may have gone.
                        let _ = done.send(self.freeze(&zone, is_frozen));
                    }
                    Order::Log { zone, done } => {
                        let _ = done.send(self.log(&zone));
                    }
                }
                next = if group.len() < GROUP_MAX { orders.0.try_recv().ok() } else { None };
            }
            self.carry_out(&group);
        }
    }

    fn owned(&mut self, zone: &str) -> Result<&mut Owned, String> {
        let apex = crate::config::apex(zone).map_err(|why| format!("`{zone}` is no name of a zone: {why}"))?;
        self.ledger.zone_mut(&apex).ok_or_else(|| format!("the zone {zone} takes no updates"))
    }

    fn freeze(&mut self, zone: &str, is_frozen: bool) -> Result<(), String> {
        self.owned(zone)?.is_frozen = is_frozen;
        Ok(())
    }

    fn log(&mut self, zone: &str) -> Result<Json, String> {
        let version = |v: &Version| {
            Json::Object(vec![
                ("serial", Json::Number(v.to.into())),
                ("before", Json::Number(v.from.into())),
                ("when", Json::text(rfc3339(v.wall_s))),
                ("who", Json::text(&v.author)),
                ("removed", Json::Number(v.removed as u64)),
                ("added", Json::Number(v.added as u64)),
            ])
        };
        Ok(Json::list(self.owned(zone)?.versions(), version))
    }

    fn carry_out(&mut self, group: &[Postponed]) {
        let (keys, now_s) = (Arc::clone(&self.keys), wall_s());
        let mut entries = Vec::new();
        let judged: Vec<Judged<'_>> = group.iter().map(|q| self.judge(q, &keys, now_s, &mut entries)).collect();
        let outcome = if entries.is_empty() { DONE } else { self.change(&entries) };
        for (question, judged) in group.iter().zip(judged) {
            let reply = reply(&question.message, judged, outcome, now_s);
            self.mailboxes.post(question.ticket, reply.unwrap_or_default().into());
        }
    }

    /// Finds out what an update changes, and stages it.
    fn judge<'k>(&mut self, q: &Postponed, keys: &'k Keys, now_s: u64, entries: &mut Vec<Entry>) -> Judged<'k> {
        let signed = match tsig::check_request(&q.message, keys, now_s) {
            Ok(signed) => signed,
            Err(refusal) => return Judged::Unproven(refusal),
        };
        match self.difference(q, signed.as_ref()) {
            Err(refused) => Judged::Settled(signed, refused),
            Ok((_, diff)) if diff.is_empty() => Judged::Settled(signed, DONE),
            Ok((apex, diff)) => {
                let Some(signed) = signed else { return Judged::Settled(None, PROHIBITED) };
                if !self.ledger.stage(&apex, &diff) {
                    return Judged::Settled(Some(signed), FAILED);
                }
                let who = format!("key {} from {}", signed.key().text(), q.peer.ip);
                entries.push(ledger::entry(&apex, who, diff));
                Judged::Staged(signed)
            }
        }
    }

    fn difference(&self, q: &Postponed, signed: Option<&Signed<'_>>) -> Result<(Box<[u8]>, Diff), Refused> {
        let message = Message::new(&q.message).ok_or(Rcode::FORMERR)?;
        let zone = update::zone(&message)?;
        let apex: Box<[u8]> = zone.name.fold().bytes().into();
        if zone.class != CLASS_IN || !self.zones.contains(&apex) {
            return Err(ELSEWHERE);
        }
        let (owned, signed) = self.ledger.zone(&apex).zip(signed).ok_or(PROHIBITED)?;
        let key = signed.key().name();
        if !owned.rules.knows(key) {
            return Err(PROHIBITED);
        }
        if owned.is_frozen {
            return Err(FROZEN);
        }
        let may = |owner: &[u8], rtype| owned.rules.allow(key, owner, rtype);
        let diff = update::judge(&message, &apex, owned.contents(), &may)?;
        Ok((apex, diff))
    }

    /// Makes the changes of a group durable, and serves them.
    fn change(&mut self, entries: &[Entry]) -> Refused {
        if let Err(e) = self.ledger.keep(entries) {
            log::error("updates are refused: the journal cannot be written", &[("why", &e)]);
            return FAILED;
        }
        let apexes: BTreeSet<Box<[u8]>> = entries.iter().map(|e| e.zone.clone()).collect();
        let apexes: Vec<Box<[u8]>> = apexes.into_iter().collect();
        match self.publish(&apexes) {
            Ok(()) => DONE,
            Err(why) => {
                log::error("changes are in the journal and not served", &[("why", &why)]);
                FAILED
            }
        }
    }

    /// Has these zones served as they are now.
    fn publish(&mut self, apexes: &[Box<[u8]>]) -> Result<(), String> {
        self.ledger.save(apexes).map_err(|e| e.to_string())?;
        let (done, outcome) = channel();
        let zones = apexes.iter().map(|apex| name(apex).to_string()).collect();
        self.state.raise(Event::Reload { zones, done: Some(done) });
        match outcome.recv() {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(complaints)) => Err(complaints.join("; ")),
            Err(_) => Err("the server is stopping".to_string()),
        }
    }
}

/// The answer. `outcome`: what became of the changes of the group.
fn reply(request: &[u8], judged: Judged<'_>, outcome: Refused, now_s: u64) -> Option<Vec<u8>> {
    let (refused, signed) = match judged {
        Judged::Unproven(refusal) => {
            let mut reply = head(request, refusal.rcode().into())?;
            if let Refusal::Fault(faulty) = &refusal {
                faulty.end(&mut reply, now_s);
            }
            return Some(reply);
        }
        Judged::Settled(signed, refused) => (refused, signed),
        Judged::Staged(signed) => (outcome, Some(signed)),
    };
    let mut reply = head(request, refused)?;
    if let Some(signed) = signed {
        signed.sign(&mut reply, now_s);
    }
    Some(reply)
}

/// Header, zone section, and an OPT if the request has one.
fn head(request: &[u8], refused: Refused) -> Option<Vec<u8>> {
    let mut reply = tsig::reply_head(request, refused.rcode)?;
    if Message::new(request)?.records().flatten().any(|rr| rr.rtype == rtype::OPT) {
        let option = refused.ede.map(|ede| [EDE_OPTION, 2, ede.0].map(u16::to_be_bytes).concat()).unwrap_or_default();
        reply.push(0);
        reply.extend([rtype::OPT, UDP_SIZE, 0, 0, option.len() as u16].map(u16::to_be_bytes).concat());
        reply.extend(option);
        *reply.get_mut(11)? = 1;
    }
    Some(reply)
}
