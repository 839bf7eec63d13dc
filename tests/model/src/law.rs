//! Laws that hold in every order of events.

/// A property of every reachable state; [`Law::words`] says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Law {
    /// Of the responders of an Evacuation.
    OneResponder,
    /// Rule 1.
    OneEvacuation,
    /// Of every responder, by what it was told and said.
    Reason,
    /// Of a responder that refused.
    Refusal,
    /// Of every eviction that is posted or arrives.
    Agreed,
    /// The fence.
    Withdrawal,
    /// Of every deletion that is posted or arrives.
    Deletion,
    /// Of the reason with which an Evacuation ends.
    End,
    /// Rule 6.
    Forward,
    /// Of `violations`.
    Invariants,
    /// Of the decisions of the controller and the checks of the server.
    Agreement,
    /// Rule 3.
    Ownership,
    /// Of every responder that is asked, and of every attempt.
    Awake,
    /// Of every endpoint that is passed over.
    Told,
    /// Liveness, from every state at rest.
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
        Self::Awake,
        Self::Told,
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
                "the server refuses nothing that was decided on what it has by its own time, and takes no write that changes nothing"
            }
            Self::Ownership => "only its maker removes an entry",
            Self::Awake => {
                "nobody is asked and nothing is evicted while everybody who wants the pod moved sleeps, unless a deadline acts"
            }
            Self::Told => {
                "an endpoint is passed over only after the time that it was told last, and not while its reply is on its way; untold, only by its own fault for its whole time, or after all its delays"
            }
            Self::Ends => {
                "with a deadline every negotiation ends, and without one it waits for somebody who can be named"
            }
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

    /// Returns true when no law was broken.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true when the law of that number was broken.
    pub(crate) fn contains(self, law: u8) -> bool {
        self.0 & (1 << law) != 0
    }
}
