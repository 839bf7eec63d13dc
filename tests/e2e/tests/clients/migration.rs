//! Objects of client-side apply that move to server-side apply, and back.

use serde_json::Value;

use crate::workbench::{Workbench, managers};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_client_side_apply_moves_to_server_side_apply() {
    let bench = Workbench::new("migration").await;
    for configuration in bench.configurations() {
        let file = bench.file(&configuration);
        let printed = bench.kubectl(&["apply", "-f", &file]).await;
        assert_eq!(printed, format!("{} created\n", configuration.printed()));
        let client_side = bench.settled(&configuration).await;
        assert_eq!(managers(&client_side), ["kubectl-client-side-apply Update"]);

        // No conflict, and the field goes: kubectl has moved the ownership of the client-side apply.
        bench.applied(&configuration.shortened(), &[]).await;
        let moved = bench.settled(&configuration).await;
        assert_eq!(configuration.value(&moved), configuration.default, "{moved}");
        assert!(!managers(&moved).contains(&"kubectl-client-side-apply Update".to_owned()), "{moved}");
        assert!(managers(&moved).contains(&"kubectl Apply".to_owned()), "{moved}");
        assert_eq!(moved["metadata"]["uid"], client_side["metadata"]["uid"]);
        // kubectl keeps the annotation up to date, so that a client-side apply still knows what it removes.
        let last: Value =
            serde_json::from_str(moved["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap()).unwrap();
        assert_eq!(configuration.value(&last), Value::Null, "{last}");

        bench.applied(&configuration.shortened(), &[]).await;
        assert_eq!(bench.read(&configuration).await, moved, "the second one changes nothing");

        let file = bench.file(&configuration.changed());
        let printed = bench.kubectl(&["apply", "-f", &file]).await;
        assert_eq!(printed, format!("{} configured\n", configuration.printed()));
        assert_eq!(configuration.value(&bench.read(&configuration).await), configuration.other);
    }
    bench.close().await;
}
