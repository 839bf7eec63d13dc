//! The flags of `kubectl evacuate answer`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use evacuation_api::{Answer as Word, EvacuationResponseSpec};

use crate::{
    connection::NamespacedConnection,
    duration::{duration, whole_seconds},
    pod_name::pod_name,
};

/// Answer an evacuation in place of a responder, to try what follows.
///
/// An answer as `self` takes the right to request a token of the pod's service account (`create` on
/// `serviceaccounts/token`); one as another responder takes the verb `respond` on
/// `responders.evacuation.dev` of that name. An Accept binds.
#[derive(Args, Debug)]
pub struct Answer {
    /// Name of the Evacuation, or pod/NAME for the one that is in progress for a pod.
    #[arg(value_name = "EVACUATION|pod/NAME", value_parser = whose)]
    pub(super) evacuation: Whose,
    /// The answer.
    #[arg(value_name = "ANSWER", value_enum, ignore_case = true)]
    choice: Choice,
    /// Name of the responder that answers; the Active one by default.
    #[arg(long, value_name = "NAME")]
    pub(super) as_responder: Option<String>,
    /// For a delay: its duration, such as 30s.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, required_if_eq("choice", "delay"))]
    delay: Option<Duration>,
    /// For a refusal: time after which the responder may be asked again, such as 10m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    retry_after: Option<Duration>,
    /// Reason in CamelCase for machines, such as BackupRunning.
    #[arg(long)]
    reason: Option<String>,
    /// Reason in words for people.
    #[arg(long)]
    message: Option<String>,
    #[command(flatten)]
    pub(super) connection: NamespacedConnection,
}

/// The Evacuation to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The Evacuation of that name.
    Evacuation(String),
    /// The Evacuation of the pod of that name that is in progress.
    Pod(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// Let the pod go.
    Accept,
    /// Let the pod go later.
    Delay,
    /// Keep the pod.
    Refuse,
}

impl Answer {
    /// Returns the answer without its responder and its target.
    pub(super) fn spec(&self) -> Result<EvacuationResponseSpec, String> {
        let only = |flag: &str, given: bool, of: Choice| {
            let wrong = given && self.choice != of;
            if wrong { Err(format!("{flag} is only for the answer {of:?}").to_lowercase()) } else { Ok(()) }
        };
        only("--for", self.delay.is_some(), Choice::Delay)?;
        only("--retry-after", self.retry_after.is_some(), Choice::Refuse)?;
        Ok(EvacuationResponseSpec {
            answer: Some(match self.choice {
                Choice::Accept => Word::Accept,
                Choice::Delay => Word::Delay,
                Choice::Refuse => Word::Refuse,
            }),
            delay_seconds: self.delay.map(whole_seconds),
            retry_after_seconds: self.retry_after.map(whole_seconds),
            reason: self.reason.clone(),
            message: self.message.clone(),
            ..EvacuationResponseSpec::default()
        })
    }
}

fn whose(text: &str) -> Result<Whose, String> {
    match text.split_once('/') {
        None => Ok(Whose::Evacuation(text.to_owned())),
        Some((kind, name))
            if matches!(kind.split('.').next(), Some("evacuation" | "evacuations" | "evac")) =>
        {
            Ok(Whose::Evacuation(name.to_owned()))
        }
        Some(_) => pod_name(text).map(Whose::Pod),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Command {
        #[command(flatten)]
        answer: Answer,
    }

    fn parse(arguments: &[&str]) -> Result<EvacuationResponseSpec, String> {
        let all = ["answer"].iter().chain(arguments);
        Command::try_parse_from(all).map_err(|error| error.to_string())?.answer.spec()
    }

    #[test]
    fn the_flags_become_the_answer() {
        let delay = parse(&["pod/db-0", "Delay", "--for=1500ms", "--message=3 jobs"]).unwrap();
        assert_eq!((delay.answer, delay.delay_seconds), (Some(Word::Delay), Some(2)));
        assert_eq!(delay.message.as_deref(), Some("3 jobs"));
        let refuse = parse(&["db-0-x", "refuse", "--retry-after=1m", "--reason=Busy"]).unwrap();
        assert_eq!((refuse.retry_after_seconds, refuse.reason.as_deref()), (Some(60), Some("Busy")));
    }

    #[test]
    fn flags_that_mean_nothing_for_the_answer_are_refused() {
        for (arguments, expected) in [
            (&["a", "delay"][..], "--for"),
            (&["a", "accept", "--for=1m"], "--for is only for the answer delay"),
            (&["a", "delay", "--for=1m", "--retry-after=1m"], "--retry-after is only for the answer refuse"),
            (&["a", "perhaps"], "perhaps"),
            (&["node/a", "accept"], "node"),
            (&["a"], "ANSWER"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(expected), "{expected} is not in {error}");
        }
    }

    #[test]
    fn an_evacuation_is_named_as_kubectl_prints_it_or_by_its_pod() {
        let evacuation = || Whose::Evacuation("a".to_owned());
        for (text, expected) in [
            ("a", evacuation()),
            ("evacuation.evacuation.dev/a", evacuation()),
            ("evac/a", evacuation()),
            ("pod/a", Whose::Pod("a".to_owned())),
        ] {
            assert_eq!(whose(text), Ok(expected), "{text}");
        }
    }
}
