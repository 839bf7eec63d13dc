//! The parts that hold a lease: the controller, the built-in responders, and those of Kubernetes.

use chrono::TimeDelta;
use evacuation_api::Blindness;
use evacuation_protocol::{LEADERLESS, NO_CONTROLLER};

use super::{
    super::{
        facts::{BUILT_IN, CONTROLLER, Facts, LeaseView},
        item::{Item, LOOK_AT},
        reader::{Read, Unread},
    },
    replicas::{Replicas, pods_of},
};
use crate::moment::Now;

/// Statement while the built-in responders do not work.
const NO_BUILT_IN: &str =
    "no built-in responder answers, so that the apps without one of their own count as silent";

/// Judges a part of Kubernetes by its lease. No part of the installation depends on it, but each drain does.
/// `consequence` says what does not happen without it.
pub(super) fn of_kubernetes(
    name: &'static str,
    [namespace, lease]: [&str; 2],
    read: &Read<LeaseView>,
    consequence: &str,
) -> Item {
    let way_out = format!("kubectl get lease {lease} -n {namespace} -o yaml; the log of its holder");
    match read {
        Ok(view) if view.is_live() => Item::ok(name, format!("renews the lease {namespace}/{lease}")),
        Ok(view) => {
            let age = view
                .age()
                .map_or_else(|| "was never held".to_owned(), |age| format!("is {} s old", age.num_seconds()));
            let holder = view.holder().unwrap_or("none");
            let text = format!("its lease {namespace}/{lease} {age} (holder: {holder}): {consequence}");
            Item::warning(name, text, way_out)
        }
        Err(Unread::Absent) => Item::unknown(name, format!("there is no lease {namespace}/{lease}")),
        Err(unread) => Item::unread(name, unread, "", &way_out),
    }
}

/// Judges the controller by its lease. A user who may not read the lease has the API server's warning.
pub(super) fn controller(name: &'static str, facts: &Facts) -> Item {
    let pods = pods_of(&facts.namespace, CONTROLLER);
    let lease = format!("{}/{CONTROLLER}", facts.namespace);
    let replicas = Replicas::of_deployment(&facts.deployments, CONTROLLER);
    let view = match &facts.lease {
        Ok(view) => view,
        Err(Unread::Absent) if replicas.is_up() => {
            let text = format!("{replicas}, and there is no lease {lease} that shows whether one acts");
            return Item::warning(name, text, "the controller's flag --lease-namespace");
        }
        Err(Unread::Forbidden(right)) => return without_lease(name, facts, right, &pods),
        Err(unread) => {
            let absent = format!("{NO_CONTROLLER}: there is no lease {lease}, so that none ever did");
            return Item::unread(name, unread, &absent, &pods);
        }
    };
    let item = match view.blindness() {
        Some(blindness) => blind(name, &blindness, view, &facts.namespace),
        None => judge_lease(name, NO_CONTROLLER, view, &lease, &replicas, &pods),
    };
    if replicas.is_short() { item.worsened(pods) } else { item }
}

/// Judges the built-in responders by their lease. They are not installed where they have none, or where they
/// gave it back and have no Deployment any more.
pub(super) fn built_in(name: &'static str, facts: &Facts) -> Item {
    let pods = pods_of(&facts.namespace, BUILT_IN);
    let lease = format!("{}/{BUILT_IN}", facts.namespace);
    let replicas = Replicas::of_deployment(&facts.deployments, BUILT_IN);
    let is_deployed = matches!(replicas, Replicas::Counted { .. });
    let view = match &facts.built_in {
        Ok(view) => view,
        Err(Unread::Absent) if is_deployed => {
            let text = format!("{NO_BUILT_IN}: there is no lease {lease}; {replicas}");
            return Item::failed(name, text, pods);
        }
        Err(Unread::Absent) => return Item::not_installed(name, format!("there is no lease {lease}")),
        Err(unread) => return Item::unread(name, unread, "", &pods),
    };
    if view.holder().is_none() && !view.is_live() && replicas == Replicas::Elsewhere {
        return Item::not_installed(
            name,
            format!("nobody holds the lease {lease}, and there is no Deployment"),
        );
    }
    let item = judge_lease(name, NO_BUILT_IN, view, &lease, &replicas, &pods);
    if replicas.is_short() { item.worsened(pods) } else { item }
}

