//! Validation of the EvacuationResponder.

use machinery_validation::{FieldError, FieldPath};

use super::{responders::validate_entry, selector::validate_selector, text::Errors};
use crate::EvacuationResponder;

/// Returns every problem of an EvacuationResponder. The registry validates the metadata of every kind.
pub fn validate_evacuation_responder(responder: &EvacuationResponder) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let path = FieldPath::new("spec");
    validate_selector(&mut errors, &path.child("selector"), &responder.spec.selector);
    validate_entry(&mut errors, &path, &responder.spec.entry());
    errors.0
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};

    use super::*;
    use crate::{MAX_CA_BUNDLE_BYTES, default_evacuation_responder};

    fn with(spec: &Value) -> EvacuationResponder {
        let mut all = json!({"selector": {}, "name": "db.acme.io/failover"});
        for (field, value) in spec.as_object().unwrap() {
            all[field] = value.clone();
        }
        serde_json::from_value(json!({"metadata": {"name": "r"}, "spec": all})).unwrap()
    }

    fn service(bundle: &str) -> Value {
        let bundle = ByteString(bundle.as_bytes().to_vec());
        json!({"service": {"name": "failover", "port": 8443, "https": {"caBundle": bundle}}})
    }

    fn pem(kind: &str) -> String {
        format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n")
    }

    #[test]
    fn what_can_be_registered() {
        for spec in [
            json!({}),
            json!({"name": "self"}),
            json!({"name": "self", "http": {"port": 8080}}),
            json!({"service": {"name": "failover", "port": 80, "path": "/x"}}),
            service(&pem("CERTIFICATE")),
            service(&pem("CERTIFICATE").repeat(3)),
            json!({"selector": {"matchLabels": {"acme.io/app": "db", "x": ""}}}),
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]},
                                                       {"key": "a", "operator": "Exists"}]}}),
        ] {
            assert_eq!(validate_evacuation_responder(&with(&spec)), [], "{spec}");
        }
    }

    #[test]
    fn each_problem_is_named_with_its_path() {
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"selector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}});
        let table = [
            (json!({"name": ""}), "spec.name: Required value: is required"),
            (
                json!({"name": "failover"}),
                "spec.name: Invalid value: \"failover\" is not of the form DOMAIN/NAME, such as drain.example.com/node-a",
            ),
            (json!({"priority": -1}), "spec.priority: Invalid value: -1 is not between 0 and 1000000"),
            (
                json!({"timeoutSeconds": 0}),
                "spec.timeoutSeconds: Invalid value: 0 is not between 1 and 86400",
            ),
            (
                json!({"maxDelaySeconds": -1}),
                "spec.maxDelaySeconds: Invalid value: -1 is not between 0 and 2592000",
            ),
            (json!({"http": {"port": 0}}), "spec.http.port: Invalid value: 0 is not between 1 and 65535"),
            (
                json!({"http": {"port": 1}, "service": {"name": "s", "port": 1}}),
                "spec.service: Forbidden: may not be given together with http",
            ),
            (
                json!({"service": {"name": "s", "port": 1, "path": "//elsewhere"}}),
                "spec.service.path: Invalid value: \"//elsewhere\" does not start with one slash",
            ),
            (
                json!({"service": {"name": "db.other", "port": 1}}),
                "spec.service.name: Invalid value: \"db.other\" is not the name of a Service of the pod's namespace, such as failover",
            ),
            (
                json!({"service": {"name": "s", "port": 1, "https": {"caBundle": ""}}}),
                "spec.service.https.caBundle: Required value: is required",
            ),
            (service("hello"), "spec.service.https.caBundle: Invalid value: holds no certificate in PEM"),
            (
                service("-----BEGIN CERTIFICATE-----\nAAAA\n"),
                "spec.service.https.caBundle: Invalid value: holds PEM that cannot be read",
            ),
            (
                service(&format!("{}{}", pem("CERTIFICATE"), pem("PRIVATE KEY"))),
                "spec.service.https.caBundle: Invalid value: must hold certificates only",
            ),
            (
                service(&" ".repeat(MAX_CA_BUNDLE_BYTES + 1)),
                "spec.service.https.caBundle: Too long: must have at most 16384 bytes",
            ),
            (
                expression("a", "In", &[]),
                "spec.selector.matchExpressions[0].values: Required value: must be given when the operator is In or NotIn",
            ),
            (
                expression("a", "Exists", &["b"]),
                "spec.selector.matchExpressions[0].values: Forbidden: may not be given when the operator is Exists or DoesNotExist",
            ),
            (
                expression("a", "Near", &["b"]),
                "spec.selector.matchExpressions[0].operator: Unsupported value: \"Near\": supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\"",
            ),
        ];
        for (spec, expected) in table {
            let errors = validate_evacuation_responder(&with(&spec));
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors, [expected], "{spec}");
        }
    }

    #[test]
    fn a_selector_of_labels_that_cannot_be_is_refused() {
        for (selector, field) in [
            (json!({"matchLabels": {"a b": "c"}}), "spec.selector.matchLabels"),
            (json!({"matchLabels": {"a": "b c"}}), "spec.selector.matchLabels[a]"),
            (
                json!({"matchExpressions": [{"key": "-", "operator": "Exists"}]}),
                "spec.selector.matchExpressions[0].key",
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "-"]}]}),
                "spec.selector.matchExpressions[0].values[1]",
            ),
        ] {
            let errors = validate_evacuation_responder(&with(&json!({"selector": selector})));
            let fields: Vec<String> = errors.iter().map(|error| error.field.to_string()).collect();
            assert_eq!(fields, [field], "{selector}");
        }
    }

    #[test]
    fn every_problem_is_gathered() {
        let errors = validate_evacuation_responder(&with(
            &json!({"selector": {"matchLabels": {"": "x"}}, "name": "", "priority": -1, "http": {"port": 0}}),
        ));
        let fields: Vec<String> = errors.iter().map(|error| error.field.to_string()).collect();
        for field in ["spec.selector.matchLabels", "spec.name", "spec.priority", "spec.http.port"] {
            assert!(fields.iter().any(|found| found == field), "{field}: {fields:?}");
        }
    }

    #[test]
    fn defaults_are_filled_in_once() {
        let mut responder = with(&json!({"priority": 7}));
        default_evacuation_responder(&mut responder);
        let spec = &responder.spec;
        assert_eq!(
            (spec.priority, spec.timeout_seconds, spec.max_delay_seconds),
            (Some(7), Some(60), Some(86400))
        );
    }
}
