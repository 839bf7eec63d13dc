//! Agreement of the parts: their clocks and their versions.

use chrono::TimeDelta;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;

use super::super::{
    facts::{CONTROLLER, Facts, GATEWAY, LeaseView},
    item::Item,
    reader::Unread,
};

/// Largest difference of two clocks that needs no care.
const DIFFERENCE: TimeDelta = TimeDelta::seconds(5);

/// Judges the clocks of the servers by the local one.
pub(super) fn clocks(name: &'static str, facts: &Facts) -> Item {
    let kubernetes = facts.kubernetes.as_ref().ok().and_then(|reply| reply.ahead);
    let server = facts.discovery.as_ref().ok().and_then(|reply| reply.ahead);
    // The controller writes the lease by the API server's clock, at most a moment before it is read.
    let lease = facts.lease.as_ref().ok().and_then(LeaseView::age).filter(|age| *age < TimeDelta::zero());
    let lease = lease.map(|age| kubernetes.unwrap_or_default() - age);
    let known =
        [("the kube-apiserver", kubernetes), ("the API server", server), ("the controller's lease", lease)];
    let known: Vec<(&str, TimeDelta)> =
        known.into_iter().filter_map(|(clock, ahead)| Some((clock, ahead?))).collect();
    if known.is_empty() {
        return Item::unknown(name, "no server tells its time");
    }
    let wrong: Vec<_> = known.iter().filter(|(_, ahead)| ahead.abs() > DIFFERENCE).collect();
    if wrong.is_empty() {
        let names: Vec<&str> = known.iter().map(|(clock, _)| *clock).collect();
        let seconds = DIFFERENCE.num_seconds();
        return Item::ok(name, format!("within {seconds} s of this machine: {}", names.join(", ")));
    }
    let text: Vec<String> = wrong.iter().map(|(clock, ahead)| difference(clock, *ahead)).collect();
    let place = if wrong.len() == known.len() && known.len() > 1 { "this machine" } else { "that machine" };
    Item::warning(name, text.join(", "), format!("synchronise the clock of {place}, such as with chrony"))
}

fn difference(clock: &str, ahead: TimeDelta) -> String {
    let side = if ahead > TimeDelta::zero() { "ahead of" } else { "behind" };
    format!("{clock} is {} s {side} this machine", ahead.abs().num_seconds())
}

/// Judges the versions of the parts by that of the plugin.
pub(super) fn versions(name: &'static str, plugin: &str, facts: &Facts) -> Item {
    let mut parts = vec![("plugin", plugin.to_owned())];
    let server = facts.version.as_ref().ok().map(|version| bare(version));
    let images =
        [("apiserver", facts.service_name.as_str()), ("controller", CONTROLLER), ("gateway", GATEWAY)];
    let deployments = facts.deployments.as_deref().unwrap_or_default();
    for (part, deployment) in images {
        let tag = || deployments.iter().find(|found| found.name_any() == deployment).and_then(tag);
        let version = if part == "apiserver" { server.clone().or_else(tag) } else { tag() };
        parts.extend(version.map(|version| (part, version)));
    }
    let mut text: Vec<String> = parts.iter().map(|(part, version)| format!("{part} {version}")).collect();
    text.extend(controller_unknown(&parts, facts));
    let mut text = text.join(", ");
    if let Err(Unread::Forbidden(right)) = &facts.deployments {
        text.extend(["; the images are not known: you cannot ", right]);
    }
    if parts.len() == 1 {
        return Item::unknown(name, format!("{text}; no other part tells its version"));
    }
    // A tag such as latest names no version.
    let is_version = |version: &str| version.starts_with(|first: char| first.is_ascii_digit());
    let differs = parts.iter().any(|(_, version)| is_version(version) && version != plugin);
    let item = Item::ok(name, text);
    if !differs {
        return item;
    }
    item.worsened(format!("one version for all: kubectl get deployments -n {} -o wide", facts.namespace))
}

/// Says why the version of the controller is not known. `None` when it is, or when no image may be read.
fn controller_unknown(parts: &[(&str, String)], facts: &Facts) -> Option<String> {
    if facts.deployments.is_err() || parts.iter().any(|(part, _)| *part == "controller") {
        return None;
    }
    let has_deployment = facts.deployments.iter().flatten().any(|found| found.name_any() == CONTROLLER);
    let holder = facts.lease.as_ref().ok().filter(|lease| lease.is_live()).and_then(LeaseView::holder);
    let why = match holder {
        _ if has_deployment => "its image has no tag".to_owned(),
        Some(holder) => format!("{holder} runs outside the cluster"),
        None => "none runs".to_owned(),
    };
    Some(format!("controller not known ({why})"))
}

