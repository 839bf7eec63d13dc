//! The condition `Unattended` of drains: no controller works on them.
//!
//! Only the API server can write it while the controller is down, so each replica does. The first one's write
//! makes that of the others unnecessary. Why a second writer: docs/adr/0057.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use evacuation_api::{DrainConditionType, NodeEvacuation, NodeEvacuationStatus, condition_time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use machinery_auth::UserInfo;
use machinery_server::{ApiError, Reason, Registry, RequestContext};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::NodeEvacuationStrategy;
use crate::Leader;

/// Interval between two looks at the drains.
const INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of drains that one look changes. The next looks begin with the others.
const AT_ONCE: usize = 64;
/// Reason while no controller works.
const NO_CONTROLLER: &str = "NoController";
/// Reason once a controller works again.
const CONTROLLER_WORKS: &str = "ControllerWorks";

/// Keeps the condition of all drains up to date until the shutdown.
pub(crate) async fn keep(
    drains: Arc<Registry<NodeEvacuationStrategy>>,
    leader: Arc<Leader>,
    shutdown: CancellationToken,
) {
    let looks = async {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut failed, mut first) = (false, 0);
        loop {
            ticks.tick().await;
            let looked = look(&drains, leader.outage().as_deref(), first).await;
            first = first.wrapping_add(AT_ONCE);
            // Once for a row of failures, which are alike.
            if let Some(error) = looked.as_ref().err().filter(|_| !failed) {
                tracing::warn!(%error, "the condition Unattended of drains is not up to date");
            }
            failed = looked.is_err();
        }
    };
    let _ = shutdown.run_until_cancelled(looks).await;
}

/// Changes the condition of the drains in which it is wrong. A drain that cannot be written does not keep the
/// others from it; the first failure is returned.
///
/// `first` is the place of the first of them, so that those that cannot be written take no other's place.
async fn look(
    drains: &Registry<NodeEvacuationStrategy>,
    outage: Option<&str>,
    first: usize,
) -> Result<(), ApiError> {
    let all = drains.list("").await?;
    let mut result = Ok(());
    let mut due: Vec<&NodeEvacuation> = all
        .iter()
        .map(|stored| &***stored)
        .filter(|drain| is_due(drain.status.as_ref(), outage.is_some()))
        .collect();
    let start = first.checked_rem(due.len()).unwrap_or_default();
    due.rotate_left(start);
    for drain in due.into_iter().take(AT_ONCE) {
        let now = Utc::now();
        let context = RequestContext::new(UserInfo::default(), "", now);
        let name = drain.metadata.name.as_deref().unwrap_or_default();
        let written = drains.mutate(&context, "", name, |drain| {
            if is_due(drain.status.as_ref(), outage.is_some()) {
                set(drain.status.get_or_insert_default(), outage, now);
            }
            Ok(())
        });
        match written.await {
            Ok(_) => {}
            Err(error) if error.reason() == Reason::NotFound => {}
            Err(error) => result = result.and(Err(error)),
        }
    }
    result
}

/// Returns true when the condition has to change. A drain that has ended needs no controller.
fn is_due(status: Option<&NodeEvacuationStatus>, unattended: bool) -> bool {
    let is_true = |kind| status.is_some_and(|status| status.is_true(kind));
    let waits = unattended && !is_true(DrainConditionType::Finished);
    is_true(DrainConditionType::Unattended) != waits
}

/// Sets the condition, with the outage in words. It is false for a drain that has ended.
fn set(status: &mut NodeEvacuationStatus, outage: Option<&str>, now: DateTime<Utc>) {
    let outage = outage.filter(|_| !status.is_true(DrainConditionType::Finished));
    let new = Condition {
        type_: DrainConditionType::Unattended.as_str().to_owned(),
        status: if outage.is_some() { "True" } else { "False" }.to_owned(),
        reason: if outage.is_some() { NO_CONTROLLER } else { CONTROLLER_WORKS }.to_owned(),
        message: outage.unwrap_or_default().to_owned(),
        last_transition_time: condition_time(now),
        observed_generation: None,
    };
    match status.conditions.iter_mut().find(|known| known.type_ == new.type_) {
        Some(known) => *known = new,
        None => status.conditions.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_in_progress_is_marked_once_in_an_outage_and_once_after_it() {
        let now = DateTime::from_timestamp(1_767_225_600, 0).unwrap();
        let mut status = NodeEvacuationStatus::default();
        assert!(!is_due(Some(&status), false), "it was never marked");
        assert!(is_due(None, true), "no controller has seen it");
        for (outage, value, reason) in
            [(Some("since 3"), "True", NO_CONTROLLER), (None, "False", CONTROLLER_WORKS)]
        {
            assert!(is_due(Some(&status), outage.is_some()));
            set(&mut status, outage, now);
            assert!(!is_due(Some(&status), outage.is_some()));
            let [condition] = &status.conditions[..] else { panic!("{status:?}") };
            assert_eq!((condition.status.as_str(), condition.reason.as_str()), (value, reason));
            assert_eq!(condition.message, outage.unwrap_or_default());
        }
    }

    #[test]
    fn a_drain_that_has_ended_needs_no_controller() {
        let mut status = NodeEvacuationStatus::default();
        set(&mut status, Some("since 3"), DateTime::UNIX_EPOCH);
        status.conditions.push(Condition {
            type_: DrainConditionType::Finished.as_str().to_owned(),
            status: "True".to_owned(),
            ..status.conditions[0].clone()
        });
        assert!(is_due(Some(&status), true), "the mark is taken back");
        set(&mut status, Some("since 3"), DateTime::UNIX_EPOCH);
        assert!(!is_due(Some(&status), true), "once, also while the outage lasts");
        assert!(!is_due(Some(&status), false));
    }
}
