//! The intended differences: the only list of them, by subject.

mod refusals;
mod values;
mod words;

use serde_json::Value;

use crate::{Mismatch, Reply, Request};

/// A request and the replies of both sides.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The request.
    pub request: &'a Request,
    /// Reply of the custom resource.
    pub theirs: &'a Reply,
    /// Reply of the example kind.
    pub ours: &'a Reply,
    /// The requests of the sequence before it.
    pub before: &'a [Request],
}

impl Exchange<'_> {
    /// Returns the codes: the custom resource's, the example kind's.
    fn codes(&self) -> (u16, u16) {
        (self.theirs.code, self.ours.code)
    }

    /// Returns true when a request before it wrote the scale of an object.
    fn follows_scaling(&self) -> bool {
        self.before.iter().any(is_scaling)
    }
}

/// An intended difference between the machinery and a custom resource.
#[derive(Debug)]
pub struct Difference {
    /// Short name.
    pub name: &'static str,
    /// Behaviour of a custom resource.
    pub theirs: &'static str,
    /// Behaviour of the machinery.
    pub ours: &'static str,
    /// Reason for the difference.
    pub reason: &'static str,
    /// True when both sides have other objects after it. The sequence ends there.
    pub(crate) diverges: bool,
    matches: fn(&Exchange<'_>, &Mismatch) -> bool,
}

impl Difference {
    /// Returns true when the difference is the reason of a mismatch.
    pub fn explains(&self, exchange: &Exchange<'_>, mismatch: &Mismatch) -> bool {
        (self.matches)(exchange, mismatch)
    }
}

/// Subject of some differences.
struct Subject {
    heading: &'static str,
    differences: &'static [Difference],
}

const SUBJECTS: [Subject; 3] = [
    Subject { heading: "Other words", differences: words::WORDS },
    Subject { heading: "Other refusals", differences: refusals::REFUSALS },
    Subject { heading: "Other values", differences: values::VALUES },
];

/// Returns all intended differences.
pub fn differences() -> impl Iterator<Item = &'static Difference> {
    SUBJECTS.iter().flat_map(|subject| subject.differences)
}

fn theirs(mismatch: &Mismatch) -> &str {
    mismatch.theirs.as_ref().and_then(Value::as_str).unwrap_or_default()
}

fn ours(mismatch: &Mismatch) -> &str {
    mismatch.ours.as_ref().and_then(Value::as_str).unwrap_or_default()
}

/// Returns the causes of a failure.
fn causes(reply: &Reply) -> Vec<Value> {
    let causes = reply.body.get("details").and_then(|details| details.get("causes"));
    causes.and_then(Value::as_array).cloned().unwrap_or_default()
}

fn text<'a>(body: &'a Value, field: &str) -> &'a str {
    body.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the fields of causes, with the reasons.
fn fields(causes: &[Value]) -> Vec<(&str, &str)> {
    causes.iter().map(|cause| (text(cause, "field"), text(cause, "reason"))).collect()
}

/// Returns true for a request that writes the scale of an object.
fn is_scaling(request: &Request) -> bool {
    request.path.ends_with("/scale") && request.method != http::Method::GET
}

/// Returns the causes of a failure without those that concern the rules of the schema and of the scale.
fn checked_causes(reply: &Reply) -> Vec<Value> {
    let mut causes = causes(reply);
    causes.retain(|cause| text(cause, "field") != "<nil>" && !text(cause, "field").starts_with('.'));
    causes
}

/// Returns the page of the documentation that lists the differences.
pub fn document() -> String {
    let mut page = String::from(HEAD);
    for Subject { heading, differences } in SUBJECTS {
        page.extend(["\n## ", heading, "\n\n", TABLE]);
        for Difference { name, theirs, ours, reason, .. } in differences {
            page.extend(["| ", name, " | ", theirs, " | ", ours, " | ", reason, " |\n"]);
        }
    }
    page
}

const HEAD: &str = "\
# Conformance

<!-- Made by `cargo xtask generate`. -->

The machinery's example kind, Fleet, is served twice behind one kube-apiserver: by the machinery, aggregated, and as a custom resource of the same schema. Generated
sequences of requests go to both. Codes, headers, bodies and watch events agree, up to times, UIDs and resourceVersions, except for the differences below. `cargo xtask
conformance --long` fails when one of them no longer occurs.
";

const TABLE: &str = "\
| name | custom resource | machinery | reason |
| --- | --- | --- | --- |
";
