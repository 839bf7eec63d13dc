//! Policies on one write, without a cluster.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use machinery_server::{AdmissionAttributes, Operation};
use serde_json::{Value, json};

use super::{
    Binding, Policy,
    annotations::Annotations,
    evaluation::Outcome,
    validate::{Enforcer, Invocation, enforce, evaluate_all, validate},
};
use crate::{
    cel::Evaluator,
    limiter::Limiter,
    metrics::AdmissionMetrics,
    params::Params,
    testing::{Admins, TwoVersions, Write},
};

/// Evaluates a policy with that `spec`.
async fn outcome(write: &Write, spec: Value, params: Option<Value>) -> Outcome {
    let invocation = invocation(&spec, &[], params);
    evaluated(write, vec![invocation], Duration::from_secs(10)).await.remove(0).1
}

/// A policy with a binding, and its params.
type Bound = (Arc<Policy>, Arc<Binding>, Option<Arc<Value>>);

/// The policy `p` with that `spec`, with the binding `b` that has those actions.
fn invocation(spec: &Value, actions: &[&str], params: Option<Value>) -> Bound {
    let policy: ValidatingAdmissionPolicy =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
    let binding = json!({"metadata": {"name": "b"}, "spec": {"validationActions": actions}});
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(binding).unwrap();
    let (policy, binding) = (Arc::new(Policy::compile(&policy)), Arc::new(Binding::compile(&binding)));
    (policy, binding, params.map(Arc::new))
}

/// Evaluates policies within a time.
async fn evaluated(write: &Write, bound: Vec<Bound>, within: Duration) -> Vec<(Invocation, Outcome)> {
    let limiter = Limiter::new(8, Vec::new().into());
    let evaluator = Evaluator { authorizer: Arc::new(Admins), limiter };
    let attributes = write.attributes();
    let environment = evaluator.environment(&write.subject(&attributes)).await.unwrap();
    let invocations = bound.into_iter().map(|(policy, binding, params)| {
        let environment = environment.clone();
        Invocation { policy, binding, params, environment }
    });
    let invocations: Vec<_> = invocations.collect();
    let evaluate = move || evaluate_all(invocations, Instant::now() + within);
    evaluator.run("jane", evaluate).await.unwrap()
}

/// Returns the messages of the denials. The annotations of the write are published.
async fn denials(write: &Write, invocations: Vec<Bound>) -> Vec<String> {
    let (metrics, mut annotations, mut denials) =
        (AdmissionMetrics::default(), Annotations::default(), Vec::new());
    for (invocation, outcome) in evaluated(write, invocations, Duration::from_secs(10)).await {
        let attributes = write.attributes();
        enforce(&metrics, &attributes, &invocation, outcome, &mut denials, &mut annotations);
    }
    annotations.publish(&write.context.audit);
    denials.into_iter().map(|denial| denial.message).collect()
}

/// Returns the message of the only problem, if any.
async fn problem(write: &Write, spec: Value) -> Option<String> {
    let outcome = outcome(write, spec, None).await;
    assert!(outcome.problems.len() < 2, "{outcome:?}");
    outcome.problems.into_iter().next().map(|problem| problem.message)
}

