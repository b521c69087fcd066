//! `zone show`: all that a zone holds, or held. It is written as it is read, so that a zone may be of any size: nothing is kept of it but
//! `CHUNK`. The version that is shown stays for as long, as it does for a transfer.
//!
//! A peer that reads no chunk within the door's patience is left; one that is left in the middle of an answer finds no end of the line.

use super::door::Hurried;
use super::{Place, bad, in_background, listing, number, owner, past};
use crate::history;
use crate::json::Json;
use crate::scribe::origin;
use crate::state::State;
use front::locks::hold;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;

/// Octets that are written at once.
const CHUNK: usize = 1 << 20;

/// Which version of which zone is to be shown; None: that which is served.
pub struct Showing<'l> {
    zone: &'l str,
    serial: Option<&'l str>,
}

impl<'l> Showing<'l> {
    /// None: the line asks for something else.
    pub fn of(line: &'l str) -> Option<Showing<'l>> {
        let mut words = line.split_ascii_whitespace();
        let is_it = words.next() == Some("zone") && words.next() == Some("show");
        match words.collect::<Vec<_>>()[..] {
            _ if !is_it => None,
            [zone] => Some(Showing { zone, serial: None }),
            [zone, "--serial", serial] | ["--serial", serial, zone] => Some(Showing { zone, serial: Some(serial) }),
            _ => None,
        }
    }

    /// Writes the answer: one line. Err: the peer is left, perhaps in the middle of it.
    pub fn tell(&self, state: &State, stream: &mut Hurried<UnixStream>) -> io::Result<()> {
        // Of a zone that comes from others it may be that nothing is served.
        let how = self.serial.is_none().then(|| listing::of_others_alone(state, self.zone)).flatten();
        let mut answer = Answer { stream, octets: Vec::new(), records: 0, is_sent: false };
        let _place = match Place::take() {
            Ok(place) => place,
            Err(why) => return answer.say(&bad(vec![why])),
        };
        let Err(why) = self.write(state, how.as_ref(), &mut answer) else { return answer.end() };
        if answer.is_sent {
            return Err(io::Error::other(why));
        }
        answer.say(&match how {
            Some(how) => {
                Json::Object(vec![("ok", Json::Bool(true)), ("secondary", how), ("no_records", Json::Text(why))])
            }
            None => bad(vec![why]),
        })
    }

    fn write(&self, state: &State, how: Option<&Json>, answer: &mut Answer<'_>) -> Result<(), String> {
        let serial = self.serial.map(number).transpose()?;
        let past = past(state)?;
        let is_of_updates = serial.is_none() && how.is_none() && owner(state, self.zone) == Ok("update");
        let mut facts = vec![("ok", Json::Bool(true))];
        facts.extend(how.map(|how| ("secondary", how.clone())));
        in_background(|| {
            // Of what is served nothing of the history is read; and while a peer reads little is left of it, mostly.
            let mut turn = serial.map(|_| hold(&state.reading));
            past.show(self.zone, serial, &mut |part| match part {
                history::Shown::Begin { serial, way } => {
                    turn = turn.take().filter(|_| way > CHUNK);
                    // Who puts that into the zone's file has edited this version.
                    let first_line = || Json::text(origin::first_line(serial, None).trim_end());
                    facts.extend(is_of_updates.then(|| ("first_line", first_line())));
                    answer.begin(&Json::Object(std::mem::take(&mut facts)))
                }
                history::Shown::Record(record) => answer.record(record),
            })
        })
    }
}

/// An answer on its way.
struct Answer<'s> {
    stream: &'s mut Hurried<UnixStream>,
    octets: Vec<u8>,
    records: u64,
    /// Something of it is with the peer already.
    is_sent: bool,
}

impl Answer<'_> {
    /// This, and nothing of what was to be said before.
    fn say(&mut self, instead: &Json) -> io::Result<()> {
        self.octets.clear();
        self.put(&instead.to_string())?;
        self.end_line()
    }

    fn begin(&mut self, facts: &Json) -> io::Result<()> {
        let facts = facts.to_string();
        self.put(facts.strip_suffix('}').unwrap_or(&facts))?;
        self.put(",\"records\":[")
    }

    fn record(&mut self, text: String) -> io::Result<()> {
        self.put(if self.records > 0 { "," } else { "" })?;
        self.records += 1;
        self.put(&Json::Text(text).to_string())
    }

    fn end(&mut self) -> io::Result<()> {
        self.put("]}")?;
        self.end_line()
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        self.octets.extend(text.as_bytes());
        if self.octets.len() < CHUNK { Ok(()) } else { self.flush() }
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.put("\n")?;
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.is_sent = true;
        self.stream.renew();
        self.stream.write_all(&self.octets)?;
        self.octets.clear();
        Ok(())
    }
}
