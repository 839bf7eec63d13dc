//! The EvacuationResponders by namespace, with packed selectors.

use std::collections::{BTreeMap, HashMap};

use evacuation_api::EvacuationResponder;
use evacuation_protocol::{LABELS_CUT, PackedSelector, registered_responders};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, runtime::watcher::Event};

/// Maximum size of the selectors that a call compares with the other pods of a PodGroup, in bytes, counted
/// for each pod.
const MAX_COMPARED: usize = 4 * 1024 * 1024;

/// The part of an EvacuationResponder that the gateway reads.
#[derive(Debug)]
struct Registration {
    /// Name of the responder.
    responder: Box<str>,
    /// `None` for a selector that is not valid, and for an object that is being deleted: it picks no pod.
    selector: Option<PackedSelector>,
}

/// The registrations of one namespace by the names of their objects.
type Namespace = HashMap<String, Registration>;

/// All EvacuationResponders. A plain struct: the watch writes it.
///
/// A call reads those of its own namespace alone, so that the registrations of one tenant do not slow the
/// calls of others.
#[derive(Debug, Default)]
pub(super) struct ResponderIndex {
    by_namespace: HashMap<String, Namespace>,
    /// The list that is being received.
    listed: HashMap<String, Namespace>,
}

impl ResponderIndex {
    /// Takes an event of the watch.
    pub(super) fn take(&mut self, event: &Event<EvacuationResponder>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => insert(&mut self.listed, object),
            Event::InitDone => self.by_namespace = std::mem::take(&mut self.listed),
            Event::Apply(object) => insert(&mut self.by_namespace, object),
            Event::Delete(object) => {
                let namespace = object.namespace().unwrap_or_default();
                if let Some(all) = self.by_namespace.get_mut(&namespace) {
                    all.remove(&object.name_any());
                    if all.is_empty() {
                        self.by_namespace.remove(&namespace);
                    }
                }
            }
        }
    }

    /// Returns true when responders are registered for the pod, by itself or by an object of its namespace.
    pub(super) fn is_registered(&self, pod: &Pod) -> bool {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&NONE);
        // A selector could match a label that the cache lacks. The server reads all when it asks the pod.
        let is_cut = labels.contains_key(LABELS_CUT);
        let picks =
            |known: &Registration| known.selector.as_ref().is_some_and(|s| is_cut || s.selects(labels));
        self.of(pod.metadata.namespace.as_deref().unwrap_or_default()).any(picks)
            || !registered_responders(pod, []).entries.is_empty()
    }

    /// Returns true when responders are registered for one of these pods of the namespace. So many that it
    /// takes long to compare them count as one that selects a pod: the server compares them for the pod
    /// alone that it asks.
    pub(super) fn is_any_registered(&self, namespace: &str, pods: &[&Pod]) -> bool {
        let selectors = self.of(namespace).filter_map(|known| known.selector.as_ref());
        let size: usize = selectors.map(PackedSelector::size).sum();
        size.saturating_mul(pods.len()) > MAX_COMPARED || pods.iter().any(|pod| self.is_registered(pod))
    }

    /// Returns true when an object of the namespace registers that responder.
    pub(super) fn is_served(&self, namespace: &str, responder: &str) -> bool {
        self.of(namespace).any(|known| *known.responder == *responder)
    }

    fn of(&self, namespace: &str) -> impl Iterator<Item = &Registration> {
        self.by_namespace.get(namespace).into_iter().flat_map(HashMap::values)
    }
}

