//! Count of the objects, and list of the inputs that were left out.

use std::collections::BTreeSet;

use crate::moment::count;

/// Maximum number of names in the summary. The others are counted.
const MAX_NAMES: usize = 20;

/// Objects of the files.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Number of objects that were checked.
    pub(super) number: usize,
    /// Kinds of the project's domains that are no objects of a cluster.
    kinds: BTreeSet<String>,
    /// Files and folders that hold no objects, or that no tool renders.
    inputs: BTreeSet<String>,
}

impl Checked {
    /// Takes note of a kind that is not checked.
    pub(super) fn leave_kind(&mut self, kind: &str) {
        self.kinds.insert(kind.escape_debug().to_string());
    }

    /// Takes note of a file or folder that is not checked.
    pub(super) fn leave_input(&mut self, name: String) {
        self.inputs.insert(name);
    }

    /// Returns the last line of the output. `None` if the problems say everything.
    pub(super) fn summary(&self, problems: usize) -> Option<String> {
        let names: Vec<_> = self.kinds.iter().chain(&self.inputs).map(String::as_str).collect();
        if problems > 0 && names.is_empty() {
            return None;
        }
        let found = if problems == 0 { "no problem".to_owned() } else { count(problems, "problem") };
        let mut line = format!("{found}, {} checked", count(self.number, "object"));
        if !names.is_empty() {
            line.push_str("; not checked: ");
            line.push_str(&names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", "));
        }
        let more = names.len().saturating_sub(MAX_NAMES);
        Some(if more > 0 { format!("{line} and {more} more") } else { line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(number: usize, inputs: usize) -> Checked {
        let mut checked = Checked { number, ..Checked::default() };
        for input in 0..inputs {
            checked.leave_input(format!("{input:02}.yaml"));
        }
        checked
    }

    #[test]
    fn the_summary_is_grammatical_for_none_one_and_several() {
        for (number, problems, inputs, expected) in [
            (0, 0, 0, Some("no problem, 0 objects checked")),
            (1, 0, 0, Some("no problem, 1 object checked")),
            (2, 0, 0, Some("no problem, 2 objects checked")),
            (1, 0, 1, Some("no problem, 1 object checked; not checked: 00.yaml")),
            (2, 1, 0, None),
            (2, 1, 1, Some("1 problem, 2 objects checked; not checked: 00.yaml")),
            (1, 3, 2, Some("3 problems, 1 object checked; not checked: 00.yaml, 01.yaml")),
        ] {
            assert_eq!(checked(number, inputs).summary(problems).as_deref(), expected);
        }
    }

    #[test]
    fn of_many_names_the_first_are_shown_and_the_others_counted() {
        for (inputs, end) in
            [(20, "18.yaml, 19.yaml"), (21, "19.yaml and 1 more"), (99, "19.yaml and 79 more")]
        {
            let line = checked(0, inputs).summary(0).unwrap();
            assert!(line.ends_with(end), "{line}");
        }
        let mut checked = checked(1, 1);
        checked.leave_kind("LaterConfiguration");
        let line = checked.summary(0).unwrap();
        assert!(line.ends_with("not checked: LaterConfiguration, 00.yaml"), "{line}");
    }
}
