#!/usr/bin/env python3
"""An app that answers evacuations of its own pod by watching: the standard library, no Kubernetes client.

Its pod carries the annotation

    evacuation.dev/responders: '[{"name":"self"}]'

and needs no rights. While the busy file exists, the app delays; then it accepts.

    watcher.py --busy-file /tmp/busy --delay 30
"""

import argparse
import http.client
import json
import os
import pathlib
import ssl
import threading
import time

FOLDER = pathlib.Path(os.environ.get("FOLDER", "/var/run/secrets/kubernetes.io/serviceaccount"))
# The server ends a watch after this time. A connection that is silent for longer is dead.
WATCH_SECONDS = 30
MAX_PAUSE = 15


class Failed(Exception):
    """A reply that is no success."""

    def __init__(self, code, body):
        super().__init__(f"{code} {body[:4096]}")
        self.code = code
        self.body = body

    def is_final(self, name):
        """Whether the server has rejected an answer. A 404 or 409 that gives no details says nothing about it."""
        try:
            if self.code == 404:
                return json.loads(self.body)["details"]["name"] == name
            if self.code == 409:
                return bool(json.loads(self.body)["details"]["causes"])
        except (ValueError, TypeError, KeyError):
            return False
        return self.code in (400, 403, 422)


def request(method, path, body=None):
    """Returns the reply to a request. The kubelet replaces the files, so each request reads them again."""
    connection = http.client.HTTPSConnection(
        os.environ["KUBERNETES_SERVICE_HOST"],
        int(os.environ["KUBERNETES_SERVICE_PORT"]),
        context=ssl.create_default_context(cafile=FOLDER / "ca.crt"),
        timeout=2 * WATCH_SECONDS,
    )
    headers = {"Authorization": "Bearer " + (FOLDER / "token").read_text().strip()}
    if body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body)
    namespace = (FOLDER / "namespace").read_text().strip()
    url = f"/apis/evacuation.dev/v1alpha1/namespaces/{namespace}/selfevacuations{path}"
    connection.request(method, url, body, headers)
    reply = connection.getresponse()
    if reply.status >= 300:
        raise Failed(reply.status, reply.read(65536).decode(errors="replace"))
    return reply


def answer(evacuation, spec, stop):
    """Posts an answer until the server has taken or rejected it. Returns the reply, or None."""
    spec = {"evacuationUid": evacuation["metadata"]["uid"], "podUid": evacuation["spec"]["target"]["pod"]["uid"], **spec}
    body = {"apiVersion": "evacuation.dev/v1alpha1", "kind": "EvacuationResponse", "spec": spec}
    name = evacuation["metadata"]["name"]
    pause = 1
    while not stop.is_set():
        try:
            return json.load(request("POST", f"/{name}/respond", body))["status"]
        except (OSError, http.client.HTTPException, ValueError, Failed) as error:
            print(f"not answered: {error}", flush=True)
            if isinstance(error, Failed) and error.is_final(name):
                return None
        stop.wait(pause)
        pause = min(2 * pause, MAX_PAUSE)
    return None


class App:
    """The questions that are being worked on, by the UID of the Evacuation."""

    def __init__(self, options):
        self.options = options
        self.questions = {}

    def look(self, evacuation):
        """Begins to work when it is the pod's turn, and stops when that ends."""
        uid = evacuation["metadata"]["uid"]
        responders = evacuation.get("status", {}).get("responders", [])
        mine = next((responder for responder in responders if responder["name"] == "self"), {})
        if mine.get("state") == "Active" and mine.get("answer") != "Accept":
            if uid not in self.questions:
                stop = self.questions[uid] = threading.Event()
                threading.Thread(target=self.work, args=(evacuation, stop), daemon=True).start()
        elif mine.get("state") != "Active":
            self.forget(uid)
            if mine.get("state") == "Canceled" and not mine.get("cancellationAcknowledged"):
                print(f"canceled: {evacuation['metadata']['name']}", flush=True)
                arguments = (evacuation, {"acknowledgeCancellation": True}, threading.Event())
                threading.Thread(target=answer, args=arguments, daemon=True).start()

    def forget(self, uid):
        """Stops the work for an Evacuation."""
        if uid in self.questions:
            self.questions.pop(uid).set()

    def work(self, evacuation, stop):
        """Delays while the app is busy, then accepts."""
        wanted_by = ", ".join(requester["name"] for requester in evacuation["spec"]["requesters"])
        # In a rehearsal nobody wants the pod to move: an app says what it would answer, and goes on working.
        kind = " (a rehearsal)" if evacuation["spec"].get("rehearsal") else ""
        print(f"asked by {wanted_by}{kind}", flush=True)
        while os.path.exists(self.options.busy_file) and not stop.is_set():
            delay = {"answer": "Delay", "delaySeconds": self.options.delay, "message": "finishing a job"}
            reply = answer(evacuation, delay, stop) or {}
            # A renewal comes in time; one that was rejected changes nothing, and the work goes on.
            end = time.monotonic() + reply.get("grantedSeconds", self.options.delay) * 2 / 3
            while os.path.exists(self.options.busy_file) and time.monotonic() < end and not stop.wait(0.5):
                pass
        if answer(evacuation, {"answer": "Accept"}, stop) is not None:
            print("accepted", flush=True)


def list_all(app):
    """Looks at all Evacuations of the pod. Returns the version from which to watch."""
    found = json.load(request("GET", ""))
    for gone in set(app.questions) - {item["metadata"]["uid"] for item in found["items"]}:
        app.forget(gone)
    for item in found["items"]:
        app.look(item)
    return found["metadata"]["resourceVersion"]


def follow(app):
    """Lists, then watches for ever. A watch goes on where the last one ended."""
    version, pause = None, 1
    while True:
        try:
            version = version or list_all(app)
            query = f"?watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
            for line in request("GET", query):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise Failed(event["object"].get("code", 500), event["object"].get("message", ""))
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] == "DELETED":
                    app.forget(event["object"]["metadata"]["uid"])
                elif event["type"] != "BOOKMARK":
                    app.look(event["object"])
            pause = 1
        except (OSError, http.client.HTTPException, ValueError, Failed) as error:
            print(f"the watch failed: {error}", flush=True)
            # The version is too old: only a new list shows what is open.
            if isinstance(error, Failed) and error.code == 410:
                version = None
        time.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE)


def main():
    parser = argparse.ArgumentParser(description="Answers evacuations of its own pod.")
    parser.add_argument("--busy-file", default="/tmp/busy", help="the app is busy while this file exists")
    parser.add_argument("--delay", type=int, default=30, help="seconds of each delay")
    follow(App(parser.parse_args()))


if __name__ == "__main__":
    main()
