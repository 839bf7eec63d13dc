use k8s_openapi::api::admissionregistration::v1::{MatchResources, RuleWithOperations};
use machinery_server::Operation;
use serde_json::{Value, json};

use super::*;
use crate::testing::{TwoVersions, Write};

fn rule(more: &Value) -> Rule {
    let mut rule = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]});
    for (field, value) in more.as_object().unwrap() {
        rule[field] = value.clone();
    }
    Rule::of_webhook(&serde_json::from_value::<RuleWithOperations>(rule).unwrap())
}

#[test]
fn a_rule_matches_by_operation_group_version_resource_and_scope() {
    let write = Write::create(json!({}));
    let cases = [
        (json!({}), true),
        (json!({"operations": ["CREATE", "UPDATE"]}), true),
        (json!({"operations": ["DELETE"]}), false),
        (json!({"apiGroups": ["kitchen.dev"], "apiVersions": ["v1"], "resources": ["pots"]}), true),
        (json!({"apiGroups": ["other.dev"]}), false),
        (json!({"apiVersions": ["v2"]}), false),
        (json!({"resources": ["stoves", "pots/*"]}), true),
        (json!({"resources": ["pots/status"]}), false),
        (json!({"resources": []}), false),
        (json!({"scope": "Namespaced"}), true),
        (json!({"scope": "Cluster"}), false),
        (json!({"scope": "Universe"}), false),
    ];
    for (more, expected) in cases {
        assert_eq!(rule(&more).matches(&write.attributes(), "v1"), expected, "{more}");
    }
}

#[test]
fn a_subresource_has_rules_of_its_own() {
    let mut write = Write::create(json!({}));
    write.context.subresource = "status".to_owned();
    let cases = [
        (json!(["pots"]), false),
        (json!(["*"]), false),
        (json!(["pots/status"]), true),
        (json!(["pots/*"]), true),
        (json!(["*/status"]), true),
        (json!(["*/*"]), true),
    ];
    for (resources, expected) in cases {
        let rule = rule(&json!({"resources": resources}));
        assert_eq!(rule.matches(&write.attributes(), "v1"), expected, "{resources}");
    }
}

#[tokio::test]
async fn selectors_look_at_the_namespace_and_at_either_object() {
    let labelled = |value: &str| Some(json!({"metadata": {"labels": {"app": value}}}));
    let selectors = |namespace: Value, object: Value| {
        let read = |value: Value| serde_json::from_value::<LabelSelector>(value).unwrap();
        Selectors::new(Some(&read(namespace)), Some(&read(object))).unwrap()
    };
    let db = json!({"matchLabels": {"app": "db"}});
    let prod = json!({"matchLabels": {"env": "prod"}});
    let test = json!({"matchExpressions": [{"key": "env", "operator": "In", "values": ["test"]}]});
    let cases = [
        (json!({}), json!({}), labelled("web"), None, true),
        (prod.clone(), json!({}), labelled("web"), None, true),
        (test, json!({}), labelled("web"), None, false),
        (prod.clone(), db.clone(), labelled("web"), None, false),
        (prod.clone(), db.clone(), labelled("db"), None, true),
        (prod.clone(), db.clone(), labelled("web"), labelled("db"), true),
        (prod, db, None, labelled("db"), true),
    ];
    for (namespace, object, new, old, expected) in cases {
        let write = Write::new(Operation::Update, new, old);
        let attributes = write.attributes();
        let selectors = selectors(namespace.clone(), object.clone());
        let matched = selectors.match_subject(&write.subject(&attributes)).await.unwrap();
        assert_eq!(matched, expected, "{namespace} {object}");
    }
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_an_error_and_a_cluster_object_always_matches() {
    let prod = serde_json::from_value(json!({"matchLabels": {"env": "test"}})).unwrap();
    let selectors = Selectors::new(Some(&prod), None).unwrap();
    let mut write = Write::create(json!({}));
    write.context.namespace = "none".to_owned();
    let attributes = write.attributes();
    let error = selectors.match_subject(&write.subject(&attributes)).await.unwrap_err();
    assert!(error.to_string().contains("not found"), "{error}");
    write.context.namespace = String::new();
    let attributes = write.attributes();
    assert!(selectors.match_subject(&write.subject(&attributes)).await.unwrap());
}

#[tokio::test]
async fn a_policy_excludes_resources_and_names_objects() {
    let constraints = |more: Value| {
        let resources: MatchResources = serde_json::from_value(more).unwrap();
        Constraints::new(Some(&resources)).unwrap()
    };
    let all = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]});
    let mut named = all.clone();
    named["resourceNames"] = json!(["b"]);
    let cases = [
        (json!({}), true),
        (json!({"resourceRules": [all.clone()]}), true),
        (json!({"resourceRules": [named.clone()]}), false),
        (json!({"resourceRules": [all.clone()], "excludeResourceRules": [named]}), true),
        (json!({"resourceRules": [all.clone()], "excludeResourceRules": [all]}), false),
    ];
    let write = Write::create(json!({}));
    for (resources, expected) in cases {
        let matched = constraints(resources.clone()).matched_version(&write.attributes());
        assert_eq!(matched.is_some(), expected, "{resources}");
    }
}

#[test]
fn rules_for_another_version_match_unless_the_policy_is_exact() {
    let write = Write::create(json!({}));
    let attributes = AdmissionAttributes { converter: Some(&TwoVersions), ..write.attributes() };
    let versions = |versions: Value| rule(&json!({"apiVersions": versions}));
    let cases = [
        (MatchPolicy::Equivalent, vec![versions(json!(["v1"]))], Some("v1")),
        (MatchPolicy::Equivalent, vec![versions(json!(["v2"]))], Some("v2")),
        (MatchPolicy::Equivalent, vec![versions(json!(["v2"])), versions(json!(["*"]))], Some("v1")),
        (MatchPolicy::Equivalent, vec![versions(json!(["v3"]))], None),
        (MatchPolicy::Exact, vec![versions(json!(["v2"]))], None),
        (MatchPolicy::Exact, vec![versions(json!(["v1"]))], Some("v1")),
    ];
    for (policy, rules, expected) in cases {
        assert_eq!(policy.matched_version(&rules, &attributes), expected, "{policy:?} {rules:?}");
    }
    assert_eq!(MatchPolicy::new(None), MatchPolicy::Equivalent);
    let excluded = json!({"excludeResourceRules": [{
        "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["v2"], "resources": ["*"],
    }]});
    let excluded: MatchResources = serde_json::from_value(excluded).unwrap();
    let constraints = Constraints::new(Some(&excluded)).unwrap();
    assert_eq!(constraints.matched_version(&attributes), None, "other versions are excluded, too");
}

#[test]
fn a_selector_that_cannot_be_read_is_an_error() {
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]});
    assert!(Selectors::new(Some(&serde_json::from_value(selector).unwrap()), None).is_err());
}
