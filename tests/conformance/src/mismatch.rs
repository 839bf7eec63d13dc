//! Comparison of two replies.

use std::fmt;

use serde_json::Value;

use crate::Reply;

/// A place in which two replies differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// `code`, a JSON pointer below `headers`, or one below `body`.
    pub place: String,
    /// Value of the custom resource.
    pub theirs: Option<Value>,
    /// Value of the example kind.
    pub ours: Option<Value>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            |value: &Option<Value>| value.as_ref().map_or_else(|| "(absent)".to_owned(), Value::to_string);
        write!(
            f,
            "{}\n      custom resource: {}\n      example kind:    {}",
            self.place,
            text(&self.theirs),
            text(&self.ours)
        )
    }
}

/// Returns all places in which two replies differ.
pub fn mismatches(theirs: &Reply, ours: &Reply) -> Vec<Mismatch> {
    let mut found = Vec::new();
    if theirs.code != ours.code {
        found.push(Mismatch {
            place: "code".to_owned(),
            theirs: Some(theirs.code.into()),
            ours: Some(ours.code.into()),
        });
    }
    compare("headers", Some(&theirs.headers), Some(&ours.headers), &mut found);
    compare("body", Some(&theirs.body), Some(&ours.body), &mut found);
    found
}

fn compare(place: &str, theirs: Option<&Value>, ours: Option<&Value>, found: &mut Vec<Mismatch>) {
    match (theirs, ours) {
        (Some(Value::Object(theirs)), Some(Value::Object(ours))) => {
            let mut names: Vec<&String> = theirs.keys().chain(ours.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let token = name.replace('~', "~0").replace('/', "~1");
                compare(&format!("{place}/{token}"), theirs.get(name), ours.get(name), found);
            }
        }
        (Some(Value::Array(theirs)), Some(Value::Array(ours))) if theirs.len() == ours.len() => {
            for (at, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
                compare(&format!("{place}/{at}"), Some(theirs), Some(ours), found);
            }
        }
        (theirs, ours) if theirs == ours => {}
        (theirs, ours) => {
            let place = place.to_owned();
            found.push(Mismatch { place, theirs: theirs.cloned(), ours: ours.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_place_that_differs_is_named() {
        let reply = |code: u16, body: Value| Reply { code, headers: json!({}), body };
        let theirs = reply(200, json!({"a": 1, "b": [1, 2], "c": {"d/e": 1}}));
        let ours = reply(201, json!({"a": 1, "b": [1, 3], "c": {}}));
        let places: Vec<String> = mismatches(&theirs, &ours).into_iter().map(|found| found.place).collect();
        assert_eq!(places, ["code", "body/b/1", "body/c/d~1e"]);
        assert_eq!(mismatches(&theirs, &theirs), []);
    }
}
