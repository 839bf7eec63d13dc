//! The documents as a whole, of a small API.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    Document, DocumentError, Documents, JSON, ServedVersion, fixture, openapi_v2, openapi_v3,
    schema::V3_PREFIX,
};

fn v3() -> Value {
    let group = fixture::kitchen_group();
    openapi_v3(&fixture::info(), &group, &group.versions[0]).unwrap()
}

fn v2() -> Value {
    openapi_v2(&fixture::info(), &[fixture::kitchen_group()]).unwrap()
}

/// Every string under a `$ref`, wherever it stands.
fn all_references(document: &Value, found: &mut BTreeSet<String>) {
    match document {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| all_references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| all_references(item, found)),
        _ => {}
    }
}

/// Every key that stands in a schema, not those that are names of properties.
fn all_keywords(schema: &Value, found: &mut BTreeSet<String>) {
    crate::walk::each_schema(&mut schema.clone(), &mut |fields| {
        found.extend(fields.keys().cloned());
    });
}

#[test]
fn every_reference_leads_to_a_definition() {
    for (document, prefix, definitions) in
        [(v3(), V3_PREFIX, "/components/schemas"), (v2(), "#/definitions/", "/definitions")]
    {
        let mut references = BTreeSet::new();
        all_references(&document, &mut references);
        assert!(references.len() > 20, "{references:?}");
        for reference in references {
            let name = reference.strip_prefix(prefix).unwrap_or_else(|| panic!("{reference}"));
            assert!(document.pointer(definitions).unwrap().get(name).is_some(), "{name}");
        }
    }
}

#[test]
fn schemas_hold_only_what_kubernetes_reads() {
    let mut keywords = BTreeSet::new();
    for schema in v3()["components"]["schemas"].as_object().unwrap().values() {
        all_keywords(schema, &mut keywords);
    }
    let kubernetes_reads = [
        "$ref",
        "additionalProperties",
        "allOf",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maximum",
        "minimum",
        "properties",
        "required",
        "type",
    ];
    let strange: Vec<&String> = keywords
        .iter()
        .filter(|key| !key.starts_with("x-kubernetes-") && !kubernetes_reads.contains(&key.as_str()))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
    let mut keywords = BTreeSet::new();
    for schema in v2()["definitions"].as_object().unwrap().values() {
        all_keywords(schema, &mut keywords);
    }
    assert!(!keywords.contains("allOf") && !keywords.contains("default"), "{keywords:?}");
}

#[test]
fn definitions_have_the_names_that_kubernetes_gives() {
    let document = v3();
    let names = document["components"]["schemas"].as_object().unwrap();
    for name in [
        "dev.kitchen.v1alpha1.Pot",
        "dev.kitchen.v1alpha1.PotList",
        "dev.kitchen.v1alpha1.PotSpec",
        "dev.kitchen.v1alpha1.Stirring",
        "io.k8s.api.autoscaling.v1.Scale",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Condition",
        "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
        "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry",
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
        "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
    ] {
        assert!(names.contains_key(name), "{name}");
    }
    assert!(!names.contains_key("dev.kitchen.v1alpha1.Heat"), "Heat is written out where used");
}

