//! Objects of a write in the versions that rules match.

use std::{collections::HashMap, sync::Arc};

use machinery_server::ApiError;
use serde_json::Value;

use crate::{refusal, subject::Subject};

/// Objects of a write in one version.
#[derive(Debug)]
pub(crate) struct Form {
    version: String,
    /// Converted objects; `None` in the version of the request.
    converted: Option<Objects>,
}

/// Objects of a write, the new one and the old one.
#[derive(Debug)]
struct Objects {
    object: Option<Value>,
    old: Option<Value>,
}

/// Objects of a write in each version that was needed.
#[derive(Debug, Default)]
pub(crate) struct Forms(HashMap<String, Arc<Form>>);

impl Form {
    /// Returns the write with the objects in this version.
    pub(crate) fn show<'a>(&'a self, subject: &Subject<'a>) -> Subject<'a> {
        let Some(Objects { object, old }) = &self.converted else { return *subject };
        Subject { version: &self.version, object: object.as_ref(), old: old.as_ref(), ..*subject }
    }

    /// Converts an object of this version to that of the request.
    pub(crate) fn convert_back(&self, subject: &Subject<'_>, object: Value) -> Result<Value, ApiError> {
        if self.converted.is_none() {
            return Ok(object);
        }
        convert(subject, &object, &self.version, subject.attributes.version)
    }
}

impl Forms {
    /// Returns the objects in a version. The write has them in the version of the request.
    ///
    /// # Errors
    ///
    /// They cannot be converted.
    pub(crate) fn of(&mut self, subject: &Subject<'_>, version: &str) -> Result<Arc<Form>, ApiError> {
        if let Some(known) = self.0.get(version) {
            return Ok(known.clone());
        }
        let from = subject.attributes.version;
        let converted = if version == from {
            None
        } else {
            let convert = |object: &Value| convert(subject, object, from, version);
            let (object, old) =
                (subject.object.map(convert).transpose()?, subject.old.map(convert).transpose()?);
            Some(Objects { object, old })
        };
        let form = Arc::new(Form { version: version.to_owned(), converted });
        self.0.insert(version.to_owned(), form.clone());
        Ok(form)
    }
}

fn convert(subject: &Subject<'_>, object: &Value, from: &str, to: &str) -> Result<Value, ApiError> {
    let unable = || refusal::internal(&format!("unable to convert to version {to}"));
    let converter = subject.attributes.converter.ok_or_else(unable)?;
    converter.convert(object, from, to).map_err(|error| {
        tracing::warn!(from, to, %error, "an object cannot be converted for admission");
        unable()
    })
}
