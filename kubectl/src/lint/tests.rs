use serde_json::json;

use super::*;

/// The problems of a file with that text that a flag names, without the file's name.
fn problems(text: &str) -> Vec<String> {
    lint_text(text, &Input::Named("manifest.yaml".into()), &mut Checked::default())
}

/// The problems and the summary of a file with that text in a directory that a flag names.
fn found(text: &str) -> (Vec<String>, String) {
    let mut checked = Checked::default();
    let problems = lint_text(text, &Input::Found("manifest.yaml".into()), &mut checked);
    (problems, checked.summary(0).unwrap())
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
fn a_field_or_a_responder_that_is_given_twice_is_a_problem() {
    for (responders, expected) in [
        (
            r#"[{"name":"self","timeoutSeconds":60,"timeoutSeconds":90}]"#,
            Some("[0].timeoutSeconds: is given twice"),
        ),
        (
            r#"[{"name":"self","timeoutSeconds":60,"timeout_seconds":60}]"#,
            Some("[0].timeoutSeconds: is given twice"),
        ),
        (
            r#"[{"name":"self","http":{"port":80,"port":81}}]"#,
            Some("[0].http.port: is given twice, with different values"),
        ),
        (r#"[{"name":"self"},{"name":"self"}]"#, Some("[1].name: \"self\" occurs twice")),
        (r#"[{"Name":"self","timeout_seconds":"60","http":{"port":80.0}}]"#, None),
    ] {
        let annotations = json!({"evacuation.dev/responders": responders});
        let metadata = json!({"name": "db-0", "annotations": annotations});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
        let place = "Pod db-0: metadata.annotations[evacuation.dev/responders]";
        let expected: Vec<_> = expected.iter().map(|problem| format!("{place}: {problem}")).collect();
        assert_eq!(problems(&pod.to_string()), expected, "{responders}");
    }
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
        lint(&Input::Named("/no/such/file".into()), &mut Checked::default()),
        ["the file cannot be read: No such file or directory (os error 2)"]
    );
}

#[test]
fn a_manifest_without_a_problem_has_none_and_its_objects_are_counted() {
    let examples = [env!("CARGO_MANIFEST_DIR"), "../deploy"].iter().collect::<PathBuf>();
    let mut objects = Checked::default();
    for input in inputs(&[examples], true, &Tools::default()).unwrap() {
        assert_eq!(lint(&input, &mut objects), Vec::<String>::new(), "{input:?}");
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
fn every_field_of_a_wrong_type_is_a_problem_beside_the_other_problems_of_the_object() {
    let of = |kind: &str, spec: &str| {
        let head = format!("apiVersion: evacuation.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: d}}\n");
        problems(&format!("{head}spec: {spec}\n"))
    };
    let responder = of(
        "EvacuationResponder",
        "{selector: {}, name: failover, priority: high, timeoutSeconds: [], maxDelaySeconds: -1, timeout: 5}",
    );
    for (line, expected) in responder.iter().zip([
        "EvacuationResponder d: unknown field \"spec.timeout\"",
        "EvacuationResponder d: spec.priority: invalid type: string \"high\", expected i32",
        "EvacuationResponder d: spec.timeoutSeconds: invalid type: sequence, expected i64",
        "EvacuationResponder d: spec.name: Invalid value: \"failover\"",
        "EvacuationResponder d: spec.maxDelaySeconds: Invalid value: -1",
    ]) {
        assert!(line.starts_with(expected), "{line}, not {expected}");
    }
    assert_eq!(responder.len(), 5, "{responder:?}");
    // Without the field the checks of its neighbours would blame what is right.
    for (kind, spec, expected) in [
        ("NodeEvacuation", "{nodes: {names: [1, node-a, {}], follow: x}}", 3),
        ("NodeEvacuation", "{nodes: {selector: 5, follow: true}}", 1),
        ("NodeEvacuation", "{nodes: {names: [a]}, requester: {atDeadline: Evict, deadlineSeconds: 5s}}", 1),
        ("NodeEvacuation", "{nodes: {names: [a]}, phases: [{selector: x}, {minPriority: y}]}", 2),
        (
            "Evacuation",
            "{target: {pod: {name: 5}}, requesters: [{name: 6}, {name: acme.io/a, onRefusal: x}]}",
            3,
        ),
    ] {
        let found = of(kind, spec);
        let is_type =
            |line: &String| line.contains(": invalid type: ") || line.contains(": unknown variant ");
        assert!(found.len() == expected && found.iter().all(is_type), "{spec}: {found:?}");
    }
}

#[test]
fn a_file_with_which_a_process_would_not_start_is_a_problem() {
    let gateway = "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\n";
    let settings = "apiVersion: apiserver.evacuation.dev/v1alpha1\nkind: NegotiationSettings\n";
    for text in [
        format!("{gateway}callers: [{{name: repair, matches: [{{users: [bot-*]}}]}}]\n"),
        format!("{settings}defaultDeadlineSeconds: 60\ndefaultAtDeadline: Evict\n"),
    ] {
        assert_eq!(problems(&text), Vec::<String>::new(), "{text}");
        assert_eq!(found(&text), (Vec::new(), "no problem, 1 object checked".to_owned()), "{text}");
    }
    for (text, expected) in [
        (
            format!(
                "{gateway}callers: [{{name: A, patienceSeconds: soon}}, {{name: b, act: Pass}}]\nrows: []\n"
            ),
            &[
                "GatewayConfiguration: unknown field \"rows\"",
                "GatewayConfiguration: callers[0].patienceSeconds: invalid type: ",
                "GatewayConfiguration: callers[0].name: Invalid value: ",
                "GatewayConfiguration: callers[1].matches: Required value: ",
            ][..],
        ),
        (
            gateway.replace("v1alpha1", "v1") + "x: &x {name: a}\ncallers: [{<<: *x, name: b}]\n",
            &[
                "GatewayConfiguration: unknown field \"callers[0].<<\"",
                "GatewayConfiguration: unknown field \"x\"",
                "GatewayConfiguration: apiVersion: Invalid value: must be gateway.evacuation.dev/v1alpha1",
            ],
        ),
        (
            format!("{settings}maxDelaySeconds: -1\nmaxTimeoutSeconds: 5s\ndefaultAtDeadline: Delete\n"),
            &[
                "NegotiationSettings: maxTimeoutSeconds: invalid type: ",
                "NegotiationSettings: maxDelaySeconds: Invalid value: ",
                "NegotiationSettings: defaultAtDeadline: Invalid value: must be Evict or GiveUp",
            ],
        ),
        (
            format!("{settings}---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p}}}}\n"),
            &["NegotiationSettings: the body is malformed: there is more than one document"],
        ),
    ] {
        let found = problems(&text);
        let starts = |(line, start): (&String, &&str)| line.starts_with(*start);
        assert_eq!(found.len(), expected.len(), "{text}: {found:?}");
        assert!(found.iter().zip(expected).all(starts), "{text}: {found:?}");
    }
}

#[test]
fn the_files_of_processes_in_a_config_map_are_checked() {
    let text = r"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: evacuation-system}
data:
  notes.txt: 'see evacuation.dev: ['
  other.yaml: 'domain: evacuation.dev'
  settings.yaml: |
    apiVersion: apiserver.evacuation.dev/v1alpha1
    kind: NegotiationSettings
    maxDelaySeconds: -1
  gateway.yaml: |
    apiVersion: gateway.evacuation.dev/v1alpha1
    kind: GatewayConfiguration
    callers: []
";
    let found = problems(text);
    let expected =
        "ConfigMap evacuation-system/settings: data[settings.yaml]: maxDelaySeconds: Invalid value: ";
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
}

#[test]
fn a_file_in_a_config_map_that_cannot_be_parsed_or_names_no_version_is_a_problem() {
    let of = |file: &str| {
        let data = serde_json::json!({"gateway.yaml": file});
        let map = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
        problems(&map.to_string())
    };
    for (file, expected) in [
        (
            "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\n callers: []\n",
            "malformed",
        ),
        ("kind: GatewayConfiguration\ncallers: []\n", "missing field `apiVersion`"),
    ] {
        let found = of(file);
        let starts = found.len() == 1 && found[0].starts_with("ConfigMap m: data[gateway.yaml]: ");
        assert!(starts && found[0].contains(expected), "{found:?}");
    }
    for other in ["apiVersion: acme.io/v1\nkind: GatewayConfiguration\n", "{{ template }}: [", "text"] {
        assert_eq!(of(other), Vec::<String>::new(), "{other}");
    }
}

#[test]
fn what_was_not_checked_is_named() {
    let text = "apiVersion: later.evacuation.dev/v1alpha1\nkind: LaterConfiguration\n---\n\
                {apiVersion: v1, kind: Pod, metadata: {name: p}}\n";
    assert_eq!(problems(text), Vec::<String>::new());
    let summary = "no problem, 1 object checked; not checked: LaterConfiguration";
    assert_eq!(found(text), (Vec::new(), summary.to_owned()));
}

#[test]
fn a_file_of_another_program_is_a_problem_only_if_it_is_named() {
    for text in [
        "resources: [web.yaml]\n",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [web.yaml]\n",
        "apiVersion: v2\nname: c\nversion: 0.1.0\n",
        "replicas: 2\nreplicas: 3\n",
        "- {op: replace, path: /spec/replicas, value: 2}\n",
        "{\"name\": \"web\", \"scripts\": {}}",
        "on: [push]\njobs: {lint: {runs-on: ubuntu-latest}}\n",
    ] {
        let summary = "no problem, 0 objects checked; not checked: manifest.yaml";
        assert_eq!(found(text), (Vec::new(), summary.to_owned()), "{text}");
        let problems = problems(text);
        let [problem] = problems.as_slice() else { panic!("{text}: {problems:?}") };
        assert!(problem.starts_with("document 1: is not an object of Kubernetes: "), "{text}: {problem}");
    }
}

#[test]
fn a_file_without_a_document_is_a_problem_only_if_it_is_named() {
    for text in ["", "# nothing\n---\n", "null\n", "---\nnull\n---\n"] {
        assert_eq!(found(text), (Vec::new(), "no problem, 0 objects checked".to_owned()), "{text:?}");
        assert_eq!(problems(text), ["holds no object of Kubernetes"], "{text:?}");
    }
}

#[test]
fn every_object_of_a_list_and_of_json_in_a_row_is_checked() {
    let pod = |name: &str| {
        let annotations = r#"{"gate.evacuation.dev/open": "maybe"}"#;
        let metadata = format!(r#"{{"name": "{name}", "annotations": {annotations}}}"#);
        format!(r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {metadata}}}"#)
    };
    let list = |items: &str| format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{items}]}}"#);
    let untyped = r#"{"metadata": {"name": "NAME", "annotations": {"gate.evacuation.dev/open": "maybe"}}}"#;
    let (a, b) = (untyped.replace("NAME", "a"), untyped.replace("NAME", "b"));
    for text in [
        format!("{}{}", pod("a"), pod("b")),
        format!("{}\n{}\n", pod("a"), pod("b")),
        list(&format!("{}, {}", pod("a"), pod("b"))),
        format!("apiVersion: v1\nkind: List\nitems:\n- {}\n- {}\n", list(&pod("a")), list(&pod("b"))),
        format!("apiVersion: v1\nkind: PodList\nitems:\n- {a}\n- {b}\n"),
    ] {
        let problem = "metadata.annotations[gate.evacuation.dev/open]: \"maybe\" is neither true nor false";
        let expected = ["a", "b"].map(|name| format!("Pod {name}: {problem}"));
        assert_eq!(problems(&text), expected, "{text}");
        assert_eq!(found(&text).1, "no problem, 2 objects checked", "{text}");
    }
    let problem = "document 1, item 2: is not an object of Kubernetes: apiVersion or kind is missing";
    assert_eq!(found(&list(&format!("{list}, {{}}", list = list("")))).0, [problem]);
}

#[test]
fn merge_keys_are_read_as_by_kubectl_and_only_so_far_as_the_text_is_not_blown_up() {
    let deployment = |annotations: &str| {
        let own = "x-own: &own {gate.evacuation.dev/open: maybe, evacuation.dev/responders: '[]'}";
        let template = format!("{{metadata: {{annotations: {annotations}}}}}");
        let head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}";
        problems(&format!("{head}\n{own}\nspec: {{template: {template}}}\n"))
    };
    let place = "Deployment web: spec.template.metadata.annotations[gate.evacuation.dev/open]";
    for (annotations, expected) in [
        ("{<<: *own}", Some("\"maybe\" is neither true nor false")),
        ("{gate.evacuation.dev/open: 'true', <<: *own}", Some("\"maybe\" is neither true nor false")),
        ("{<<: *own, gate.evacuation.dev/open: 'true'}", None),
        ("{<<: [{gate.evacuation.dev/open: 'false'}, *own]}", None),
    ] {
        let expected: Vec<_> = expected.iter().map(|problem| format!("{place}: {problem}")).collect();
        assert_eq!(deployment(annotations), expected, "{annotations}");
    }
    let not_merged = deployment("{<<: text}");
    assert!(not_merged.len() == 1 && not_merged[0].contains("merge key"), "{not_merged:?}");
    let level = |at: usize| format!("l{at}: &l{at} [{}]\n", vec![format!("*l{}", at - 1); 9].join(","));
    let bomb = format!("l0: &l0 {{x: y}}\n{}c: {{<<: *l8}}\n", (1..9).map(level).collect::<String>());
    let expected = "its aliases make the document too large";
    let found = problems(&format!("{bomb}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n"));
    assert!(found.len() == 1 && found[0].starts_with("document 1: "), "{found:?}");
    assert!(found[0].contains(expected), "{found:?}");
}

