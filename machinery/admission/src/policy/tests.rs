//! Policies on one write, without a cluster.

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use machinery_server::Operation;
use serde_json::{Value, json};

use super::{
    Policy,
    evaluation::{Outcome, evaluate},
};
use crate::{
    cel::{Evaluator, to_cel},
    limiter::Limiter,
    testing::{Admins, Write},
};

/// Evaluates a policy with that `spec`.
async fn outcome(write: &Write, spec: Value, params: Option<Value>) -> Outcome {
    let policy: ValidatingAdmissionPolicy =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
    let policy = Policy::compile(&policy);
    let limiter = Limiter::new(8, Vec::new().into());
    let evaluator = Evaluator { authorizer: Arc::new(Admins), limiter };
    let attributes = write.attributes();
    let environment = evaluator.environment(&write.subject(&attributes)).await.unwrap();
    let params = params.as_ref().map(to_cel);
    evaluator.run("jane", move || evaluate(&policy, &environment, params.as_ref())).await.unwrap()
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
