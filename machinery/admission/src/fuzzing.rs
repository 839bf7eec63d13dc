//! Entrances for a fuzzer: private parsers of what webhooks and policies say. No part of the API.

#![allow(clippy::missing_panics_doc, clippy::panic, reason = "a property that does not hold is a panic")]

use std::{
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use kube_cel::cel::Value as Cel;
use machinery_auth::{AlwaysAllow, UserInfo};
use machinery_merge::json_patch;
use machinery_server::ApiError;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::{
    cel::{Authz, Budget, Environment, MAX_LENGTH, Program, with_large_stack},
    refusal,
    webhook::{Answer, ReviewVersion},
};

/// UID of the question that every reply answers.
pub const REVIEW_UID: &str = "u";
/// Steps of an evaluation. Fewer than the server's own, so that a second holds many evaluations.
const STEPS: u64 = 10_000;
/// Time of an evaluation.
const TIME: Duration = Duration::from_millis(200);
/// Time after which an evaluation did not obey its budget. The cost of one library function has no limit.
const TOO_LONG: Duration = Duration::from_secs(5);

/// Reads the reply of a webhook, and applies its patch to an object.
///
/// A denial is the client's or the server's error, whatever code the webhook names. Only a mutating webhook
/// has a patch.
pub fn webhook_reply(body: &[u8], object: &Value) {
    for version in [ReviewVersion::V1, ReviewVersion::V1Beta1] {
        let Ok(answer) = Answer::read(body, version, REVIEW_UID) else { continue };
        let patch = answer.patch(version);
        if answer.check_unpatched(version).is_ok() && version == ReviewVersion::V1 {
            assert!(matches!(&patch, Ok(patch) if patch.is_empty()), "{answer:?}");
        }
        if let Ok(patch) = patch.as_deref()
            && !patch.is_empty()
            && let Ok(patched) = json_patch(object, patch)
        {
            let text = patched.value.to_string();
            assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(patched.value), "{text}");
        }
        let denied = refusal::denied("a.test", answer.status);
        let code = ApiError::Refused(Box::new(denied.clone())).code();
        assert!((400..600).contains(&code), "{denied:?}");
        assert_eq!(denied.status.as_deref(), Some("Failure"));
    }
}

/// Compiles an expression in CEL, and evaluates it on an object within a budget.
///
/// Neither panics. The evaluation ends soon after its budget, and makes no text beyond the limit.
pub fn expression(source: &str, object: &Value) {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        Builder::new_current_thread().enable_time().build().unwrap_or_else(|error| panic!("{error}"))
    });
    let program = Program::compile(source);
    assert_eq!(program.source(), source);
    let authz = Authz {
        authorizer: Arc::new(AlwaysAllow),
        runtime: RUNTIME.handle().clone(),
        user: UserInfo { name: "jane".to_owned(), ..UserInfo::default() },
    };
    let environment = Environment::of_object(object, authz);
    let (budget, started) = (Budget::with(STEPS, TIME), Instant::now());
    let evaluate = || program.evaluate(&environment.context(None, &budget), &budget);
    let result = with_large_stack(evaluate).unwrap_or_else(|error| panic!("{error}"));
    let elapsed = started.elapsed();
    assert!(elapsed < TOO_LONG, "{elapsed:?}: {source}");
    let most = MAX_LENGTH.max(source.len()).max(object.to_string().len());
    match result {
        Ok(Cel::String(text)) => assert!(text.len() <= most, "{} bytes: {source}", text.len()),
        Ok(Cel::List(items)) => assert!(items.len() <= most, "{} items: {source}", items.len()),
        Ok(_) => {}
        Err(error) => assert!(error.contains(source.trim()), "{error}"),
    }
}
