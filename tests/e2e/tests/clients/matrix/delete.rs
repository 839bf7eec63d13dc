//! `kubectl delete` with its cascades.

use super::row::{Row, fails, ok, soon, soon_fails};

/// Creates the object, and a ConfigMap that it owns.
macro_rules! owner_and_child {
    () => {
        "kubectl create -f $FILE && kubectl apply -f - <<END
{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"child\", \"ownerReferences\": [{
    \"apiVersion\": \"$GROUP/v1alpha1\", \"kind\": \"$KIND\", \"name\": \"$NAME\", \
       \"blockOwnerDeletion\": true,
    \"uid\": \"$(kubectl get $PLURAL $NAME -o jsonpath='{.metadata.uid}')\"}]}}
END"
    };
}

pub(super) const ROWS: &[Row] = &[
    ok(owner_and_child!(), &["$PRINTED created\n", "configmap/child created\n"]),
    ok("kubectl delete $PLURAL $NAME --dry-run=client", &["\"$NAME\" deleted", "(dry run)\n"]),
    ok("kubectl delete $PLURAL $NAME --dry-run=server", &["\"$NAME\" deleted", "(server dry run)\n"]),
    ok("kubectl delete $PLURAL $NAME --dry-run=server --cascade=foreground", &["(server dry run)\n"]),
    ok("kubectl get $PLURAL $NAME -o jsonpath='[{.metadata.deletionTimestamp}]'", &["[]"]),
    // Cascades. The garbage collector learns of a new kind in its own time.
    ok("kubectl delete $PLURAL $NAME --cascade=orphan --timeout=120s", &["\"$NAME\" deleted"]),
    ok("kubectl get configmap child -o jsonpath='[{.metadata.ownerReferences}]'", &["[]"]),
    fails("kubectl get $PLURAL $NAME", &["(NotFound)"]),
    ok("kubectl delete configmap child", &["\"child\" deleted"]),
    ok(owner_and_child!(), &["configmap/child created\n"]),
    ok("kubectl delete $PLURAL $NAME --cascade=foreground --timeout=120s", &["\"$NAME\" deleted"]),
    fails("kubectl get configmap child", &["(NotFound)"]),
    ok(owner_and_child!(), &["configmap/child created\n"]),
    ok("kubectl delete $PLURAL $NAME --cascade=background", &["\"$NAME\" deleted"]),
    soon_fails("kubectl get configmap child", &["(NotFound)"]),
    // Waiting, and grace.
    ok("kubectl create -f $FILE", &["created"]),
    ok("kubectl delete $PLURAL $NAME --wait=false", &["\"$NAME\" deleted"]),
    ok("kubectl wait --for=delete $PLURAL/$NAME --timeout=60s", &[]),
    ok("kubectl create -f $FILE", &["created"]),
    ok("kubectl delete $PLURAL $NAME --grace-period=1", &["\"$NAME\" deleted"]),
    soon("kubectl create -f $FILE", &["created"]),
    ok("kubectl delete $PLURAL $NAME --now", &["\"$NAME\" deleted"]),
    soon("kubectl create -f $FILE", &["created"]),
    fails(
        "kubectl delete $PLURAL $NAME --grace-period=0 --force --now",
        &["error: --now and --grace-period cannot be specified together"],
    ),
    ok("kubectl delete $PLURAL $NAME --grace-period=0 --force", &["\"$NAME\" force deleted"]),
    ok("kubectl wait --for=delete $PLURAL/$NAME --timeout=60s", &[]),
    // Selection.
    ok("kubectl create -f $FILE", &["created"]),
    ok("kubectl delete $PLURAL -l bench=$NS,app=web", &["No resources found"]),
    ok("kubectl delete $PLURAL -l bench=$NS", &["\"$NAME\" deleted"]),
    ok("kubectl create -f $FILE", &["created"]),
    ok("kubectl delete $PLURAL --field-selector metadata.name=$NAME -o name", &["$PRINTED\n"]),
    ok("kubectl create -f $FILE", &["created"]),
    ok("kubectl delete $PLURAL --all", &["\"$NAME\" deleted"]).only(&[
        "widgets",
        "evacuationresponders",
        "evacuations",
    ]),
    ok("kubectl delete -f $FILE --ignore-not-found", &[]),
    fails(
        "kubectl delete -f $FILE",
        &["Error from server (NotFound): error when deleting \"$FILE\"", "\"$NAME\" not found"],
    ),
    fails(
        "kubectl delete $PLURAL nobody",
        &["Error from server (NotFound): $PLURAL.$GROUP \"nobody\" not found"],
    ),
    ok("kubectl delete $PLURAL nobody --ignore-not-found", &[]).lacks(&["nobody"]),
];
