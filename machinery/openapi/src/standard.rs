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
    GroupVersion,
    schema::{Converter, Problem, V3_PREFIX},
};

/// Package of the types of `metav1`.
pub(crate) const META_V1: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
/// The extension that names the kinds of a definition, and the kind of an operation.
pub(crate) const GVK: &str = "x-kubernetes-group-version-kind";

const API_VERSION: &str = "The group and version of this representation of an object, such as `apps/v1`. \
    More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "The kind of the object. Cannot be updated. In CamelCase. \
    More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// Kubernetes' own words, so that the definition is the same.
const WATCH_EVENT_OBJECT: &str = "Object is:\n * If Type is Added or Modified: the new state of the object.\n \
    * If Type is Deleted: the state of the object immediately before deletion.\n \
    * If Type is Error: *Status is recommended; other types may make sense\n   depending on context.";

/// Merge rules of the lists of `metav1`: definition, field, type of list, keys of a list map. Source: the
/// markers in `k8s.io/apimachinery/pkg/apis/meta/v1/types.go`; k8s-openapi leaves them out.
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

/// The required fields of `metav1` where they or their order differ in k8s-openapi. Source: as above.
const REQUIRED: &[(&str, &[&str])] = &[
    ("APIResource", &["name", "singularName", "namespaced", "kind", "verbs"]),
    ("Condition", &["type", "status", "lastTransitionTime", "reason", "message"]),
    ("Status", &[]),
];

/// Texts of `metav1` whose default is the empty text, where merging needs to know it: an absent key of a list
/// counts as its default. Source: as above.
const EMPTY_BY_DEFAULT: &[(&str, &[&str])] = &[("OwnerReference", &["apiVersion", "kind", "name", "uid"])];

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
    let converter = Converter { definitions: &definitions, full_name: &str::to_owned };
    let mut named = Vec::with_capacity(definitions.len() + 1);
    for (name, schema) in &definitions {
        let schema = converter.convert(schema, "").map_err(|problem| (name.clone(), problem))?;
        named.push((name.clone(), schema));
    }
    named.push((format!("{META_V1}.WatchEvent"), watch_event()));
    for (name, schema) in &mut named {
        add_kinds(name, schema, own);
    }
    Ok(named)
}

/// Gives a definition of `metav1` what k8s-openapi loses of it. Others stay as they are.
///
/// kube-aggregator merges the definitions of all servers, and renames those that differ from its own.
pub(crate) fn restore(name: &str, schema: &mut Value) {
    let Some(name) = name.strip_prefix(META_V1).and_then(|rest| rest.strip_prefix('.')) else {
        return;
    };
    if ATOMIC_OBJECTS.contains(&name)
        && let Some(schema) = schema.as_object_mut()
    {
        schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    if let Some((_, required)) = REQUIRED.iter().find(|(definition, _)| *definition == name)
        && let Some(schema) = schema.as_object_mut()
    {
        schema.remove("required");
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
    }
    let empty = EMPTY_BY_DEFAULT.iter().filter(|(definition, _)| *definition == name);
    for field in empty.flat_map(|(_, fields)| *fields) {
        if let Some(field) =
            schema.pointer_mut(&format!("/properties/{field}")).and_then(Value::as_object_mut)
        {
            field.insert("default".to_owned(), "".into());
        }
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

/// k8s-openapi has the type without a schema.
fn watch_event() -> Value {
    let object = json!({"$ref": format!("{V3_PREFIX}io.k8s.apimachinery.pkg.runtime.RawExtension")});
    json!({
        "description": "Event represents a single event to a watched resource.",
        "type": "object",
        "required": ["type", "object"],
        "properties": {
            "type": {"type": "string", "default": ""},
            "object": {"description": WATCH_EVENT_OBJECT, "allOf": [object]},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_of_kubernetes_say_what_kubernetes_says() {
        let own = GroupVersion { group: "example.dev".to_owned(), version: "v1".to_owned() };
        let all = definitions(&own).unwrap();
        let definition = |short: &str| {
            let name = format!("{META_V1}.{short}");
            let mut schema = all.iter().find(|(known, _)| *known == name).unwrap().1.clone();
            restore(&name, &mut schema);
            schema
        };
        let meta = definition("ObjectMeta");
        assert_eq!(meta["properties"]["finalizers"]["x-kubernetes-list-type"], "set");
        assert_eq!(meta["properties"]["finalizers"]["x-kubernetes-patch-strategy"], "merge");
        assert_eq!(meta["properties"]["ownerReferences"]["x-kubernetes-list-map-keys"], json!(["uid"]));
        assert_eq!(meta["properties"]["managedFields"]["x-kubernetes-list-type"], "atomic");
        assert_eq!(definition("OwnerReference")["x-kubernetes-map-type"], "atomic");
        assert_eq!(definition("OwnerReference")["properties"]["uid"]["default"], "");
        assert_eq!(definition("Status")["required"], Value::Null, "a Status may have no metadata");
        assert_eq!(
            definition("DeleteOptions")[GVK],
            json!([
                {"group": "", "version": "v1", "kind": "DeleteOptions"},
                {"group": "example.dev", "version": "v1", "kind": "DeleteOptions"},
            ])
        );
        let text = definition("WatchEvent")["properties"]["object"]["description"].clone();
        assert!(text.as_str().unwrap().contains("object.\n * If Type is Deleted: the"), "{text}");
    }

    #[test]
    fn every_merge_rule_names_a_field_that_there_is() {
        let own = GroupVersion { group: "example.dev".to_owned(), version: "v1".to_owned() };
        let all = definitions(&own).unwrap();
        for (definition, field, ..) in
            LISTS.iter().filter(|(definition, ..)| !definition.starts_with("LabelSelector"))
        {
            let name = format!("{META_V1}.{definition}");
            let schema = &all.iter().find(|(known, _)| *known == name).unwrap().1;
            assert_eq!(schema["properties"][field]["type"], "array", "{definition}.{field}");
        }
    }
}