/// Judges a controller that renews its lease and says in it that it cannot watch.
fn blind(name: &'static str, blindness: &Blindness, view: &LeaseView, namespace: &str) -> Item {
    let now = Now { time: view.now, led: false };
    let text = format!("{NO_CONTROLLER}: {}", blindness.statement(&now.at(blindness.since.0)));
    Item::failed(name, text, blindness.way_out(namespace))
}

/// Judges a lease of the installation. `nobody` says what is so while nobody holds it.
fn judge_lease(
    name: &'static str,
    nobody: &str,
    view: &LeaseView,
    lease: &str,
    replicas: &Replicas,
    pods: &str,
) -> Item {
    let Some(age) = view.age() else {
        let text = format!("{nobody}: its lease {lease} was never held; {replicas}");
        return Item::failed(name, text, pods);
    };
    let seconds = age.num_seconds();
    let holder = view.holder().unwrap_or("none");
    let duration = view.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
    if view.was_renewed {
        return Item::ok(name, format!("{holder} renews the lease {lease}; {replicas}"));
    }
    let longest = TimeDelta::from_std(LEADERLESS).unwrap_or_default();
    if age > longest {
        let text = format!("{nobody}: its lease {lease} is {seconds} s old (holder: {holder}); {replicas}");
        return Item::failed(name, text, pods);
    }
    // A clock is wrong, and nobody was seen to renew the lease.
    if age < -longest {
        let text = format!("the lease {lease} is of {} s from now (holder: {holder}); {replicas}", -seconds);
        return Item::warning(name, text, pods);
    }
    if view.holder().is_none() {
        let text =
            format!("the lease {lease} was given back {seconds} s ago, and nobody has taken it; {replicas}");
        return Item::warning(name, text, pods);
    }
    let text = format!("{holder} renewed the lease {lease} {} s ago; {replicas}", seconds.max(0));
    let item = Item::ok(name, text);
    if seconds > i64::from(duration) { item.worsened(pods) } else { item }
}

