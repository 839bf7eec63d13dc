//! Server-side apply, answered by this project's library and by Kubernetes' own on the same random writes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panic")]

mod shapes;
mod values;
mod walk;

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use controlplane::{Binaries, Program};
use serde_json::Value;

use walk::{Answer, Case, Walk};

/// Number of sequences of writes. `APPLY_SEQUENCES` and `APPLY_FIRST_SEED` choose others.
const SEQUENCES: u64 = 1000;

/// Outcomes, to see that each is tested.
#[derive(Debug, Default)]
struct Seen {
    written: usize,
    conflicts: usize,
    failed: usize,
    capped: usize,
    before_first_apply: usize,
}

/// Sequences that are in memory at once.
const BATCH: u64 = 100;

#[test]
fn every_write_is_answered_as_kubernetes_answers_it() {
    let setting = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let first = setting("APPLY_FIRST_SEED", 0);
    let end = first + setting("APPLY_SEQUENCES", SEQUENCES);
    let mut oracle = Oracle::start();
    let mut seen = Seen::default();
    let mut different = Vec::new();
    for from in (first..end).step_by(usize::try_from(BATCH).unwrap()) {
        let cases: Vec<(u64, Case)> = (from..end.min(from + BATCH))
            .flat_map(|seed| Walk::new(seed).run().into_iter().map(move |case| (seed, case)))
            .collect();
        let answers = oracle.ask(&cases);
        let operations = cases.iter().flat_map(|(seed, case)| {
            let operations = case.request["operations"].as_array().unwrap();
            case.answers.iter().zip(operations).map(move |(ours, operation)| (seed, case, ours, operation))
        });
        for ((seed, case, ours, operation), theirs) in operations.zip(answers) {
            seen.note(ours);
            if let Err(difference) = compare(ours, &theirs) {
                let schema = &case.request["definitions"]["Root"];
                different.push(format!(
                    "sequence {seed}: {difference}\nschema {schema:#}\nwrite {operation:#}\nours {ours:#?}\n\
                     theirs {theirs:#}",
                ));
            }
        }
    }
    eprintln!("{seen:?}, {} different", different.len());
    for text in &different {
        eprintln!("{:.300}", text.lines().next().unwrap_or_default());
    }
    if let Some(shortest) = different.iter().min_by_key(|text| text.len()) {
        panic!("{} writes are answered differently, such as\n{shortest}", different.len());
    }
    if end - first >= SEQUENCES {
        let Seen { written, conflicts, failed, capped, before_first_apply } = seen;
        let enough = written > 5000 && conflicts > 200 && failed > 200 && before_first_apply > 200;
        assert!(enough && capped > 0, "{seen:?}");
    }
}

/// Kubernetes' own library, in a process that answers every case.
struct Oracle {
    process: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Oracle {
    fn start() -> Self {
        let binaries = Binaries::find_or_build().unwrap();
        let mut process = Command::new(binaries.path(Program::Apply))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, answers }
    }

    /// Returns the answer to each write of each case.
    fn ask(&mut self, cases: &[(u64, Case)]) -> Vec<Value> {
        let mut input = self.process.stdin.as_ref().unwrap();
        let writes = cases.iter().map(|(_, case)| case.answers.len()).sum();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for (_, case) in cases {
                    writeln!(input, "{}", case.request).unwrap();
                }
            });
            let answers = self.answers.by_ref().take(writes);
            let answers: Vec<Value> =
                answers.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
            assert_eq!(answers.len(), writes, "an answer to each write");
            answers
        })
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // Without input it ends by itself.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
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
