//! The API: its APIService, its servers, its store.

use k8s_openapi::jiff::Timestamp;

use super::{
    super::{
        facts::Facts,
        item::{Item, LOOK_AT},
        reader::{Read, Unread},
    },
    NOT_SERVED,
    replicas::{Replicas, pods_of},
};
use crate::connection::{api_service, unavailable};

/// Name of the store's StatefulSet.
const ETCD: &str = "evacuation-etcd";

/// Judges the APIService.
pub(super) fn service(name: &'static str, facts: &Facts, now: Timestamp) -> Item {
    let service = match &facts.service {
        Ok(service) => service,
        Err(unread) => {
            return Item::unread(
                name,
                unread,
                NOT_SERVED,
                "kubectl config current-context, deploy/README.md",
            );
        }
    };
    let api = api_service();
    let way_out = format!("kubectl describe apiservice {api}; kubectl get pods -n {}", facts.namespace);
    let spec = service.spec.as_ref();
    let is_trusted = spec.is_some_and(|spec| {
        spec.ca_bundle.is_some() || spec.insecure_skip_tls_verify == Some(true) || spec.service.is_none()
    });
    match unavailable(service, now) {
        Some(state) if is_trusted => Item::failed(name, format!("{api} is {state}"), way_out),
        Some(state) => Item::failed(
            name,
            format!("{api} is {state}. It has no caBundle, so that the kube-apiserver trusts no API server"),
            "the part on certificates in deploy/README.md",
        ),
        None if service.status.is_none() => {
            Item::failed(name, format!("{api} has no status: nothing has checked it yet"), way_out)
        }
        None => Item::ok(
            name,
            format!("{api} is available, from Service {}/{}", facts.namespace, facts.service_name),
        ),
    }
}

/// Judges the API servers by a request that they answer, their replicas and their readiness.
pub(super) fn server(name: &'static str, facts: &Facts) -> Item {
    let pods = pods_of(&facts.namespace, &facts.service_name);
    if let Err(unread) = &facts.discovery {
        return Item::unread(name, unread, NOT_SERVED, &pods);
    }
    let replicas = Replicas::of_deployment(&facts.deployments, &facts.service_name);
    let failed =
        Readyz::of(&facts.readyz).map(|readyz| readyz.failed_besides_the_store()).unwrap_or_default();
    let mut text = format!("answers; {replicas}");
    if !failed.is_empty() {
        text = format!("{text}; /readyz of one of them: {} failed", failed.join(", "));
    }
    let item = Item::ok(name, text);
    match (failed.is_empty(), replicas.is_short()) {
        (true, false) => item,
        (true, true) => item.worsened(pods),
        (false, _) => item.worsened(format!(
            "kubectl logs -n {} deployment/{}; the check `clock` is about the clock of that server",
            facts.namespace, facts.service_name
        )),
    }
}

/// Judges the store by the readiness of an API server, or else by a list that was answered from it.
pub(super) fn store(name: &'static str, facts: &Facts) -> Item {
    let (namespace, server) = (&facts.namespace, &facts.service_name);
    let logs = format!("kubectl logs -n {namespace} deployment/{server}");
    let etcd = Replicas::of_stateful_set(&facts.stateful_sets, ETCD);
    let way_out = if etcd == Replicas::Elsewhere {
        format!(
            "{logs}; kubectl describe -n {namespace} deployment/{server} names the store, which is outside"
        )
    } else {
        let pods = pods_of(namespace, ETCD);
        format!("{pods}; kubectl logs -n {namespace} statefulset/{ETCD}; {logs}")
    };
    let members = match &etcd {
        Replicas::Counted { ready, wanted } => format!("; {ready} of {wanted} members of {ETCD} ready"),
        _ => String::new(),
    };
    if etcd.has_no_majority() {
        return Item::failed(name, format!("it takes no writes{members}"), way_out);
    }
    if let Err(Unread::Failed(_) | Unread::Absent) = facts.discovery {
        return Item::unknown(name, format!("the API server does not answer{members}"));
    }
    let item = match (Readyz::of(&facts.readyz), &facts.list) {
        (Some(readyz), _) => {
            let failed = readyz.failed_of_the_store();
            if !failed.is_empty() {
                let text = format!("/readyz: {} failed{members}", failed.join(", "));
                return Item::failed(name, text, way_out);
            }
            if let Some(unreadable) = readyz.unreadable {
                let text = format!("/readyz: storage ok{members}; {unreadable}");
                let guide = "docs/guide/running.md, a stored object that the server cannot read";
                return Item::warning(name, text, guide);
            }
            Item::ok(name, format!("/readyz: storage ok{members}"))
        }
        (None, Ok(_)) => {
            Item::ok(name, format!("a list was answered from it (/readyz cannot be reached){members}"))
        }
        (None, Err(Unread::Failed(text))) => {
            let (cause, _) = text.split_once(LOOK_AT).unwrap_or((text, ""));
            return Item::failed(name, format!("a list failed: {cause}{members}"), way_out);
        }
        (None, Err(unread)) => return Item::unread(name, unread, NOT_SERVED, &way_out),
    };
    if etcd.is_short() { item.worsened(way_out) } else { item }
}

/// Checks of `/readyz?verbose`.
struct Readyz<'a> {
    failed: Vec<&'a str>,
    /// Remark on objects that the server cannot read.
    unreadable: Option<&'a str>,
}

