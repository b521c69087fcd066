//! NOTIFYs (RFC 1996): those of primaries, followed or refused; those to others.

use super::times::Noted;
use super::{Matter, Means, Registrar, served};
use crate::clock::wall_s;
use crate::refusals::{self, DONE, ELSEWHERE, MALFORMED, Notice, PROHIBITED, head, unproven};
use crate::secondaries::exchanges::Unsent;
use crate::{images, log};
use front::Postponed;
use stats::Counter;
use transfer::announce::{Announcer, TargetId, Told};
use transfer::ask;
use transfer::message::Message;
use transfer::refresh::{Ms, PrimaryId, ZoneId};
use transfer::remote::Remote;
use transfer::tsig;
use transfer::update::Refused;
use wire::{Rcode, rtype};

impl Registrar {
    /// Tells one server of one zone.
    pub(super) fn notify(&mut self, now: Ms, zone: ZoneId, target: u32, means: &Means) {
        means.state.refreshed.count(Counter::NotifySent);
        let (zones, _) = means.published.current();
        let (Some(entry), Some(to)) = (self.entries.entry(zone), self.entries.remote(target)) else {
            return self.announcer.on_told(now, (zone, target), Told::Refused);
        };
        let soa = served(&zones, &entry.apex).map(|(_, soa)| soa);
        let message = ask::notify(0, &entry.apex, soa.as_ref().map(|soa| (soa.ttl, &soa.rdata[..])));
        let unsent = Unsent { to, source: entry.source(to), is_notify: true, message };
        let (keys, _) = means.keys.current();
        if let Err((matter, heard)) = self.exchanges.send(now, unsent, &keys, Matter::Notify { zone, target }) {
            self.on_heard(now, matter, heard, means);
        }
    }

    /// Tells all that are to be told; how many they are.
    pub(super) fn announce(&mut self, now: Ms, id: ZoneId) -> u64 {
        self.for_each_target(id, |announcer, target| announcer.on_changed(now, id, target))
    }

    /// The same at that time, or with the version that is to follow before.
    pub(super) fn announce_later(&mut self, at: Ms, id: ZoneId) -> u64 {
        self.for_each_target(id, |announcer, target| announcer.on_passing(at, id, target))
    }

    fn for_each_target(&mut self, id: ZoneId, mut tell: impl FnMut(&mut Announcer, TargetId)) -> u64 {
        let targets = self.entries.entry(id).map(|entry| &*entry.targets).unwrap_or_default();
        targets.iter().for_each(|target| tell(&mut self.announcer, *target));
        targets.len() as u64
    }

    /// One has been told of a zone: when all are, that is remembered beyond a restart.
    pub(super) fn note_told(&mut self, id: ZoneId) {
        let Some(entry) = self.entries.entry(id) else { return };
        let Some(serial) = entry.serial else { return };
        let has_answered =
            |target: &TargetId| self.announcer.is_told(id, *target) && !self.untaken.contains_key(&(id, *target));
        if !entry.targets.iter().all(has_answered) {
            return;
        }
        let noted = Noted { at_s: wall_s(), serial, unserved: None };
        if let Err(e) = self.announced.note(&entry.apex, noted) {
            log::warn(
                "it is not written down of which version others were told",
                &[("zone", &images::name(&entry.apex)), ("why", &e)],
            );
        }
    }

    fn refuse(&mut self, question: &Postponed, why: impl ToString, means: &Means) {
        means.state.refreshed.count(Counter::NotifyRefused);
        if let Some(told) = Notice::of(question, why, &mut self.refused) {
            log::info("a NOTIFY is refused", &told.facts());
        }
    }

    /// The reply to a NOTIFY; None: there is none.
    pub(super) fn on_notify(&mut self, now: Ms, question: &Postponed, means: &Means) -> Option<Vec<u8>> {
        let ((keys, _), now_s) = (means.keys.current(), wall_s());
        let signed = match tsig::check_request(&question.message, &keys, now_s) {
            Ok(signed) => signed,
            Err(refusal) => {
                self.refuse(question, &refusal, means);
                return unproven(&question.message, &refusal, now_s);
            }
        };
        let key = signed.as_ref().map(|signed| signed.key().name());
        let outcome = match self.told_by(question, key) {
            Ok((zone, primary)) => {
                means.state.refreshed.count(Counter::NotifyTaken);
                self.refresher.on_notify(now, zone, primary);
                DONE
            }
            Err(refused) => {
                self.refuse(question, refusals::why(refused), means);
                refused
            }
        };
        let mut reply = head(&question.message, outcome)?;
        if outcome.rcode == Rcode::NOERROR
            && let Some(flags) = reply.get_mut(2)
        {
            *flags |= 4;
        }
        signed.iter().for_each(|signed| signed.sign(&mut reply, now_s));
        Some(reply)
    }

    /// Which zone a NOTIFY is about, and which of its primaries sends it.
    fn told_by(&self, question: &Postponed, key: Option<&[u8]>) -> Result<(ZoneId, PrimaryId), Refused> {
        let message = Message::new(&question.message).ok_or(MALFORMED)?;
        refusals::check_edns(&message)?;
        let (asked, _) = message.question().filter(|(asked, _)| asked.rtype == rtype::SOA).ok_or(MALFORMED)?;
        let apex = asked.name.fold();
        let id = self.entries.of(apex.bytes()).filter(|_| asked.class == wire::query::CLASS_IN).ok_or(ELSEWHERE)?;
        let primaries = self.entries.entry(id).map(|entry| &entry.primaries).ok_or(ELSEWHERE)?;
        let is_signed = |r: &Remote| r.key.as_ref().is_none_or(|wanted| key == Some(wanted.bytes()));
        let remotes = primaries.iter().filter_map(|primary| Some((*primary, self.entries.remote(*primary)?)));
        let mut from_there = remotes.filter(|(_, remote)| remote.address.ip() == question.peer.ip).peekable();
        let is_known = from_there.peek().is_some();
        let signed = from_there.find(|(_, remote)| is_signed(remote));
        let wrong_key = Refused { why: Some("it is not signed by the key that `primaries` has there"), ..PROHIBITED };
        signed.map(|(primary, _)| (id, primary)).ok_or(if is_known { wrong_key } else { PROHIBITED })
    }
}
