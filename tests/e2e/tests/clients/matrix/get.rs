//! `kubectl get` with its outputs, selectors, pages and watches, and `kubectl describe`.

use super::row::{Row, fails, follows, ok, soon};

pub(super) const ROWS: &[Row] = &[
    ok("kubectl create -f $FILE", &["$PRINTED created\n"]),
    ok("kubectl get $PLURAL $NAME", &["NAME ", "\n$NAME "]),
    ok("kubectl get $SINGULAR/$NAME --no-headers", &["$NAME "]).lacks(&["NAME "]),
    ok("kubectl get $PLURAL.v1alpha1.$GROUP $NAME -o name", &["$PRINTED\n"]),
    ok("kubectl get -f $FILE -o name", &["$PRINTED\n"]),
    ok("cat $FILE | kubectl get -f - -o name", &["$PRINTED\n"]),
    ok("kubectl get $PLURAL $NAME -o wide", &["NAME ", "\n$NAME "]),
    ok("kubectl get $PLURAL $NAME -o yaml", &["apiVersion: $GROUP/v1alpha1\n", "kind: $KIND\n", "\n  uid: "])
        .lacks(&["managedFields"]),
    ok("kubectl get $PLURAL $NAME -o yaml --show-managed-fields", &["  managedFields:\n", "f:spec:"]),
    ok("kubectl get $PLURAL $NAME -o json", &["\"kind\": \"$KIND\"", "\"name\": \"$NAME\""]),
    ok("kubectl get $PLURAL -l bench=$NS -o json", &["\"kind\": \"List\"", "\"kind\": \"$KIND\""]),
    ok("kubectl get $PLURAL $NAME -o kyaml", &["kind: \"$KIND\",", "name: \"$NAME\","])
        .with_1_32(1, &["error: unable to match a printer suitable for the output format \"kyaml\""]),
    ok("kubectl get $PLURAL $NAME -o jsonpath=\"{$FIELD}.\"", &["$VALUE."]),
    ok("kubectl get $PLURAL $NAME -o jsonpath-as-json='{.metadata.labels.app}'", &["[\n    \"db\"\n]"]),
    ok("kubectl get $PLURAL $NAME -o go-template='{{.kind}} {{.metadata.name}}.'", &["$KIND $NAME."]),
    ok(
        "kubectl get $PLURAL $NAME -o custom-columns=N:.metadata.name,\"F:$FIELD\",K:.kind",
        &["N ", "K\n", "$NAME ", "$VALUE ", "$KIND\n"],
    ),
    ok("kubectl get $PLURAL $NAME --show-labels", &["LABELS\n", "app=db,bench=$NS"]),
    ok("kubectl get $PLURAL $NAME -L app", &["APP\n", " db\n"]),
    ok("kubectl get $PLURAL $NAME --show-kind --no-headers", &["$PRINTED "]),
    ok("kubectl get $PLURAL $NAME --server-print=false", &["NAME ", "AGE\n", "$NAME "]),
    ok("kubectl get $PLURAL -l bench=$NS --sort-by=.metadata.name", &["NAME ", "\n$NAME "]),
    ok("kubectl get $PLURAL -A -l bench=$NS -o name", &["$PRINTED\n"]),
    ok("kubectl get $PLURAL,configmaps -l bench=$NS -o name", &["$PRINTED\n"]),
    ok("kubectl get $PLURAL $NAME --subresource=status -o name", &["$PRINTED\n"]).only(&[
        "widgets",
        "evacuations",
        "nodeevacuations",
        "nodeevacuationrules",
    ]),
    ok("kubectl get --raw $COLLECTION/$NAME", &["\"kind\":\"$KIND\"", "\"name\":\"$NAME\""]),
    ok("kubectl get --raw \"$COLLECTION?labelSelector=bench%3D$NS\"", &["\"kind\":\"$LIST\""]),
    // Selectors.
    ok("kubectl get $PLURAL -l bench=$NS,app=db -o name", &["$PRINTED\n"]),
    ok("kubectl get $PLURAL -l \"bench in ($NS, other),!zone\" -o name", &["$PRINTED\n"]),
    ok("kubectl get $PLURAL -l bench=$NS,app!=db", &["No resources found"]),
    fails(
        "kubectl get $PLURAL -l 'app in db'",
        &["Error from server (BadRequest): Unable to find \"$GROUP/v1alpha1, Resource=$PLURAL\" that \
               match label \
           selector \"app in db\", field selector \"\": unable to parse"],
    ),
    ok("kubectl get $PLURAL --field-selector metadata.name=$NAME -o name", &["$PRINTED\n"]),
    ok("kubectl get $PLURAL -l bench=$NS --field-selector metadata.name!=$NAME", &["No resources found"]),
    fails(
        "kubectl get $PLURAL --field-selector spec.colour=red",
        &["Error from server (BadRequest): Unable to find \"$GROUP/v1alpha1, Resource=$PLURAL\" that \
               match label \
           selector \"\", field selector \"spec.colour=red\": field label not supported: spec.colour"],
    ),
    // Pages: an object more than a page has.
    ok(
        "for i in 1 2; do
             sed -e 's/\"name\": \"db\"/\"name\": \"db-'$i'\"/' $FILE | kubectl create -f - || exit 3
         done
         kubectl get $PLURAL -l bench=$NS --chunk-size=2 -o name -v=6",
        &["limit=2", "&limit=2", "continue=", "/db\n", "/db-1\n", "/db-2\n"],
    )
    .only(&["widgets", "evacuationresponders"]),
    ok("kubectl get $PLURAL -l bench=$NS --chunk-size=0 -o name -v=6", &["$PRINTED\n"]).lacks(&["continue="]),
    // Absence.
    fails(
        "kubectl get $PLURAL nobody",
        &["Error from server (NotFound): $PLURAL.$GROUP \"nobody\" not found\n"],
    ),
    ok("kubectl get $PLURAL nobody --ignore-not-found", &[]).lacks(&["nobody"]),
    fails(
        "kubectl get $PLURAL $NAME nobody -o name",
        &["$PRINTED\n", "Error from server (NotFound): $PLURAL.$GROUP \"nobody\" not found"],
    ),
    fails("kubectl get $PLURAL $NAME -o jsonpath='{.spec'", &["error parsing jsonpath"]),
    // Watches.
    follows(
        "kubectl get $PLURAL $NAME -w -o jsonpath='[{.metadata.annotations.round}]'",
        "kubectl annotate $PLURAL $NAME --overwrite round=one",
        &["[", "[one]"],
    ),
    follows(
        "kubectl get $PLURAL -l bench=$NS -w --output-watch-events",
        "kubectl annotate $PLURAL $NAME --overwrite round=two-$(date +%s)",
        &["ADDED ", "EVENT ", "MODIFIED ", "$NAME "],
    ),
    follows(
        "kubectl get $PLURAL -l bench=$NS --field-selector metadata.name=$NAME --watch-only -o name -v=6",
        "kubectl annotate $PLURAL $NAME --overwrite round=three-$(date +%s)",
        &["watch=true", "$PRINTED\n"],
    ),
    // Descriptions.
    ok("kubectl describe $PLURAL $NAME", &["Name:  ", "Kind:  ", " $KIND\n", "Spec:\n", "Events:"]),
    ok("kubectl describe $PLURAL -l bench=$NS --show-events=false", &["Name:  "]).lacks(&["Events:"]),
    ok("kubectl describe -f $FILE", &["Name:  ", " $KIND\n"]),
    fails("kubectl describe $PLURAL nobody", &["(NotFound): $PLURAL.$GROUP \"nobody\" not found"]),
    soon("kubectl delete $PLURAL -l bench=$NS", &["\"$NAME\" deleted"]),
];
