//! What must hold, whatever happens in whatever order.

/// A property of every reachable state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Law {
    /// See [`Law::words`].
    OneResponder,
    /// See [`Law::words`].
    OneEvacuation,
    /// See [`Law::words`].
    Reason,
    /// See [`Law::words`].
    Refusal,
    /// See [`Law::words`].
    Agreed,
    /// See [`Law::words`].
    Withdrawal,
    /// See [`Law::words`].
    Deletion,
    /// See [`Law::words`].
    End,
    /// See [`Law::words`].
    Forward,
    /// See [`Law::words`].
    Invariants,
    /// See [`Law::words`].
    Agreement,
    /// See [`Law::words`].
    Ownership,
    /// See [`Law::words`].
    Ends,
}

impl Law {
    /// Every law.
    pub const ALL: &'static [Self] = &[
        Self::OneResponder,
        Self::OneEvacuation,
        Self::Reason,
        Self::Refusal,
        Self::Agreed,
        Self::Withdrawal,
        Self::Deletion,
        Self::End,
        Self::Forward,
        Self::Invariants,
        Self::Agreement,
        Self::Ownership,
        Self::Ends,
    ];

    /// The law as a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Self::OneResponder => "at most one responder is active",
            Self::OneEvacuation => "at most one active Evacuation has a pod for its target",
            Self::Reason => {
                "nobody is passed over who has not accepted or lapsed, unless overruled or at a deadline"
            }
            Self::Refusal => {
                "a refusal under Wait or GiveUp is followed by no eviction, unless the policy changed or a deadline acted"
            }
            Self::Agreed => "nothing is evicted before every responder is done",
            Self::Withdrawal => "a withdrawal that succeeded is followed by no eviction",
            Self::Deletion => "nothing is deleted before a Delete deadline",
            Self::End => "an Evacuation ends as what happened, and a failed one is followed by no eviction",
            Self::Forward => "status moves only along the transition tables, and what has ended stays so",
            Self::Invariants => "the protocol's invariants hold",
            Self::Agreement => {
                "the server refuses nothing that was decided on what it has, but for what comes too early"
            }
            Self::Ownership => "only its maker removes an entry",
            Self::Ends => "with a deadline every negotiation ends, and without one it waits for somebody who can be named",
        }
    }
}

/// The laws that were broken on the way to a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broken(u32);

impl Broken {
    /// Notes that a law was broken.
    pub(crate) fn note(&mut self, law: Law) {
        self.0 |= 1 << law as u8;
    }

    /// Notes that a law was broken unless it `holds`.
    pub(crate) fn require(&mut self, holds: bool, law: Law) {
        if !holds {
            self.note(law);
        }
    }

    /// Whether no law was broken.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the law of that number was broken.
    pub(crate) fn contains(self, law: u8) -> bool {
        self.0 & (1 << law) != 0
    }
}