impl<'a> Readyz<'a> {
    /// Returns the checks. `None` when the text is none of an API server.
    fn of(text: &'a Read<String>) -> Option<Self> {
        let text = text.as_ref().ok().filter(|text| text.starts_with("[+]") || text.starts_with("[-]"))?;
        let failed = text.lines().filter_map(|line| line.strip_prefix("[-]")?.split(' ').next());
        let unreadable = text.lines().find_map(|line| line.strip_prefix("[+]unreadable-objects ok: "));
        Some(Self { failed: failed.collect(), unreadable })
    }

    fn failed_of_the_store(&self) -> Vec<&'a str> {
        self.failed.iter().copied().filter(|check| is_of_the_store(check)).collect()
    }

    fn failed_besides_the_store(&self) -> Vec<&'a str> {
        self.failed.iter().copied().filter(|check| !is_of_the_store(check)).collect()
    }
}

fn is_of_the_store(check: &str) -> bool {
    check == "storage" || check.starts_with("watch-cache-")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
    use serde_json::json;

    use super::{
        super::{super::item::State, testing},
        *,
    };

    fn unavailable_service(ca: Option<&str>) -> APIService {
        serde_json::from_value(json!({
            "metadata": {"name": "v1alpha1.evacuation.dev"},
            "spec": {"groupPriorityMinimum": 1, "versionPriority": 1, "caBundle": ca,
                     "service": {"name": "evacuation-apiserver", "namespace": "evacuation-system"}},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints",
                                       "message": "no addresses",
                                       "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap()
    }

    #[test]
    fn an_unavailable_api_service_has_failed_with_its_condition() {
        let now = "2026-01-01T00:01:03Z".parse().unwrap();
        let judged = |ca| {
            let facts = Facts { service: Ok(unavailable_service(ca)), ..testing::facts() };
            service("apiservice", &facts, now)
        };
        assert_eq!(
            judged(Some("YQ==")),
            Item::failed(
                "apiservice",
                "v1alpha1.evacuation.dev is unavailable for 1m 3s (MissingEndpoints: no addresses)",
                "kubectl describe apiservice v1alpha1.evacuation.dev; kubectl get pods -n evacuation-system"
            )
        );
        let untrusted = judged(None);
        assert!(untrusted.message.contains("It has no caBundle"), "{untrusted:?}");
    }

    #[test]
    fn the_api_server_is_judged_by_its_answer_and_then_by_its_replicas() {
        let silent = Unread::Failed("it does not answer. Look at: the pods".to_owned());
        let clock = Ok("[+]ping ok\n[-]clock failed: reason withheld\nreadyz check failed\n".to_owned());
        let table = vec![
            (testing::facts(), State::Ok, "answers; 2 of 2 replicas ready"),
            (
                Facts { deployments: Ok(testing::deployments(1)), ..testing::facts() },
                State::Warning,
                "1 of 2",
            ),
            (Facts { deployments: Ok(vec![]), ..testing::facts() }, State::Ok, "no replicas in the cluster"),
            (
                Facts { deployments: Err(Unread::Forbidden("list x".to_owned())), ..testing::facts() },
                State::Ok,
                "replicas not known: you cannot list x",
            ),
            (Facts { readyz: clock, ..testing::facts() }, State::Warning, "clock failed"),
            (Facts { discovery: Err(silent), ..testing::facts() }, State::Failed, "it does not answer"),
        ];
        for (facts, state, part) in table {
            let item = server("apiserver", &facts);
            assert!(item.state == state && item.message.contains(part), "{item:?}, not {part:?}");
        }
    }

    #[test]
    fn the_store_is_judged_by_readyz_and_without_it_by_a_list() {
        let unreached = || Err(Unread::Failed("no endpoints".to_owned()));
        let failed = "[+]ping ok\n[-]storage failed: reason withheld\nreadyz check failed\n".to_owned();
        let unreadable =
            "[+]ping ok\n[+]storage ok\n[+]unreadable-objects ok: 2 of evacuations cannot be read\n";
        let no_list = Err(Unread::Failed("it does not answer (503: etcd). Look at: the pods".to_owned()));
        let forbidden = Err(Unread::Forbidden("list resource \"nodeevacuations\"".to_owned()));
        let with = |readyz, list| Facts { list, readyz, ..testing::facts() };
        let list = || testing::facts().list;
        let table = vec![
            (testing::facts(), State::Ok, "/readyz: storage ok; 3 of 3 members of evacuation-etcd ready"),
            (with(Ok(failed), list()), State::Failed, "/readyz: storage failed"),
            (with(Ok(unreadable.to_owned()), list()), State::Warning, "2 of evacuations cannot be read"),
            (with(unreached(), list()), State::Ok, "a list was answered from it"),
            (with(unreached(), no_list), State::Failed, "a list failed: it does not answer (503: etcd);"),
            (with(unreached(), forbidden), State::Unknown, "you cannot list resource \"nodeevacuations\""),
        ];
        for (facts, state, part) in table {
            let item = store("store", &facts);
            assert!(item.state == state && item.message.contains(part), "{item:?}, not {part:?}");
        }
        let down = Facts { discovery: Err(Unread::Failed("x".to_owned())), ..testing::facts() };
        assert_eq!(store("store", &down).state, State::Unknown);
        // API servers without a store are not ready, so that none of them is reached.
        let set = |ready| {
            let mut sets = testing::facts().stateful_sets.unwrap();
            sets[0].status.as_mut().unwrap().ready_replicas = Some(ready);
            store("store", &Facts { stateful_sets: Ok(sets), ..down.clone() })
        };
        assert_eq!(set(1).message, "it takes no writes; 1 of 3 members of evacuation-etcd ready");
        assert_eq!((set(1).state, set(2).state), (State::Failed, State::Unknown));
    }
}
