//! All problems of a document at once, where decoding ends at the first field of a wrong type.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::{
    DecodeError, Parsed,
    decode::deserialize,
    finding::{self, MAX_FINDINGS, findings},
};

/// Maximum number of attempts to decode a document, each without one field more.
const MAX_ATTEMPTS: usize = 100;

/// Problems of a document, and the object without the fields that have one.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspected<T> {
    /// The object without what was left out. `None` when it cannot do without that.
    pub value: Option<T>,
    /// Every problem: unknown and duplicate fields in Kubernetes' words, then fields that are missing or have
    /// a wrong type in the words of [`DecodeError::WrongType`].
    pub findings: Vec<String>,
    /// Paths of what was left out, such as `spec.deadline`. Of a list from which an item was left out it is
    /// the path of the list.
    pub left_out: BTreeSet<String>,
}

/// Reads an object as a strict [`decode_parsed`](crate::decode_parsed) does, and goes on after each field
/// that is missing or has a wrong type.
///
/// The document is decoded again without that field, at most 100 times. A field that an object must have
/// takes the object with it, and of a list the items before it, which were read by then.
pub fn inspect<T: DeserializeOwned>(parsed: Parsed) -> Inspected<T> {
    let Parsed { value, duplicate_fields } = parsed;
    let mut rest = Rest { document: value, gone: BTreeMap::new(), left_out: BTreeSet::new() };
    let (mut unknown, mut wrong, mut object) = (Vec::new(), Vec::new(), None);
    for attempt in 0.. {
        if attempt == MAX_ATTEMPTS {
            let many = format!("{MAX_ATTEMPTS} fields are missing or have a wrong type");
            wrong.push(format!("{many}: the rest was not read"));
            break;
        }
        match rest.decode(&mut unknown) {
            Ok(value) => {
                object = Some(value);
                break;
            }
            Err((path, message)) => {
                let whole = Path(&rest.whole(&path)).to_string();
                if !rest.is_caused(&whole, &message) {
                    wrong.push(DecodeError::WrongType { path: whole, message }.to_string());
                }
                if !rest.leave_out(&path) {
                    break;
                }
            }
        }
    }
    let mut findings = findings(&unknown, &duplicate_fields);
    findings.append(&mut wrong);
    Inspected { value: object, findings, left_out: rest.left_out }
}

/// A document without what was left out of it.
struct Rest {
    document: Value,
    /// Number of items that are gone from the beginning of a list, by its path in the whole document.
    gone: BTreeMap<Vec<Step>, usize>,
    left_out: BTreeSet<String>,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Key(String),
    Index(usize),
}

impl Rest {
    /// Decodes what is left, and adds the fields that the type does not know to `unknown`. An error has the
    /// path in what is left, and its message.
    fn decode<T: DeserializeOwned>(&self, unknown: &mut Vec<String>) -> Result<T, (Vec<Step>, String)> {
        let mut note = |path: &serde_ignored::Path<'_>| {
            let path = finding::path(&Path(&self.whole(&steps_of_ignored(path))));
            if unknown.len() < MAX_FINDINGS && !unknown.contains(&path) {
                unknown.push(path);
            }
        };
        deserialize(self.document.clone(), &mut note)
            .map_err(|error| (self.steps_of_error(error.path()), error.inner().to_string()))
    }

    /// Returns the path in the whole document for one in what is left.
    fn whole(&self, path: &[Step]) -> Vec<Step> {
        let mut whole = Vec::new();
        for step in path {
            let step = match step {
                Step::Index(index) => Step::Index(index + self.gone.get(&whole).copied().unwrap_or(0)),
                Step::Key(_) => step.clone(),
            };
            whole.push(step);
        }
        whole
    }

    /// Returns true for a field that is missing because it was left out.
    fn is_caused(&self, path: &str, message: &str) -> bool {
        let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
        let dot = if path.is_empty() { "" } else { "." };
        missing.is_some_and(|field| self.left_out.contains(&format!("{path}{dot}{field}")))
    }

    /// Leaves out the value at a path. Returns false for the whole document.
    fn leave_out(&mut self, path: &[Step]) -> bool {
        let whole = self.whole(path);
        let (Some((end, before)), Some((_, list))) = (path.split_last(), whole.split_last()) else {
            return false;
        };
        let parent = before.iter().try_fold(&mut self.document, |value, step| match step {
            Step::Key(key) => value.get_mut(key),
            Step::Index(index) => value.get_mut(index),
        });
        match (parent, end) {
            (Some(Value::Object(fields)), Step::Key(key)) => {
                self.left_out.insert(Path(&whole).to_string());
                fields.remove(key).is_some()
            }
            (Some(Value::Array(items)), Step::Index(index)) if *index < items.len() => {
                self.left_out.insert(Path(list).to_string());
                *self.gone.entry(list.to_vec()).or_default() += index + 1;
                items.drain(..=index);
                true
            }
            _ => false,
        }
    }

    /// Returns the steps of an error's path that lead to a value of the document. The last ones can be those
    /// of a type, such as a variant.
    fn steps_of_error(&self, path: &serde_path_to_error::Path) -> Vec<Step> {
        let mut value = Some(&self.document);
        let mut steps = Vec::new();
        for segment in path {
            let step = match segment {
                Segment::Seq { index } => Step::Index(*index),
                Segment::Map { key } | Segment::Enum { variant: key } => Step::Key(key.clone()),
                Segment::Unknown => break,
            };
            value = value.and_then(|value| match &step {
                Step::Key(key) => value.get(key),
                Step::Index(index) => value.get(index),
            });
            if value.is_none() {
                break;
            }
            steps.push(step);
        }
        steps
    }
}

