//! The largest bodies, in the shapes that cost most.

use std::fmt::Write;

use serde_json::json;

use crate::support::Kitchen;

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";
/// Size of the bodies in bytes: a third of the limit, for a build without optimisations.
const SIZE: usize = 1024 * 1024;

/// Returns as many parts as fit a body, joined by commas.
fn fill(part: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0.. {
        let part = part(number);
        if text.len() + part.len() > SIZE {
            break;
        }
        let comma = if text.is_empty() { "" } else { "," };
        write!(text, "{comma}{part}").expect("a text");
    }
    text
}

/// Returns a pot with more metadata and a longer specification, as JSON.
fn pot(metadata: &str, spec: &str) -> String {
    format!(r#"{{"metadata":{{"name":"b"{metadata}}},"spec":{{"dish":"soup","servings":-1{spec}}}}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_with_the_largest_bodies_keeps_no_other_from_an_answer() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let tags = fill(|number| format!(r#""{number}""#));
    let greedy = kitchen.client_of("greedy");
    let sent = tokio::spawn(async move {
        let json = "application/json";
        for (body, kind, code) in [
            (pot("", &format!(r#","tags":[{tags}]"#)), json, 422),
            (pot(&format!(r#","finalizers":[{tags}]"#), ""), json, 422),
            (pot("", &format!(",{}", fill(|number| format!(r#""u{number}":1"#)))), json, 422),
            ("[".repeat(SIZE), "application/yaml", 400),
            ("[".repeat(SIZE), json, 400),
        ] {
            let answer = greedy.send("POST", POTS, &[("content-type", kind)], body.into()).await;
            assert_eq!(answer.code, code, "{}", answer.text());
        }
    });
    let mut answers = 0;
    while !sent.is_finished() {
        client.merge(A, &json!({"metadata": {"labels": {"n": answers.to_string()}}})).await.expect(200);
        client.get(A).await.expect(200);
        answers += 1;
    }
    sent.await.expect("each is answered");
    assert!(answers > 0);
}
