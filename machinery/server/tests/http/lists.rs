use serde_json::{Value, json};

use crate::support::{Kitchen, pot, revision};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("items");
    items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

async fn filled() -> Kitchen {
    let kitchen = Kitchen::open().await;
    for (namespace, name, dish) in
        [("n", "a", "soup"), ("n", "b", "stew"), ("n", "c", "soup"), ("n-2", "a", "soup"), ("m", "z", "rice")]
    {
        let mut body = pot(name, json!({"dish": dish}));
        body["metadata"]["labels"] = json!({"dish": dish});
        let path = format!("/apis/kitchen.dev/v1/namespaces/{namespace}/pots");
        kitchen.client().post(&path, &body).await.expect(201);
    }
    kitchen
}

#[tokio::test]
async fn a_list_shows_every_write_that_was_answered_before() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    for count in 1..=30 {
        let created = client.create_pot(&format!("p{count}"), json!({"dish": "soup"})).await;
        let list = client.get(POTS).await.expect(200);
        assert_eq!(names(&list).len(), count);
        assert!(revision(&list) >= revision(&created));
    }
}

#[tokio::test]
async fn a_list_shows_what_the_cache_has_not_heard_of_yet() {
    let kitchen = filled().await;
    let client = kitchen.client();
    client.get(POTS).await.expect(200);
    kitchen.store.hold_watches(true);
    client.create_pot("d", json!({"dish": "soup"})).await;
    assert_eq!(names(&client.get(POTS).await.expect(200)), ["a", "b", "c", "d"]);
    let at_hand = client.get(&format!("{POTS}?resourceVersion=0")).await.expect(200);
    assert_eq!(names(&at_hand), ["a", "b", "c"], "or else the test proves nothing");
    kitchen.store.hold_watches(false);
}

#[tokio::test]
async fn a_strategy_that_lists_the_newest_objects_is_shown_what_the_cache_has_not_heard_of_yet() {
    let kitchen = filled().await;
    kitchen.client().get(POTS).await.expect(200);
    kitchen.store.hold_watches(true);
    kitchen.client().create_pot("d", json!({"dish": "soup"})).await;
    let newest = kitchen.pots.list_newest("n").await.expect("a list");
    let names: Vec<_> = newest.iter().filter_map(|pot| pot.metadata.name.as_deref()).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    kitchen.store.hold_watches(false);
}

#[tokio::test]
async fn lists_are_narrowed_by_namespace_labels_and_fields() {
    let kitchen = filled().await;
    let client = kitchen.client();
    let all = "/apis/kitchen.dev/v1/pots";
    let cases = [
        (POTS.to_owned(), vec!["a", "b", "c"]),
        (all.to_owned(), vec!["z", "a", "a", "b", "c"]),
        (format!("{POTS}?labelSelector=dish%3Dsoup"), vec!["a", "c"]),
        (format!("{POTS}?labelSelector=dish!%3Dsoup"), vec!["b"]),
        (format!("{POTS}?fieldSelector=spec.dish%3Dstew"), vec!["b"]),
        (format!("{POTS}?fieldSelector=metadata.name%3Dc"), vec!["c"]),
        (format!("{POTS}?fieldSelector=metadata.name%3Dc,spec.dish%3Dstew"), vec![]),
        (format!("{all}?fieldSelector=metadata.name%3Da"), vec!["a", "a"]),
        (format!("{all}?fieldSelector=metadata.namespace%3Dm"), vec!["z"]),
        (format!("{POTS}?resourceVersion=0&limit=1"), vec!["a", "b", "c"]),
    ];
    for (path, expected) in cases {
        let list = client.get(&path).await.expect(200);
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PotList"), &json!("kitchen.dev/v1")));
        assert_eq!(names(&list), expected, "{path}");
    }
}

