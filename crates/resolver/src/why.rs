//! Why a question has no answer, and what a client is told of it: the one table from reasons to rcode and extended error.

use wire::{Ede, Rcode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nobody is configured to be asked for this name, and recursion is not built.
    NobodyToAsk,
    /// No server said anything in time.
    Silence,
    /// Every server that was heard said that it cannot, or will not.
    Refused,
    /// The network says that they are not there.
    Unreachable,
    /// A chain of aliases without end.
    EndlessChain,
    /// What a question may cost is spent.
    BudgetSpent,
    /// Too many tasks, for all or for names near this one.
    Busy,
}

impl Why {
    pub const ALL: [Why; 7] = [
        Why::NobodyToAsk,
        Why::Silence,
        Why::Refused,
        Why::Unreachable,
        Why::EndlessChain,
        Why::BudgetSpent,
        Why::Busy,
    ];

    /// RFC 8914: No Reachable Authority, Network Error, Not Ready; or nothing that a code says better than the rcode.
    pub fn told(self) -> (Rcode, Option<Ede>) {
        let ede = match self {
            Why::NobodyToAsk => Some(Ede::NOT_SUPPORTED),
            Why::Silence | Why::Refused | Why::BudgetSpent => Some(Ede::NO_REACHABLE_AUTHORITY),
            Why::Unreachable => Some(Ede::NETWORK_ERROR),
            Why::EndlessChain => None,
            Why::Busy => Some(Ede::NOT_READY),
        };
        (Rcode::SERVFAIL, ede)
    }

    /// True if it would be the same for whoever asks next (RFC 9520 section 2).
    pub fn is_lasting(self) -> bool {
        self != Why::Busy
    }
}
