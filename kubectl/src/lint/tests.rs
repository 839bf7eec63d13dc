use std::path::{Path, PathBuf};

use super::*;

/// The problems of a file with that text, without the file's name.
fn problems(text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("manifest.yaml");
    std::fs::write(&file, text).unwrap();
    lint(&file, &mut Checked::default())
}

#[test]
fn each_problem_names_the_object_and_the_field() {
    let text = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata:
      annotations:
        evacuation.dev/responders: '[{"name":"self","timeoutSeconds":0},{"name":"surge.evacuation.dev/unknown"}]'
        surge.evacuation.dev/timeout-seconds: ten
        gate.evacuation.dev/open: yes
---
apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: CronJob
  metadata: {name: backup}
  spec: {jobTemplate: {spec: {template: {metadata: {annotations: {refresh.evacuation.dev/after: soon}}}}}}
- apiVersion: v1
  kind: Pod
  metadata: {generateName: job-, annotations: {surge.evacuation.dev/timeout-seconds: 600}}
- apiVersion: argoproj.io/v1alpha1
  kind: Rollout
  metadata: {name: web}
  spec: {template: {metadata: {annotations: {evacuation.dev/responder: "[]"}}}}
"#;
    assert_eq!(
        problems(text),
        [
            "Deployment shop/web: spec.template.metadata.annotations[evacuation.dev/responders]: [0].timeoutSeconds: 0 is not \
             between 1 and 86400",
            "Deployment shop/web: spec.template.metadata.annotations[evacuation.dev/responders]: [1].name: \
             \"surge.evacuation.dev/unknown\" is not a responder of evacuation.dev",
            "Deployment shop/web: spec.template.metadata.annotations[gate.evacuation.dev/open]: \"yes\" is neither true nor \
             false",
            "Deployment shop/web: spec.template.metadata.annotations[surge.evacuation.dev/timeout-seconds]: \"ten\" is not a \
             whole number of seconds, of at least 1",
            "CronJob backup: spec.jobTemplate.spec.template.metadata.annotations[refresh.evacuation.dev/after]: \"soon\" is not \
             a time such as 90s, 10m or 1h30m, of one second to ten years",
            "Pod job-: metadata.annotations[surge.evacuation.dev/timeout-seconds]: must be a string: put it in quotes",
            "Rollout web: spec.template.metadata.annotations[evacuation.dev/responder]: is not an annotation of \
             evacuation.dev",
        ]
    );
}

#[test]
fn a_responder_of_a_reserved_domain_that_does_not_exist_is_a_problem() {
    let text = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "annotations":
        {"evacuation.dev/responders": "[{\"name\":\"self\"},{\"name\":\"surge.evacuation.dev/unknown\"}]"}}}"#;
    let expected = "Pod db-0: metadata.annotations[evacuation.dev/responders]: [1].name: \"surge.evacuation.dev/unknown\" is not a \
                    responder of evacuation.dev";
    assert_eq!(problems(text), [expected]);
}

#[test]
fn an_annotation_that_no_pod_gets_is_a_problem() {
    let text = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, annotations: {evacuation.dev/responders: '[{"name":"self"}]', acme.io/x: y}}
---
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  annotations: {refresh.evacuation.dev/after: 10m, evacuation.dev/responders: "[]"}
"#;
    assert_eq!(
        problems(text),
        [
            "StatefulSet db: metadata.annotations[evacuation.dev/responders]: has no effect here, but in \
             spec.template.metadata.annotations",
            "Namespace shop: metadata.annotations[evacuation.dev/responders]: has no effect on a Namespace",
        ]
    );
}