#[tokio::test]
async fn pages_show_one_revision_while_writes_go_on() {
    let kitchen = filled().await;
    let client = kitchen.client();
    let first = client.get(&format!("{POTS}?limit=1")).await.expect(200);
    assert_eq!(names(&first), ["a"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    client.delete(&format!("{POTS}/b")).await.expect(200);
    client.create_pot("bb", json!({"dish": "soup"})).await;

    let token = first["metadata"]["continue"].as_str().expect("a token");
    let second = client.get(&format!("{POTS}?limit=1&continue={token}")).await.expect(200);
    assert_eq!(names(&second), ["b"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().expect("a token");
    let third = client.get(&format!("{POTS}?limit=1&continue={token}")).await.expect(200);
    assert_eq!(names(&third), ["c"]);
    assert!(third["metadata"].get("continue").is_none(), "{}", third["metadata"]);
    assert_eq!(names(&client.get(POTS).await.expect(200)), ["a", "bb", "c"]);

    let selected = client.get(&format!("{POTS}?limit=1&labelSelector=dish%3Dsoup")).await.expect(200);
    assert!(selected["metadata"].get("remainingItemCount").is_none(), "unknown with a selector");
}

#[tokio::test]
async fn a_list_shows_the_revision_that_is_asked_for() {
    let kitchen = filled().await;
    let client = kitchen.client();
    let before = client.get(POTS).await.expect(200);
    let revision = before["metadata"]["resourceVersion"].as_str().expect("a version");
    client.delete(&format!("{POTS}/a")).await.expect(200);
    let exact = format!("{POTS}?resourceVersion={revision}&resourceVersionMatch=Exact");
    assert_eq!(client.get(&exact).await.expect(200), before);
    let paged = client.get(&format!("{POTS}?resourceVersion={revision}&limit=2")).await.expect(200);
    assert_eq!(names(&paged), ["a", "b"]);
    let newer =
        client.get(&format!("{POTS}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan")).await;
    assert!(crate::support::revision(&newer.expect(200)) > crate::support::revision(&before));
}

#[tokio::test]
async fn the_future_is_not_shown() {
    let kitchen = filled().await;
    let client = kitchen.client();
    for path in [format!("{POTS}?resourceVersion=999999"), format!("{POTS}/a?resourceVersion=999999")] {
        let answer = client.get(&path).await;
        let status = answer.refused(504, "Timeout");
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert_eq!(answer.header("retry-after"), "1");
    }
}

#[tokio::test]
async fn a_page_whose_revision_was_forgotten_is_expired() {
    let kitchen = filled().await;
    let client = kitchen.client();
    let first = client.get(&format!("{POTS}?limit=1")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    // The cache is filled again and remembers nothing; the store forgets, too.
    let newest = client.create_pot("d", json!({"dish": "soup"})).await;
    let revision: i64 =
        newest["metadata"]["resourceVersion"].as_str().expect("text").parse().expect("a number");
    machinery_storage::Store::compact(kitchen.store.as_ref(), revision).await.expect("compacted");
    kitchen.store.compact_before(revision);
    crate::support::eventually("the page is gone", || async {
        client.get(&format!("{POTS}?limit=1&continue={token}")).await.code == 410
    })
    .await;
    let status = client.get(&format!("{POTS}?limit=1&continue={token}")).await.refused(410, "Expired");
    let message = status["message"].as_str().expect("text");
    assert!(message.contains("or use the continue token in this response"), "{message}");

    // The other token continues in the newest state, which has an object more.
    let token = status["metadata"]["continue"].as_str().expect("a token");
    let rest = client.get(&format!("{POTS}?limit=2&continue={token}")).await.expect(200);
    assert_eq!(names(&rest), ["b", "c"]);
    assert!(crate::support::revision(&rest) >= revision);
    let token = rest["metadata"]["continue"].as_str().expect("a token");
    let end = client.get(&format!("{POTS}?limit=2&continue={token}")).await.expect(200);
    assert_eq!(names(&end), ["d"]);
}

#[tokio::test]
async fn a_head_request_has_the_headers_of_a_get_and_no_body() {
    let kitchen = filled().await;
    let client = kitchen.client();
    for path in [POTS.to_owned(), format!("{POTS}/a"), "/version".to_owned(), "/apis".to_owned()] {
        let get = client.get(&path).await;
        let head = client.send("HEAD", &path, &[], bytes::Bytes::new()).await;
        assert_eq!((head.code, head.body.len()), (200, 0), "{path}");
        for name in ["content-type", "content-length"] {
            assert_eq!(head.header(name), get.header(name), "{path}: {name}");
        }
    }
    assert_eq!(client.send("HEAD", &format!("{POTS}/none"), &[], bytes::Bytes::new()).await.code, 404);
    let watch = client.send("HEAD", &format!("{POTS}?watch=true"), &[], bytes::Bytes::new()).await;
    assert_eq!((watch.code, watch.body.len()), (200, 0), "a watch without a body ends at once");
}

#[tokio::test]
async fn a_single_read_shows_at_least_the_revision_asked_for() {
    let kitchen = filled().await;
    let client = kitchen.client();
    let object = client.merge(&format!("{POTS}/a"), &json!({"spec": {"servings": 7}})).await.expect(200);
    let revision = object["metadata"]["resourceVersion"].as_str().expect("a version");
    let read = client.get(&format!("{POTS}/a?resourceVersion={revision}")).await.expect(200);
    assert_eq!(read, object);
    assert_eq!(client.get(&format!("{POTS}/a?resourceVersion=0")).await.expect(200), object);
}

#[tokio::test]
async fn long_lists_are_compressed_for_clients_that_accept_it() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    for name in ["a", "b"] {
        client.create_pot(name, json!({"dish": "x".repeat(100 * 1024)})).await;
    }
    let gzip = [("accept-encoding", "gzip")];
    let long = client.send("GET", POTS, &gzip, bytes::Bytes::new()).await;
    assert_eq!(long.header("content-encoding"), "gzip");
    assert!(long.body.len() < 10 * 1024);
    let short = client.send("GET", &format!("{POTS}/a"), &gzip, bytes::Bytes::new()).await;
    assert_eq!(short.header("content-encoding"), "");
    assert_eq!(client.get(POTS).await.header("content-encoding"), "");
}
