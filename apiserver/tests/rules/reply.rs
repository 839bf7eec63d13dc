//! Replies of the server.

use serde_json::Value;

/// One reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Reply {
    /// The object; the request must have succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "refused: {self:#?}");
        self.body
    }

    /// The Status; the request must have been refused with that code and reason.
    #[track_caller]
    pub(crate) fn refused(self, code: u16, reason: &str) -> Refusal {
        assert_eq!((self.code, self.body["reason"].as_str()), (code, Some(reason)), "{self:#?}");
        assert_eq!(self.body["kind"], "Status");
        Refusal(self.body)
    }
}

/// A failed request's Status.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Value);

impl Refusal {
    /// Its message must hold these words.
    #[track_caller]
    pub(crate) fn saying(self, words: &str) -> Self {
        let message = self.0["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{words:?} is not said: {:#}", self.0);
        self
    }

    /// It must have a cause of that reason at that field.
    #[track_caller]
    pub(crate) fn because(self, reason: &str, field: &str) -> Self {
        let found = self.cause(reason);
        assert_eq!(found["field"].as_str().unwrap_or_default(), field, "{:#}", self.0);
        self
    }

    /// The cause of that reason.
    #[track_caller]
    pub(crate) fn cause(&self, reason: &str) -> &Value {
        let causes = self.0["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found = causes.iter().find(|cause| cause["reason"] == reason);
        found.unwrap_or_else(|| panic!("no cause {reason}: {:#}", self.0))
    }

    /// After how many seconds to try again.
    pub(crate) fn retry_after(&self) -> Option<i64> {
        self.0["details"]["retryAfterSeconds"].as_i64()
    }
}
