//! Server-side apply, answered by this project's library and by Kubernetes' own on the same random writes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panic")]

mod shapes;
mod values;
mod walk;

use std::io::Write;
use std::process::{Command, Stdio};

use controlplane::{Binaries, Program};
use serde_json::Value;

use walk::{Answer, Case, Walk};

/// Number of sequences of writes. `APPLY_SEQUENCES` and `APPLY_FIRST_SEED` choose others.
const SEQUENCES: u64 = 3000;

/// Outcomes, to see that each is tested.
#[derive(Debug, Default)]
struct Seen {
    written: usize,
    conflicts: usize,
    failed: usize,
    capped: usize,
    before_first_apply: usize,
}

#[test]
fn every_write_is_answered_as_kubernetes_answers_it() {
    let setting = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let first = setting("APPLY_FIRST_SEED", 0);
    let seeds = first..first + setting("APPLY_SEQUENCES", SEQUENCES);
    let cases: Vec<(u64, Case)> =
        seeds.flat_map(|seed| Walk::new(seed).run().into_iter().map(move |case| (seed, case))).collect();
    let requests: Vec<String> = cases.iter().map(|(_, case)| case.request.to_string()).collect();
    let answers = ask(requests.join("\n"));
    let mut answers = answers.lines();
    let mut seen = Seen::default();
    let mut different = Vec::new();
    for (seed, case) in &cases {
        let operations = case.request["operations"].as_array().unwrap();
        for (ours, operation) in case.answers.iter().zip(operations) {
            let theirs: Value = serde_json::from_str(answers.next().expect("an answer")).unwrap();
            seen.note(ours);
            if let Err(difference) = compare(ours, &theirs) {
                different.push(format!(
                    "sequence {seed}: {difference}\nschema {:#}\nwrite {operation:#}\nours {ours:#?}\ntheirs {theirs:#}",
                    case.request["definitions"]["Root"]
                ));
            }
        }
    }
    assert!(answers.next().is_none(), "an answer to each write");
    eprintln!("{seen:?}, {} different", different.len());
    for text in &different {
        eprintln!("{:.300}", text.lines().next().unwrap_or_default());
    }
    if let Some(shortest) = different.iter().min_by_key(|text| text.len()) {
        panic!("{} writes are answered differently, such as\n{shortest}", different.len());
    }
    let Seen { written, conflicts, failed, capped, before_first_apply } = seen;
    assert!(written > 10_000 || first > 0 || cases.len() < 3000, "{written} written");
    let all = [conflicts, failed, capped, before_first_apply];
    assert!(all.iter().all(|count| *count > 0) || cases.len() < 1000, "{all:?}");
}

fn ask(requests: String) -> String {
    let binaries = Binaries::find_or_build().unwrap();
    let mut oracle = Command::new(binaries.path(Program::Apply))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = oracle.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(requests.as_bytes()));
    let output = oracle.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

impl Seen {
    fn note(&mut self, answer: &Answer) {
        match answer {
            Answer::Written { managed_fields, .. } => {
                self.written += 1;
                let text = managed_fields.to_string();
                self.capped += usize::from(text.contains("ancient-changes"));
                self.before_first_apply += usize::from(text.contains("before-first-apply"));
            }
            Answer::Conflicts { .. } => self.conflicts += 1,
            Answer::Failed { .. } => self.failed += 1,
        }
    }
}

fn compare(ours: &Answer, theirs: &Value) -> Result<(), String> {
    let same = |what: &str, ours: &Value, theirs: &Value| {
        if equal(ours, theirs) { Ok(()) } else { Err(format!("{what}\nours   {ours}\ntheirs {theirs}")) }
    };
    match ours {
        Answer::Written { object, managed_fields, fields } => {
            if !theirs["error"].is_null() {
                return Err("an error was expected".to_owned());
            }
            if let Some(object) = object {
                same("object", object, &theirs["object"])?;
            }
            let none = || Value::Array(Vec::new());
            let given = |name: &str| theirs.get(name).cloned().unwrap_or_else(none);
            same("managed fields", managed_fields, &given("managedFields"))?;
            same("bytes of the fields", &fields.clone().into(), &given("fields"))
        }
        Answer::Conflicts { message, causes } => {
            let conflicts = theirs["conflicts"].as_array().into_iter().flatten();
            let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
            let mut conflicts: Vec<[String; 2]> =
                conflicts.map(|cause| [text(cause, "field"), text(cause, "message")]).collect();
            conflicts.sort();
            if theirs["code"] != 409 || *causes != conflicts {
                return Err("conflicts".to_owned());
            }
            same("message", &message.clone().into(), &theirs["error"])
        }
        Answer::Failed { code, message } => same(message, &(*code).into(), &theirs["code"]),
    }
}

/// Equality of JSON in which `1` and `1.0` are the same: Go writes both as `1`.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, left)| right.get(name).is_some_and(|right| equal(left, right)))
        }
        _ => left == right,
    }
}
