//! The definitions that every API of Kubernetes shares: `metav1`.

use k8s_openapi::{
    apimachinery::pkg::{
        apis::meta::v1::{APIResourceList, DeleteOptions, ListMeta, ObjectMeta, Patch, Status},
        runtime::RawExtension,
    },
    schemars::SchemaGenerator,
};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::{
    GroupVersion, Object,
    schema::{Converter, Problem, V3_PREFIX},
};

/// Where the types of `metav1` are.
pub(crate) const META_V1: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
/// The extension that names the kinds of a definition, and the kind of an operation.
pub(crate) const GVK: &str = "x-kubernetes-group-version-kind";

const API_VERSION: &str = "The group and version of this representation of an object, such as `apps/v1`. \
    More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "The kind of the object. Cannot be updated. In CamelCase. \
    More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// How lists of `metav1` merge: definition, field, type of list, keys of a list map.
/// Source: the markers in `k8s.io/apimachinery/pkg/apis/meta/v1/types.go`; k8s-openapi leaves them out.
const LISTS: &[(&str, &str, &str, &[&str])] = &[
    ("APIResource", "categories", "atomic", &[]),
    ("APIResource", "shortNames", "atomic", &[]),
    ("APIResourceList", "resources", "atomic", &[]),
    ("DeleteOptions", "dryRun", "atomic", &[]),
    ("LabelSelector", "matchExpressions", "atomic", &[]),
    ("LabelSelectorRequirement", "values", "atomic", &[]),
    ("ObjectMeta", "finalizers", "set", &[]),
    ("ObjectMeta", "managedFields", "atomic", &[]),
    ("ObjectMeta", "ownerReferences", "map", &["uid"]),
    ("StatusDetails", "causes", "atomic", &[]),
];

/// Definitions of `metav1` that are replaced as a whole. Source: as above.
const ATOMIC_OBJECTS: &[&str] = &["LabelSelector", "OwnerReference"];

/// The definitions that operations refer to, and those that these refer to, by name.
///
/// # Errors
///
/// One of the definitions cannot be said in OpenAPI: its name, and why.
pub(crate) fn definitions(own: &GroupVersion) -> Result<Vec<(String, Value)>, (String, Problem)> {
    let mut generator: SchemaGenerator = SchemaSettings::draft2020_12().into_generator();
    generator.subschema_for::<APIResourceList>();
    generator.subschema_for::<DeleteOptions>();
    generator.subschema_for::<ListMeta>();
    generator.subschema_for::<ObjectMeta>();
    generator.subschema_for::<Patch>();
    generator.subschema_for::<Status>();
    generator.subschema_for::<RawExtension>();
    let definitions = generator.take_definitions(true);
    let converter = Converter {
        definitions: &definitions,
        full_name: &str::to_owned,
    };
    let mut named = Vec::with_capacity(definitions.len() + 1);
    for (name, schema) in &definitions {
        let schema = converter
            .convert(schema, "")
            .map_err(|problem| (name.clone(), problem))?;
        named.push((name.clone(), schema));
    }
    named.push((format!("{META_V1}.WatchEvent"), watch_event()));
    for (name, schema) in &mut named {
        add_kinds(name, schema, own);
    }
    Ok(named)
}

/// Adds to a definition of `metav1` how it merges. Others stay as they are.
pub(crate) fn add_merge_rules(name: &str, schema: &mut Value) {
    let Some(name) = name.strip_prefix(META_V1).and_then(|rest| rest.strip_prefix('.')) else {
        return;
    };
    if ATOMIC_OBJECTS.contains(&name)
        && let Some(schema) = schema.as_object_mut()
    {
        schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    for (_, field, list_type, keys) in LISTS.iter().filter(|(definition, ..)| *definition == name) {
        let pointer = format!("/properties/{field}");
        let Some(field) = schema.pointer_mut(&pointer).and_then(Value::as_object_mut) else {
            continue;
        };
        field.insert("x-kubernetes-list-type".to_owned(), (*list_type).into());
        if !keys.is_empty() {
            field.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys));
        }
        // What clients that merge on their own go by.
        if let [key] = keys {
            field.insert("x-kubernetes-patch-merge-key".to_owned(), (*key).into());
        }
        if *list_type != "atomic" {
            field.insert("x-kubernetes-patch-strategy".to_owned(), "merge".into());
        }
    }
}

/// The schema of a list of objects.
pub(crate) fn list(list_kind: &str, kind: &str, definition: &str) -> Value {
    let item = json!({"$ref": format!("{V3_PREFIX}{definition}")});
    let metadata = json!({"$ref": format!("{V3_PREFIX}{META_V1}.ListMeta")});
    json!({
        "description": format!("{list_kind} is a list of objects of kind {kind}."),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": API_VERSION},
            "kind": {"type": "string", "description": KIND},
            "metadata": {"description": "Standard list metadata.", "default": {}, "allOf": [metadata]},
            "items": {"description": "The objects.", "type": "array", "items": item},
        },
    })
}

/// The kind in the form of the extension [`GVK`].
pub(crate) fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// Some types of `metav1` belong to every group and version: the options and events are sent under its name.
fn add_kinds(name: &str, schema: &mut Value, own: &GroupVersion) {
    let Some(short) = name.strip_prefix(META_V1).and_then(|rest| rest.strip_prefix('.')) else {
        return;
    };
    let kinds = match short {
        "APIResourceList" | "Status" => json!([kind("", "v1", short)]),
        "DeleteOptions" | "WatchEvent" => {
            json!([kind("", "v1", short), kind(&own.group, &own.version, short)])
        }
        _ => return,
    };
    if let Some(schema) = schema.as_object_mut() {
        schema.insert(GVK.to_owned(), kinds);
    }
}

fn watch_event() -> Value {
    let object = json!({"$ref": format!("{V3_PREFIX}io.k8s.apimachinery.pkg.runtime.RawExtension")});
    let schema: Object = [
        ("description", json!("One event of a watch.")),
        ("type", json!("object")),
        ("required", json!(["type", "object"])),
        (
            "properties",
            json!({
                "type": {"type": "string", "description": "ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."},
                "object": {
                    "description": "The object after an addition or a change, and before a deletion; of a \
                        bookmark only its resourceVersion counts; of an error it is a Status.",
                    "allOf": [object],
                },
            }),
        ),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    Value::Object(schema)
}
