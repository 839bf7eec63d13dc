//! `kubectl apply` of both sides, and `kubectl diff`.

use super::row::{Row, fails, ok};

pub(super) const ROWS: &[Row] = &[
    // Of the client.
    ok("kubectl diff -f $FILE; test $? = 1", &["+kind: $KIND\n"]),
    ok("kubectl apply -f $FILE --dry-run=client", &["$PRINTED created (dry run)\n"]),
    ok("kubectl apply -f $FILE --dry-run=server", &["$PRINTED created (server dry run)\n"]),
    ok("kubectl apply -f $FILE", &["$PRINTED created\n"]),
    ok("kubectl diff -f $FILE", &[]).lacks(&["+", "-"]),
    ok("kubectl apply -f $FILE", &["$PRINTED unchanged\n"]),
    ok("kubectl diff -f $CHANGED; test $? = 1", &[": $VALUE\n", ": $OTHER\n", "\n+  ", "\n-  "]),
    ok("kubectl apply -f $CHANGED --dry-run=server -o jsonpath=\"{$FIELD}.\"", &["$OTHER."]),
    ok("cat $CHANGED | kubectl apply -f -", &["$PRINTED configured\n"]),
    ok("kubectl get $PLURAL $NAME -o jsonpath=\"{$FIELD}.\"", &["$OTHER."]),
    ok("kubectl apply view-last-applied $PLURAL $NAME -o json", &["\"kind\": \"$KIND\"", "$OTHER"]),
    ok("kubectl apply -f $SHORTENED", &["$PRINTED configured\n"]),
    ok("kubectl get $PLURAL $NAME -o jsonpath=\"[{$FIELD}]\"", &["["]).lacks(&["$OTHER"]),
    ok("kubectl apply set-last-applied -f $FILE", &["$PRINTED configured\n"]),
    ok("EDITOR=true kubectl apply edit-last-applied $PLURAL $NAME", &["Edit cancelled, no changes made."]),
    fails("kubectl apply -f $UNKNOWN", &["unknown field \"spec.colour\""]),
    ok(
        "mkdir -p $FOLDER/all && cp $FILE $FOLDER/all/$PLURAL.json && kubectl apply -R -f $FOLDER/all",
        &["$PRINTED configured\n"],
    ),
    ok("kubectl delete -R -f $FOLDER/all && rm -r $FOLDER/all", &["\"$NAME\" deleted"]),
    // Of the server.
    ok("kubectl diff --server-side -f $FILE; test $? = 1", &["+kind: $KIND\n"]),
    ok(
        "kubectl apply --server-side -f $FILE --dry-run=server",
        &["$PRINTED serverside-applied (server dry run)\n"],
    ),
    ok("kubectl apply --server-side -f $FILE --field-manager=acme", &["$PRINTED serverside-applied\n"]),
    ok("kubectl apply --server-side -f $FILE --field-manager=acme", &["$PRINTED serverside-applied\n"]),
    ok("kubectl get $PLURAL $NAME -o yaml --show-managed-fields", &["manager: acme\n", "operation: Apply\n"]),
    ok("kubectl diff --server-side -f $FILE --field-manager=acme", &[]).lacks(&["+", "-"]),
    ok("kubectl diff --server-side --force-conflicts -f $CHANGED; test $? = 1", &["$VALUE\n", "$OTHER\n"]),
    fails(
        "kubectl apply --server-side -f $CHANGED",
        &["error: Apply failed with 1 conflict: conflict with \"acme\": ", "`--force-conflicts`"],
    ),
    ok("kubectl apply --server-side -f $CHANGED --force-conflicts", &["$PRINTED serverside-applied\n"]),
    ok("kubectl get $PLURAL $NAME -o jsonpath=\"{$FIELD}.\"", &["$OTHER."]),
    ok("kubectl apply --server-side -f $SHORTENED", &["$PRINTED serverside-applied\n"]),
    ok("kubectl get $PLURAL $NAME -o jsonpath=\"[{$FIELD}]\"", &["["]).lacks(&["$OTHER"]),
    fails("kubectl apply --server-side -f $UNKNOWN", &["colour"]),
    ok("kubectl delete $PLURAL $NAME", &["\"$NAME\" deleted"]),
    // From one side to the other.
    ok(
        "kubectl apply -f $FILE && kubectl apply --server-side -f $SHORTENED",
        &["$PRINTED created\n$PRINTED serverside-applied\n"],
    ),
    ok("kubectl get $PLURAL $NAME -o jsonpath=\"[{$FIELD}]\"", &["["]).lacks(&["$VALUE"]),
    ok("kubectl apply -f $CHANGED", &["$PRINTED configured\n"]),
    ok("kubectl delete $PLURAL $NAME", &["\"$NAME\" deleted"]),
    // Kustomizations.
    ok(
        "mkdir -p $FOLDER/k && cp $FILE $FOLDER/k/object.json
         printf 'resources: [object.json]\\ncommonAnnotations: {made: kustomize}\\n' > \
            $FOLDER/k/kustomization.yaml
         kubectl apply -k $FOLDER/k",
        &["$PRINTED created\n"],
    ),
    ok("kubectl get -k $FOLDER/k -o jsonpath='[{.metadata.annotations.made}]'", &["[kustomize]"]),
    ok("kubectl delete -k $FOLDER/k", &["\"$NAME\" deleted"]),
];
