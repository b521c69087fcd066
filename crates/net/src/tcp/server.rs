//! The loop: accepts, reads, answers, writes, and closes what takes too long.

use super::framing::{self, Next, PREFIX};
use super::table::{Connection, Key, Phase, Table};
use super::{Answer, MESSAGE_MAX, Messages, Origin, Piece, TcpEvent, TcpLimits, Ticket};
use crate::epoll::{Epoll, Interest};
use crate::sys;
use crate::wake::{Turn, Wake};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Octets read from one connection before the others get their turn: some 400 queries.
const READ_PER_TURN_MAX: usize = 16 << 10;
/// What is answered in a turn, in octets of answers; those that wait longest go on in the next one. One turn is 1 to 2 ms then, whatever is asked: a
/// message of 40 octets may ask for 64 KiB, and without this bound 140 connections kept a thread for half a second.
const ANSWERS_PER_TURN_MAX: usize = 256 << 10;
/// The same of one connection before the others get their turn. As many short answers as fit into what is read at once.
const ANSWERS_PER_SHARE_MAX: usize = 64 << 10;
/// What an answer costs beside its octets, in octets: 100 are 1 us.
const ANSWER_COST: usize = 100;
/// Connections accepted before those at hand get their turn.
const ACCEPTS_PER_TURN_MAX: usize = 64;
/// Whose time is over; after a pause of the machine that may be all of them, and each costs a system call.
const CLOSES_PER_TURN_MAX: usize = 64;
/// Answers are gathered up to here before they are written; behind it is room for one of any length.
const GATHERED_MAX: usize = 64 << 10;
/// Answers that became ready, sent before the connections get their turn.
const LATER_PER_TURN_MAX: usize = 256;
/// Octets that may lie in a socket, and are still read when serving ends.
const RECEIVED_MAX: usize = 256 << 10;
/// How long accepting rests when there are no descriptors left.
const REST: Duration = Duration::from_millis(100);

const WAKE: u64 = u64::MAX;
/// Tokens of listeners have this bit; those of connections are generation (31 bits) and slot.
const LISTENER: u64 = 1 << 63;

pub(super) struct Server<'a, H> {
    epoll: Epoll,
    listeners: &'a [TcpListener],
    limits: &'a TcpLimits,
    wake: &'a Wake,
    handler: &'a mut H,
    table: Table,
    /// What the kernel has told, and how much of it was looked at.
    events: usize,
    seen: usize,
    /// What was just read; no connection's until it turns out to be half a message.
    input: Vec<u8>,
    output: Output,
    now: Instant,
    resting_until: Option<Instant>,
    /// More answers are ready than the last turn sent.
    has_later: bool,
}

/// What becomes of a connection after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Ends(TcpEvent),
}

fn token(key: Key) -> u64 {
    u64::from(key.generation) << 32 | u64::from(key.slot)
}

fn key(token: u64) -> Key {
    Key { slot: token as u32, generation: (token >> 32) as u32 }
}

