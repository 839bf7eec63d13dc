//! `kubectl patch`, `label`, `annotate` and `edit`.

use super::row::{Row, fails, ok};

pub(super) const ROWS: &[Row] = &[
    ok("kubectl create -f $FILE", &["$PRINTED created\n"]),
    // Patches.
    ok(
        "kubectl patch $PLURAL $NAME --type=json -p '[
             {\"op\": \"test\", \"path\": \"/metadata/name\", \"value\": \"'$NAME'\"},
             {\"op\": \"replace\", \"path\": \"'$POINTER'\", \"value\": '\"$OTHER_JSON\"'}]'",
        &["$PRINTED patched\n"],
    ),
    ok("kubectl get $PLURAL $NAME -o jsonpath=\"{$FIELD}.\"", &["$OTHER."]),
    fails(
        "kubectl patch $PLURAL $NAME --type=json -p '[{\"op\": \"test\", \"path\": \"/metadata/name\", \
           \"value\": 1}]'",
        &[" is invalid"],
    ),
    fails("kubectl patch $PLURAL $NAME --type=json -p '{}'", &["Error from server (BadRequest): "]),
    fails("kubectl patch $PLURAL $NAME --type=merge -p '{\"a\"'", &["Error from server (BadRequest): "]),
    ok(
        "kubectl patch $PLURAL $NAME --type=merge -p '{\"metadata\": {\"labels\": {\"app\": \"web\"}}}'",
        &["$PRINTED patched\n"],
    ),
    ok(
        "kubectl patch $PLURAL $NAME --type=merge -p '{\"metadata\": {\"labels\": {\"app\": \"web\"}}}'",
        &["$PRINTED patched (no change)\n"],
    ),
    ok(
        "kubectl patch $PLURAL $NAME --type=merge -p '{\"metadata\": {\"labels\": {\"app\": null}}}' -o yaml",
        &["kind: $KIND\n"],
    )
    .lacks(&["app: web"]),
    ok("kubectl patch $PLURAL $NAME --type=merge -p \"$SPEC_PATCH\" --dry-run=server", &["$PRINTED patched"]),
    ok(
        "echo \"$SPEC_PATCH\" > $FOLDER/p; kubectl patch -f $FILE --type=merge --patch-file $FOLDER/p",
        &["$PRINTED patched"],
    ),
    ok(
        "kubectl patch $PLURAL $NAME --type=merge --dry-run=server -p '{\"metadata\": {\"labels\": \
           {\"z\": \"1\"}}}'",
        &["$PRINTED patched"],
    ),
    ok("kubectl get $PLURAL -l bench=$NS,z", &["No resources found"]),
    fails(
        "kubectl patch $PLURAL $NAME --type=strategic -p '{\"metadata\": {\"labels\": {\"app\": \"web\"}}}'",
        &["error: application/strategic-merge-patch+json is not supported by $GROUP/v1alpha1, Kind=$KIND: \
           the body of the request was in an unknown format - accepted \
           media types include: application/json-patch+json, application/merge-patch+json, \
           application/apply-patch+yaml"],
    )
    .only(&["evacuationresponders", "nodeevacuations", "nodeevacuationrules", "widgets"]),
    ok(
        "kubectl patch $PLURAL $NAME -p '{\"spec\": {\"requesters\": [{\"name\": \
           \"test.evacuation.dev/clients\", \"reason\": \"FanFailure\"}]}}' \
           -o jsonpath='{.spec.requesters[*].reason}.'",
        &["FanFailure."],
    )
    .only(&["evacuations"]),
    fails(
        "kubectl patch $PLURAL $NAME --type=merge -p '{\"metadata\": {\"name\": \"other\"}}'",
        &["Error from server (BadRequest): the name of the object (other) does not match the name on \
               the URL \
           ($NAME)"],
    ),
    fails(
        "kubectl patch $PLURAL $NAME --type=merge -p '{\"metadata\": {\"resourceVersion\": \"1\"}}'",
        &["Error from server (Conflict): Operation cannot be fulfilled on $PLURAL.$GROUP \"$NAME\": \
               the object has \
           been modified"],
    ),
    fails(
        "kubectl patch $PLURAL nobody --type=merge -p '{}'",
        &["Error from server (NotFound): $PLURAL.$GROUP \"nobody\" not found"],
    ),
    ok(
        "kubectl patch $PLURAL $NAME --type=merge --subresource=status --field-manager=acme -o yaml \
             --show-managed-fields -p '{\"status\": {\"observedGeneration\": 0}}'",
        &["manager: acme\n", "subresource: status\n"],
    )
    .only(&["widgets"]),
    // Labels.
    ok("kubectl label $PLURAL $NAME team=db", &["$PRINTED labeled\n"]),
    ok("kubectl label $PLURAL $NAME team=db", &["$PRINTED not labeled\n"]),
    fails(
        "kubectl label $PLURAL $NAME team=web",
        &["'team' already has a value (db), and --overwrite is false"],
    ),
    ok(
        "kubectl label $PLURAL $NAME team=web --overwrite --dry-run=server",
        &["$PRINTED labeled (server dry run)\n"],
    ),
    ok("kubectl label $PLURAL $NAME team=web --overwrite", &["$PRINTED labeled\n"]),
    ok("kubectl label $PLURAL -l bench=$NS zone=a", &["$PRINTED labeled\n"]),
    ok("kubectl label -f $FILE --list", &["team=web\n", "zone=a\n"]),
    ok("kubectl label $PLURAL $NAME zone- team-", &["$PRINTED unlabeled\n"]),
    fails(
        "kubectl label $PLURAL $NAME team=db --resource-version=1",
        &["Error from server (Conflict): Operation cannot be fulfilled on $PLURAL.$GROUP \"$NAME\""],
    ),
    fails("kubectl label $PLURAL $NAME team=a/b", &["invalid label value: \"team=a/b\""]),
    // Annotations.
    ok("kubectl annotate $PLURAL $NAME why=because", &["$PRINTED annotated\n"]),
    fails(
        "kubectl annotate $PLURAL $NAME why=not",
        &["--overwrite is false but found the following declared"],
    ),
    ok("kubectl annotate $PLURAL $NAME why=not --overwrite --field-manager=acme", &["$PRINTED annotated\n"]),
    ok("kubectl annotate $PLURAL $NAME --list", &["why=not\n"]),
    ok("kubectl annotate -l bench=$NS $PLURAL why-", &["$PRINTED annotated\n"]),
    ok("kubectl get $PLURAL $NAME -o jsonpath='[{.metadata.annotations.why}]'", &["[]"]),
    // Editors.
    ok(
        "kubectl annotate $PLURAL $NAME note=draft && EDITOR=\"sed -i s/draft/final/\" kubectl edit \
           $PLURAL $NAME",
        &["$PRINTED edited\n"],
    ),
    ok("kubectl get $PLURAL $NAME -o jsonpath='[{.metadata.annotations.note}]'", &["[final]"]),
    ok("EDITOR=true kubectl edit $PLURAL $NAME", &["Edit cancelled, no changes made.\n"]),
    fails("EDITOR=false kubectl edit $PLURAL $NAME", &["there was a problem with the editor"]),
    ok(
        r#"EDITOR="sed -i s/note/remark/" kubectl edit $PLURAL $NAME -o json"#,
        &["\"remark\": \"final\"", "\"kind\": \"$KIND\""],
    ),
    ok("kubectl get $PLURAL $NAME -o json", &["\"remark\": \"final\""]).lacks(&["\"note\""]),
    ok(
        r#"EDITOR="sed -i 's/remark: final/remark: patched/'" kubectl edit $PLURAL $NAME --output-patch"#,
        &[r#"Patch: {"metadata":{"annotations":{"remark":"patched"}}}"#, "$PRINTED edited\n"],
    ),
    fails(
        r#"EDITOR="sed -i 's/^  generation:/  colour:/'" kubectl edit $PLURAL $NAME
           code=$?; cat $TMPDIR/kubectl-edit-*; exit $code"#,
        &[
            "error: $PLURAL.$GROUP \"$NAME\" is invalid\n",
            "error: Edit cancelled, no valid changes were saved.\n",
            "unknown field \"metadata.colour\"",
        ],
    ),
    fails(
        "kubectl edit $PLURAL nobody",
        &["Error from server (NotFound): $PLURAL.$GROUP \"nobody\" not found"],
    ),
    // A kind without replicas.
    fails("kubectl scale $PLURAL $NAME --replicas=2", &["Error from server (NotFound)"]),
    ok("kubectl delete $PLURAL $NAME", &["\"$NAME\" deleted"]),
];
