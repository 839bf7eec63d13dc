//! Writes that plugins refuse.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::{
    A, POTS,
    guard::{Guard, guarded},
};
use crate::support::pot;

#[tokio::test]
async fn a_denied_write_changes_nothing() {
    let guard = Arc::<Guard>::default();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    for step in ["mutate", "validate"] {
        let mut denied = pot("denied", json!({"dish": "soup"}));
        denied["metadata"]["labels"] = json!({"denied": step});
        let status = client.post(POTS, &denied).await.refused(403, "Forbidden");
        assert_eq!(status["message"], format!("{step} says no"));
        client.get(&format!("{POTS}/denied")).await.refused(404, "NotFound");
    }
    let created = client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    let labels = json!({"metadata": {"labels": {"denied": "validate"}}});
    client.merge(A, &labels).await.refused(403, "Forbidden");
    assert_eq!(client.get(A).await.expect(200), created);
}

#[tokio::test]
async fn a_denied_deletion_keeps_the_object_also_in_a_collection() {
    let guard = Arc::<Guard>::default();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    // The label comes by the server's own hand, which no plugin sees.
    let context =
        machinery_server::RequestContext::new(machinery_auth::UserInfo::default(), "n", chrono::Utc::now());
    let label = |pot: &mut crate::support::Pot| {
        let labels = pot.metadata.labels.get_or_insert_default();
        labels.insert("denied".to_owned(), "validate".to_owned());
        Ok(())
    };
    kitchen.pots.mutate(&context, "n", "a", label).await.expect("a label");
    client.send("DELETE", A, &[], Bytes::new()).await.refused(403, "Forbidden");
    client.send("DELETE", POTS, &[], Bytes::new()).await.refused(403, "Forbidden");
    client.get(A).await.expect(200);
}
