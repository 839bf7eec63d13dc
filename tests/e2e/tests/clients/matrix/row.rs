//! A row of the table: a command, its exit status, and parts of its output.

use crate::matrix::Version;

/// A command, and the outcome that it must have. Commands are lines of a shell. They and the parts of the
/// output may name the variables of a [`Subject`](crate::matrix::Subject), such as `$NAME`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) command: &'static str,
    pub(crate) mode: Mode,
    outcome: Outcome,
    /// Outcome with kubectl 1.32, where it differs.
    old: Option<Outcome>,
    /// Plurals of the only kinds whose objects the row is played with. Empty: all.
    only: &'static [&'static str],
}

/// How often the command runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    Once,
    /// Again and again until the outcome is there, because another program brings it about.
    Soon,
    /// The command does not end. Once its output has the first part, the change runs again and again until
    /// the output has the other parts. Then the command is killed.
    Follow {
        change: &'static str,
    },
}

/// Exit status, and parts of the output: of both streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) has: &'static [&'static str],
    pub(crate) lacks: &'static [&'static str],
}

impl Row {
    const fn new(command: &'static str, mode: Mode, code: i32, has: &'static [&'static str]) -> Self {
        Self { command, mode, outcome: Outcome { code, has, lacks: &[] }, old: None, only: &[] }
    }

    /// Returns the outcome with that version.
    pub(crate) fn outcome(&self, version: Version) -> Outcome {
        self.old.filter(|_| version == Version::Old).unwrap_or(self.outcome)
    }

    /// Returns whether the row is played with objects of that kind.
    pub(crate) fn applies_to(&self, plural: &str) -> bool {
        self.only.is_empty() || self.only.contains(&plural)
    }

    /// The same; the output must also lack these parts.
    pub(crate) const fn lacks(mut self, parts: &'static [&'static str]) -> Self {
        self.outcome.lacks = parts;
        self
    }

    /// The same with another outcome with kubectl 1.32.
    pub(crate) const fn with_1_32(mut self, code: i32, has: &'static [&'static str]) -> Self {
        self.old = Some(Outcome { code, has, lacks: &[] });
        self
    }

    /// The same for objects of these kinds only.
    pub(crate) const fn only(mut self, plurals: &'static [&'static str]) -> Self {
        self.only = plurals;
        self
    }
}

/// A command that succeeds, with these parts of its output.
pub(crate) const fn ok(command: &'static str, has: &'static [&'static str]) -> Row {
    Row::new(command, Mode::Once, 0, has)
}

/// A command that fails with status 1, with these parts of its output.
pub(crate) const fn fails(command: &'static str, has: &'static [&'static str]) -> Row {
    Row::new(command, Mode::Once, 1, has)
}

/// A command that succeeds sooner or later.
pub(crate) const fn soon(command: &'static str, has: &'static [&'static str]) -> Row {
    Row::new(command, Mode::Soon, 0, has)
}

/// A command that fails sooner or later with status 1.
pub(crate) const fn soon_fails(command: &'static str, has: &'static [&'static str]) -> Row {
    Row::new(command, Mode::Soon, 1, has)
}

/// A command that does not end: it prints the first part, and the others after the change.
pub(crate) const fn follows(
    command: &'static str,
    change: &'static str,
    has: &'static [&'static str],
) -> Row {
    Row::new(command, Mode::Follow { change }, 0, has)
}
