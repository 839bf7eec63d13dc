//! The NodeEvacuation that the flags describe.

use evacuation_api::{
    DaemonSetRule, DrainRequester, EmptyDirRule, LateRule, MaxParallel, NodeEvacuation, NodeEvacuationSpec,
    NodeSelection, PodRules, UnmanagedRule,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use machinery_validation::derived_name;

use super::Node;
use crate::{duration::whole_seconds, label_selector};

impl Node {
    /// Returns the object to create. Without `--name` the server makes the name.
    pub(super) fn manifest(&self) -> anyhow::Result<NodeEvacuation> {
        let mut drain = NodeEvacuation::new(self.name.as_deref().unwrap_or_default(), self.spec()?);
        if self.name.is_none() {
            let prefix = match self.named().as_slice() {
                [only] => derived_name(only, "-"),
                _ => "drain-".to_owned(),
            };
            drain.metadata.generate_name = Some(prefix);
        }
        Ok(drain)
    }

    /// Returns the spec.
    pub(super) fn spec(&self) -> anyhow::Result<NodeEvacuationSpec> {
        let limits =
            MaxParallel { nodes: self.max_parallel, pods: self.max_parallel_pods, per_topology_key: None };
        Ok(NodeEvacuationSpec {
            nodes: self.selection()?,
            requester: self.drain_requester(),
            pods: self.pod_rules()?,
            phases: Vec::new(),
            max_parallel: (limits != MaxParallel::default()).then_some(limits),
            cordon: None,
            paused: false,
            ttl_seconds_after_finished: None,
        })
    }

    /// Returns the names of the nodes, each once.
    pub(super) fn named(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in &self.nodes {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Returns the nodes to drain.
    pub(super) fn selection(&self) -> anyhow::Result<NodeSelection> {
        let selector = read("--selector", self.selector.as_deref())?;
        Ok(NodeSelection { names: self.named(), selector, follow: false })
    }

    fn drain_requester(&self) -> DrainRequester {
        let flags = &self.request;
        let deadline = flags.deadline.map(whole_seconds);
        DrainRequester {
            reason: flags.reason.clone(),
            message: flags.message.clone(),
            on_refusal: Some(self.on_refusal.into()),
            deadline_seconds: deadline,
            at_deadline: deadline.map(|_| flags.at_deadline.map(Into::into).unwrap_or_default()),
            grace_period_seconds: flags.grace_period.filter(|seconds| *seconds >= 0),
            window: flags.window(),
        }
    }

    fn pod_rules(&self) -> anyhow::Result<PodRules> {
        let daemon_sets = if self.ignore_daemonsets { DaemonSetRule::Skip } else { DaemonSetRule::Refuse };
        let empty_dirs = if self.delete_emptydir_data { EmptyDirRule::Delete } else { EmptyDirRule::Refuse };
        let unmanaged = if self.force { UnmanagedRule::Evict } else { UnmanagedRule::Refuse };
        let selector = self.pod_selector.as_deref().filter(|text| !text.trim().is_empty());
        let patience = i64::from(self.skip_wait_for_delete_timeout);
        Ok(PodRules {
            daemon_sets: Some(daemon_sets),
            empty_dir_data: Some(empty_dirs),
            unmanaged: Some(unmanaged),
            late: self.skip_late_pods.then_some(LateRule::Skip),
            selector: read("--pod-selector", selector)?,
            skip_terminating_seconds: (patience > 0).then_some(patience),
        })
    }
}

fn read(flag: &str, text: Option<&str>) -> anyhow::Result<Option<LabelSelector>> {
    let read = |text| label_selector::parse(text).map_err(|problem| anyhow::anyhow!("{flag}: {problem}"));
    text.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn manifest(node: &Node) -> Value {
        serde_json::to_value(node.manifest().unwrap()).unwrap()
    }

    #[test]
    fn a_drain_has_the_name_of_its_only_node_or_the_chosen_one() {
        let of = |nodes: &[&str], name: Option<&str>| {
            let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
            let drain = manifest(&Node { nodes, name: name.map(str::to_owned), ..Node::default() });
            let metadata = drain["metadata"].clone();
            (
                metadata["name"].clone(),
                metadata["generateName"].clone(),
                drain["spec"]["nodes"]["names"].clone(),
            )
        };
        assert_eq!(of(&["a", "a"], None), (Value::Null, json!("a-"), json!(["a"])));
        assert_eq!(of(&["a", "b"], None), (Value::Null, json!("drain-"), json!(["a", "b"])));
        assert_eq!(of(&["a"], Some("x")), (json!("x"), Value::Null, json!(["a"])));
    }

    #[test]
    fn an_empty_selector_of_pods_picks_all_as_in_kubectl_drain() {
        for (text, expected) in [
            ("", Value::Null),
            (" ", Value::Null),
            ("app", json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})),
        ] {
            let nodes = vec!["a".to_owned()];
            let drain = manifest(&Node { nodes, pod_selector: Some(text.to_owned()), ..Node::default() });
            assert_eq!(drain["spec"]["pods"]["selector"], expected, "{text:?}");
        }
    }

    #[test]
    fn each_flag_has_its_field() {
        let node = Node { nodes: vec!["a".to_owned()], ..Node::default() };
        let drain = manifest(&node);
        assert_eq!(
            drain["spec"]["pods"],
            json!({"daemonSets": "Refuse", "emptyDirData": "Refuse", "unmanaged": "Refuse"})
        );
        assert_eq!(drain["spec"]["requester"], json!({"onRefusal": "GiveUp"}));
        assert_eq!(drain["spec"]["maxParallel"], Value::Null);

        let mut node = Node {
            selector: Some("pool=b".to_owned()),
            ignore_daemonsets: true,
            delete_emptydir_data: true,
            force: true,
            skip_late_pods: true,
            pod_selector: Some("app".to_owned()),
            skip_wait_for_delete_timeout: 5,
            max_parallel: Some(2),
            max_parallel_pods: Some(10),
            ..Node::default()
        };
        node.request.reason = Some("KernelUpgrade".to_owned());
        node.request.deadline = Some(Duration::from_millis(1500));
        node.request.grace_period = Some(-1);
        let spec = manifest(&node)["spec"].clone();
        assert_eq!(
            spec,
            json!({
                "nodes": {"selector": {"matchExpressions": [
                    {"key": "pool", "operator": "In", "values": ["b"]}]}},
                "requester": {"reason": "KernelUpgrade", "onRefusal": "GiveUp", "deadlineSeconds": 2, "atDeadline": "Evict"},
                "pods": {
                    "daemonSets": "Skip", "emptyDirData": "Delete", "unmanaged": "Evict",
                    "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                    "skipTerminatingSeconds": 5, "late": "Skip",
                },
                "maxParallel": {"nodes": 2, "pods": 10},
            })
        );
    }
}