/// Returns the steps of the path of an unknown field. Options and newtypes are none.
fn steps_of_ignored(path: &serde_ignored::Path<'_>) -> Vec<Step> {
    use serde_ignored::Path;
    let (parent, step) = match path {
        Path::Root => return Vec::new(),
        Path::Seq { parent, index } => (parent, Some(Step::Index(*index))),
        Path::Map { parent, key } => (parent, Some(Step::Key(key.clone()))),
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            (parent, None)
        }
    };
    let mut steps = steps_of_ignored(parent);
    steps.extend(step);
    steps
}

/// A path as Kubernetes writes it.
struct Path<'a>(&'a [Step]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if place == 0 => formatter.write_str(key)?,
                Step::Key(key) => write!(formatter, ".{key}")?,
                Step::Index(index) => write!(formatter, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase", default)]
    struct Fleet {
        size: i64,
        mode: Option<Mode>,
        ships: Vec<Ship>,
        names: Vec<String>,
        home: Option<Home>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    enum Mode {
        Idle,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Ship {
        name: String,
        #[serde(default)]
        tons: i64,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Home {
        port: Ship,
    }

    fn of(value: Value) -> Inspected<Fleet> {
        inspect(Parsed { value, ..Parsed::default() })
    }

    #[test]
    fn a_document_without_a_problem_is_the_object() {
        let found = of(json!({"size": 2, "names": null, "ships": [{"name": "a"}]}));
        let ships = vec![Ship { name: "a".to_owned(), tons: 0 }];
        assert_eq!(found.value, Some(Fleet { size: 2, ships, ..Fleet::default() }));
        assert!(found.findings.is_empty() && found.left_out.is_empty(), "{found:?}");
    }

    #[test]
    fn every_field_of_a_wrong_type_is_named_by_its_path_and_the_others_are_read() {
        let found = of(json!({
            "size": "two", "mode": "Busy", "odd": 1, "names": ["a", 2, "b", 4],
            "ships": [{"name": "a", "tons": "x"}, {"name": 5}, {"tons": 1}, {"name": "b", "tons": [], "old": 1}],
            "home": {"port": {"name": 7}},
        }));
        let mut paths: Vec<_> = found.findings.iter().map(|text| text.split(": ").next().unwrap()).collect();
        paths.sort_unstable();
        let expected = [
            "home.port.name",
            "mode",
            "names[1]",
            "names[3]",
            "ships[0].tons",
            "ships[1].name",
            "ships[2]",
            "ships[3].tons",
            "size",
            "unknown field \"odd\"",
            "unknown field \"ships[3].old\"",
        ];
        assert_eq!(paths, expected, "{:?}", found.findings);
        assert!(
            found.findings.contains(&"ships[2]: missing field `name`".to_owned()),
            "{:?}",
            found.findings
        );
        assert!(found.left_out.contains("ships") && found.left_out.contains("home"), "{:?}", found.left_out);
        let ships = vec![Ship { name: "b".to_owned(), tons: 0 }];
        assert_eq!(found.value, Some(Fleet { ships, ..Fleet::default() }));
    }

    #[test]
    fn an_object_that_must_have_the_field_is_none_and_the_field_is_named_once() {
        for (value, expected) in [
            (json!({"port": {"name": 7, "tons": "x"}}), &["port.name", "port.tons"][..]),
            (json!({}), &["missing field `port`"]),
            (json!([]), &["invalid type"]),
        ] {
            let found = inspect::<Home>(Parsed { value: value.clone(), ..Parsed::default() });
            let starts = |(finding, start): (&String, &&str)| finding.starts_with(*start);
            assert_eq!((found.value, found.findings.len()), (None, expected.len()), "{:?}", found.findings);
            assert!(found.findings.iter().zip(expected).all(starts), "{value}: {:?}", found.findings);
        }
    }

    #[test]
    fn a_document_of_wrong_fields_ends_after_a_bounded_number() {
        let names: Vec<_> = (0..1000).collect();
        let found = of(json!({"names": names}));
        assert_eq!((found.value, found.findings.len()), (None, MAX_ATTEMPTS + 1));
        let last = "100 fields are missing or have a wrong type: the rest was not read";
        assert_eq!(found.findings.last().map(String::as_str), Some(last));
    }
}
