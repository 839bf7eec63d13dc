//! YAML that the machinery writes, as Kubernetes' own client reads it.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panic")]

use std::{
    fs,
    process::{Command, Output},
};

use controlplane::{Binaries, Program};
use machinery_merge::{parse_yaml, to_yaml};
use proptest::{
    collection::{btree_map, vec},
    prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_oneof, proptest},
    sample::select,
};
use serde_json::{Value, json};

/// Texts that are something else, or the start of something else, for one of the versions of YAML.
const HARD: &[&str] = &[
    "",
    " ",
    "~",
    "null",
    "Null",
    "true",
    "TRUE",
    "False",
    "yes",
    "YES",
    "No",
    "on",
    "ON",
    "off",
    "y",
    "Y",
    "n",
    "N", //
    "1",
    "-1",
    "+1",
    "01",
    "0o7",
    "0x1F",
    "0b1",
    "0b-1",
    "1_000",
    "_1",
    "1__0",
    "1e3",
    "1.",
    ".5",
    ".inf",
    "-.INF",
    ".NaN",
    "nan",
    "inf",
    "08",
    "09.5",
    "685_230.15",
    "+.Inf",
    "1:30",
    "12:30:45",
    "190:20:30.15",
    "01:02",
    "-0",
    "2026-01-01",
    "2026-1-1",
    "2026-01-01T00:00:00Z",
    "2026-01-01 00:00:00",
    "2026-01-01t1:2:3.4+01:00", //
    "=",
    "<<",
    "-",
    "?",
    ":",
    "- a",
    "? a",
    ": a",
    "a: b",
    "a:",
    ":a",
    "a #b",
    "#b",
    "!tag",
    "&a",
    "*a",
    "%a",
    "@a",
    "`a",
    "[a",
    "]a",
    "{a",
    "}a",
    "{}",
    "[]",
    "|",
    ">",
    "'",
    "\"",
    "'a'",
    "\\",
    "a\\nb",
    "a, b",
    "[a, b]",
    "{a: b}",
    "---",
    "--- a",
    "...",
    "a\n---\nb",
    "a\n",
    "a\n\n",
    "\na",
    "\n",
    "a\n b",
    " a\nb",
    "  a\n b\n",
    "\ta\n\n\nb", //
    "a\n\tb",
    "\ta",
    "a\t",
    "a ",
    "a \nb",
    "a\r\nb",
    "\u{85}",
    "a\u{85}b",
    "\u{2028}",
    "\u{feff}a",
    "\u{7f}",
    "\u{0}",
    "\u{1b}[31m",
    "ü",
    "\u{a0}",
    "\u{ffff}",
    "\u{10ffff}",
];

/// Any text, hard ones in most cases.
fn text() -> impl Strategy<Value = String> {
    let hard = || select(HARD).prop_map(str::to_owned);
    prop_oneof![
        4 => hard(),
        2 => vec(hard(), 0..4).prop_map(|parts| parts.concat()),
        2 => vec(hard(), 0..4).prop_map(|lines| lines.join("\n")),
        1 => vec(hard(), 0..40).prop_map(|words| words.join(" ")),
        1 => "[ \t\n:#'\"\\[\\]{},&*!|>%@`~?.0-9_exobaTZ+=<-]{0,12}",
        1 => any::<String>(),
    ]
}

/// Any JSON whose numbers Kubernetes keeps: unsigned numbers beyond i64 become fractions there.
fn document() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        6 => text().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_filter("JSON", |number| number.is_finite()).prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 32, 4, |inner| {
        let fields = btree_map(text(), inner.clone(), 0..4);
        prop_oneof![
            vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Returns true when two values are equal. Go writes a fraction without a rest as an integer.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let found =
                |(name, value): (&String, &Value)| other.get(name).is_some_and(|found| same(value, found));
            one.len() == other.len() && one.iter().all(found)
        }
        _ => one == other,
    }
}

/// Reads objects as kubectl does, which asks no server for it.
fn read(kubectl: &mut Command, yaml: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("objects.yaml");
    fs::write(&file, yaml).expect("written");
    let Output { status, stdout, stderr } = kubectl.arg(&file).output().expect("kubectl runs");
    assert!(status.success(), "{}\n{yaml}", String::from_utf8_lossy(&stderr));
    serde_json::Deserializer::from_slice(&stdout).into_iter().map(|object| object.expect("JSON")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn kubectl_and_the_machinery_read_what_the_machinery_writes(documents in vec(document(), 100)) {
        let object = |(at, document): (usize, &Value)| {
            json!({"apiVersion": "v1", "kind": "Any", "metadata": {"name": format!("a{at}")}, "data": document})
        };
        let objects: Vec<Value> = documents.iter().enumerate().map(object).collect();
        let written: Vec<String> = objects.iter().map(|object| to_yaml(object).expect("YAML")).collect();
        for (object, written) in objects.iter().zip(&written) {
            let parsed = parse_yaml(written.as_bytes()).expect("YAML").value;
            prop_assert!(same(object, &parsed), "{object}\n{written}\n{parsed}");
        }
        let binaries = Binaries::find_or_build().expect("kubectl");
        let mut kubectl = Command::new(binaries.path(Program::Kubectl));
        kubectl.env("KUBECONFIG", "/dev/null").args(["annotate", "--local", "-o", "json", "by=test", "-f"]);
        let found = read(&mut kubectl, &written.join("---\n"));
        prop_assert!(found.len() == objects.len(), "{} of {}", found.len(), objects.len());
        for ((object, written), found) in objects.iter().zip(&written).zip(&found) {
            let data = found.get("data").unwrap_or(&Value::Null);
            prop_assert!(same(&object["data"], data), "{object}\n{written}\n{data}");
        }
    }
}
