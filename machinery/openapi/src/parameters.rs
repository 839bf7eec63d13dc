//! The parameters of requests. Source: the options types of `k8s.io/apimachinery/pkg/apis/meta/v1/types.go`.

use std::borrow::Cow;

use serde_json::Value;

use crate::Object;

/// Place of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Path,
    Query,
}

impl Place {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
        }
    }
}

/// A parameter of a path or of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) value_type: &'static str,
    pub(crate) description: Cow<'static, str>,
}

impl Parameter {
    /// The object of a document, with its type under the key where that version of OpenAPI has it.
    pub(crate) fn object(&self, key: &str, value_type: Value) -> Value {
        let mut fields = Object::new();
        fields.insert("name".to_owned(), self.name.into());
        fields.insert("in".to_owned(), self.place.as_str().into());
        fields.insert("description".to_owned(), self.description.as_ref().into());
        if self.place == Place::Path {
            fields.insert("required".to_owned(), true.into());
        }
        fields.insert(key.to_owned(), value_type);
        Value::Object(fields)
    }
}

const fn query(name: &'static str, value_type: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: Place::Query, value_type, description: Cow::Borrowed(description) }
}

pub(crate) const PRETTY: Parameter = query("pretty", "string", "If `true`, the output is indented.");

/// The name of the object, in the path.
pub(crate) fn name(kind: &str) -> Parameter {
    let description = Cow::Owned(format!("name of the {kind}"));
    Parameter { name: "name", place: Place::Path, value_type: "string", description }
}

/// The namespace of the object, in the path.
pub(crate) const NAMESPACE: Parameter = Parameter {
    name: "namespace",
    place: Place::Path,
    value_type: "string",
    description: Cow::Borrowed("object name and auth scope, such as for teams and projects"),
};

/// `CreateOptions` and `UpdateOptions`; of `PatchOptions` all but `force`, which belongs to server-side
/// apply.
pub(crate) const WRITE: &[Parameter] = &[
    DRY_RUN,
    query("fieldManager", "string", "The name of the actor that makes the change, for managed fields."),
    query(
        "fieldValidation",
        "string",
        "Treatment of unknown and duplicate fields: `Ignore` drops them, `Warn` drops them with a warning (the \
         default), `Strict` rejects the request.",
    ),
];

/// `ListOptions`.
pub(crate) const LIST: &[Parameter] = &[
    query(
        "allowWatchBookmarks",
        "boolean",
        "Asks for events of type BOOKMARK, which carry only a resourceVersion. Ignored unless it is a watch.",
    ),
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    query(
        "sendInitialEvents",
        "boolean",
        "Starts a watch with the current state. A bookmark marks its end if allowWatchBookmarks is set. Requires \
         resourceVersionMatch `NotOlderThan`.",
    ),
    TIMEOUT_SECONDS,
    query(
        "watch",
        "boolean",
        "Returns a stream of additions, changes and deletions after resourceVersion instead of a list.",
    ),
];

/// `DeleteOptions`.
pub(crate) const DELETE: &[Parameter] = &[
    DRY_RUN,
    GRACE_PERIOD_SECONDS,
    query(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Deletes an object that the server cannot decode, whatever its finalizers are. Needs the verb \
         `unsafe-delete-ignore-read-errors`.",
    ),
    PROPAGATION_POLICY,
];

/// `DeleteOptions` and `ListOptions`, without what only a watch has.
pub(crate) const DELETE_COLLECTION: &[Parameter] = &[
    CONTINUE,
    DRY_RUN,
    FIELD_SELECTOR,
    GRACE_PERIOD_SECONDS,
    LABEL_SELECTOR,
    LIMIT,
    PROPAGATION_POLICY,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    TIMEOUT_SECONDS,
];

const DRY_RUN: Parameter = query("dryRun", "string", "`All` performs every step but stores nothing.");
const CONTINUE: Parameter = query(
    "continue",
    "string",
    "The token from the metadata of the previous list: continues after its last object. A token that is too old \
     gets a 410.",
);
const FIELD_SELECTOR: Parameter =
    query("fieldSelector", "string", "Selects objects by their fields; all by default.");
const LABEL_SELECTOR: Parameter =
    query("labelSelector", "string", "Selects objects by their labels; all by default.");
const LIMIT: Parameter = query(
    "limit",
    "integer",
    "The largest number of objects in one reply; when there are more, the metadata of the list has a token for \
     `continue`.",
);
const RESOURCE_VERSION: Parameter = query(
    "resourceVersion",
    "string",
    "Revision of the state that the request is served from. See \
     https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions",
);
const RESOURCE_VERSION_MATCH: Parameter = query(
    "resourceVersionMatch",
    "string",
    "Meaning of resourceVersion: `Exact` or `NotOlderThan`. See \
     https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions",
);
const TIMEOUT_SECONDS: Parameter =
    query("timeoutSeconds", "integer", "Maximum duration of the call, in seconds.");
const GRACE_PERIOD_SECONDS: Parameter =
    query("gracePeriodSeconds", "integer", "Time for the object to end, in seconds; 0 means at once.");
const PROPAGATION_POLICY: Parameter =
    query("propagationPolicy", "string", "Treatment of dependents: `Orphan`, `Background` or `Foreground`.");