/// Returns true when the expression is true of the pot.
async fn holds(expression: &str) -> Option<String> {
    let pot = json!({
        "apiVersion": "kitchen.dev/v1", "kind": "Pot",
        "metadata": {"name": "a", "namespace": "shop", "labels": {"app.kubernetes.io/name": "soup"}},
        "spec": {"servings": 2, "dish": "grün", "steps": [{"name": "boil"}, {"name": "stir"}]},
    });
    problem(&Write::create(pot), json!({"validations": [{"expression": expression}]})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_see_the_variables_of_kubernetes() {
    for expression in [
        "object.spec.servings == 2",
        "object.metadata.namespace == 'shop'",
        "object.metadata.labels['app.kubernetes.io/name'] == 'soup'",
        "oldObject == null",
        "params == null",
        "request.operation == 'CREATE' && request.resource.resource == 'pots' && request.kind.kind == 'Pot'",
        "request.userInfo.username == 'jane' && request.dryRun == false && request.name == 'a'",
        "namespaceObject.metadata.labels.env == 'prod'",
        "namespaceObject.status.phase == 'Active'",
        "object.spec.steps.all(step, step.name.size() == 4)",
        "object.spec.steps.exists_one(step, step.name == 'stir')",
        "object.spec.steps.map(step, step.name).filter(name, name.startsWith('b')) == ['boil']",
        "!has(object.spec.owner)",
        "object.?spec.?owner.?name.orValue('none') == 'none'",
        "object.?spec.?servings.orValue(0) == 2",
        "object.spec.?owner.hasValue() == false",
        "object.spec.dish.size() == 4 && size(object.spec.steps) == 2",
        "dyn(object.spec.servings) == 2",
        "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
        "'a,b'.split(',').size() == 2 && 'x1'.matches('^[a-z][0-9]$')",
        "url('https://example.com/a').getHost() == 'example.com'",
    ] {
        assert_eq!(holds(expression).await, None, "{expression}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authorizer_answers_for_the_caller_and_for_service_accounts() {
    let check = "authorizer.group('apps').resource('deployments').namespace('shop').name('x')";
    let denied = holds(&format!("{check}.check('get').allowed()")).await.unwrap();
    assert!(denied.starts_with("failed expression: authorizer.group"), "{denied}");
    for expression in [
        format!("!{check}.subresource('scale').check('get').allowed()"),
        format!("{check}.check('get').reason() == 'not admin' && !{check}.check('get').errored()"),
        "!authorizer.path('/healthz').check('get').allowed()".to_owned(),
        "!authorizer.requestResource.check('steal').allowed()".to_owned(),
        "!authorizer.serviceAccount('shop', 'db').group('').resource('pods').check('get').allowed()"
            .to_owned(),
    ] {
        assert_eq!(holds(&expression).await, None, "{expression}");
    }
    let mut write = Write::create(json!({}));
    write.context.user.name = "admin".to_owned();
    let expression = "authorizer.requestResource.check('steal').allowed()";
    assert_eq!(problem(&write, json!({"validations": [{"expression": expression}]})).await, None);
    let wrong = holds("authorizer.resource('pods').check('get').allowed()").await.unwrap();
    assert!(wrong.contains("resulted in error"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_from_its_expression_or_else_from_its_text_or_else_from_the_expression() {
    let write = Write::create(json!({"spec": {"servings": 2}}));
    let long = "'x'".to_owned() + &" + 'x'".repeat(20);
    let cases = [
        (json!({"messageExpression": "'got ' + string(object.spec.servings)", "message": "m"}), "got 2"),
        (json!({"messageExpression": "object.absent", "message": " m "}), "m"),
        (json!({"messageExpression": "'a\\nb'", "message": "m"}), "m"),
        (json!({"messageExpression": "3", "message": "m"}), "m"),
        (json!({}), "failed expression: object.spec.servings > 2"),
        (json!({"messageExpression": long}), "xxxxxxxxxxxxxxxxxxxxx"),
    ];
    for (mut validation, expected) in cases {
        validation["expression"] = json!("object.spec.servings > 2");
        let found = problem(&write, json!({"validations": [validation.clone()]})).await;
        assert_eq!(found.as_deref(), Some(expected), "{validation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn params_variables_conditions_and_annotations_take_part() {
    let write = Write::create(json!({"spec": {"servings": 4}}));
    let spec = json!({
        "variables": [
            {"name": "most", "expression": "params.most"},
            {"name": "twice", "expression": "variables.most * 2"},
            {"name": "broken", "expression": "object.absent.absent"},
        ],
        "validations": [
            {"expression": "object.spec.servings <= variables.twice"},
            {"expression": "object.spec.servings <= variables.most", "reason": "Forbidden"},
            {"expression": "true || variables.broken == 1"},
        ],
        "auditAnnotations": [
            {"key": "servings", "valueExpression": "'asked for ' + string(object.spec.servings)"},
            {"key": "nothing", "valueExpression": "null"},
        ],
    });
    let found = outcome(&write, spec, Some(json!({"most": 3}))).await;
    assert_eq!(found.problems.len(), 1, "{found:?}");
    assert_eq!(found.problems[0].reason.as_deref(), Some("Forbidden"));
    assert_eq!(found.annotations, [("servings".to_owned(), "asked for 4".to_owned())]);

    let never = json!({
        "matchConditions": [
            {"name": "broken", "expression": "object.absent == 1"},
            {"name": "false", "expression": "object.spec.servings > 100"},
        ],
        "validations": [{"expression": "false"}],
    });
    assert_eq!(problem(&write, never).await, None, "a false condition counts, whatever others' errors");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_counts_by_the_failure_policy() {
    let write = Write::create(json!({"spec": {}}));
    for expression in ["object.absent.x == 1", "1 +", "'text'", "Typed{a: 1} == 1", "undeclared(1)"] {
        let validations = json!([{"expression": expression}]);
        let closed = outcome(&write, json!({"validations": validations}), None).await;
        assert!(closed.problems[0].error, "{expression}: {closed:?}");
        let open = json!({"validations": validations, "failurePolicy": "Ignore"});
        let open = outcome(&write, open, None).await;
        assert_eq!((open.problems.len(), open.ignored), (0, 1), "{expression}");
    }
    let spec = json!({
        "variables": [{"name": "broken", "expression": "object.absent"}],
        "validations": [{"expression": "variables.broken == 1"}],
    });
    let found = problem(&write, spec).await.unwrap();
    assert!(found.contains("composited variable \"broken\" fails to evaluate"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expression_that_takes_too_long_is_an_error_although_its_errors_are_hidden() {
    let list: Vec<i64> = (0..1000).collect();
    let write = Write::new(Operation::Update, Some(json!({"list": list})), Some(json!({"list": list})));
    let endless = "object.list.all(a, object.list.all(b, object.list.all(c, a + b + c >= 0)))";
    for expression in [endless.to_owned(), format!("({endless}) || true"), format!("true || ({endless})")] {
        let started = std::time::Instant::now();
        let found = problem(&write, json!({"validations": [{"expression": expression}]})).await;
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
        if let Some(found) = found {
            assert!(found.contains("cost limit"), "{found}");
        } else {
            assert!(expression.starts_with("true"), "nothing was evaluated: {expression}");
        }
    }
    // Later expressions of the policy have no budget left.
    let spec = json!({"validations": [{"expression": endless}, {"expression": "true"}]});
    assert_eq!(outcome(&write, spec, None).await.problems.len(), 2);
    let growing = "[0,1,2,3,4,5,6,7,8,9].map(x, object.list).map(l, l + l + l + l).size() > 0";
    let write = Write::create(json!({"list": vec![0; 300_000]}));
    let found = problem(&write, json!({"validations": [{"expression": growing}]})).await.unwrap();
    assert!(found.contains("cost limit"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_all_policies_are_one_audit_annotation() {
    let write = Write::create(json!({"spec": {}}));
    let failing = json!({"validations": [
        {"expression": "true"}, {"expression": "false", "message": "one"}, {"expression": "1 == 2", "message": "two"},
    ]});
    let passing = json!({"validations": [{"expression": "true"}]});
    let invocations = vec![
        invocation(&failing, &["Audit"], None),
        invocation(&passing, &["Audit"], None),
        invocation(
            &json!({"validations": [{"expression": "false", "message": "three"}]}),
            &["Warn", "Audit"],
            None,
        ),
    ];
    assert!(denials(&write, invocations).await.is_empty());
    let all = write.context.audit.all();
    let failures: Value =
        serde_json::from_str(&all["validation.policy.admission.k8s.io/validation_failure"]).unwrap();
    let failure = |message: &str, index: usize, actions: Value| {
        json!({"message": message, "policy": "p", "binding": "b", "expressionIndex": index,
               "validationActions": actions})
    };
    let audit = json!(["Audit"]);
    let expected = json!([
        failure("one", 1, audit.clone()),
        failure("two", 2, audit),
        failure("three", 0, json!(["Warn", "Audit"])),
    ]);
    assert_eq!(failures, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_annotation_has_a_bound_and_room_for_others() {
    let write = Write::create(json!({"spec": {}}));
    let spec = |message: &str| json!({"validations": [{"expression": "false", "message": message}]});
    let count = || {
        let all = write.context.audit.all();
        let failures = &all["validation.policy.admission.k8s.io/validation_failure"];
        serde_json::from_str::<Vec<Value>>(failures).unwrap().len()
    };
    let many = (0..60).map(|_| invocation(&spec("m"), &["Audit"], None)).collect();
    denials(&write, many).await;
    assert_eq!(count(), 50);
    let write = Write::create(json!({"spec": {}}));
    let long = "m".repeat(4096);
    denials(&write, (0..20).map(|_| invocation(&spec(&long), &["Audit"], None)).collect()).await;
    let bytes: usize = write.context.audit.all().values().map(String::len).sum();
    assert!((4096..=33 * 1024).contains(&bytes), "{bytes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_of_several_params_are_joined_and_repeated_ones_are_not() {
    let write = Write::create(json!({"spec": {}}));
    let spec = json!({"auditAnnotations": [{"key": "team", "valueExpression": "params.team"}]});
    let of = |team: &str| invocation(&spec, &["Deny"], Some(json!({"team": team})));
    assert!(denials(&write, vec![of("a"), of("b"), of("a")]).await.is_empty());
    assert_eq!(write.context.audit.all()["p/team"], "a, b");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_an_audit_annotation_denies_whatever_the_actions() {
    let write = Write::create(json!({"spec": {}}));
    let annotation = |expression: &str, failure_policy: &str| {
        let annotations = json!([{"key": "k", "valueExpression": expression}]);
        let spec = json!({"auditAnnotations": annotations, "failurePolicy": failure_policy});
        invocation(&spec, &["Audit"], None)
    };
    let denied = denials(&write, vec![annotation("object.absent.absent", "Fail")]).await;
    assert!(denied[0].contains("resulted in error"), "{denied:?}");
    assert!(denials(&write, vec![annotation("object.absent.absent", "Ignore")]).await.is_empty());
    let denied = denials(&write, vec![annotation("3", "Ignore")]).await;
    assert!(denied[0].contains("unsupported return type"), "{denied:?}");
    assert!(write.context.audit.all().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_beyond_the_time_of_a_write_count_by_their_failure_policies() {
    let list: Vec<i64> = (0..1000).collect();
    let write = Write::create(json!({"list": list}));
    let endless = "object.list.all(a, object.list.all(b, object.list.all(c, a + b + c >= 0)))";
    let slow = || invocation(&json!({"validations": [{"expression": endless}]}), &["Deny"], None);
    let quick = |policy: &str| {
        let spec = json!({"validations": [{"expression": "true"}], "failurePolicy": policy});
        invocation(&spec, &["Deny"], None)
    };
    let all = vec![quick("Fail"), slow(), quick("Fail"), quick("Ignore"), slow()];
    let found = evaluated(&write, all, Duration::from_millis(10)).await;
    let message = |at: usize| found[at].1.problems.first().map(|problem| problem.message.as_str());
    assert_eq!(message(0), None);
    assert!(message(1).unwrap().contains("cost limit"), "it had begun: {:?}", message(1));
    assert!(message(2).unwrap().contains("took too long"), "{:?}", message(2));
    assert_eq!((message(3), found[3].1.ignored), (None, 1));
    assert!(message(4).unwrap().contains("took too long"), "{:?}", message(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_for_another_version_sees_the_object_in_that_version() {
    let policy = |match_policy: &str, expression: &str| {
        let rule =
            json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["v2"], "resources": ["*"]});
        let spec = json!({
            "matchConstraints": {"resourceRules": [rule], "matchPolicy": match_policy},
            "validations": [{"expression": expression}],
        });
        let (policy, binding, _) = invocation(&spec, &["Deny"], None);
        vec![(policy, vec![binding])]
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = kube::Config::new("https://127.0.0.1:1/".parse().unwrap());
    let enforcer = Enforcer {
        evaluator: Evaluator { authorizer: Arc::new(Admins), limiter: Limiter::new(8, Vec::new().into()) },
        params: Params::new(kube::Client::try_from(config).unwrap()),
        metrics: AdmissionMetrics::default(),
    };
    let pot = |servings: i64| json!({"apiVersion": "kitchen.dev/v1", "spec": {"servings": servings}});
    let write = Write::new(Operation::Update, Some(pot(9)), Some(pot(3)));
    let attributes = AdmissionAttributes { converter: Some(&TwoVersions), ..write.attributes() };
    let decide = async |policies: Vec<_>| validate(&enforcer, &policies, &write.subject(&attributes)).await;
    let limit = "object.spec.portions <= 8";
    let denied = decide(policy("Equivalent", limit)).await.unwrap_err();
    assert!(denied.to_string().contains(limit), "{denied}");
    decide(policy("Exact", limit)).await.unwrap();
    for expression in [
        "oldObject.spec.portions == 3 && object.apiVersion == 'kitchen.dev/v2'",
        "request.kind.version == 'v2' && request.resource.version == 'v2'",
        "request.requestKind.version == 'v1' && request.requestResource.version == 'v1'",
    ] {
        decide(policy("Equivalent", expression)).await.unwrap();
    }
}