#[test]
fn an_evacuation_responder_that_the_server_would_refuse_is_a_problem() {
    let with = |spec: &str| {
        let head = "apiVersion: evacuation.dev/v1alpha1\nkind: EvacuationResponder\nmetadata: {name: db}\n";
        problems(&format!("{head}spec: {spec}\n"))
    };
    assert_eq!(with("{selector: {}, name: db.acme.io/failover}"), Vec::<String>::new());
    for (spec, expected) in [
        ("{selector: {}, name: failover}", "spec.name: Invalid value"),
        ("{selector: {}, name: surge.evacuation.dev/unknown}", "is not a responder of evacuation.dev"),
        (
            "{selector: {}, name: db.acme.io/failover, timeoutSeconds: 0}",
            "spec.timeoutSeconds: Invalid value: 0",
        ),
        ("{selector: {}, name: db.acme.io/failover, timeout: 5}", "unknown field \"spec.timeout\""),
        ("{selector: {}, name: db.acme.io/failover, priority: high}", "priority"),
        ("{selector: {}}", "name"),
    ] {
        let found = with(spec);
        assert!(found.len() == 1 && found[0].starts_with("EvacuationResponder db: "), "{spec}: {found:?}");
        assert!(found[0].contains(expected), "{spec}: {found:?}");
    }
    let old = "apiVersion: evacuation.dev/v1\nkind: EvacuationResponder\nmetadata:\n  name: db\n";
    assert_eq!(problems(old), ["EvacuationResponder db: apiVersion: is not evacuation.dev/v1alpha1"]);
}

#[test]
fn a_document_that_is_no_object_is_a_problem_and_the_others_are_checked() {
    let text = "a: [\n---\njust: text\n---\n{apiVersion: v1, kind: Pod, metadata: {name: p, name: q}}\n";
    let found = problems(text);
    assert!(found[0].starts_with("document 1: "), "{found:?}");
    assert_eq!(found[1], "document 2: is not an object of Kubernetes: apiVersion or kind is missing");
    assert_eq!(found[2], "document 3: metadata.name: is given twice");
    assert_eq!(
        lint(Path::new("/no/such/file"), &mut Checked::default()),
        ["the file cannot be read: No such file or directory (os error 2)"]
    );
}

#[test]
fn a_manifest_without_a_problem_has_none_and_its_objects_are_counted() {
    let examples = [env!("CARGO_MANIFEST_DIR"), "../deploy"].iter().collect::<PathBuf>();
    let mut objects = Checked::default();
    for file in manifests(&[examples], true).unwrap() {
        assert_eq!(lint(&file, &mut objects), Vec::<String>::new(), "{}", file.display());
    }
    assert!(objects.number > 10, "{objects:?}");
}

#[test]
fn every_kind_that_the_server_would_refuse_is_a_problem_with_all_its_errors_at_once() {
    let of = |kind: &str, spec: &str| {
        let head = format!("apiVersion: evacuation.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: d}}\n");
        problems(&format!("{head}spec: {spec}\n"))
    };
    let entry = "requesters: [{name: acme.io/a}]";
    for (kind, spec) in [
        ("Evacuation", format!("{{target: {{pod: {{name: db-0}}}}, {entry}}}")),
        ("NodeEvacuation", "{nodes: {names: [node-a]}}".to_owned()),
        ("NodeEvacuationRule", "{marks: [{taint: {key: acme.io/repair}}]}".to_owned()),
    ] {
        assert_eq!(of(kind, &spec), Vec::<String>::new(), "{kind}");
    }
    for (kind, spec, expected) in [
        ("NodeEvacuation", "{nodes: {}, cordn: Never, maxParallel: {nodes: -1}}", 3),
        ("NodeEvacuationRule", "{marks: [], mark: x}", 2),
        ("Evacuation", "{target: {pod: {name: \"\"}}, requesters: [{name: a}], extra: 1}", 3),
        ("NodeEvacuations", "{}", 1),
    ] {
        let found = of(kind, spec);
        assert!(found.len() >= expected, "{kind}: {found:?}");
        assert!(found.iter().all(|line| line.starts_with(&format!("{kind} d: "))), "{found:?}");
    }
}

#[test]
fn what_was_not_checked_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let text = "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\ncallers: []\n---\n\
                {apiVersion: v1, kind: Pod, metadata: {name: p}}\n";
    std::fs::write(&file, text).unwrap();
    let mut objects = Checked::default();
    assert_eq!(lint(&file, &mut objects), Vec::<String>::new());
    assert_eq!(objects.summary(), "no problem, 1 object checked; not checked: GatewayConfiguration");
}
