//! The action that answers a question.

use tokio_util::sync::CancellationToken;

use crate::{
    bounds::Bounds,
    call::{self, LocalUrl},
    command,
    context::Context,
    verdict::Verdict,
};

/// An action that answers a question, or undoes the work of one.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A command with its arguments.
    Exec(Vec<String>),
    /// A URL of this host.
    Url(LocalUrl),
}

impl Action {
    /// The action that the flags name.
    pub(crate) fn of(command: Vec<String>, url: Option<LocalUrl>) -> Option<Self> {
        match url {
            Some(url) => Some(Self::Url(url)),
            None => (!command.is_empty()).then_some(Self::Exec(command)),
        }
    }

    /// Runs until it is done, `stop` is cancelled or the limit is reached.
    pub(crate) async fn run(&self, context: &Context, bounds: Bounds, stop: &CancellationToken) -> Verdict {
        match self {
            Self::Exec(command) => command::run(command, context, bounds, stop).await,
            Self::Url(url) => call::call(url, context, bounds, stop).await,
        }
    }
}
