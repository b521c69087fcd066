//! What is said to whom an update, a transfer or an announcement is not done for: codes, and messages that carry no more than these.

use transfer::message::Message;
use transfer::tsig::{self, Refusal};
use transfer::update::Refused;
use wire::{Ede, Rcode, rtype};

/// EDNS option of extended errors (RFC 8914).
const EDE_OPTION: u16 = 15;
const UDP_SIZE: u16 = 1232;

pub const PROHIBITED: Refused = Refused { rcode: Rcode::REFUSED, ede: Some(Ede::PROHIBITED) };
pub const MALFORMED: Refused = Refused { rcode: Rcode::FORMERR, ede: None };
pub const ELSEWHERE: Refused = Refused { rcode: Rcode::NOTAUTH, ede: Some(Ede::NOT_AUTHORITATIVE) };
pub const FAILED: Refused = Refused { rcode: Rcode::SERVFAIL, ede: None };

/// What is said about a wrong signature.
pub fn unproven(request: &[u8], refusal: &Refusal, now_s: u64) -> Option<Vec<u8>> {
    let mut reply = head(request, refusal.rcode().into())?;
    if let Refusal::Fault(faulty) = refusal {
        faulty.end(&mut reply, now_s);
    }
    Some(reply)
}

/// Header, question or zone section, and an OPT if the request has one.
pub fn head(request: &[u8], refused: Refused) -> Option<Vec<u8>> {
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
