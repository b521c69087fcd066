//! Queries that are signed (RFC 8945): checked with the keys of the configuration, answered by our zones, and the answer
//! signed; or told what is wrong with the signature. Rare enough that it may allocate.

use crate::respond::Response;
use crate::{Transport, Verdict};
use authority::{Lookup, Trail};
use policy::cookie;
use stats::Counter;
use transfer::tsig::{self, Refusal};
use wire::query::HEADER;
use wire::reply::{Flags, Opt};
use wire::{Parsed, Query, Rcode};

impl<M: AsRef<[u8]>> Response<'_, M> {
    /// The signature stands at `at`, and ends the packet.
    #[cold]
    pub(crate) fn signed(
        &mut self,
        query: &mut Query,
        at: usize,
        lookup: &mut Lookup,
        trail: &mut Trail,
        buffer: &mut [u8],
    ) -> Verdict {
        if self.is_own_echo() {
            return self.drop(Counter::DropSource);
        }
        let opt = Opt::plain(self.setup.udp_size_max, query.edns.dnssec_ok);
        // A signature is dear to check: who asks too much is told so before.
        let is_proven = self.transport == Transport::Tcp
            || self.options(query, buffer, &mut Opt::plain(0, false)) == cookie::Verdict::Valid;
        if !is_proven && let Some(verdict) = self.limit_odd(query, &opt, buffer) {
            return verdict;
        }
        // Whoever gives zones away judges the signature himself: he signs many messages with what it has proven.
        if self.is_transfer(query) {
            return Verdict::Later;
        }
        // This is for one packet of a batch: the next one is judged and bounded as ever.
        let rate = self.rate.take();
        let verdict = self.checked(query, at, lookup, trail, buffer);
        self.rate = rate;
        self.reserve = 0;
        verdict
    }

    fn checked(
        &mut self,
        query: &mut Query,
        at: usize,
        lookup: &mut Lookup,
        trail: &mut Trail,
        buffer: &mut [u8],
    ) -> Verdict {
        let opt = Opt::plain(self.setup.udp_size_max, query.edns.dnssec_ok);
        let Some(packet) = end(buffer, at).and_then(|end| buffer.get(..end)) else {
            return self.finish(query, buffer, Rcode::FORMERR, Flags::NONE, &opt);
        };
        let (keys, _) = self.setup.keys.latest();
        let proof = match tsig::check_request(packet, &keys, self.now.wall_s) {
            Ok(Some(proof)) => proof,
            Ok(None) => return self.finish(query, buffer, Rcode::FORMERR, Flags::NONE, &opt),
            Err(refusal) => {
                let verdict = self.finish(query, buffer, refusal.rcode(), Flags::NONE, &opt);
                return match refusal {
                    Refusal::Malformed => verdict,
                    Refusal::Fault(faulty) => ended(verdict, buffer, |reply| faulty.end(reply, self.now.wall_s)),
                };
            }
        };
        self.reserve = proof.room();
        let verdict = self.unsigned(query, proof.end(), lookup, trail, buffer);
        ended(verdict, buffer, |reply| proof.sign(reply, self.now.wall_s))
    }

    /// The answer to the query without its signature.
    fn unsigned(
        &mut self,
        query: &mut Query,
        end: usize,
        lookup: &mut Lookup,
        trail: &mut Trail,
        buffer: &mut [u8],
    ) -> Verdict {
        // A signed packet has an additional record at least, or it would not have been read as one.
        let count = buffer.get_mut(10..HEADER).and_then(|b| b.first_chunk_mut::<2>());
        count.into_iter().for_each(|count| *count = u16::from_be_bytes(*count).wrapping_sub(1).to_be_bytes());
        query.parse(buffer, end, self.view.ahead(), self.view.seed());
        if query.parsed == Parsed::Question {
            lookup.at_once(query, self.view);
        }
        self.write(query, lookup, trail, buffer)
    }
}

/// Gives a reply its last record. One for which there is no room goes without, and is then worth nothing to its reader.
fn ended(verdict: Verdict, buffer: &mut [u8], end: impl FnOnce(&mut Vec<u8>)) -> Verdict {
    let Verdict::Reply(len) = verdict else { return verdict };
    let mut reply = buffer.get(..len).unwrap_or_default().to_vec();
    end(&mut reply);
    match buffer.get_mut(..reply.len()) {
        Some(room) => {
            room.copy_from_slice(&reply);
            Verdict::Reply(reply.len())
        }
        None => verdict,
    }
}

/// Where the record at `at` ends, which the parser has stepped over already.
fn end(packet: &[u8], at: usize) -> Option<usize> {
    let fixed_at = at + stored_len(packet.get(at..)?)?;
    let rdata_len = u16::from_be_bytes(*packet.get(fixed_at + 8..)?.first_chunk()?);
    Some(fixed_at + 10 + usize::from(rdata_len))
}

/// Octets that a name takes where it stands, pointer and all.
fn stored_len(name: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *name.get(at)? {
            0 => return Some(at + 1),
            192.. => return Some(at + 2),
            n => at += n as usize + 1,
        }
    }
}
