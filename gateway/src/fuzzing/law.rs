//! Laws of the gateway's decisions, as fuzzer and model check them.

/// A property of every decision; [`GatewayLaw::words`] says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GatewayLaw {
    /// Rule 11.
    Holds,
    /// Rule 10.
    Gone,
    /// Rule 11, while nobody acts.
    Ends,
    /// Rule 8, at a budget.
    Patience,
    /// Rule 9.
    Asked,
    /// Rule 8, for the writes of a caller.
    Cheap,
}

impl GatewayLaw {
    /// Every law.
    pub const ALL: &'static [Self] =
        &[Self::Holds, Self::Gone, Self::Ends, Self::Patience, Self::Asked, Self::Cheap];

    /// The law as a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "no call passes while a recorded answer holds, up to the bound of an outage",
            Self::Gone => "no caller is told that a pod is gone while the pod that is to go runs",
            Self::Ends => "no call waits without an end while nobody acts",
            Self::Patience => "a caller passes a budget by its own patience only",
            Self::Asked => {
                "no call passes unasked for a pod with responders, except where nobody could ask, and no caller waits for a question that nobody asked"
            }
            Self::Cheap => "a retry for an asked pod costs no write",
        }
    }
}