fn insert(all: &mut HashMap<String, Namespace>, object: &EvacuationResponder) {
    let counts = object.metadata.deletion_timestamp.is_none();
    let selector = PackedSelector::of(&object.spec.selector).filter(|_| counts);
    let registration = Registration { responder: object.spec.name.as_str().into(), selector };
    all.entry(object.namespace().unwrap_or_default()).or_default().insert(object.name_any(), registration);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn responder(namespace: &str, name: &str, selector: &Value) -> EvacuationResponder {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"name": format!("a.b/{name}"), "selector": selector},
        }))
        .unwrap()
    }

    fn pod(namespace: &str, app: Option<&str>, annotation: Option<&str>) -> Pod {
        let labels = app.map(|app| json!({"app": app}));
        let annotations = annotation.map(|text| json!({"evacuation.dev/responders": text}));
        let metadata =
            json!({"name": "p", "namespace": namespace, "labels": labels, "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn a_pod_is_registered_exactly_when_the_server_would_ask_somebody() {
        let deleted = {
            let mut object = responder("shop", "deleted", &json!({}));
            object.metadata.deletion_timestamp =
                serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
            object
        };
        let near = json!({"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]});
        let all = [
            responder("shop", "db", &json!({"matchLabels": {"app": "db"}})),
            responder("shop", "invalid", &near),
            responder("every", "every", &json!({})),
            deleted,
        ];
        let mut index = ResponderIndex::default();
        for object in &all {
            index.take(&Event::Apply(object.clone()));
        }
        let mut registered = 0;
        for namespace in ["shop", "every", "other"] {
            for app in [None, Some("db"), Some("web")] {
                for annotation in [None, Some(r#"[{"name":"self"}]"#), Some("no list")] {
                    let pod = pod(namespace, app, annotation);
                    let asked = !registered_responders(&pod, &all).entries.is_empty();
                    assert_eq!(index.is_registered(&pod), asked, "{:?}", pod.metadata);
                    registered += u32::from(asked);
                }
            }
        }
        assert_eq!(registered, 22, "of 27: both outcomes occur");
    }

    #[test]
    fn the_objects_of_another_namespace_register_no_pod_and_their_end_unregisters_none() {
        let mut index = ResponderIndex::default();
        let all = [
            responder("tenant", "db", &json!({})),
            responder("tenant", "labels", &json!({"matchLabels": {"app": "db"}})),
            responder("", "nowhere", &json!({})),
        ];
        index.take(&Event::Init);
        for object in &all {
            index.take(&Event::InitApply(object.clone()));
        }
        index.take(&Event::InitDone);
        let mut cut = pod("shop", Some("db"), None);
        cut.metadata.labels.get_or_insert_default().insert(LABELS_CUT.to_owned(), "1".to_owned());
        for other in [pod("shop", None, None), pod("shop", Some("db"), None), cut] {
            assert!(!index.is_registered(&other), "{:?}", other.metadata);
        }
        assert!(index.is_registered(&pod("tenant", Some("db"), None)));

        let own = responder("shop", "db", &json!({"matchLabels": {"app": "db"}}));
        index.take(&Event::Apply(own));
        for object in all {
            index.take(&Event::Delete(object));
            assert!(index.is_registered(&pod("shop", Some("db"), None)), "its own object stays");
        }
        assert!(!index.is_registered(&pod("tenant", Some("db"), None)));
        assert!(!index.is_registered(&pod("shop", Some("web"), None)));
    }

    /// # Attack
    ///
    /// - Attacker: a tenant with a PodGroup, and a selector of hundreds of kilobytes
    /// - Act: has each call compare the selector with each pod of the group
    /// - Promise: 8
    #[test]
    fn registrations_that_take_long_to_compare_with_a_group_count_as_one_that_selects_a_pod() {
        let values: Vec<_> = (0..30_000).map(|number| format!("v-{number:07}")).collect();
        let others = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": values}]});
        let mut index = ResponderIndex::default();
        index.take(&Event::Apply(responder("shop", "big", &others)));
        let db = pod("shop", Some("db"), None);
        assert!(!index.is_any_registered("shop", &[&db; 10]), "none is selected");
        assert!(index.is_any_registered("shop", &[&db; 127]));
        let elsewhere = pod("other", Some("db"), None);
        assert!(!index.is_any_registered("other", &[&elsewhere; 127]), "another namespace");
    }

    #[test]
    fn the_index_follows_the_watch_and_a_new_list_takes_the_place_of_everything() {
        let mut index = ResponderIndex::default();
        let any = pod("shop", None, None);
        let (a, b) = (responder("shop", "a", &json!({})), responder("shop", "b", &json!({})));
        index.take(&Event::Apply(a.clone()));
        assert!(index.is_registered(&any) && index.is_served("shop", "a.b/a"));
        assert!(!index.is_served("other", "a.b/a") && !index.is_served("shop", "a.b/b"));
        index.take(&Event::Apply(responder("shop", "a", &json!({"matchLabels": {"app": "db"}}))));
        assert!(!index.is_registered(&any), "its selector changed");
        index.take(&Event::Delete(a.clone()));
        assert!(index.by_namespace.is_empty(), "nothing is left behind");
        index.take(&Event::Apply(a));
        index.take(&Event::Init);
        index.take(&Event::InitApply(b));
        assert!(index.is_served("shop", "a.b/a"), "the old list counts until the new one is whole");
        index.take(&Event::InitDone);
        assert!(!index.is_served("shop", "a.b/a") && index.is_served("shop", "a.b/b"));
    }
}
