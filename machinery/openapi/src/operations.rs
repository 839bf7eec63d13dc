//! The paths of a group and version and what can be done at each, before they are written as OpenAPI v2 or
//! v3.
//!
//! Source: `registerResourceHandlers` in `k8s.io/apiserver/pkg/endpoints/installer.go`, for the names too:
//! clients are generated from them.

use serde_json::Value;

use crate::{
    DocumentError, GroupVersion, Object, ServedResource, ServedVersion,
    definitions::Definitions,
    keywords::merges_strategically,
    parameters::{self, Parameter},
    standard::META_V1,
    words::capitalised,
};

/// Media types of the patches of any kind.
const PATCH_TYPES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
/// Media types of the patches of a kind that has strategic merge patches.
const STRATEGIC_PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Returns the media types of the patches of a kind, with strategic merge patches or without.
pub fn patch_types(strategic: bool) -> &'static [&'static str] {
    if strategic { STRATEGIC_PATCH_TYPES } else { PATCH_TYPES }
}

/// The media types of objects.
pub(crate) const OBJECT_TYPES: &[&str] = &["application/json", "application/yaml"];

/// A path, and what can be done there.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) template: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) operations: Vec<Operation>,
}

impl Path {
    /// The path item of a document, with operations and parameters as that version of OpenAPI writes them.
    pub(crate) fn item(
        &self,
        operation: fn(&Operation) -> Object,
        parameter: fn(&Parameter) -> Value,
    ) -> Value {
        let methods = self.operations.iter();
        let mut item: Object = methods.map(|o| (o.method.to_owned(), Value::Object(operation(o)))).collect();
        if !self.parameters.is_empty() {
            let parameters = self.parameters.iter().map(parameter).collect();
            item.insert("parameters".to_owned(), parameters);
        }
        Value::Object(item)
    }
}

/// One method at a path.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) id: String,
    pub(crate) tag: String,
    pub(crate) description: String,
    /// The value of `x-kubernetes-action`, and the kind that it is done to.
    pub(crate) action: Option<(&'static str, GroupVersion, String)>,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) body: Option<Body>,
    /// Codes of success, and the definition of the reply.
    pub(crate) codes: &'static [(u16, &'static str)],
    pub(crate) reply: String,
    pub(crate) streams: bool,
}

/// The body of a request.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) definition: String,
    pub(crate) media_types: &'static [&'static str],
    pub(crate) required: bool,
}

const OK: &[(u16, &str)] = &[(200, "OK")];
const OK_OR_CREATED: &[(u16, &str)] = &[(200, "OK"), (201, "Created")];
const OK_OR_ACCEPTED: &[(u16, &str)] = &[(200, "OK"), (202, "Accepted")];
const CREATED: &[(u16, &str)] = &[(200, "OK"), (201, "Created"), (202, "Accepted")];

/// Representation of a verb in OpenAPI.
struct Verb {
    wire: &'static str,
    method: &'static str,
    action: &'static str,
    /// The first word of the operation's id.
    prefix: &'static str,
}

const COLLECTION_VERBS: &[Verb] = &[
    Verb { wire: "list", method: "get", action: "list", prefix: "list" },
    Verb { wire: "create", method: "post", action: "post", prefix: "create" },
    Verb { wire: "deletecollection", method: "delete", action: "deletecollection", prefix: "delete" },
];
const OBJECT_VERBS: &[Verb] = &[
    Verb { wire: "get", method: "get", action: "get", prefix: "read" },
    Verb { wire: "update", method: "put", action: "put", prefix: "replace" },
    Verb { wire: "patch", method: "patch", action: "patch", prefix: "patch" },
    Verb { wire: "delete", method: "delete", action: "delete", prefix: "delete" },
];
const SUBRESOURCE_VERBS: &[Verb] = &[
    Verb { wire: "get", method: "get", action: "get", prefix: "read" },
    Verb { wire: "create", method: "post", action: "post", prefix: "create" },
    Verb { wire: "update", method: "put", action: "put", prefix: "replace" },
    Verb { wire: "patch", method: "patch", action: "patch", prefix: "patch" },
    Verb { wire: "delete", method: "delete", action: "delete", prefix: "delete" },
];

/// Every path of a group and version, discovery first.
pub(crate) fn paths(
    group: &str,
    version: &ServedVersion,
    definitions: &Definitions,
) -> Result<Vec<Path>, DocumentError> {
    let own = GroupVersion { group: group.to_owned(), version: version.version.clone() };
    let mut paths = vec![discovery(&own)];
    for resource in &version.resources {
        paths.extend(Context { own: &own, resource, definitions }.paths()?);
    }
    paths.retain(|path| !path.operations.is_empty());
    Ok(paths)
}

fn discovery(own: &GroupVersion) -> Path {
    let operation = Operation {
        method: "get",
        id: format!("get{}APIResources", id_of(own)),
        tag: tag_of(own),
        description: "get available resources".to_owned(),
        action: None,
        parameters: &[],
        body: None,
        codes: OK,
        reply: format!("{META_V1}.APIResourceList"),
        streams: false,
    };
    Path {
        template: format!("/apis/{}/{}/", own.group, own.version),
        parameters: Vec::new(),
        operations: vec![operation],
    }
}

struct Context<'a> {
    own: &'a GroupVersion,
    resource: &'a ServedResource,
    definitions: &'a Definitions,
}

