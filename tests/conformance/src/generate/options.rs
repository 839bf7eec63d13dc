//! Parameters and headers of requests.

use proptest::{collection::vec, prelude::*};

use super::one_of;

/// Parameters of a request.
pub(super) type Query = Vec<(&'static str, String)>;

/// Some of these parameters, each once.
fn some_of(all: &[(&'static str, &str)], most: usize) -> impl Strategy<Value = Query> + use<> {
    let all: Query = all.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    vec(one_of(&all), 0..=most).prop_map(|chosen| {
        let mut query = Query::new();
        for (name, value) in chosen {
            if !query.iter().any(|(known, _)| *known == name) {
                query.push((name, value));
            }
        }
        query
    })
}

/// Parameters of a write; half of the writes have none.
pub(super) fn write() -> impl Strategy<Value = Query> {
    let long = "m".repeat(129);
    let rare = some_of(
        &[
            ("dryRun", "All"),
            ("dryRun", "All"),
            ("dryRun", "Some"),
            ("fieldValidation", "Strict"),
            ("fieldValidation", "Strict"),
            ("fieldValidation", "Warn"),
            ("fieldValidation", "Ignore"),
            ("fieldValidation", "Maybe"),
            ("fieldManager", "mine"),
            ("fieldManager", "yours"),
            ("fieldManager", "un\u{1}printable"),
            ("fieldManager", &long),
            ("pretty", "true"),
            ("timeoutSeconds", "5"),
            ("timeout", "20s"),
            ("timeout", "soon"),
            ("force", "true"),
        ],
        2,
    );
    prop_oneof![1 => Just(Query::new()), 1 => rare]
}

/// Parameters of an apply.
pub(super) fn apply() -> impl Strategy<Value = Query> {
    let manager = one_of(&["one", "one", "two", "two", "mine", ""]);
    let rest = some_of(
        &[
            ("force", "true"),
            ("force", "true"),
            ("force", "false"),
            ("force", "perhaps"),
            ("dryRun", "All"),
            ("fieldValidation", "Strict"),
            ("fieldValidation", "Ignore"),
        ],
        1,
    );
    (manager, rest).prop_map(|(manager, mut rest)| {
        if !manager.is_empty() {
            rest.push(("fieldManager", manager.to_owned()));
        }
        rest
    })
}

/// Parameters of a get.
pub(super) fn get() -> impl Strategy<Value = Query> {
    let rare = some_of(
        &[
            ("resourceVersion", "0"),
            ("resourceVersion", "{{rv a}}"),
            ("resourceVersion", "{{old a}}"),
            ("resourceVersion", "x"),
            ("resourceVersion", "-1"),
            ("pretty", "1"),
        ],
        1,
    );
    prop_oneof![2 => Just(Query::new()), 1 => rare]
}

const SELECTORS: &[(&str, &str)] = &[
    ("labelSelector", "app=one"),
    ("labelSelector", "app in (one,two),tier!=back"),
    ("labelSelector", "!app"),
    ("labelSelector", "tier notin (front)"),
    ("labelSelector", "app=="),
    ("labelSelector", "app in one"),
    ("labelSelector", "a b=c"),
    ("labelSelector", "app=not valid"),
    ("fieldSelector", "metadata.name=a"),
    ("fieldSelector", "metadata.name!=a"),
    ("fieldSelector", "metadata.namespace={{namespace}}"),
    ("fieldSelector", "spec.depot=north"),
    ("fieldSelector", "spec.depot!=north,metadata.name=b"),
    ("fieldSelector", "spec.replicas=1"),
    ("fieldSelector", "spec.depot"),
    ("fieldSelector", "metadata.name="),
];

const LIST: &[(&str, &str)] = &[
    ("limit", "1"),
    ("limit", "1"),
    ("limit", "2"),
    ("limit", "0"),
    ("limit", "-1"),
    ("limit", "many"),
    ("continue", "{{continue}}"),
    ("continue", "{{continue}}"),
    ("continue", "nonsense"),
    ("resourceVersion", "0"),
    ("resourceVersion", "{{rv a}}"),
    ("resourceVersion", "{{list}}"),
    ("resourceVersion", "{{old a}}"),
    ("resourceVersion", "x"),
    ("resourceVersionMatch", "Exact"),
    ("resourceVersionMatch", "NotOlderThan"),
    ("resourceVersionMatch", "Newest"),
    ("timeoutSeconds", "9"),
    ("timeoutSeconds", "x"),
    ("allowWatchBookmarks", "true"),
    ("sendInitialEvents", "true"),
    ("sendInitialEvents", "x"),
    ("watch", "false"),
    ("pretty", "true"),
];

/// Parameters of a list.
pub(super) fn list() -> impl Strategy<Value = Query> {
    let all: Vec<(&str, &str)> = SELECTORS.iter().chain(LIST).copied().collect();
    prop_oneof![1 => Just(Query::new()), 4 => some_of(&all, 3)]
}

/// Parameters of a deletion of many.
pub(super) fn delete_collection() -> impl Strategy<Value = Query> {
    let mut all: Vec<(&str, &str)> = SELECTORS.to_vec();
    all.extend([
        ("dryRun", "All"),
        ("propagationPolicy", "Foreground"),
        ("propagationPolicy", "Orphan"),
        ("limit", "1"),
    ]);
    prop_oneof![1 => Just(Query::new()), 3 => some_of(&all, 2)]
}

/// Parameters of a watch. It starts at a known version in most cases, and ends after a second.
pub(super) fn watch() -> impl Strategy<Value = Query> {
    let start = prop_oneof![
        4 => Just("{{old a}}"), 2 => Just("{{old b}}"), 2 => Just("0"), 2 => Just(""), 2 => Just("{{list}}"),
        1 => Just("x"),
    ];
    let all: Vec<(&str, &str)> = SELECTORS
        .iter()
        .copied()
        .chain([
            ("allowWatchBookmarks", "true"),
            ("allowWatchBookmarks", "true"),
            ("sendInitialEvents", "true"),
            ("sendInitialEvents", "true"),
            ("sendInitialEvents", "false"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("resourceVersionMatch", "Exact"),
            ("limit", "1"),
            ("continue", "x"),
        ])
        .collect();
    (start, some_of(&all, 3)).prop_map(|(start, mut query)| {
        query.push(("watch", "true".to_owned()));
        query.push(("timeoutSeconds", "1".to_owned()));
        if !start.is_empty() {
            query.push(("resourceVersion", start.to_owned()));
        }
        query
    })
}

/// Parameters of a deletion.
pub(super) fn delete() -> impl Strategy<Value = Query> {
    let rare = some_of(
        &[
            ("dryRun", "All"),
            ("dryRun", "x"),
            ("gracePeriodSeconds", "0"),
            ("gracePeriodSeconds", "30"),
            ("gracePeriodSeconds", "x"),
            ("propagationPolicy", "Foreground"),
            ("propagationPolicy", "Background"),
            ("propagationPolicy", "Orphan"),
            ("propagationPolicy", "Nobody"),
            ("orphanDependents", "true"),
        ],
        2,
    );
    prop_oneof![1 => Just(Query::new()), 1 => rare]
}

/// Values of the header `Accept`; most requests have none.
pub(super) fn accept() -> impl Strategy<Value = Option<String>> {
    let rare = one_of(&[
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        "application/yaml",
        "application/json",
        "*/*",
        "text/html",
        "application/json;q=0.1,application/yaml",
        "nonsense",
    ]);
    prop_oneof![5 => Just(None), 1 => rare.prop_map(|accept| Some(accept.to_owned()))]
}
