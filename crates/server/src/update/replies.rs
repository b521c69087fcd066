//! What is said to who has sent an update, and what it counts as.

use crate::clock::wall_s;
use crate::refusals::{DONE, FAILED, head, unproven};
use stats::Counter;
use transfer::tsig::{self, Keys, Refusal, Signed};
use transfer::update::Refused;
use wire::Rcode;

/// What is to be said to the sender of an update.
pub enum Judged {
    /// About its signature.
    Unproven(Refusal),
    /// Nothing changes.
    Settled(Option<Signed>, Refused),
    /// As it was wished, once that is durable.
    Staged(Signed),
}

impl Judged {
    /// Whether it depends on what the zone holds, or may: a rule may not allow all that a name holds to go, and a name may hold too many records for more.
    pub fn is_of_content(&self) -> bool {
        match self {
            Judged::Unproven(_) => false,
            Judged::Settled(_, found) => is_of_content(found.rcode) || found.rcode == Rcode::REFUSED,
            Judged::Staged(_) => true,
        }
    }

    /// The changes that it depends on have not come about.
    pub fn is_in_vain(&self, outcome: Refused) -> bool {
        outcome != DONE && self.is_of_content()
    }

    /// What it depends on has not come about, whatever becomes of the group's other changes.
    pub fn failed(self) -> Judged {
        let is_of_content = self.is_of_content();
        match self {
            Judged::Staged(signed) => Judged::Settled(Some(signed), FAILED),
            Judged::Settled(signed, _) if is_of_content => Judged::Settled(signed, FAILED),
            judged => judged,
        }
    }

    /// Who has changed something.
    pub fn staged(&self) -> Option<&Signed> {
        if let Judged::Staged(signed) = self { Some(signed) } else { None }
    }
}

/// A signature, if its key is what it was when that was checked.
pub fn still(signed: Signed, request: &[u8], keys: &Keys) -> Result<Signed, Refusal> {
    if keys.named(signed.key().name()) == Some(signed.key()) {
        return Ok(signed);
    }
    tsig::check_request(request, keys, wall_s()).map(|anew| anew.unwrap_or(signed))
}

/// The code, and the answer. `outcome`: what became of the changes of the group.
pub fn reply(request: &[u8], judged: Judged, outcome: Refused, now_s: u64) -> (Rcode, Option<Vec<u8>>) {
    let is_in_vain = judged.is_in_vain(outcome);
    let (refused, signed) = match judged {
        Judged::Unproven(refusal) => return (refusal.rcode(), unproven(request, &refusal, now_s)),
        Judged::Settled(signed, _) if is_in_vain => (outcome, signed),
        Judged::Settled(signed, refused) => (refused, signed),
        Judged::Staged(signed) => (outcome, Some(signed)),
    };
    let mut reply = head(request, refused);
    if let Some((signed, reply)) = signed.zip(reply.as_mut()) {
        signed.sign(reply, now_s);
    }
    (refused.rcode, reply)
}

/// What an update counts as that is answered so.
pub fn counted(rcode: Rcode) -> Counter {
    match rcode {
        Rcode::NOERROR => Counter::UpdateDone,
        Rcode::SERVFAIL => Counter::UpdateFailed,
        rcode if is_of_content(rcode) => Counter::UpdateUnmet,
        _ => Counter::UpdateRefused,
    }
}

/// True of what depends on what a zone holds (RFC 2136 section 2.2).
pub fn is_of_content(rcode: Rcode) -> bool {
    matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN | Rcode::YXRRSET | Rcode::NXRRSET)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusals::{MALFORMED, PROHIBITED};
    use transfer::tsig::{Algorithm, Key};
    use wire::Name;

    /// Whoever has waited for his turn is no better off than who comes then.
    #[test]
    fn a_signature_counts_for_as_long_as_its_key_is_what_it_was() {
        let keys = |secrets: &[(&str, &[u8])]| {
            let key = |(name, secret): &(&str, &[u8])| {
                Key::new(&Name::from_text(name.as_bytes(), None).unwrap(), Algorithm::Sha256, secret)
            };
            Keys::new(secrets.iter().map(key).collect())
        };
        let first = keys(&[("a.", b"one"), ("b.", b"other")]);
        let mut request = sim::update::message("z.", "add www 60 A 192.0.2.1");
        tsig::sign_request(first.named(b"\x01a\0").unwrap(), &mut request, wall_s());
        for (now, is_right) in [
            (&first, true),
            (&keys(&[("a.", b"one")]), true),
            (&keys(&[("a.", b"two"), ("b.", b"one")]), false),
            (&keys(&[("b.", b"one")]), false),
        ] {
            let signed = tsig::check_request(&request, &first, wall_s()).unwrap().unwrap();
            assert_eq!(still(signed, &request, now).is_ok(), is_right);
        }
    }

    /// The second of two who add the same finds it there, and the first one's change was not made durable.
    #[test]
    fn what_was_found_among_changes_that_did_not_come_about_is_not_told() {
        let request = sim::update::message("z.", "add www 60 A 192.0.2.1");
        let rcode_of = |found: Refused, outcome| {
            let told = reply(&request, Judged::Settled(None, found), outcome, 0).1.unwrap();
            told[3] & 15
        };
        let in_vain = [DONE, Rcode::YXRRSET.into(), Rcode::NXDOMAIN.into(), PROHIBITED, MALFORMED];
        assert_eq!(in_vain.map(|found| rcode_of(found, FAILED)), [2, 2, 2, 2, 1]);
        assert_eq!(in_vain.map(|found| rcode_of(found, DONE)), [0, 7, 3, 5, 1]);
    }
}
