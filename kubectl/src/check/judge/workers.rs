//! The processes that act: the controller and the gateway.

use chrono::TimeDelta;
use evacuation_api::GATEWAY_WEBHOOKS;
use evacuation_protocol::{LEADERLESS, NO_CONTROLLER};
use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration};

use super::{
    super::{
        facts::{CONTROLLER, Facts, GATEWAY, LeaseView, MANAGER},
        item::{Item, LOOK_AT},
        reader::Unread,
    },
    replicas::{Replicas, pods_of},
};
use crate::moment::count;

/// Judges the kube-controller-manager by its lease. No part of the installation depends on it, but each drain
/// does.
pub(super) fn controller_manager(name: &'static str, facts: &Facts) -> Item {
    let [namespace, lease] = MANAGER;
    let way_out = format!("kubectl get lease {lease} -n {namespace} -o yaml; the log of its holder");
    match &facts.manager {
        Ok(view) if view.is_live() => Item::ok(name, format!("renews the lease {namespace}/{lease}")),
        Ok(view) => {
            let age = view
                .age()
                .map_or_else(|| "was never held".to_owned(), |age| format!("is {} s old", age.num_seconds()));
            let text = format!(
                "its lease {namespace}/{lease} {age} (holder: {}): budgets are not counted, and pods not replaced",
                view.holder().unwrap_or("none")
            );
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
    let item = judge_lease(name, view, &lease, &replicas, &pods);
    if replicas.is_short() { item.worsened(pods) } else { item }
}

fn judge_lease(name: &'static str, view: &LeaseView, lease: &str, replicas: &Replicas, pods: &str) -> Item {
    let Some(age) = view.age() else {
        let text = format!("{NO_CONTROLLER}: its lease {lease} was never held; {replicas}");
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
        let text =
            format!("{NO_CONTROLLER}: its lease {lease} is {seconds} s old (holder: {holder}); {replicas}");
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
        let (text, place) = warning.split_once(LOOK_AT).unwrap_or((warning, pods));
        return Item::failed(name, text, place);
    }
    let unread = Unread::Forbidden(right.to_owned());
    let mut item = Item::unread(name, &unread, "", pods);
    if warnings.is_some() {
        item.message += "; the API server warns of nothing";
    }
    item
}

/// Judges the gateway by its webhooks and its replicas.
pub(super) fn gateway(name: &'static str, facts: &Facts) -> Item {
    let configuration = match &facts.webhooks {
        Ok(configuration) => configuration,
        Err(Unread::Absent) => return not_installed(name, facts),
        Err(unread) => return Item::unread(name, unread, "", "kubectl get validatingwebhookconfigurations"),
    };
    let webhooks = configuration.webhooks.as_deref().unwrap_or_default();
    let described = format!("kubectl get validatingwebhookconfiguration {GATEWAY} -o yaml");
    let pods = pods_of(&facts.namespace, GATEWAY);
    let replicas = Replicas::of_deployment(&facts.deployments, GATEWAY);
    let text =
        format!("{}, failurePolicy {}; {replicas}", count(webhooks.len(), "webhook"), policies(webhooks));
    if webhooks.is_empty() {
        return Item::failed(
            name,
            "its webhook configuration has no webhooks, so that nothing is asked",
            described,
        );
    }
    if replicas.is_down() {
        return Item::failed(name, format!("{text}: {}", without_gateway(webhooks)), pods);
    }
    if let Some(problem) = problem(configuration) {
        return Item::failed(name, format!("{text}: {problem}"), described);
    }
    let calls_a_service = webhooks.iter().any(|webhook| webhook.client_config.service.is_some());
    match replicas {
        // The kube-apiserver calls a Service that has no replicas.
        Replicas::Elsewhere if calls_a_service => Item::warning(name, text, pods),
        Replicas::Elsewhere => Item::unknown(name, format!("{text}; its webhooks call a URL outside of it")),
        _ if replicas.is_short() => Item::warning(name, text, pods),
        _ => Item::ok(name, text),
    }
}

/// Judges a gateway without webhooks. Replicas whose webhooks were removed ask nobody.
fn not_installed(name: &'static str, facts: &Facts) -> Item {
    let absent = format!("there is no ValidatingWebhookConfiguration {GATEWAY_WEBHOOKS}");
    match Replicas::of_deployment(&facts.deployments, GATEWAY) {
        replicas @ Replicas::Counted { .. } => {
            let text = format!("{absent}, so that nothing is asked; {replicas}");
            Item::warning(name, text, "deploy/README.md, the part on the gateway")
        }
        _ => Item::not_installed(name, absent),
    }
}

/// Returns the reason why the kube-apiserver cannot call the gateway, if the configuration shows one.
fn problem(configuration: &ValidatingWebhookConfiguration) -> Option<&'static str> {
    let webhooks = configuration.webhooks.as_deref().unwrap_or_default();
    let mut configs = webhooks.iter().map(|webhook| &webhook.client_config);
    if configs.clone().any(|config| config.ca_bundle.as_ref().is_none_or(|ca| ca.0.is_empty())) {
        return Some("a webhook has no caBundle, so that the kube-apiserver trusts no gateway");
    }
    let has_path = |url: &str| url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    let is_pathless = configs.any(|config| match (&config.url, &config.service) {
        (Some(url), _) => !has_path(url),
        (None, service) => service.as_ref().is_none_or(|service| service.path.is_none()),
    });
    is_pathless
        .then_some("a webhook has no path: no gateway has written its token there, so that none answers")
}

fn policies(webhooks: &[ValidatingWebhook]) -> String {
    let mut policies: Vec<&str> =
        webhooks.iter().map(|webhook| webhook.failure_policy.as_deref().unwrap_or("Fail")).collect();
    policies.sort_unstable();
    policies.dedup();
    policies.join(" and ")
}

fn without_gateway(webhooks: &[ValidatingWebhook]) -> &'static str {
    if policies(webhooks) == "Ignore" {
        "calls pass unasked"
    } else {
        "calls of the webhooks with failurePolicy Fail are rejected"
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::item::State, testing},
        *,
    };

    fn check(item: &Item, state: State, part: &str) {
        assert!(item.state == state && item.message.contains(part), "{item:?}, not {state} {part:?}");
    }

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
    fn without_the_right_to_read_the_lease_the_warning_of_the_api_server_counts() {
        let lease = || Err(Unread::Forbidden("get resource \"leases\"".to_owned()));
        let silent = controller("controller", &Facts { lease: lease(), ..testing::facts() });
        check(&silent, State::Unknown, "you cannot get resource \"leases\"; the API server warns of nothing");
        let mut warned = testing::facts().list.unwrap();
        warned.warnings = vec![format!("{NO_CONTROLLER}: the lease is old. Look at: the pods")];
        let item = controller("controller", &Facts { lease: lease(), list: Ok(warned), ..testing::facts() });
        check(&item, State::Failed, "the lease is old");
        assert_eq!(item.way_out.as_deref(), Some("the pods"));
    }

    #[test]
    fn the_gateway_is_optional_and_its_failures_have_their_consequence() {
        let with = |webhooks| Facts { webhooks, ..testing::facts() };
        let absent = Facts { deployments: Ok(vec![]), ..with(Err(Unread::Absent)) };
        check(&gateway("gateway", &absent), State::NotInstalled, "no ValidatingWebhookConfiguration");
        let unhooked = gateway("gateway", &with(Err(Unread::Absent)));
        check(&unhooked, State::Warning, "so that nothing is asked; 2 of 2 replicas ready");
        let item = gateway("gateway", &testing::facts());
        check(&item, State::Ok, "2 webhooks, failurePolicy Ignore; 2 of 2 replicas ready");
        let down = Facts { deployments: Ok(testing::deployments(0)), ..testing::facts() };
        check(&gateway("gateway", &down), State::Failed, "0 of 2 replicas ready: calls pass unasked");
        let mut outside = testing::facts().webhooks.unwrap();
        for webhook in outside.webhooks.as_mut().unwrap() {
            webhook.client_config.service = None;
            webhook.client_config.url = Some("https://10.0.0.1:9443/evict/token".to_owned());
        }
        let outside = Facts { deployments: Ok(vec![]), ..with(Ok(outside)) };
        check(&gateway("gateway", &outside), State::Unknown, "its webhooks call a URL outside of it");
        let change = |change: &dyn Fn(&mut ValidatingWebhook)| {
            let mut webhooks = testing::facts().webhooks.unwrap();
            change(&mut webhooks.webhooks.as_mut().unwrap()[0]);
            gateway("gateway", &with(Ok(webhooks)))
        };
        check(&change(&|webhook| webhook.client_config.ca_bundle = None), State::Failed, "no caBundle");
        let pathless = change(&|webhook| webhook.client_config.service.as_mut().unwrap().path = None);
        check(&pathless, State::Failed, "has no path");
        check(&change(&|webhook| webhook.failure_policy = None), State::Ok, "failurePolicy Fail and Ignore");
    }
}
