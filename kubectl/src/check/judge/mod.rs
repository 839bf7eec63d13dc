//! Judgement of the facts, without I/O.

mod agreement;
mod api;
mod controllers;
mod gateway;
mod replicas;
#[cfg(test)]
mod testing;

use k8s_openapi::jiff::Timestamp;

use super::{
    facts::{Facts, LeaseView, MANAGER, SCHEDULER},
    item::{Item, LOOK_AT, State},
    reader::{Read, Unread},
    rights::Right,
};

/// Version of the plugins.
const PLUGIN: &str = env!("CARGO_PKG_VERSION");
/// Message for a cluster without the API.
const NOT_SERVED: &str =
    "this cluster does not serve evacuation.dev: is it installed, is this the right context?";

/// Returns all items, those that others depend on first. One that depends on a failed one is unknown, so that
/// each cause is said once.
pub(super) fn judge(facts: &Facts, now: Timestamp) -> Vec<Item> {
    let mut items = vec![kubernetes(facts)];
    let silent = match (&facts.kubernetes, &facts.service) {
        (Err(Unread::Failed(_)), _) => Some("the kube-apiserver does not answer"),
        (_, Err(Unread::Failed(_))) => Some("the kube-apiserver reads no object"),
        _ => None,
    };
    let absent = (facts.service == Err(Unread::Absent) && facts.discovery.is_err())
        .then_some("this cluster does not serve evacuation.dev");
    let mut add = |name, cause: Option<&str>, judged: &dyn Fn(&'static str) -> Item| {
        items.push(cause.map_or_else(|| judged(name), |cause| Item::unknown(name, cause)));
    };
    let cause = silent.or(absent);
    add("controller-manager", silent, &|name| {
        let consequence = "budgets are not counted, and pods not replaced";
        controllers::of_kubernetes(name, MANAGER, &facts.manager, consequence)
    });
    add("scheduler", silent, &|name| {
        let consequence = "new pods, also replacements, get no node";
        controllers::of_kubernetes(name, SCHEDULER, &facts.scheduler, consequence)
    });
    add("apiservice", silent, &|name| api::service(name, facts, now));
    add("apiserver", cause, &|name| api::server(name, facts));
    add("store", cause, &|name| api::store(name, facts));
    add("controller", cause, &|name| controllers::controller(name, facts));
    add("built-in responders", cause, &|name| controllers::built_in(name, facts));
    add("gateway", silent, &|name| gateway::gateway(name, facts));
    add("clocks", silent, &|name| agreement::clocks(name, facts));
    add("versions", cause, &|name| agreement::versions(name, PLUGIN, facts));
    for (wanted, answer) in &facts.rights {
        add(wanted.item, silent, &|name| right(name, wanted, answer, &facts.user_namespace));
    }
    if facts.webhooks.is_ok() {
        let blindness = facts.lease.as_ref().ok().and_then(LeaseView::blindness);
        say_what_passes(&mut items, blindness.is_some_and(|blindness| !blindness.stops_negotiation()));
    }
    items
}

/// Says at the gateway what it lets pass while another part does not work. No call waits for `drains_alone`.
fn say_what_passes(items: &mut [Item], drains_alone: bool) {
    let failed = |name| items.iter().any(|item| item.name == name && item.state == State::Failed);
    let passes = if ["apiservice", "apiserver", "store"].into_iter().any(failed) {
        "calls for pods whose app was not asked pass at once now"
    } else if failed("controller") && !drains_alone {
        "calls that no answer holds pass now, 30 s after the question"
    } else {
        return;
    };
    let works = |item: &&mut Item| {
        let is_absent = item.state == State::Failed || item.message.ends_with(gateway::PASS_UNASKED);
        item.name == "gateway" && !is_absent
    };
    if let Some(gateway) = items.iter_mut().find(works) {
        gateway.message = format!("{}; {passes}", gateway.message);
        gateway.state = State::Warning;
        gateway.way_out = Some("docs/guide/gateway.md, the part on outages".to_owned());
    }
}

/// Judges the kube-apiserver by its version, which it knows itself, and by an object from its etcd.
fn kubernetes(facts: &Facts) -> Item {
    const NAME: &str = "kubernetes";
    match (&facts.kubernetes, &facts.service) {
        (Ok(_), Err(Unread::Failed(text))) => {
            let (cause, _) = text.split_once(LOOK_AT).unwrap_or((text, ""));
            let text = format!("the kube-apiserver tells its version, and reads no object: {cause}");
            Item::failed(NAME, text, "kubectl get --raw '/readyz?verbose', and the kube-apiserver's etcd")
        }
        (Ok(reply), _) => Item::ok(NAME, format!("the kube-apiserver answers, {}", reply.body.git_version)),
        (Err(unread), _) => {
            let absent = "the server at this address is no kube-apiserver";
            Item::unread(NAME, unread, absent, "kubectl config view --minify; kubectl version")
        }
    }
}