impl<'a, H: Messages> Server<'a, H> {
    pub(super) fn new(
        listeners: &'a [TcpListener],
        limits: &'a TcpLimits,
        wake: &'a Wake,
        handler: &'a mut H,
    ) -> io::Result<Server<'a, H>> {
        let epoll = Epoll::new()?;
        epoll.add(wake.as_fd(), WAKE, Interest::Read)?;
        for (i, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking(true)?;
            epoll.add(listener.as_fd(), LISTENER | i as u64, Interest::Read)?;
        }
        Ok(Server {
            epoll,
            listeners,
            limits,
            wake,
            handler,
            table: Table::new(Arc::clone(&limits.peers)),
            events: 0,
            seen: 0,
            input: vec![0; READ_PER_TURN_MAX],
            output: Output::new(),
            now: Instant::now(),
            resting_until: None,
            has_later: false,
        })
    }

    pub(super) fn run(mut self) -> io::Result<()> {
        while self.handler.on_turn() == Turn::Go {
            self.turn(self.next_deadline())?;
        }
        self.drain()
    }

    fn turn(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        // All that was told before more is asked for: else who was told first would go first each time.
        if self.seen == self.events {
            let sleep = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            self.events = self.epoll.wait(if self.has_later { Some(Duration::ZERO) } else { sleep })?;
            self.seen = 0;
        }
        self.now = Instant::now();
        self.handler.on_wake();
        self.output.cost = 0;
        while self.seen < self.events && self.output.cost < ANSWERS_PER_TURN_MAX {
            let (token, is_failure) = (self.epoll.token(self.seen), self.epoll.is_failure(self.seen));
            self.seen += 1;
            match token {
                WAKE => {
                    self.wake.clear();
                }
                t if t & LISTENER != 0 => self.on_listener((t & !LISTENER) as usize)?,
                t => self.on_connection(key(t), is_failure),
            }
        }
        self.send_later();
        self.on_deadlines()
    }

    // Time.

    fn next_deadline(&self) -> Option<Instant> {
        let heads = Phase::ALL.iter().filter_map(|&p| self.table.oldest(p).map(|(_, since)| since + self.patience(p)));
        heads.chain(self.resting_until).min()
    }

    fn patience(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Idle => idle_time(self.limits.idle, self.table.len(), self.limits.connections_max),
            Phase::Reading => self.limits.message_timeout,
            Phase::Waiting => self.limits.answer_timeout,
            Phase::Writing => self.limits.write_timeout,
        }
    }

    fn on_deadlines(&mut self) -> io::Result<()> {
        let mut left = CLOSES_PER_TURN_MAX;
        for (phase, event) in [
            (Phase::Idle, TcpEvent::Idle),
            (Phase::Reading, TcpEvent::Slow),
            (Phase::Waiting, TcpEvent::Unanswered),
            (Phase::Writing, TcpEvent::Slow),
        ] {
            while left > 0
                && let Some((key, since)) = self.table.oldest(phase)
                && since + self.patience(phase) <= self.now
            {
                self.close(key, event);
                left -= 1;
            }
        }
        match self.resting_until {
            Some(until) if until <= self.now => self.accept_again(),
            _ => Ok(()),
        }
    }

    // Accepting.

    fn on_listener(&mut self, i: usize) -> io::Result<()> {
        for accepted in 0..ACCEPTS_PER_TURN_MAX {
            match sys::accept(self.listeners[i].as_fd()) {
                Ok((fd, peer)) => self.on_accepted(fd, peer, i),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // The kernel looks for a descriptor before it looks for a connection: only at the first call, which the
                // listener's event asked for, is a connection known to wait.
                Err(e) if is_exhausted(&e) && accepted == 0 => return self.rest(),
                Err(e) if is_exhausted(&e) => break,
                Err(e) if is_our_fault(&e) => return Err(e),
                // The connection ended while it waited: accept(2) hands its errors on.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn on_accepted(&mut self, fd: OwnedFd, peer: SocketAddr, listener: usize) {
        if !self.table.admit(peer.ip(), self.limits.per_peer_max) {
            return self.handler.on_event(TcpEvent::RefusedPeer);
        }
        if self.table.len() >= self.limits.connections_max && !self.make_room() {
            self.table.dismiss(peer.ip());
            return self.handler.on_event(TcpEvent::RefusedTotal);
        }
        let connection = Connection::new(TcpStream::from(fd), peer, listener);
        let key = self.table.insert(connection, self.now);
        self.handler.on_event(TcpEvent::Accepted);
        let added = self.table.connection(key).map(|c| self.epoll.add(c.stream.as_fd(), token(key), c.interest));
        if added.is_some_and(|done| done.is_err()) {
            self.close(key, TcpEvent::Broken);
        }
    }

    /// Closes the connection that idles longest; false if none does.
    fn make_room(&mut self) -> bool {
        let Some((key, _)) = self.table.oldest(Phase::Idle) else { return false };
        self.close(key, TcpEvent::Idle);
        true
    }

    /// Without descriptors a listener would be ready for ever and keep us from sleeping.
    fn rest(&mut self) -> io::Result<()> {
        self.handler.on_event(TcpEvent::Exhausted);
        self.make_room();
        self.resting_until = Some(self.now + REST);
        self.watch_listeners(Interest::Nothing)
    }

    fn accept_again(&mut self) -> io::Result<()> {
        self.resting_until = None;
        self.watch_listeners(Interest::Read)
    }

    fn watch_listeners(&self, interest: Interest) -> io::Result<()> {
        let mut all = self.listeners.iter().enumerate();
        all.try_for_each(|(i, l)| self.epoll.change(l.as_fd(), LISTENER | i as u64, interest))
    }

    // Connections.

    fn on_connection(&mut self, key: Key, is_failure: bool) {
        match self.table.connection(key).map(|c| c.interest) {
            None => {}
            Some(Interest::Write) => self.on_writable(key),
            Some(Interest::Read) => self.on_readable(key),
            // Errors are told even so. Anything else was told before nothing was wanted any more.
            Some(Interest::Nothing) if is_failure => self.close(key, TcpEvent::Broken),
            Some(Interest::Nothing) => {}
        }
    }

    fn on_readable(&mut self, key: Key) {
        let Some(connection) = self.table.connection(key) else { return };
        match connection.stream.read(&mut self.input) {
            Ok(0) if connection.received.is_empty() => self.settle(key, false, Fate::Ends(TcpEvent::Closed)),
            Ok(0) => self.close(key, TcpEvent::Broken),
            Ok(n) => self.on_octets(key, n),
            Err(e) if is_for_later(&e) => {}
            Err(_) => self.close(key, TcpEvent::Broken),
        }
    }

    /// `n` octets have come into `input`. Without half a message before them they are answered where they are.
    fn on_octets(&mut self, key: Key, n: usize) {
        let Some(connection) = self.table.connection(key) else { return };
        if connection.received.is_empty() {
            let stream = &self.input[..n];
            let (used, fate) = answer(connection, key, stream, &mut self.output, self.limits, self.handler);
            connection.received.extend_from_slice(&stream[used..]);
            self.settle(key, used > 0, fate);
        } else {
            connection.received.extend_from_slice(&self.input[..n]);
            self.answer_received(key, false);
        }
    }

    fn answer_received(&mut self, key: Key, progress: bool) {
        let Some(connection) = self.table.connection(key) else { return };
        let stream = std::mem::take(&mut connection.received);
        let (used, fate) = answer(connection, key, &stream, &mut self.output, self.limits, self.handler);
        connection.received = if used == 0 { stream } else { stream[used..].to_vec() };
        self.settle(key, progress || used > 0, fate);
    }

    // Answers that were not ready when their message came.

    fn send_later(&mut self) {
        self.output.cost = 0;
        for _ in 0..LATER_PER_TURN_MAX {
            if self.output.cost >= ANSWERS_PER_TURN_MAX {
                break;
            }
            let Some(piece) = self.handler.next_later(self.output.message()) else {
                self.has_later = false;
                return;
            };
            self.on_later(key(piece.ticket.0), piece);
        }
        self.has_later = true;
    }

    fn on_later(&mut self, key: Key, piece: Piece) {
        let Some(connection) = self.table.connection(key).filter(|c| c.owed > 0) else {
            self.handler.on_gone(piece.ticket);
            return self.handler.on_event(TcpEvent::AnswerLost);
        };
        connection.owed -= u16::from(piece.is_last);
        connection.is_fed |= !piece.is_last;
        self.output.keep(piece.len);
        if let Fate::Ends(event) = self.output.write_to(connection, self.limits) {
            return self.close(key, event);
        }
        // Half a message and a peer that does not read keep their time: an answer is no progress of theirs.
        let is_waiting = self.table.phase(key) == Some(Phase::Waiting);
        self.answer_received(key, is_waiting);
        self.tell_taken(key);
    }

    /// Has the next piece come, if one may.
    fn tell_taken(&mut self, key: Key) {
        let may_come = |c: &&mut Connection| c.is_fed && c.pending.is_empty();
        if let Some(connection) = self.table.connection(key).filter(may_come) {
            connection.is_fed = false;
            self.handler.on_taken(Ticket(token(key)));
        }
    }

    fn on_writable(&mut self, key: Key) {
        let Some(connection) = self.table.connection(key) else { return };
        let rest = &connection.pending[connection.sent..];
        match if rest.is_empty() { Ok(0) } else { write(&mut connection.stream, rest) } {
            Ok(n) => connection.sent += n,
            Err(_) => return self.close(key, TcpEvent::Broken),
        }
        if connection.sent < connection.pending.len() {
            return;
        }
        (connection.pending, connection.sent) = (Vec::new(), 0);
        self.answer_received(key, false);
        self.tell_taken(key);
    }

    /// After answering: the connection goes on in the phase that its buffers tell, or ends. A phase that goes on keeps
    /// its beginning, except that a finished message begins the next one's time.
    fn settle(&mut self, key: Key, progress: bool, fate: Fate) {
        let Some(connection) = self.table.connection(key) else { return };
        match fate {
            Fate::Ends(TcpEvent::Slow) => return self.close(key, TcpEvent::Slow),
            Fate::Ends(event) => connection.closing = Some(event),
            Fate::Stays => {}
        }
        let phase = connection.phase(self.limits.owed_max);
        if let (Some(event), Phase::Idle | Phase::Reading) = (connection.closing, phase) {
            return self.close(key, event);
        }
        let (has, wants) = (connection.interest, connection.wants(phase, self.limits.owed_max));
        connection.interest = wants;
        if has != wants && self.epoll.change(connection.stream.as_fd(), token(key), wants).is_err() {
            return self.close(key, TcpEvent::Broken);
        }
        if self.table.phase(key) != Some(phase) || progress {
            self.table.begin(key, phase, self.now);
        }
    }

    fn close(&mut self, key: Key, event: TcpEvent) {
        if let Some(closed) = self.table.remove(key) {
            if closed.is_fed {
                self.handler.on_gone(Ticket(token(key)));
            }
            // Told while the descriptor is still open: who sees the end of the connection finds it counted.
            self.handler.on_event(event);
        }
    }

    // The end.

    /// Nothing new is accepted. What has arrived whole is answered; who owes us reading may do so until the end.
    fn drain(mut self) -> io::Result<()> {
        self.watch_listeners(Interest::Nothing)?;
        self.resting_until = None;
        // What was told before is told again of who is still watched.
        self.seen = self.events;
        let end = Instant::now() + self.limits.drain;
        self.table.keys().into_iter().for_each(|key| self.read_rest(key));
        loop {
            self.close_finished();
            let next = self.next_deadline().map_or(end, |d| d.min(end));
            if self.table.len() == 0 || self.now >= end {
                return Ok(());
            }
            self.turn(Some(next))?;
        }
    }

    /// What lies in the socket when serving ends; more than this has come after the end.
    fn read_rest(&mut self, key: Key) {
        for _ in 0..RECEIVED_MAX / READ_PER_TURN_MAX {
            while self.table.connection(key).is_some_and(|c| c.has_more && c.pending.is_empty()) {
                self.on_writable(key);
            }
            let may_read = matches!(self.table.phase(key), Some(Phase::Idle | Phase::Reading | Phase::Waiting));
            if may_read && self.has_input(key) {
                self.on_readable(key);
            }
        }
        if self.table.connection(key).is_some_and(|c| c.owed > 0 && !c.has_more) {
            self.settle(key, false, Fate::Ends(TcpEvent::Closed));
        }
    }

    fn has_input(&mut self, key: Key) -> bool {
        self.table.connection(key).is_some_and(|c| c.stream.peek(&mut [0]).is_ok_and(|n| n > 0))
    }

    fn close_finished(&mut self) {
        for phase in [Phase::Idle, Phase::Reading] {
            while let Some((key, _)) = self.table.oldest(phase) {
                self.close(key, TcpEvent::Closed);
            }
        }
    }
}

/// Answers the complete messages at the start of `stream`, until there are none, the peer stops reading, too many
/// answers are owed to it, or it has had its share; says how many octets that took.
fn answer(
    connection: &mut Connection,
    key: Key,
    stream: &[u8],
    output: &mut Output,
    limits: &TcpLimits,
    handler: &mut impl Messages,
) -> (usize, Fate) {
    let (peer, listener, ticket) = (connection.peer, connection.listener as usize, Ticket(token(key)));
    let mut used = 0;
    let mut fate = Fate::Stays;
    let is_open = connection.closing.is_none();
    let share = output.cost + ANSWERS_PER_SHARE_MAX;
    while is_open
        && output.cost < share
        && fate == Fate::Stays
        && connection.pending.is_empty()
        && connection.owed < limits.owed_max
    {
        match framing::next(&stream[used..]) {
            Next::Part => break,
            Next::Empty => fate = Fate::Ends(TcpEvent::Broken),
            Next::Message(message) => {
                used += PREFIX + message.len();
                let from = Origin { message, peer, listener, ticket };
                match output.answer(message, |buffer, len| handler.on_message(&from, buffer, len)) {
                    Answer::Close => fate = Fate::Ends(TcpEvent::Broken),
                    Answer::Later => connection.owed += 1,
                    Answer::Reply(_) | Answer::Silence => {}
                }
            }
        }
        if output.is_full() && fate == Fate::Stays {
            fate = output.write_to(connection, limits);
        }
    }
    connection.has_more = output.cost >= share && framing::next(&stream[used..]) != Next::Part;
    match output.write_to(connection, limits) {
        Fate::Stays => (used, fate),
        ends => (used, ends),
    }
}

/// Answers of one connection on their way out: gathered here, then written with one call.
struct Output {
    room: Vec<u8>,
    len: usize,
    /// What was answered in this turn.
    cost: usize,
}

impl Output {
    fn new() -> Output {
        Output { room: vec![0; GATHERED_MAX + PREFIX + MESSAGE_MAX], len: 0, cost: 0 }
    }

    fn is_full(&self) -> bool {
        self.len >= GATHERED_MAX
    }

    /// Where the next answer will stand.
    fn message(&mut self) -> &mut [u8] {
        &mut self.room[self.len + PREFIX..][..MESSAGE_MAX]
    }

    /// An answer of this length stands there now; 0 is none.
    fn keep(&mut self, len: usize) {
        if let 1..=MESSAGE_MAX = len {
            self.room[self.len..][..PREFIX].copy_from_slice(&(len as u16).to_be_bytes());
            self.len += PREFIX + len;
            self.cost += len;
        }
    }

    /// Puts the message where its answer will stand, and keeps the answer.
    fn answer(&mut self, message: &[u8], answer: impl FnOnce(&mut [u8], usize) -> Answer) -> Answer {
        let buffer = self.message();
        buffer[..message.len()].copy_from_slice(message);
        let answer = answer(buffer, message.len());
        self.cost += ANSWER_COST;
        if let Answer::Reply(len) = answer {
            self.keep(len);
        }
        answer
    }

    /// What the peer does not take becomes the connection's own.
    fn write_to(&mut self, connection: &mut Connection, limits: &TcpLimits) -> Fate {
        let answers = &self.room[..std::mem::take(&mut self.len)];
        if answers.is_empty() {
            return Fate::Stays;
        }
        let waiting = connection.pending.len() - connection.sent;
        match if waiting > 0 { Ok(0) } else { write(&mut connection.stream, answers) } {
            Ok(n) if waiting + answers.len() - n > limits.pending_write_max => return Fate::Ends(TcpEvent::Slow),
            Ok(n) => connection.pending.extend_from_slice(&answers[n..]),
            Err(_) => return Fate::Ends(TcpEvent::Broken),
        }
        Fate::Stays
    }
}

/// Writes what the kernel takes without waiting.
fn write(stream: &mut TcpStream, from: &[u8]) -> io::Result<usize> {
    match stream.write(from) {
        Err(e) if is_for_later(&e) => Ok(0),
        result => result,
    }
}

fn is_for_later(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn is_exhausted(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

fn is_our_fault(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EBADF | libc::ENOTSOCK | libc::EINVAL | libc::EFAULT | libc::EOPNOTSUPP))
}

/// The whole time up to a half full table, then less, down to an eighth.
fn idle_time(whole: Duration, connections: usize, most: usize) -> Duration {
    let most = most.max(1);
    let free = most.saturating_sub(connections) as f64 / most as f64;
    whole.mul_f64((free * 2.0).clamp(0.125, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_shrinks_as_the_table_fills() {
        let whole = Duration::from_secs(8);
        for (connections, most, expect) in
            [(0, 100, 8.0), (50, 100, 8.0), (75, 100, 4.0), (99, 100, 1.0), (100, 100, 1.0), (1, 0, 1.0)]
        {
            assert_eq!(idle_time(whole, connections, most).as_secs_f64(), expect, "{connections} of {most}");
        }
    }
}
