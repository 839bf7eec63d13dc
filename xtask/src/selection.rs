//! Choice of suites and tests.

use crate::{
    changed::Change,
    suites::{Lane, Suite},
};

/// Choice of suites and tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Selection<'a> {
    All,
    /// Tests of all suites whose names contain this.
    Tests(&'a str),
    /// A suite, and perhaps a part of the names of its tests.
    Suite(&'a str, Option<&'a str>),
    Changed(Change),
}

impl<'a> Selection<'a> {
    /// Reads the argument of `cargo xtask test`: `SUITE`, `SUITE::NAME`, or a part of the names of tests.
    pub(crate) fn of(text: &'a str, suites: &[Suite]) -> Self {
        let (first, rest) = text.split_once("::").unwrap_or((text, ""));
        if suites.iter().any(|suite| suite.name == first) {
            return Self::Suite(first, (!rest.is_empty()).then_some(rest));
        }
        Self::Tests(text)
    }

    /// Returns true when the suite is chosen.
    pub(crate) fn has(&self, suite: &Suite) -> bool {
        match self {
            Self::All | Self::Tests(_) => true,
            Self::Suite(name, _) => *name == suite.name,
            Self::Changed(change) if suite.lane == Lane::Quick => change.has_package(&suite.package),
            Self::Changed(change) => change.has_suite(&suite.name),
        }
    }

    /// Returns the filter that the test programs get.
    pub(crate) fn filter(&self) -> Option<&'a str> {
        match self {
            Self::Tests(name) => Some(name),
            Self::Suite(_, filter) => *filter,
            Self::All | Self::Changed(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::testing::suite;

    #[test]
    fn a_selection_names_a_suite_and_a_test_or_a_part_of_the_names_of_all_tests() {
        let suites = [
            suite("tests/e2e", "test", "drain"),
            suite("protocol", "lib", "evacuation_protocol"),
            suite("apiserver", "test", "rules"),
        ];
        for (text, expected) in [
            ("drain", Selection::Suite("drain", None)),
            ("drain::records::a_b", Selection::Suite("drain", Some("records::a_b"))),
            ("protocol::drain", Selection::Suite("protocol", Some("drain"))),
            ("records::a_b", Selection::Tests("records::a_b")),
            ("rule_4", Selection::Tests("rule_4")),
        ] {
            assert_eq!(Selection::of(text, &suites), expected, "{text}");
        }
        let chosen = Selection::of("rules::x", &suites);
        let names: Vec<&str> =
            suites.iter().filter(|suite| chosen.has(suite)).map(|suite| suite.name.as_str()).collect();
        assert_eq!(names, ["rules"]);
    }
}
