//! Failures of reading a schema.

/// Reason for which definitions are not a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A reference leads to no definition.
    #[error("definition {definition:?}: {reference:?} is not defined")]
    Unresolved {
        /// The definition with the reference.
        definition: String,
        /// The missing definition.
        reference: String,
    },
    /// A schema has an unknown type or contradictory keywords.
    #[error("definition {definition:?}: {reason}")]
    Unsupported {
        /// The definition.
        definition: String,
        /// Description of the problem.
        reason: String,
    },
}