/// Returns the tag of a Deployment's image. `None` for an image without one.
fn tag(deployment: &Deployment) -> Option<String> {
    let pod = deployment.spec.template.spec.as_ref()?;
    let image = pod.containers.first()?.image.as_deref()?;
    let image = image.split_once('@').map_or(image, |(image, _)| image);
    let (_, tag) = image.rsplit('/').next()?.split_once(':')?;
    Some(bare(tag))
}

/// Returns a version without the `v` before its number.
fn bare(version: &str) -> String {
    version.strip_prefix('v').unwrap_or(version).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::item::State, testing},
        *,
    };

    #[test]
    fn clocks_that_differ_by_more_than_five_seconds_are_named_with_their_side() {
        let facts = |kubernetes: i64, server: i64, lease_age: i64| {
            let mut facts = testing::facts();
            facts.kubernetes.as_mut().unwrap().ahead = Some(TimeDelta::seconds(kubernetes));
            facts.discovery.as_mut().unwrap().ahead = Some(TimeDelta::seconds(server));
            Facts { lease: Ok(testing::lease("c-0", lease_age)), ..facts }
        };
        for (facts, expected, way_out) in [
            (facts(1, -2, 3), "within 5 s of this machine: the kube-apiserver, the API server", None),
            (facts(0, -7, 3), "the API server is 7 s behind this machine", Some("that machine")),
            (
                facts(9, 8, 3),
                "the kube-apiserver is 9 s ahead of this machine, \
                 the API server is 8 s ahead of this machine",
                Some("this machine"),
            ),
            (facts(0, 0, -60), "the controller's lease is 60 s ahead of this machine", Some("that machine")),
        ] {
            let item = clocks("clocks", &facts);
            assert_eq!(item.message, expected);
            assert_eq!(item.way_out.is_some(), way_out.is_some(), "{item:?}");
            assert!(item.way_out.unwrap_or_default().contains(way_out.unwrap_or_default()));
        }
    }

    #[test]
    fn versions_that_differ_are_a_warning_and_a_tag_that_is_no_version_is_none() {
        let item = |plugin: &str, image: &str| {
            let mut facts = Facts { version: Ok("v0.1.0".to_owned()), ..testing::facts() };
            for deployment in facts.deployments.as_mut().unwrap() {
                let pod = deployment.spec.template.spec.as_mut().unwrap();
                pod.containers[0].image = Some(image.to_owned());
            }
            versions("versions", plugin, &facts)
        };
        for (plugin, image, state) in [
            ("0.1.0", "r.acme.io:5000/evacuation:v0.1.0@sha256:00", State::Ok),
            ("0.1.0", "r.acme.io:5000/evacuation", State::Ok),
            ("0.1.0", "evacuation:latest", State::Ok),
            ("0.1.0", "evacuation:0.2.0", State::Warning),
            ("0.2.0", "evacuation:0.1.0", State::Warning),
        ] {
            assert_eq!(item(plugin, image).state, state, "{plugin} {image}");
        }
        let all = item("0.1.0", "evacuation:0.1.0").message;
        assert_eq!(all, "plugin 0.1.0, apiserver 0.1.0, controller 0.1.0, gateway 0.1.0");
        let of = |lease| {
            let facts = Facts { deployments: Ok(vec![]), lease: Ok(lease), ..testing::facts() };
            versions("versions", super::super::PLUGIN, &facts).message
        };
        let text = of(testing::lease("c-0", 58));
        assert!(text.ends_with(", controller not known (none runs)"), "{text}");
        let text = of(testing::lease("c-0", 2));
        assert!(text.ends_with(", controller not known (c-0 runs outside the cluster)"), "{text}");
        let alone = Facts {
            version: Err(Unread::Absent),
            deployments: Err(Unread::Forbidden("list x".to_owned())),
            ..testing::facts()
        };
        assert_eq!(versions("versions", "0.1.0", &alone).state, State::Unknown);
    }
}
