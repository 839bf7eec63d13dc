//! The course of an Evacuation: `kubectl wait`, `events`, `describe`, and selectors of the status.

use super::row::{Row, fails, follows, ok, soon};

pub(super) const ROWS: &[Row] = &[
    // A request whose window never opens, so that it stays.
    fails(
        "kubectl wait --for=create evacuation/$NAME --timeout=1s",
        &["timed out waiting for the condition"],
    ),
    ok("kubectl create -f $FILE", &["$PRINTED created\n"]),
    ok("kubectl wait --for=create evacuation/$NAME --timeout=60s", &["$PRINTED condition met\n"]),
    ok(
        "kubectl wait --for=jsonpath='{.status.observedGeneration}'=1 evac/$NAME --timeout=60s",
        &["condition met\n"],
    ),
    ok(
        "kubectl wait --for=jsonpath='{.status.requesters[0].user}' evac/$NAME --timeout=60s",
        &["condition met\n"],
    ),
    fails(
        "kubectl wait --for=jsonpath='{.status.nothing}'=1 evac/$NAME --timeout=1s",
        &["error: timed out waiting for the condition on evacuations/$NAME"],
    ),
    fails(
        "kubectl wait --for=condition=Finished evac/$NAME --timeout=1s",
        &["error: timed out waiting for the condition on evacuations/$NAME"],
    ),
    fails(
        "kubectl wait --for=delete evac/$NAME --timeout=1s",
        &["error: timed out waiting for the condition on evacuations/$NAME"],
    ),
    fails("kubectl wait --for=condition=Finished evac/nobody --timeout=1s", &["\"nobody\" not found"]),
    ok("kubectl get evac", &["NAME ", "TARGET ", "STATE ", "ANSWER ", "AGE\n", "Scheduled "]),
    ok("kubectl get evac -o wide", &["REQUESTERS ", "RESPONDER ", "UNTIL ", "test.evacuation.dev/clients"]),
    ok("kubectl get evac --field-selector status.finished=false -o name", &["$PRINTED\n"]),
    ok(
        "kubectl get evac --field-selector spec.target.pod.name=db-0,status.finished!=true -o name",
        &["$PRINTED\n"],
    ),
    // The status has its own rules.
    fails(
        "kubectl patch evac $NAME --type=merge -p '{\"spec\": {\"target\": {\"pod\": {\"name\": \"web-0\"}}}}'",
        &["is invalid", "spec.target", "immutable"],
    ),
    // A request that ends.
    ok(
        "kubectl create -f - <<END
{\"apiVersion\": \"evacuation.dev/v1alpha1\", \"kind\": \"Evacuation\", \"metadata\": \
   {\"generateName\": \"web-\",
 \"labels\": {\"app\": \"web\"}}, \"spec\": {\"target\": {\"pod\": {\"name\": \"web-0\"}},
 \"requesters\": [{\"name\": \"test.evacuation.dev/web\"}]}}
END",
        &["evacuation.evacuation.dev/web-", " created\n"],
    ),
    ok("kubectl wait --for=condition=Finished evac -l app=web --timeout=60s", &[" condition met\n"]),
    ok(
        "kubectl wait evac -l app=web --timeout=60s \
             --for=jsonpath='{.status.conditions[?(@.type==\"Evacuated\")].reason}'=Evicted",
        &[" condition met\n"],
    ),
    ok("kubectl wait --for=delete pod/web-0 --timeout=60s", &[]),
    ok("kubectl get evac --field-selector status.finished=true --no-headers", &["web-", " Evacuated "]),
    soon("kubectl events --for pod/web-0", &["LAST SEEN ", "REASON ", "Evicted ", "Pod/web-0 "]),
    soon("kubectl events --for $(kubectl get evac -l app=web -o name)", &["Evicted "]),
    ok("kubectl events --types=Warning --for pod/web-0", &["No events found in $NS namespace."]),
    soon("kubectl get events --field-selector involvedObject.kind=Evacuation", &["evacuation/web-"]),
    ok(
        "kubectl describe evac -l app=web",
        &["Conditions:\n", "Type:  ", "Evacuated", "Events:\n", "Evicted"],
    ),
    ok("kubectl describe evac web", &["Name:         web-"]),
    // The kind that an app reads.
    fails("kubectl get selfevac", &["Error from server (Forbidden)"]),
    fails("kubectl create -f $FILE --dry-run=server", &["(AlreadyExists)", "$NAME"]),
    follows(
        "kubectl get evac -w --output-watch-events",
        "kubectl delete evac -l app=web --wait=false",
        &["ADDED ", "DELETED "],
    ),
    ok("kubectl delete evac $NAME", &["\"$NAME\" deleted"]),
];