#[test]
fn the_schema_of_a_kind_reads_as_one_of_kubernetes_own() {
    let document = v3();
    let schema =
        |name: &str| document["components"]["schemas"][format!("dev.kitchen.v1alpha1.{name}")].clone();
    let kind = |kind: &str| json!([{"group": "kitchen.dev", "version": "v1alpha1", "kind": kind}]);
    let pot = schema("Pot");
    assert_eq!(pot["x-kubernetes-group-version-kind"], kind("Pot"));
    assert_eq!(pot["required"], json!(["spec"]));
    let metadata = &pot["properties"]["metadata"];
    assert_eq!(
        metadata["allOf"][0]["$ref"],
        format!("{V3_PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    );
    assert_eq!(metadata["default"], json!({}));
    let step = schema("Step");
    let heat = &step["properties"]["heat"];
    assert_eq!((&heat["type"], &heat["enum"]), (&json!("string"), &json!(["Low", "High"])));
    assert!(heat["description"].as_str().unwrap().contains("\n - `\"Low\"` "), "{heat}");
    let steps = &schema("PotSpec")["properties"]["steps"];
    assert_eq!(steps["x-kubernetes-list-type"], "map");
    assert_eq!(steps["x-kubernetes-list-map-keys"], json!(["name"]));
    let list = schema("PotList");
    assert_eq!(list["x-kubernetes-group-version-kind"], kind("PotList"));
    assert_eq!(
        list["properties"]["items"]["items"],
        json!({"$ref": format!("{V3_PREFIX}dev.kitchen.v1alpha1.Pot")})
    );
    insta::assert_json_snapshot!(list);
}

#[test]
fn every_operation_has_a_name_of_its_own() {
    let document = v3();
    let mut lines = Vec::new();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters") {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} is there twice");
            let kind = &operation["x-kubernetes-group-version-kind"]["kind"];
            let action = operation["x-kubernetes-action"].as_str().unwrap_or("-");
            let kind = kind.as_str().unwrap_or("-");
            lines.push(format!("{method} {path} {id} {action} {kind}: {}", operation["description"]));
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn both_versions_have_the_same_operations() {
    let operations = |document: &Value| -> BTreeSet<String> {
        let paths = document["paths"].as_object().unwrap();
        paths
            .iter()
            .flat_map(|(path, item)| {
                item.as_object().unwrap().keys().map(move |method| format!("{method} {path}"))
            })
            .collect()
    };
    assert_eq!(operations(&v3()), operations(&v2()));
}

#[test]
fn a_patch_takes_the_parameters_that_kubectl_looks_for() {
    let document = v3();
    let path = "/apis/kitchen.dev/v1alpha1/namespaces/{namespace}/pots/{name}";
    let operation = &document["paths"][path]["patch"];
    let names: Vec<&str> = operation["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|parameter| parameter["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation"]);
    assert_eq!(
        operation["x-kubernetes-group-version-kind"],
        json!({"group": "kitchen.dev", "version": "v1alpha1", "kind": "Pot"})
    );
    insta::assert_json_snapshot!(document["paths"][path]);
    insta::assert_json_snapshot!(v2()["paths"][path]);
}

#[test]
fn a_resource_that_is_only_read_has_no_path_to_write() {
    let document = v3();
    let path = "/apis/kitchen.dev/v1alpha1/namespaces/{namespace}/ownpots";
    let methods = |path: &str| -> Vec<String> {
        document["paths"][path]
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| *key != "parameters")
            .cloned()
            .collect()
    };
    assert_eq!(methods(path), ["get"]);
    assert_eq!(methods(&format!("{path}/{{name}}")), ["get"]);
    assert_eq!(methods(&format!("{path}/{{name}}/stir")), ["post"]);
}

#[test]
fn a_cluster_scoped_resource_has_no_namespace_in_its_paths() {
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is of interest")]
    struct Widget {
        size: i32,
    }
    let group = fixture::widget_group::<Widget>();
    let document = openapi_v3(&fixture::info(), &group, &group.versions[0]).unwrap();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(
        paths,
        ["/apis/example.dev/v1/", "/apis/example.dev/v1/widgets", "/apis/example.dev/v1/widgets/{name}"]
    );
    let list = &document["paths"]["/apis/example.dev/v1/widgets"]["get"];
    assert_eq!(list["operationId"], "listExampleDevV1Widget");
    let media_types: Vec<&String> = list["responses"]["200"]["content"].as_object().unwrap().keys().collect();
    assert_eq!(media_types, ["application/json", "application/yaml"], "it cannot be watched");
}

#[test]
fn the_same_definition_from_two_versions_is_merged_in_v2() {
    let mut group = fixture::kitchen_group();
    group.versions.push(ServedVersion { version: "v1".to_owned(), resources: Vec::new() });
    let document = openapi_v2(&fixture::info(), &[group]).unwrap();
    let options = &document["definitions"]["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"];
    let versions: Vec<String> = options["x-kubernetes-group-version-kind"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| format!("{}/{}", kind["group"].as_str().unwrap(), kind["version"].as_str().unwrap()))
        .collect();
    assert_eq!(versions, ["/v1", "kitchen.dev/v1alpha1", "kitchen.dev/v1"]);
}

#[test]
fn a_subresource_of_a_kind_without_schema_is_refused() {
    let mut group = fixture::kitchen_group();
    for sub in &mut group.versions[0].resources.iter_mut().flat_map(|resource| &mut resource.subresources) {
        if sub.name == "stir" {
            sub.schema = None;
        }
    }
    let error = Documents::new(&fixture::info(), &[group]).unwrap_err();
    assert!(
        matches!(&error, DocumentError::Unresolved { reference, .. } if reference == "Stirring"),
        "{error}"
    );
}

#[test]
fn two_kinds_with_different_parts_of_one_name_are_refused() {
    mod one {
        #[derive(schemars::JsonSchema)]
        #[expect(dead_code, reason = "only its schema is of interest")]
        pub(super) struct Widget {
            pub(super) spec: Spec,
        }
        #[derive(schemars::JsonSchema)]
        #[expect(dead_code, reason = "only its schema is of interest")]
        pub(super) struct Spec {
            pub(super) size: i32,
        }
    }
    mod other {
        #[derive(schemars::JsonSchema)]
        #[expect(dead_code, reason = "only its schema is of interest")]
        pub(super) struct Gadget {
            pub(super) spec: Spec,
        }
        #[derive(schemars::JsonSchema)]
        #[expect(dead_code, reason = "only its schema is of interest")]
        pub(super) struct Spec {
            pub(super) size: String,
        }
    }
    let mut group = fixture::widget_group::<one::Widget>();
    let mut gadgets = fixture::widget_group::<other::Gadget>().versions[0].resources[0].clone();
    gadgets.kind = "Gadget".to_owned();
    gadgets.plural = "gadgets".to_owned();
    gadgets.list_kind = "GadgetList".to_owned();
    group.versions[0].resources.push(gadgets);
    let error = Documents::new(&fixture::info(), &[group]).unwrap_err();
    assert!(
        matches!(&error, DocumentError::Ambiguous { definition } if definition == "dev.example.v1.Spec"),
        "{error}"
    );
}

#[test]
fn every_path_has_its_document_and_the_index_leads_to_it_by_its_hash() {
    let documents = Documents::new(&fixture::info(), &[fixture::kitchen_group()]).unwrap();
    assert_eq!(
        documents.paths().collect::<Vec<_>>(),
        [
            "/apis",
            "/apis/kitchen.dev",
            "/apis/kitchen.dev/v1alpha1",
            "/openapi/v2",
            "/openapi/v3",
            "/openapi/v3/apis/kitchen.dev/v1alpha1",
        ]
    );
    let document = documents.find("/openapi/v3/apis/kitchen.dev/v1alpha1", "application/json").unwrap();
    let index: Value = serde_json::from_slice(documents.find("/openapi/v3", "").unwrap().body()).unwrap();
    assert_eq!(
        index["paths"]["apis/kitchen.dev/v1alpha1"]["serverRelativeURL"],
        format!("/openapi/v3/apis/kitchen.dev/v1alpha1?hash={}", document.hash())
    );
    assert_eq!(documents.find("/apis/kitchen.dev/", "*/*").unwrap().content_type(), JSON);
    assert!(documents.find("/apis/other.dev", "*/*").is_none());
}

#[test]
fn aggregated_discovery_is_served_to_clients_that_ask_for_it() {
    let documents = Documents::new(&fixture::info(), &[fixture::kitchen_group()]).unwrap();
    let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let found = documents.find("/apis", &format!("{v2},application/json")).unwrap();
    assert_eq!(found.content_type(), v2);
    let list: Value = serde_json::from_slice(found.body()).unwrap();
    assert_eq!(list["kind"], "APIGroupDiscoveryList");
    let plain: Value = serde_json::from_slice(documents.find("/apis", JSON).unwrap().body()).unwrap();
    assert_eq!(plain["kind"], "APIGroupList");
    assert!(documents.find("/apis", "application/vnd.kubernetes.protobuf").is_none());
    assert!(documents.has("/apis"));
}

#[test]
fn a_document_matches_its_own_etag_only() {
    let document = Document::new(JSON, &json!({"a": 1})).unwrap();
    let same = Document::new(JSON, &json!({"a": 1})).unwrap();
    let other = Document::new(JSON, &json!({"a": 2})).unwrap();
    assert!(document.matches(&same.etag()));
    assert!(document.matches(&format!("\"x\", W/{}", same.etag())));
    assert!(document.matches("*"));
    assert!(!document.matches(&other.etag()));
    assert!(!document.matches(""));
}
