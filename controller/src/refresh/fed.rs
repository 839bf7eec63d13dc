//! Which changes are worth a look at their namespace.

use evacuation_api::Evacuation;
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Namespace, Pod},
};
use kube::core::PartialObjectMeta;

use super::{
    crash_loop::is_crash_looping,
    history::{outcome, owner_uid},
    wish::{Wish, wish},
};
use crate::{
    ObjectKey,
    controller::{Controller, lock},
    index::{Change, is_finished},
};

/// A pod matters when it was or is in a crash loop or cannot be read, and opted in; any pod does where something is pending.
pub(crate) fn follow_pod(controller: &Controller, change: &Change<Pod>) {
    let Some(refresher) = &controller.refresher else {
        return;
    };
    let namespace = &change.key.namespace;
    let matters = |pod: &Pod| match wish(
        &pod.metadata,
        lock(&controller.index).namespace(namespace).map(|known| &known.metadata),
    ) {
        Wish::LeaveAlone => false,
        Wish::Refresh(_) => is_crash_looping(pod),
        Wish::Unreadable(_) => true,
    };
    if refresher.is_pending(namespace)
        || [&change.old, &change.new].into_iter().flatten().any(|pod| matters(pod))
    {
        refresher.wake(namespace.clone());
    }
}

/// An Evacuation matters when it is this requester's own, or when somebody else's of a pod in a crash loop begins or ends.
pub(crate) fn follow_evacuation(controller: &Controller, change: &Change<Evacuation>, leads: bool) {
    let Some(refresher) = &controller.refresher else {
        return;
    };
    let finished = |evacuation: Option<&Evacuation>| evacuation.is_none_or(is_finished);
    let (was, is) = (finished(change.old.as_deref()), finished(change.new.as_deref()));
    let Some(evacuation) = change.new.as_deref().or(change.old.as_deref()) else {
        return;
    };
    let own = owner_uid(evacuation).is_some();
    if own && leads && change.old.is_some() && change.new.is_some() && is && !was {
        controller.metrics.refreshes.get_or_create(&[("outcome", outcome(evacuation))]).inc();
    }
    let target = ObjectKey::new(change.key.namespace.clone(), evacuation.spec.target.pod.name.clone());
    let looping = || lock(&controller.index).pod(&target).is_some_and(|pod| is_crash_looping(&pod));
    if own || (was != is && looping()) {
        refresher.wake(change.key.namespace.clone());
    }
}

/// A namespace matters when what it says of its pods changes.
pub(crate) fn follow_namespace(controller: &Controller, change: &Change<PartialObjectMeta<Namespace>>) {
    let Some(refresher) = &controller.refresher else {
        return;
    };
    let said = |namespace: &PartialObjectMeta<Namespace>| {
        (namespace.metadata.labels.clone(), namespace.metadata.annotations.clone())
    };
    if change.old.as_deref().map(said) != change.new.as_deref().map(said) {
        // A namespace is not in a namespace: its name is that of what it holds.
        refresher.wake(change.key.name.clone());
    }
}

/// A ReplicaSet matters where a pod may wait for it to be seen.
pub(crate) fn follow_replica_set(controller: &Controller, change: &Change<PartialObjectMeta<ReplicaSet>>) {
    if let Some(refresher) = &controller.refresher
        && refresher.is_pending(&change.key.namespace)
    {
        refresher.wake(change.key.namespace.clone());
    }
}
