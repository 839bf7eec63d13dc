//! `kubectl create` and `kubectl replace`.

use super::row::{Row, fails, ok};

pub(super) const ROWS: &[Row] = &[
    ok("kubectl create -f $FILE --dry-run=client", &["$PRINTED created (dry run)\n"]),
    ok("kubectl create -f $FILE --dry-run=server", &["$PRINTED created (server dry run)\n"]),
    ok("kubectl create -f $FILE --dry-run=server -o yaml", &["kind: $KIND\n", "  uid: "]),
    fails("kubectl get $PLURAL $NAME", &["(NotFound)"]),
    // Fields that the kind does not have.
    fails(
        "kubectl create -f $UNKNOWN",
        &["Error from server (BadRequest): error when creating \"$UNKNOWN\": $KIND in version \
           \"v1alpha1\" cannot \
           be handled as a $KIND: strict decoding error: unknown field \"spec.colour\""],
    ),
    fails("kubectl create -f $UNKNOWN --validate=strict", &["unknown field \"spec.colour\""]),
    ok(
        "kubectl create -f $UNKNOWN --validate=warn --dry-run=server",
        &["Warning: unknown field \"spec.colour\"\n", "$PRINTED created (server dry run)\n"],
    ),
    ok("kubectl create -f $UNKNOWN --validate=ignore --dry-run=server", &["$PRINTED created"])
        .lacks(&["Warning", "colour"]),
    fails("echo '{\"apiVersion\": \"$GROUP/v1alpha1\"' | kubectl create -f -", &["error"]),
    fails(
        "sed -e \"s/$KIND/Nothing/\" $FILE | kubectl create -f -",
        &["error: resource mapping not found for name: \"$NAME\"", "no matches for kind \"Nothing\""],
    ),
    ok("kubectl create -f $FILE --field-manager=acme --save-config", &["$PRINTED created\n"]),
    ok("kubectl get $PLURAL $NAME -o yaml --show-managed-fields", &["manager: acme\n", "last-applied"]),
    fails(
        "kubectl create -f $FILE",
        &["Error from server (AlreadyExists): error when creating \"$FILE\": $PLURAL.$GROUP \"$NAME\" \
           already \
           exists\n"],
    ),
    // Replacements.
    ok("kubectl replace -f $CHANGED --dry-run=server", &["$PRINTED replaced (server dry run)\n"]),
    ok("kubectl get $PLURAL $NAME -o jsonpath=\"{$FIELD}.\"", &["$VALUE."]),
    ok("kubectl replace -f $CHANGED", &["$PRINTED replaced\n"]),
    ok("kubectl get $PLURAL $NAME -o jsonpath=\"{$FIELD}.\"", &["$OTHER."]),
    ok(
        "kubectl get $PLURAL $NAME -o yaml > $FOLDER/stale.yaml
         kubectl annotate $PLURAL $NAME moved=on
         kubectl replace -f $FOLDER/stale.yaml; test $? = 1",
        &["Error from server (Conflict): error when replacing \"$FOLDER/stale.yaml\": Operation cannot be \
           fulfilled on $PLURAL.$GROUP \"$NAME\": the object has been modified; please apply your changes to \
           the latest version and try again\n"],
    ),
    ok(
        "kubectl get $PLURAL $NAME -o json | sed -e 's/\"db\"/\"db\", \"team\": \"web\"/' | kubectl \
           replace -f -",
        &["$PRINTED replaced\n"],
    )
    .only(&["evacuations", "nodeevacuations", "nodeevacuationrules"]),
    fails("kubectl replace -f $UNKNOWN", &["unknown field \"spec.colour\""]),
    fails(
        "cat $NOBODY | kubectl replace -f -",
        &["Error from server (NotFound): error when replacing \"STDIN\": $PLURAL.$GROUP \"nobody\" not \
           found"],
    ),
    ok("kubectl replace --force -f $FILE", &["\"$NAME\" deleted", "$PRINTED replaced\n"]),
    ok("kubectl get $PLURAL $NAME -o jsonpath=\"{$FIELD}.\"", &["$VALUE."]),
    ok("kubectl delete -f $FILE", &["\"$NAME\" deleted"]),
    ok("kubectl create --raw $COLLECTION -f $FILE", &["\"uid\":"]),
    ok("kubectl delete --raw $COLLECTION/$NAME", &["\"$NAME\""]),
    ok("kubectl wait --for=delete $PLURAL/$NAME --timeout=60s", &[]),
];
