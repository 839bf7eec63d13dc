//! Reading of one object in the annotation, field by field, so that every problem is found and not only the
//! first.

use machinery_validation::{FieldErrorKind, FieldPath};

use super::text::Errors;
use crate::{Json, JsonFields};

/// Problems of an annotation's text.
#[derive(Default)]
pub(super) struct Problems {
    /// Reasons for which it cannot be read.
    pub(super) errors: Errors,
    /// Fields that are given twice, of which one value counts.
    pub(super) repeated: Errors,
}

/// An object that is there and cannot be read.
pub(super) struct UnreadObject;

/// Choice between two different values of one field.
type Choice<T> = fn(T, T) -> T;

/// Reader of one object.
pub(super) struct ObjectReader<'p, 'j> {
    problems: &'p mut Problems,
    path: FieldPath,
    fields: JsonFields<'j>,
    /// The names of the fields that were read.
    known: Vec<&'static str>,
}

impl<'p, 'j> ObjectReader<'p, 'j> {
    /// Returns the reader of a value. `None` when it is no object.
    pub(super) fn new(problems: &'p mut Problems, path: &FieldPath, value: &'j Json) -> Option<Self> {
        let Json::Object(fields) = value else {
            problems.errors.add(FieldErrorKind::TypeInvalid, path.clone(), "must be an object");
            return None;
        };
        Some(Self { problems, path: path.clone(), fields: JsonFields::of(fields), known: Vec::new() })
    }

    /// Reads a whole number: the largest that is given.
    pub(super) fn whole_number<T>(&mut self, field: &'static str, expected: &str) -> Option<T>
    where
        T: TryFrom<i64> + Ord + Copy,
    {
        let read = |value: &Json| T::try_from(value.whole_number()?).ok();
        self.read(field, expected, read, Some(Ord::max))
    }

    /// Reads a number of seconds: the largest that is given.
    pub(super) fn seconds(&mut self, field: &'static str) -> Option<i64> {
        self.read(field, "a number of seconds", Json::seconds, Some(Ord::max))
    }

    /// Reads a truth value: false when both are given.
    pub(super) fn truth(&mut self, field: &'static str) -> Option<bool> {
        self.read(field, "true or false", Json::truth, Some(Ord::min))
    }

    /// Reads a string.
    pub(super) fn text(&mut self, field: &'static str) -> Option<String> {
        self.one(field, "a string", |value| value.text().map(str::to_owned))
    }

    /// Reads a port.
    pub(super) fn port(&mut self, field: &'static str) -> Option<u16> {
        let expected = "a whole number between 1 and 65535";
        self.one(field, expected, |value| u16::try_from(value.whole_number()?).ok())
    }

    /// Reads an object with a reader of its own.
    ///
    /// # Errors
    ///
    /// Fails when the object is there and cannot be read. Its problems are reported.
    pub(super) fn object<T>(
        &mut self,
        field: &'static str,
        read: fn(&mut Problems, &FieldPath, &Json) -> Option<T>,
    ) -> Result<Option<T>, UnreadObject> {
        match self.one(field, "an object", Some) {
            Some(value) => {
                let read = read(self.problems, &self.path.child(field), value);
                read.map(Some).ok_or(UnreadObject)
            }
            None => Ok(None),
        }
    }

    /// Reads a field whose values may not differ.
    pub(super) fn one<T: PartialEq>(
        &mut self,
        field: &'static str,
        expected: &str,
        read: impl Fn(&'j Json) -> Option<T>,
    ) -> Option<T> {
        self.read(field, expected, read, None)
    }

    /// Reads a field that must be given.
    pub(super) fn required<T>(
        &mut self,
        field: &'static str,
        read: impl Fn(&mut Self, &'static str) -> Option<T>,
    ) -> Option<T> {
        if self.fields.all(field).next().is_none() {
            self.problems.errors.add(FieldErrorKind::Required, self.path.child(field), "is required");
        }
        read(self, field)
    }

    /// Reports the fields that were not read.
    pub(super) fn refuse_rest(self) {
        for name in self.fields.unknown(&self.known) {
            self.problems.errors.add(FieldErrorKind::Forbidden, self.path.child(name), "unknown field");
        }
    }

    /// Reads a field. A null counts as absent, as in Kubernetes. Without a choice, different values are an
    /// error.
    fn read<T: PartialEq>(
        &mut self,
        field: &'static str,
        expected: &str,
        read: impl Fn(&'j Json) -> Option<T>,
        choice: Option<Choice<T>>,
    ) -> Option<T> {
        self.known.push(field);
        let path = self.path.child(field);
        let given: Vec<&'j Json> = self.fields.all(field).collect();
        let values: Vec<T> = given.iter().copied().filter_map(read).collect();
        let differ = values.iter().any(|value| Some(value) != values.first());
        if values.len() < given.len() {
            let message = format!("must be {expected}");
            self.problems.errors.add(FieldErrorKind::TypeInvalid, path, message);
        } else if differ && choice.is_none() {
            let message = "is given twice, with different values";
            self.problems.errors.add(FieldErrorKind::Duplicate, path, message);
        } else if given.len() > 1 {
            self.problems.repeated.add(FieldErrorKind::Duplicate, path, "is given twice");
        }
        let mut values = values.into_iter();
        match choice {
            Some(choice) => values.reduce(choice),
            None => values.next(),
        }
    }
}
