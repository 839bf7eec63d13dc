//! The state of the evacuations that a command follows. Pure: events in, counts and words out.

use std::collections::BTreeMap;

use evacuation_api::{Evacuation, FailedReason};
use evacuation_client::End;

use crate::{Exit, tracked::Tracked};

/// The evacuations that a command waits for, by UID.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    tracked: BTreeMap<String, Tracked>,
}

impl Tracker {
    /// Starts to follow an Evacuation. Returns its state.
    pub(crate) fn follow(&mut self, evacuation: &Evacuation) -> Tracked {
        let tracked = Tracked::of(evacuation);
        self.tracked.insert(uid(evacuation).to_owned(), tracked.clone());
        tracked
    }

    /// Returns true when the Evacuation is followed.
    pub(crate) fn follows(&self, evacuation: &Evacuation) -> bool {
        self.tracked.contains_key(uid(evacuation))
    }

    /// Takes a change in. Returns the evacuation to show, if it is followed and changed visibly.
    pub(crate) fn apply(&mut self, evacuation: &Evacuation) -> Option<&Tracked> {
        let tracked = self.tracked.get_mut(uid(evacuation))?;
        let now = Tracked::of(evacuation);
        if *tracked == now {
            return None;
        }
        *tracked = now;
        Some(tracked)
    }

    /// Takes a removal in. An Evacuation that was removed before its end was seen counts as failed.
    pub(crate) fn remove(&mut self, evacuation: &Evacuation) -> Option<&Tracked> {
        let tracked = self.tracked.get_mut(uid(evacuation))?;
        if tracked.end.is_none() {
            tracked.end = Some(End::of(evacuation).unwrap_or_else(removed));
        }
        Some(tracked)
    }

    /// Takes a new list in, with the Evacuations of these UIDs: the others were removed.
    pub(crate) fn lose_all_but(&mut self, listed: &[String]) -> Vec<Tracked> {
        let mut lost = Vec::new();
        for (uid, tracked) in &mut self.tracked {
            if tracked.end.is_none() && !listed.contains(uid) {
                tracked.end = Some(removed());
                lost.push(tracked.clone());
            }
        }
        lost
    }

    /// All followed Evacuations.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Tracked> {
        self.tracked.values()
    }

    /// Number of followed Evacuations.
    pub(crate) fn len(&self) -> usize {
        self.tracked.len()
    }

    /// Number of Evacuations that have ended.
    pub(crate) fn ended(&self) -> usize {
        self.all().filter(|tracked| tracked.end.is_some()).count()
    }

    /// Returns whether all have ended.
    pub(crate) fn finished(&self) -> bool {
        self.ended() == self.len()
    }

    /// The exit for all ends: errors outweigh pods that were left alone by policy, and these outweigh the
    /// rest.
    pub(crate) fn exit(&self) -> Exit {
        let left_alone = [FailedReason::Refused, FailedReason::PodGroupRefused, FailedReason::DeadlineGaveUp];
        let left_alone = left_alone.map(FailedReason::as_str);
        let failed = |wanted: bool| {
            self.all().any(|tracked| {
                matches!(&tracked.end, Some(End::Failed { reason, .. }) if left_alone.contains(&reason.as_str()) == wanted)
            })
        };
        if failed(false) {
            Exit::Errors
        } else if failed(true) {
            Exit::Refused
        } else if self.finished() {
            Exit::Done
        } else {
            Exit::TimedOut
        }
    }
}

/// The end of an Evacuation that was removed before its end was seen.
fn removed() -> End {
    End::Failed {
        reason: "Removed".to_owned(),
        message: "the evacuation was removed before its end was seen".to_owned(),
    }
}

fn uid(evacuation: &Evacuation) -> &str {
    evacuation.metadata.uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use evacuation_api::{EvacuationSpec, EvacuationStatus, PodTarget, condition_time};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

    use super::*;

    fn evacuation(uid: &str, ended: Option<(&str, &str)>) -> Evacuation {
        let pod = PodTarget { name: format!("pod-{uid}"), uid: Some(format!("pod-uid-{uid}")) };
        let spec = EvacuationSpec::new(pod, Vec::new());
        let mut evacuation = Evacuation::new(uid, spec);
        evacuation.metadata.uid = Some(uid.to_owned());
        evacuation.metadata.namespace = Some("shop".to_owned());
        let condition = |type_: &str, reason: &str| Condition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: "so it is".to_owned(),
            last_transition_time: condition_time(chrono::DateTime::UNIX_EPOCH),
            observed_generation: None,
        };
        let conditions = ended
            .map(|(type_, reason)| vec![condition(type_, reason), condition("Finished", reason)])
            .unwrap_or_default();
        evacuation.status = Some(EvacuationStatus { conditions, ..EvacuationStatus::default() });
        evacuation
    }

    fn exit_after(ends: &[Option<(&str, &str)>]) -> Exit {
        let mut tracker = Tracker::default();
        for (index, end) in ends.iter().enumerate() {
            tracker.follow(&evacuation(&index.to_string(), None));
            tracker.apply(&evacuation(&index.to_string(), *end));
        }
        tracker.exit()
    }

    #[test]
    fn the_exit_code_says_the_worst_that_happened() {
        let gone = Some(("Evacuated", "Evicted"));
        let refused = Some(("Failed", "Refused"));
        let canceled = Some(("Failed", "Canceled"));
        for (ends, exit) in [
            (vec![gone, gone], Exit::Done),
            (vec![gone, refused], Exit::Refused),
            (vec![gone, Some(("Failed", "DeadlineGaveUp"))], Exit::Refused),
            (vec![refused, None], Exit::Refused),
            (vec![refused, canceled], Exit::Errors),
            (vec![gone, None], Exit::TimedOut),
            (vec![], Exit::Done),
        ] {
            assert_eq!(exit_after(&ends), exit, "{ends:?}");
        }
    }

    #[test]
    fn only_changes_of_our_own_evacuations_are_shown() {
        let mut tracker = Tracker::default();
        tracker.follow(&evacuation("a", None));
        assert!(tracker.apply(&evacuation("a", None)).is_none(), "nothing changed");
        assert!(tracker.apply(&evacuation("b", Some(("Evacuated", "Evicted")))).is_none(), "not ours");
        assert!(tracker.apply(&evacuation("a", Some(("Evacuated", "Evicted")))).is_some());
        assert!(tracker.finished());
    }

    #[test]
    fn an_evacuation_that_is_removed_before_its_end_is_an_error() {
        let mut tracker = Tracker::default();
        tracker.follow(&evacuation("a", None));
        tracker.remove(&evacuation("a", None));
        assert_eq!(tracker.exit(), Exit::Errors);
    }
}
