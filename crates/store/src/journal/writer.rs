//! The journal's thread. Callers hand in a record and a token; whatever waits when the disk is free again is written
//! and synced as one group, and each token comes back with its record's position, or with why it was refused.

use super::{Disk, Journal};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

/// Octets of a group, but for the record that goes over.
const GROUP_OCTETS: usize = 4 << 20;

enum Order<T> {
    Append(Vec<u8>, T),
    Release(u64),
}

/// Where a record stands, or why it does not.
pub type Outcome = Result<u64, Arc<str>>;

pub struct Writer<T> {
    /// None only while it is being dropped.
    orders: Option<SyncSender<Order<T>>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Writer<T> {
    /// `waiting_max`: records that may wait; more are refused. `on_outcome` is called on the journal's thread.
    pub fn start<D: Disk<File: Send> + Send + 'static>(
        mut journal: Journal<D>,
        waiting_max: usize,
        mut on_outcome: impl FnMut(T, Outcome) + Send + 'static,
    ) -> io::Result<Writer<T>> {
        let (orders, inbox) = sync_channel(waiting_max);
        let body = move || {
            while let Some((records, tokens)) = next_group(&mut journal, &inbox) {
                let outcome = journal.append(&records).map_err(|e| Arc::from(e.to_string()));
                for (token, n) in tokens.into_iter().zip(0..) {
                    on_outcome(token, outcome.clone().map(|first| first + n));
                }
            }
        };
        let thread = thread::Builder::new().name("journal".into()).spawn(body)?;
        Ok(Writer { orders: Some(orders), thread: Some(thread) })
    }

    /// The token comes back at once if too many wait, or if the thread has ended.
    pub fn append(&self, record: Vec<u8>, token: T) -> Result<(), T> {
        let Some(orders) = &self.orders else { return Err(token) };
        match orders.try_send(Order::Append(record, token)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(Order::Append(_, token)) | TrySendError::Disconnected(Order::Append(_, token))) => {
                Err(token)
            }
            Err(_) => Ok(()),
        }
    }

    /// Records before this position are no longer needed.
    pub fn release(&self, position: u64) {
        // A thread that has ended has nothing to release.
        let _ = self.orders.as_ref().map(|orders| orders.send(Order::Release(position)));
    }
}

/// What was handed in is written first.
impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been told by itself.
            let _ = thread.join();
        }
    }
}

/// Waits for a record and takes what else is there. None: nobody can hand in any more.
fn next_group<D: Disk, T>(journal: &mut Journal<D>, inbox: &Receiver<Order<T>>) -> Option<(Vec<Vec<u8>>, Vec<T>)> {
    let (mut records, mut tokens, mut octets) = (Vec::new(), Vec::new(), 0);
    while octets < GROUP_OCTETS {
        let order = if records.is_empty() {
            inbox.recv().ok()?
        } else {
            let Ok(order) = inbox.try_recv() else { break };
            order
        };
        match order {
            Order::Append(record, token) => {
                octets += record.len();
                records.push(record);
                tokens.push(token);
            }
            Order::Release(position) => journal.release(position, 0),
        }
    }
    Some((records, tokens))
}
