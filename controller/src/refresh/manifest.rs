//! The Evacuation of a pod in a crash loop, and its later changes.

use chrono::{DateTime, SecondsFormat, Utc};
use evacuation_api::{Evacuation, EvacuationSpec, PodTarget, RefusalPolicy, Requester, RequesterKey};
use kube::core::ObjectMeta;
use machinery_validation::derived_name;

use super::{
    Limits,
    decide::Ask,
    names::{ATTEMPT, OWNER, REASON, REQUESTER, SETTLED},
};

/// Returns the Evacuation that asks a pod to move.
pub(crate) fn request(ask: &Ask, limits: &Limits) -> Evacuation {
    let pod = &ask.pod.metadata;
    let name = pod.name.clone().unwrap_or_default();
    let entry = Requester {
        reason: Some(REASON.to_owned()),
        message: Some(message(ask)),
        on_refusal: Some(RefusalPolicy::GiveUp),
        ..Requester::named(REQUESTER)
    };
    let metadata = ObjectMeta {
        generate_name: Some(derived_name(&name, "-")),
        namespace: pod.namespace.clone(),
        labels: Some([(OWNER.to_owned(), ask.owner_uid.clone())].into()),
        annotations: Some([(ATTEMPT.to_owned(), ask.attempt.to_string())].into()),
        ..ObjectMeta::default()
    };
    let target = PodTarget { name, uid: pod.uid.clone() };
    let spec = EvacuationSpec {
        ttl_seconds_after_finished: Some(limits.kept_seconds()),
        ..EvacuationSpec::new(target, vec![entry])
    };
    Evacuation { metadata, ..Evacuation::new("", spec) }
}

/// Returns the message for people and for the app.
pub(crate) fn message(ask: &Ask) -> String {
    let found = &ask.crash_loop;
    let last = found.exit_code.map_or(String::new(), |code| format!(", last with exit code {code}"));
    format!(
        "container {} was restarted {} times{last}; attempt {} for {}",
        found.container, found.restarts, ask.attempt, ask.owner
    )
}

/// Returns the Evacuation without the entry of this requester, which belongs to `user`. Others can use its
/// name.
pub(crate) fn withdrawn(evacuation: &Evacuation, user: &str) -> Evacuation {
    let mut withdrawn = evacuation.clone();
    let own = RequesterKey { owner: user, name: REQUESTER };
    withdrawn.spec.requesters.retain(|entry| entry.key() != own);
    withdrawn
}

/// Returns the Evacuation with the time since which the owner's pods are well.
pub(crate) fn settled(evacuation: &Evacuation, since: DateTime<Utc>) -> Evacuation {
    let mut settled = evacuation.clone();
    let since = since.to_rfc3339_opts(SecondsFormat::Secs, true);
    let annotations = settled.metadata.annotations.get_or_insert_default();
    annotations.insert(SETTLED.to_owned(), since);
    settled
}
