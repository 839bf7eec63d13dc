//! Rights of the calling user.

use evacuation_api::GROUP;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};

use super::reader::{Read, Reader};

/// A right, and the ClusterRole of the manifests that grants it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Right {
    /// Name of the item.
    pub(super) item: &'static str,
    pub(super) verb: &'static str,
    group: &'static str,
    pub(super) resource: &'static str,
    subresource: &'static str,
    /// True for a right in a namespace.
    pub(super) is_namespaced: bool,
    pub(super) role: &'static str,
}

/// Rights that the commands of the plugins need.
pub(super) const RIGHTS: [Right; 5] = [
    Right {
        item: "right to ask pods",
        verb: "create",
        group: GROUP,
        resource: "evacuations",
        subresource: "",
        is_namespaced: true,
        role: "evacuation:requester",
    },
    Right {
        item: "right to evict pods",
        verb: "create",
        group: "",
        resource: "pods",
        subresource: "eviction",
        is_namespaced: true,
        role: "evacuation:requester",
    },
    Right {
        item: "right to drain",
        verb: "create",
        group: GROUP,
        resource: "nodeevacuations",
        subresource: "",
        is_namespaced: false,
        role: "evacuation:node-drainer",
    },
    Right {
        item: "right to cordon",
        verb: "patch",
        group: "",
        resource: "nodes",
        subresource: "",
        is_namespaced: false,
        role: "evacuation:node-drainer",
    },
    Right {
        item: "right to override",
        verb: "override",
        group: GROUP,
        resource: "evacuations",
        subresource: "",
        is_namespaced: true,
        role: "evacuation:override",
    },
];

impl Right {
    /// Returns true when the user has the right, in that namespace or in the cluster.
    pub(super) async fn is_granted(&self, reader: &Reader, namespace: &str) -> Read<bool> {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let attributes = ResourceAttributes {
            group: text(self.group),
            namespace: text(namespace).filter(|_| self.is_namespaced),
            resource: text(self.resource),
            subresource: text(self.subresource),
            verb: text(self.verb),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = reader.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    /// Returns the right in words: `create pods/eviction in shop`.
    pub(super) fn text(&self, namespace: &str) -> String {
        let Self { verb, resource, subresource, .. } = self;
        let slash = if subresource.is_empty() { "" } else { "/" };
        let place = if self.is_namespaced { format!(" in {namespace}") } else { String::new() };
        format!("{verb} {resource}{slash}{subresource}{place}")
    }
}