impl Context<'_> {
    fn paths(&self) -> Result<Vec<Path>, DocumentError> {
        let GroupVersion { group, version } = self.own;
        let ServedResource { plural, kind, namespaced, .. } = self.resource;
        let root = format!("/apis/{group}/{version}");
        let collection = if *namespaced {
            format!("{root}/namespaces/{{namespace}}/{plural}")
        } else {
            format!("{root}/{plural}")
        };
        let scope: Vec<_> = namespaced.then_some(parameters::NAMESPACE).into_iter().collect();
        let collection_parameters = [scope.clone(), vec![parameters::PRETTY]].concat();
        let object_parameters = [vec![parameters::name(kind)], scope, vec![parameters::PRETTY]].concat();

        let mut paths = vec![
            Path {
                template: collection.clone(),
                parameters: collection_parameters,
                operations: self.operations(COLLECTION_VERBS)?,
            },
            Path {
                template: format!("{collection}/{{name}}"),
                parameters: object_parameters.clone(),
                operations: self.operations(OBJECT_VERBS)?,
            },
        ];
        for sub in &self.resource.subresources {
            let owner = sub.group_version.as_ref().unwrap_or(self.own);
            let served =
                SUBRESOURCE_VERBS.iter().filter(|verb| sub.verbs.iter().any(|wire| wire == verb.wire));
            let operations = served
                .map(|verb| self.operation(verb, owner, &sub.kind, Some(&sub.name)))
                .collect::<Result<_, _>>()?;
            paths.push(Path {
                template: format!("{collection}/{{name}}/{}", sub.name),
                parameters: object_parameters.clone(),
                operations,
            });
        }
        if *namespaced {
            let mut operations = self.operations(COLLECTION_VERBS.get(..1).unwrap_or_default())?;
            for operation in &mut operations {
                operation.id = format!("list{}{kind}ForAllNamespaces", id_of(self.own));
            }
            paths.push(Path {
                template: format!("{root}/{plural}"),
                parameters: vec![parameters::PRETTY],
                operations,
            });
        }
        Ok(paths)
    }

    fn operations(&self, verbs: &[Verb]) -> Result<Vec<Operation>, DocumentError> {
        verbs
            .iter()
            .filter(|verb| self.resource.verbs.iter().any(|wire| wire == verb.wire))
            .map(|verb| self.operation(verb, self.own, &self.resource.kind, None))
            .collect()
    }

    /// One verb on the resource, or on a subresource with a kind of its own.
    fn operation(
        &self,
        verb: &Verb,
        owner: &GroupVersion,
        kind: &str,
        sub: Option<&str>,
    ) -> Result<Operation, DocumentError> {
        let resource = self.resource;
        let definition = self.definitions.name_of(owner, kind)?.to_owned();
        let list = || self.definitions.name_of(self.own, &resource.list_kind).map(str::to_owned);
        let status = format!("{META_V1}.Status");
        let object = |required| Body { definition: definition.clone(), media_types: OBJECT_TYPES, required };
        let options = || Body {
            definition: format!("{META_V1}.DeleteOptions"),
            media_types: OBJECT_TYPES,
            required: false,
        };
        let patch = || Body {
            definition: format!("{META_V1}.Patch"),
            // kubectl takes the media types of any path of the kind for those of all.
            media_types: patch_types(kind == resource.kind && merges_strategically(&resource.schema)),
            required: true,
        };
        let (parameters, body, codes, reply): (&'static [Parameter], _, _, _) = match verb.wire {
            "list" => (parameters::LIST, None, OK, list()?),
            "create" => (parameters::WRITE, Some(object(true)), CREATED, definition.clone()),
            "deletecollection" => (parameters::DELETE_COLLECTION, Some(options()), OK, status),
            "update" => (parameters::WRITE, Some(object(true)), OK_OR_CREATED, definition.clone()),
            "patch" => (parameters::WRITE, Some(patch()), OK, definition.clone()),
            "delete" => (parameters::DELETE, Some(options()), OK_OR_ACCEPTED, status),
            _ => (&[], None, OK, definition.clone()),
        };
        let collection = if verb.wire == "deletecollection" { "Collection" } else { "" };
        let scope = if resource.namespaced { "Namespaced" } else { "" };
        Ok(Operation {
            method: verb.method,
            id: format!(
                "{}{}{collection}{scope}{}{}",
                verb.prefix,
                id_of(self.own),
                resource.kind,
                sub.map(capitalised).unwrap_or_default()
            ),
            tag: tag_of(self.own),
            description: describe(verb.wire, &resource.kind, sub),
            action: Some((verb.action, owner.clone(), kind.to_owned())),
            parameters,
            body,
            codes,
            reply,
            streams: verb.wire == "list" && resource.verbs.iter().any(|wire| wire == "watch"),
        })
    }
}

fn describe(verb: &str, kind: &str, sub: Option<&str>) -> String {
    let of_sub = sub.map(|sub| format!("{sub} of ")).unwrap_or_default();
    let article = if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
    match verb {
        "list" => format!("list or watch objects of kind {kind}"),
        "create" | "delete" => format!("{verb} {of_sub}{article} {kind}"),
        "deletecollection" => format!("delete collection of {kind}"),
        "update" => format!("replace {of_sub}the specified {kind}"),
        "patch" => format!("partially update {of_sub}the specified {kind}"),
        _ => format!("read {of_sub}the specified {kind}"),
    }
}

/// `KitchenDevV1alpha1` for `kitchen.dev/v1alpha1`.
fn id_of(own: &GroupVersion) -> String {
    let group = own.group.strip_suffix(".k8s.io").unwrap_or(&own.group);
    group.split(['.', '-']).chain([own.version.as_str()]).map(capitalised).collect()
}

/// `kitchenDev_v1alpha1` for `kitchen.dev/v1alpha1`.
fn tag_of(own: &GroupVersion) -> String {
    let group = own.group.strip_suffix(".k8s.io").unwrap_or(&own.group);
    let mut words = group.split(['.', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    format!("{}_{}", words.map(capitalised).fold(first, |tag, word| tag + &word), own.version)
}
