//! Replies of a built-in responder. Like every responder it posts them with its own credentials.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, Evacuation, EvacuationResponse, EvacuationResponseSpec, MAX_MESSAGE_LENGTH, MAX_REASON_LENGTH,
};
use kube::Client;
use tracing::debug;

use super::part::{DELAY_SECONDS, Part, Renewal};
use crate::cluster::{CallError, Cluster, Leadership, ObjectKey, call, evacuations, lock};

/// Reply of a built-in responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The pod may go.
    Accept {
        /// For machines.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// The platform is to wait. The responder renews the delay.
    Delay {
        /// For machines.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// The pod must not go.
    Refuse {
        /// For machines.
        reason: &'static str,
        /// For people.
        message: String,
        /// Seconds until the platform may ask again.
        retry_after: Option<i64>,
    },
    /// The responder knows the end, and has nothing left to undo for which a requester must wait.
    Acknowledge,
}

impl Reply {
    /// Returns the reply if it is to be posted now, and the time at which a recorded delay is renewed.
    pub(crate) fn due(self, part: Part<'_>, now: DateTime<Utc>) -> (Option<Self>, Option<DateTime<Utc>>) {
        let is_recorded = |answer: Answer, message: &str| {
            let recorded = (part.responder.answer, part.responder.message.as_deref());
            recorded == (Some(answer), Some(fitting(message).as_str()))
        };
        match &self {
            Self::Delay { message, .. } => match part.renewal(now) {
                Renewal::At(time) if is_recorded(Answer::Delay, message) => (None, Some(time)),
                Renewal::Due | Renewal::At(_) => (Some(self), None),
                Renewal::Exhausted => (None, None),
            },
            Self::Refuse { message, .. } if is_recorded(Answer::Refuse, message) => (None, None),
            _ => (Some(self), None),
        }
    }

    /// Returns the body of the post.
    fn spec(self, part: Part<'_>) -> EvacuationResponseSpec {
        let spec = EvacuationResponseSpec {
            responder: Some(part.responder.name.clone()),
            evacuation_uid: part.evacuation.metadata.uid.clone(),
            pod_uid: part.evacuation.spec.target.pod.uid.clone(),
            ..EvacuationResponseSpec::default()
        };
        let said = |answer: Answer, reason: &str, message: &str| EvacuationResponseSpec {
            answer: Some(answer),
            reason: Some(cut(reason, MAX_REASON_LENGTH)),
            message: Some(fitting(message)),
            ..spec.clone()
        };
        match self {
            Self::Accept { reason, message } => said(Answer::Accept, reason, &message),
            Self::Delay { reason, message } => EvacuationResponseSpec {
                delay_seconds: Some(DELAY_SECONDS),
                ..said(Answer::Delay, reason, &message)
            },
            Self::Refuse { reason, message, retry_after } => EvacuationResponseSpec {
                retry_after_seconds: retry_after,
                ..said(Answer::Refuse, reason, &message)
            },
            Self::Acknowledge => EvacuationResponseSpec { acknowledge_cancellation: true, ..spec },
        }
    }
}

/// Returns a text that the API accepts as a message: without control characters, and cut. Annotations and
/// statuses can hold anything, and an answer must not be lost for them.
pub(crate) fn fitting(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    cut(&plain, MAX_MESSAGE_LENGTH)
}

/// Returns the beginning of a text, of at most that number of bytes.
fn cut(text: &str, most: usize) -> String {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// Poster of the replies of one built-in responder.
pub(crate) struct Replier {
    client: Client,
    leadership: Leadership,
    /// Last reply to each Evacuation, by its UID, with the resourceVersion that it replied to. It only saves
    /// posts.
    said: Mutex<HashMap<String, (String, Reply)>>,
}

impl Replier {
    /// Returns a poster that has said nothing yet.
    pub(crate) fn new(cluster: &Cluster) -> Self {
        Self {
            client: cluster.client.clone(),
            leadership: cluster.leadership.clone(),
            said: Mutex::default(),
        }
    }

    /// Forgets the last reply to an Evacuation that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        lock(&self.said).remove(uid);
    }

    /// Posts a reply if it is due. Returns the time at which a delay that is recorded is renewed.
    pub(crate) async fn answer(
        &self,
        part: Part<'_>,
        reply: Reply,
        now: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, CallError> {
        let (reply, renewal) = reply.due(part, now);
        if let Some(reply) = reply {
            self.post(part, reply).await?;
        }
        Ok(renewal)
    }

    /// Acknowledges the end of each of those Evacuations that waits for it from this responder.
    pub(crate) async fn acknowledge(
        &self,
        evacuations: &[Arc<Evacuation>],
        responder: &str,
    ) -> Result<(), CallError> {
        let parts = evacuations.iter().filter_map(|evacuation| Part::of(evacuation, responder));
        for part in parts.filter(Part::must_acknowledge) {
            self.post(part, Reply::Acknowledge).await?;
        }
        Ok(())
    }

    /// Posts a reply to `evacuations/NAME/respond`, once for each state of the Evacuation. The watch shows
    /// the result.
    pub(crate) async fn post(&self, part: Part<'_>, reply: Reply) -> Result<(), CallError> {
        self.leadership.check()?;
        let key = ObjectKey::of(part.evacuation);
        let version = part.evacuation.metadata.resource_version.clone().unwrap_or_default();
        // The watch has not shown the effect of this reply yet.
        let saying = (version, reply.clone());
        if lock(&self.said).get(part.uid()) == Some(&saying) {
            return Ok(());
        }
        let api = evacuations(&self.client, &key.namespace);
        debug!(evacuation = %key, responder = part.responder.name, ?reply, "a built-in responder answers");
        let body = EvacuationResponse::new(reply.spec(part));
        let post = api.respond(&key.name, &body);
        let action = format!("answer evacuation {key} as {}", part.responder.name);
        call(action, post).await?;
        lock(&self.said).insert(part.uid().to_owned(), saying);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use evacuation_api::validate_response;
    use serde_json::json;

    use super::*;
    use crate::builtin::testing::evacuation;

    #[test]
    fn every_reply_is_one_that_the_api_takes() {
        let evacuation = evacuation("e", "a.b/c", &json!({}));
        let part = Part::of(&evacuation, "a.b/c").unwrap();
        let message = || "\r\u{1b}[31m".to_owned() + &"ü".repeat(MAX_MESSAGE_LENGTH);
        let reason = "ReplacementReady";
        let replies = [
            Reply::Accept { reason, message: message() },
            Reply::Delay { reason, message: message() },
            Reply::Refuse { reason, message: message(), retry_after: Some(1) },
            Reply::Refuse { reason, message: message(), retry_after: None },
            Reply::Acknowledge,
        ];
        for reply in replies {
            let spec = reply.clone().spec(part);
            let named = (spec.responder.as_deref(), spec.evacuation_uid.as_deref(), spec.pod_uid.as_deref());
            assert_eq!(named, (Some("a.b/c"), Some("e-uid"), Some("p1")));
            assert!(validate_response(&EvacuationResponse::new(spec)).is_empty(), "{reply:?}");
        }
    }
}