/// Shows a right of the user. A missing one is no failure: few users have all.
fn right(name: &'static str, right: &Right, answer: &Read<bool>, namespace: &str) -> Item {
    let text = right.text(namespace);
    match answer {
        Ok(true) => Item::ok(name, format!("yes: {text}")),
        Ok(false) => Item::ok(name, format!("no: {text}; the ClusterRole {} grants it", right.role)),
        Err(unread) => {
            Item::unread(name, unread, "this cluster has no access reviews", "kubectl auth whoami")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::rights::RIGHTS, *};

    fn states(facts: &Facts) -> Vec<(&'static str, State)> {
        judge(facts, Timestamp::UNIX_EPOCH).iter().map(|item| (item.name, item.state)).collect()
    }

    #[test]
    fn a_working_installation_is_ok_throughout() {
        let items = states(&testing::facts());
        assert!(items.iter().all(|(_, state)| *state == State::Ok), "{items:?}");
        let names: Vec<&str> = items.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names[..11],
            [
                "kubernetes",
                "controller-manager",
                "scheduler",
                "apiservice",
                "apiserver",
                "store",
                "controller",
                "built-in responders",
                "gateway",
                "clocks",
                "versions"
            ]
        );
    }

    #[test]
    fn the_gateway_says_what_passes_while_another_part_does_not_work() {
        let gateway_beside = |name, drains_alone| {
            let mut items = vec![Item::failed(name, "down", "look"), Item::ok("gateway", "3 webhooks")];
            say_what_passes(&mut items, drains_alone);
            items.remove(1)
        };
        let failed = |name| gateway_beside(name, false);
        for (name, passes) in [
            ("apiserver", "calls for pods whose app was not asked pass at once now"),
            ("store", "calls for pods whose app was not asked pass at once now"),
            ("controller", "calls that no answer holds pass now, 30 s after the question"),
        ] {
            let gateway = failed(name);
            assert_eq!((gateway.state, gateway.message), (State::Warning, format!("3 webhooks; {passes}")));
        }
        assert_eq!(failed("clocks"), Item::ok("gateway", "3 webhooks"));
        assert_eq!(gateway_beside("controller", true), Item::ok("gateway", "3 webhooks"));
    }

    #[test]
    fn a_missing_right_is_no_failure_and_names_the_role_that_grants_it() {
        let [ask, evict, drain, ..] = &RIGHTS;
        let item = |right_of: &Right, answer| right("right", right_of, &answer, "shop");
        assert_eq!(item(ask, Ok(true)), Item::ok("right", "yes: create evacuations in shop"));
        assert_eq!(
            item(drain, Ok(false)),
            Item::ok(
                "right",
                "no: create nodeevacuations; the ClusterRole evacuation:node-drainer grants it"
            )
        );
        let unread = item(evict, Err(Unread::Forbidden("create resource \"x\"".to_owned())));
        assert_eq!(unread.state, State::Unknown);
    }

    #[test]
    fn a_kube_apiserver_that_does_not_answer_is_the_only_failure() {
        let silent = || Unread::Failed("it does not answer. Look at: kubectl version".to_owned());
        // Without its etcd it still tells its version.
        for kubernetes in [Err(silent()), testing::facts().kubernetes] {
            let facts = Facts {
                kubernetes,
                service: Err(silent()),
                discovery: Err(silent()),
                list: Err(silent()),
                ..testing::facts()
            };
            let items = states(&facts);
            let (first, rest) = items.split_first().unwrap();
            assert_eq!(*first, ("kubernetes", State::Failed));
            assert!(rest.iter().all(|(_, state)| *state == State::Unknown), "{rest:?}");
        }
    }

    #[test]
    fn a_part_of_kubernetes_that_does_not_work_is_a_warning_that_names_its_machine_and_what_stands_still() {
        let with = |name: &str, read: Read<LeaseView>| {
            let facts = match name {
                "scheduler" => Facts { scheduler: read, ..testing::facts() },
                _ => Facts { manager: read, ..testing::facts() },
            };
            let items = judge(&facts, Timestamp::UNIX_EPOCH);
            items.into_iter().find(|item| item.name == name).unwrap()
        };
        for (name, text) in [
            (
                "controller-manager",
                "its lease kube-system/kube-controller-manager is 58 s old (holder: machine-0_b): budgets are \
                 not counted, and pods not replaced",
            ),
            (
                "scheduler",
                "its lease kube-system/kube-scheduler is 58 s old (holder: machine-0_b): new pods, also \
                 replacements, get no node",
            ),
        ] {
            let dead = with(name, Ok(testing::lease("machine-0_b", 58)));
            assert_eq!((dead.state, dead.message.as_str()), (State::Warning, text));
            assert_eq!(with(name, Err(Unread::Absent)).state, State::Unknown);
            assert_eq!(with(name, Err(Unread::Forbidden("get leases".to_owned()))).state, State::Unknown);
        }
    }

    #[test]
    fn a_cluster_without_the_api_is_asked_about_and_nothing_else_has_failed() {
        let facts = Facts {
            service: Err(Unread::Absent),
            discovery: Err(Unread::Failed("not served".to_owned())),
            lease: Err(Unread::Absent),
            deployments: Ok(vec![]),
            webhooks: Err(Unread::Absent),
            ..testing::facts()
        };
        let items = judge(&facts, Timestamp::UNIX_EPOCH);
        let failed: Vec<_> = items.iter().filter(|item| item.state == State::Failed).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!((failed[0].name, failed[0].message.as_str()), ("apiservice", NOT_SERVED));
    }
}