/// Judges the controller for a user who may not read its lease.
fn without_lease(name: &'static str, facts: &Facts, right: &str, pods: &str) -> Item {
    let warnings = facts.list.as_ref().ok().map(|reply| reply.warnings.as_slice());
    let warning = warnings.unwrap_or_default().iter().find(|text| text.starts_with(NO_CONTROLLER));
    if let Some(warning) = warning {
        // The warning names this check alone.
        let (text, _) = warning.split_once(LOOK_AT).unwrap_or((warning, ""));
        return Item::failed(
            name,
            text,
            "an administrator, who runs this check and is told the place to look at",
        );
    }
    let unread = Unread::Forbidden(right.to_owned());
    let mut item = Item::unread(name, &unread, "", pods);
    if warnings.is_some() {
        item.message += "; the API server warns of nothing";
    }
    item
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::item::State, testing, testing::check},
        *,
    };

    #[test]
    fn the_controller_is_judged_by_the_age_of_its_lease() {
        let view = |holder, age, was_renewed| Ok(LeaseView { was_renewed, ..testing::lease(holder, age) });
        for (lease, state, part) in [
            (
                view("c-0", 2, false),
                State::Ok,
                "c-0 renewed the lease evacuation-system/evacuation-controller 2 s ago",
            ),
            (view("c-0", 20, false), State::Warning, "20 s ago"),
            (view("c-0", 58, false), State::Failed, "evacuation-controller is 58 s old (holder: c-0)"),
            (view("c-0", 58, true), State::Ok, "c-0 renews the lease"),
            (view("c-0", -20, false), State::Ok, "0 s ago"),
            (view("c-0", -60, false), State::Warning, "is of 60 s from now"),
            (view("", 3, false), State::Warning, "was given back 3 s ago"),
            (Err(Unread::Absent), State::Warning, "there is no lease"),
        ] {
            check(&controller("controller", &Facts { lease, ..testing::facts() }), state, part);
        }
        let never = Facts { lease: Err(Unread::Absent), deployments: Ok(vec![]), ..testing::facts() };
        check(&controller("controller", &never), State::Failed, "none ever did");
        let short = Facts { deployments: Ok(testing::deployments(1)), ..testing::facts() };
        check(&controller("controller", &short), State::Warning, "1 of 2 replicas ready");
    }

    #[test]
    fn a_controller_that_renews_its_lease_and_cannot_watch_has_failed_with_its_binding_as_way_out() {
        let mut view = testing::lease("c-0", 2);
        let blindness = Blindness {
            holder: "c-0".to_owned(),
            kinds: vec!["pods".to_owned()],
            since: (view.now - TimeDelta::minutes(4)).into(),
            reason: "Forbidden".to_owned(),
            waits: false,
        };
        Blindness::write(Some(&blindness), &mut view.lease.metadata);
        let of = |view: LeaseView| controller("controller", &Facts { lease: Ok(view), ..testing::facts() });
        let item = of(view.clone());
        let part = "no controller works on evacuations: the controller has been unable to list or watch \
                    pods since 23:56:02Z (4 min ago): Forbidden";
        check(&item, State::Failed, part);
        let way_out = item.way_out.unwrap_or_default();
        assert!(way_out.contains("clusterrolebinding evacuation-controller"), "{way_out}");
        view.now += TimeDelta::minutes(1);
        check(&of(view), State::Failed, "is 62 s old (holder: c-0)");
    }

    #[test]
    fn the_built_in_responders_are_judged_by_their_lease_where_they_are_installed() {
        let item = |built_in| built_in_of(&Facts { built_in, ..testing::facts() });
        check(&item(Ok(testing::lease("b-0", 2))), State::Ok, "b-0 renewed the lease");
        let dead = item(Ok(testing::lease("b-0", 58)));
        check(&dead, State::Failed, "evacuation-built-in-responders is 58 s old (holder: b-0)");
        assert!(dead.message.starts_with(NO_BUILT_IN), "{dead:?}");
        assert!(dead.way_out.unwrap().starts_with("kubectl get pods"));
        check(&item(Ok(testing::lease("", 3))), State::Warning, "was given back 3 s ago");
        check(&item(Ok(testing::lease("", 58))), State::NotInstalled, "there is no Deployment");
        check(&item(Err(Unread::Absent)), State::NotInstalled, "there is no lease evacuation-system/");
        check(
            &item(Err(Unread::Forbidden("get leases".to_owned()))),
            State::Unknown,
            "you cannot get leases",
        );

        let mut deployed = testing::deployments(0);
        deployed[0].metadata.name = Some(BUILT_IN.to_owned());
        for built_in in [Err(Unread::Absent), Ok(testing::lease("", 58))] {
            let facts = Facts { built_in, deployments: Ok(deployed.clone()), ..testing::facts() };
            check(&built_in_of(&facts), State::Failed, "0 of 2 replicas ready");
        }
    }

    fn built_in_of(facts: &Facts) -> Item {
        built_in("built-in responders", facts)
    }

    #[test]
    fn without_the_right_to_read_the_lease_the_warning_of_the_api_server_counts() {
        let lease = || Err(Unread::Forbidden("get resource \"leases\"".to_owned()));
        let silent = controller("controller", &Facts { lease: lease(), ..testing::facts() });
        check(&silent, State::Unknown, "you cannot get resource \"leases\"; the API server warns of nothing");
        let mut warned = testing::facts().list.unwrap();
        warned.warnings = vec![format!("{NO_CONTROLLER}: the lease is old. Look at: kubectl evacuate check")];
        let item = controller("controller", &Facts { lease: lease(), list: Ok(warned), ..testing::facts() });
        check(&item, State::Failed, "the lease is old");
        assert!(item.way_out.unwrap().starts_with("an administrator"));
    }
}