#[test]
fn an_annotation_beside_the_same_one_of_the_template_is_no_problem() {
    let own = r#"{"evacuation.dev/responders": "[]", "gate.evacuation.dev/open": "true", "a": "b"}"#;
    let template = format!("template: {{metadata: {{annotations: {own}}}}}");
    for (head, spec) in [
        ("apiVersion: apps/v1\nkind: Deployment", format!("spec: {{{template}}}")),
        ("apiVersion: v1\nkind: PodTemplate", template.clone()),
        (
            "apiVersion: batch/v1\nkind: CronJob",
            format!("spec: {{jobTemplate: {{metadata: {{annotations: {own}}}, spec: {{{template}}}}}}}"),
        ),
    ] {
        let with =
            |own: &str| problems(&format!("{head}\nmetadata: {{name: web, annotations: {own}}}\n{spec}\n"));
        assert_eq!(with(own), Vec::<String>::new(), "{head}");
        // Another value is a mistake: the author expects an effect.
        let other = with(&own.replace("true", "false"));
        let [problem] = other.as_slice() else { panic!("{head}: {other:?}") };
        assert!(
            problem.contains("metadata.annotations[gate.evacuation.dev/open]: has no effect here"),
            "{problem}"
        );
    }
}

#[test]
fn a_copy_in_a_kind_of_others_is_checked_once() {
    let own = r#"{"evacuation.dev/responders": "["}"#;
    let rollout = format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {{name: web, annotations: {own}}}\nspec: \
         {{template: {{metadata: {{annotations: {own}}}}}}}\n"
    );
    let found = problems(&rollout);
    assert!(found.len() == 1 && found[0].contains("spec.template.metadata"), "{found:?}");
}

#[test]
#[cfg(unix)]
fn a_directory_that_fails_to_render_is_a_problem_with_the_name_of_the_tool() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("kustomize");
    std::fs::write(&program, "").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let tool = Tools::of_path(folder.path().as_os_str()).kustomize.unwrap();
    std::fs::remove_file(&program).unwrap();
    let input = Input::Rendered(folder.path().to_owned(), tool);
    let expected = "kustomize build cannot be run: No such file or directory (os error 2)";
    assert_eq!(lint(&input, &mut Checked::default()), [expected]);
    assert_eq!(name(&input), folder.path().display().to_string());
}
