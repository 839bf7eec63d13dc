/// A signal that can be sent to a [`Process`](crate::Process).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: end in an orderly way.
    Terminate,
    /// SIGINT: what Ctrl-C sends.
    Interrupt,
    /// SIGHUP.
    HangUp,
    /// SIGSTOP: freeze.
    Stop,
    /// SIGCONT: go on after SIGSTOP.
    Continue,
    /// SIGKILL: end at once.
    Kill,
}

impl Signal {
    /// As `kill -s` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Terminate => "TERM",
            Self::Interrupt => "INT",
            Self::HangUp => "HUP",
            Self::Stop => "STOP",
            Self::Continue => "CONT",
            Self::Kill => "KILL",
        }
    }
}
