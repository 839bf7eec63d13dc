//! The context that the work gets.

use evacuation_client::Question;
use serde::Serialize;

use crate::owner::Owner;

/// Cause of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) enum Event {
    /// The platform asks.
    Ask,
    /// The evacuation was canceled.
    Cancel,
    /// The pod is being stopped.
    #[default]
    PreStop,
}

impl Event {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "Ask",
            Self::Cancel => "Cancel",
            Self::PreStop => "PreStop",
        }
    }
}

/// Context of a run: the environment of a command, the JSON body for a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Context {
    pub(crate) event: Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) evacuation: Option<About>,
}

/// The evacuation that asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct About {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) pod: String,
    /// True when nobody wants the pod to move: a person rehearses.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) rehearsal: bool,
    /// The requesters' names.
    pub(crate) requesters: Vec<String>,
    /// The first requester's reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The first requester's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// Time at which the pod is evicted, whatever the answer, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<String>,
}

impl Context {
    pub(crate) fn of(event: Event, question: &Question) -> Self {
        let first = question.requesters().first();
        let about = About {
            namespace: question.namespace().to_owned(),
            name: question.name().to_owned(),
            uid: question.uid().to_owned(),
            pod: question.pod().to_owned(),
            rehearsal: question.is_rehearsal(),
            requesters: question.requesters().iter().map(|r| r.name.clone()).collect(),
            reason: first.and_then(|r| r.reason.clone()),
            message: first.and_then(|r| r.message.clone()),
            deadline: question.deadline().map(|time| time.to_rfc3339()),
        };
        Self { event, evacuation: Some(about) }
    }

    pub(crate) fn pre_stop() -> Self {
        Self::default()
    }

    /// The context of an evacuation that ended unnoticed, or of a rehearsal that an evacuation ended: only
    /// its UID is known.
    pub(crate) fn ended(owner: &Owner) -> Self {
        let uid = owner.uid().unwrap_or_default().to_owned();
        let about = About { uid, rehearsal: owner.rehearses(), ..About::default() };
        Self { event: Event::Cancel, evacuation: Some(about) }
    }

    /// The UID of the evacuation that asks; none for a preStop hook.
    pub(crate) fn uid(&self) -> Option<&str> {
        self.evacuation.as_ref().map(|about| about.uid.as_str())
    }

    /// The variables of a command's environment.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("EVACUATION_EVENT", self.event.as_str().to_owned())];
        if let Some(about) = &self.evacuation {
            variables.extend([
                ("EVACUATION_NAMESPACE", about.namespace.clone()),
                ("EVACUATION_NAME", about.name.clone()),
                ("EVACUATION_UID", about.uid.clone()),
                ("EVACUATION_POD", about.pod.clone()),
                ("EVACUATION_REQUESTERS", about.requesters.join(",")),
            ]);
            let optional = [
                ("EVACUATION_REASON", &about.reason),
                ("EVACUATION_MESSAGE", &about.message),
                ("EVACUATION_DEADLINE", &about.deadline),
            ];
            variables.extend(about.rehearsal.then(|| ("EVACUATION_REHEARSAL", "true".to_owned())));
            variables.extend(optional.into_iter().filter_map(|(key, v)| Some((key, v.clone()?))));
        }
        // A process' environment cannot hold the zero byte.
        variables.retain(|(_, value)| !value.contains('\0'));
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_learns_who_asks_and_until_when() {
        let about = About {
            uid: "E".into(),
            requesters: vec!["a.b/c".into(), "d.e/f".into()],
            deadline: Some("2026-11-20T22:00:00+00:00".into()),
            message: Some("a\0b".into()),
            ..About::default()
        };
        let context = Context { event: Event::Ask, evacuation: Some(about) };
        let variables = context.environment();
        let value = |key| variables.iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_str());
        assert_eq!(value("EVACUATION_EVENT"), Some("Ask"));
        assert_eq!(value("EVACUATION_REQUESTERS"), Some("a.b/c,d.e/f"));
        assert_eq!(value("EVACUATION_DEADLINE"), Some("2026-11-20T22:00:00+00:00"));
        assert_eq!(value("EVACUATION_REASON"), None);
        assert_eq!(value("EVACUATION_MESSAGE"), None);
    }

    #[test]
    fn a_rehearsal_is_told_and_nothing_else_mentions_one() {
        for rehearsal in [true, false] {
            let about = About { rehearsal, ..About::default() };
            let context = Context { event: Event::Ask, evacuation: Some(about) };
            let told = context.environment().contains(&("EVACUATION_REHEARSAL", "true".to_owned()));
            let body = serde_json::to_string(&context).unwrap();
            assert_eq!((told, body.contains(r#""rehearsal":true"#)), (rehearsal, rehearsal), "{body}");
        }
    }

    #[test]
    fn a_pre_stop_hook_has_no_evacuation() {
        let body = serde_json::to_string(&Context::pre_stop()).unwrap();
        assert_eq!(body, r#"{"event":"PreStop"}"#);
    }
}
