//! Reasons for which documents cannot be built.

use machinery_schema::SchemaError;

/// A description of resources from which no documents can be made.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// A schema says what Kubernetes' OpenAPI cannot say.
    #[error("schema {definition} at {path}: {problem}")]
    Schema {
        /// The definition.
        definition: String,
        /// Place in it, as a JSON pointer.
        path: String,
        /// Description of the problem.
        problem: String,
    },
    /// Two different schemas have the same name.
    #[error("two different schemas are named {definition}")]
    Ambiguous {
        /// The name.
        definition: String,
    },
    /// A reference leads nowhere.
    #[error("schema {definition} refers to {reference}, which does not exist")]
    Unresolved {
        /// The definition.
        definition: String,
        /// Reference without a definition.
        reference: String,
    },
    /// A kind's schema has no shape by which objects can be merged.
    #[error("kind {kind} cannot be merged")]
    Shape {
        /// The kind.
        kind: String,
        /// Reason.
        #[source]
        source: SchemaError,
    },
    /// A pattern of a kind's schema is no regular expression of this library.
    #[error("kind {kind}: field {field} has the pattern {pattern:?}, which is not valid")]
    Pattern {
        /// The kind.
        kind: String,
        /// The field; `[*]` stands for the entries of a list or map.
        field: String,
        /// The pattern.
        pattern: String,
        /// Reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A keyword of a kind's schema has a value that means nothing.
    #[error("kind {kind}: field {field} has {keyword} {value}, which {problem}")]
    Keyword {
        /// The kind.
        kind: String,
        /// The field; `[*]` stands for the entries of a list or map.
        field: String,
        /// The keyword.
        keyword: String,
        /// Its value, as JSON.
        value: String,
        /// Description of the problem.
        problem: String,
    },
    /// A document cannot be written as JSON.
    #[error("document {path} cannot be written as JSON")]
    Json {
        /// Path of the document.
        path: String,
        /// Reason.
        #[source]
        source: serde_json::Error,
    },
}
