"""Manages an Evacuation by the official Python client, and prints a report as JSON.

`client.py manage FILE` creates, reads, lists, patches and applies the object of the file. It leaves the object
there.
`client.py follow FILE` watches it while it is changed and deleted.
"""

import json
import sys

from kubernetes import client, config, dynamic, watch

PLACE = {"group": "evacuation.dev", "version": "v1alpha1", "plural": "evacuations"}
MERGE = "application/merge-patch+json"
# Seconds after which a change that was not seen is a failure.
PATIENCE = 60


def refusal(call, **arguments):
    """Returns code, reason and message of a call that must fail."""
    try:
        call(**arguments)
    except client.ApiException as error:
        status = json.loads(error.body)
        return {"code": error.status, "reason": status["reason"], "message": status["message"]}
    raise AssertionError(f"{call.__name__} did not fail")


def manage(objects, place, wanted):
    """Creates, reads, lists, patches and applies the object."""
    name = wanted["metadata"]["name"]
    one = {**place, "name": name}
    created = objects.create_namespaced_custom_object(**place, body=wanted, field_manager="python")
    pages = []
    token = ""
    while token is not None:
        page = objects.list_namespaced_custom_object(
            **place, label_selector="app=db", limit=1, _continue=token
        )
        pages.append([item["metadata"]["name"] for item in page["items"]])
        token = page["metadata"].get("continue")
    merged = objects.patch_namespaced_custom_object(
        **one, body={"metadata": {"annotations": {"merged": "yes"}}}, _content_type=MERGE
    )
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": created["metadata"]["uid"]},
        {"op": "add", "path": "/metadata/annotations/pointed", "value": "yes"},
    ]
    pointed = objects.patch_namespaced_custom_object(
        **one, body=operations, _content_type="application/json-patch+json"
    )
    resources = dynamic.DynamicClient(objects.api_client)
    evacuations = resources.resources.get(api_version="evacuation.dev/v1alpha1", kind="Evacuation")
    applied = evacuations.server_side_apply(
        body={
            "apiVersion": "evacuation.dev/v1alpha1",
            "kind": "Evacuation",
            "metadata": {"name": name, "labels": {"applied": "yes"}},
        },
        namespace=place["namespace"],
        field_manager="python-apply",
    )
    stale = objects.get_namespaced_custom_object(**one)
    stale["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"]
    return {
        "pages": pages,
        "annotations": [merged["metadata"]["annotations"], pointed["metadata"]["annotations"]],
        "applied": applied.metadata.labels.applied,
        "missing": refusal(objects.get_namespaced_custom_object, **{**one, "name": "nobody"}),
        "existing": refusal(objects.create_namespaced_custom_object, **place, body=wanted),
        "stale": refusal(objects.replace_namespaced_custom_object, **one, body=stale),
        "invalid": refusal(
            objects.patch_namespaced_custom_object,
            **one,
            body={"spec": {"target": {"pod": {"name": "other"}}}},
            _content_type=MERGE,
        ),
    }


def follow(objects, place, wanted):
    """Follows the changes of the object by a watch."""
    one = {**place, "name": wanted["metadata"]["name"]}
    events = watch.Watch().stream(
        objects.list_namespaced_custom_object, **place, label_selector="app=db", timeout_seconds=PATIENCE
    )

    def watched(kind, fits=lambda item: True):
        for event in events:
            if event["type"] == kind and fits(event["object"]):
                return kind
        raise AssertionError(f"the watch ended without {kind}")

    def changed(item):
        return item["metadata"].get("annotations", {}).get("round") == "one"

    seen = [watched("ADDED")]
    objects.patch_namespaced_custom_object(
        **one, body={"metadata": {"annotations": {"round": "one"}}}, _content_type=MERGE
    )
    seen.append(watched("MODIFIED", changed))
    deleted = objects.delete_namespaced_custom_object(**one, propagation_policy="Background")
    seen.append(watched("DELETED"))
    return {"watch": seen, "deleted": deleted["kind"]}


def main():
    step, file = sys.argv[1:]
    config.load_kube_config()
    with open(file, encoding="utf-8") as text:
        wanted = json.load(text)
    place = {**PLACE, "namespace": wanted["metadata"]["namespace"]}
    steps = {"manage": manage, "follow": follow}
    print(json.dumps(steps[step](client.CustomObjectsApi(), place, wanted)))


main()
