//! The cordons that a canceled drain leaves.

use evacuation_api::{CORDONED_BY_ANNOTATION, CordonOwner, DrainedNode};
use k8s_openapi::api::core::v1::Node as CoreNode;
use kube::{Api, Client, ResourceExt};

/// Tells whether a node that was cordoned is cordoned still, and for whom.
pub(super) async fn cordon(client: &Client, before: &DrainedNode) -> Option<String> {
    let name = &before.name;
    let node = Api::<CoreNode>::all(client.clone()).get_opt(name).await;
    match node {
        Ok(None) => None,
        Ok(Some(node)) => left(&node, before.cordoned),
        Err(_) => Some(format!("node/{name} cannot be read")),
    }
}

fn left(node: &CoreNode, before: CordonOwner) -> Option<String> {
    let name = node.name_any();
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    match (before, is_cordoned) {
        (CordonOwner::No | CordonOwner::Others, false) => None,
        (CordonOwner::Ours, false) => Some(format!("node/{name} uncordoned")),
        (_, true) => {
            let holders = node.annotations().get(CORDONED_BY_ANNOTATION).filter(|names| !names.is_empty());
            let why = match holders {
                Some(names) => format!("needed by {}", names.replace(',', " and ")),
                None => "cordoned by someone else".to_owned(),
            };
            Some(format!("node/{name} still cordoned ({why})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_end_of_a_cancellation_says_what_became_of_each_cordon() {
        let node = |cordoned: bool, holders: Option<&str>| -> CoreNode {
            let annotations = holders.map(|names| json!({CORDONED_BY_ANNOTATION: names}));
            let metadata = json!({"name": "a", "annotations": annotations});
            serde_json::from_value(json!({"metadata": metadata, "spec": {"unschedulable": cordoned}}))
                .unwrap()
        };
        for (before, node, expected) in [
            (CordonOwner::Ours, node(false, None), Some("node/a uncordoned")),
            (CordonOwner::Ours, node(true, Some("x,y")), Some("node/a still cordoned (needed by x and y)")),
            (CordonOwner::Others, node(true, None), Some("node/a still cordoned (cordoned by someone else)")),
            (CordonOwner::No, node(false, None), None),
        ] {
            assert_eq!(left(&node, before).as_deref(), expected);
        }
    }
}
