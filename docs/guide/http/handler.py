#!/usr/bin/env python3
"""An app that answers evacuations over plain HTTP: one handler, no Kubernetes client.

Its pod carries the annotation

    evacuation.dev/responders: '[{"name":"self","http":{"port":8080,"path":"/evacuation"}}]'

and the controller posts an EvacuationReview there. The reply repeats the two UIDs and holds the answer.

    handler.py --bind 10.1.2.3 --port 8080 --answer Refuse --message "backup runs" --retry-after 60
"""

import argparse
import http.server
import json
import sys


def answer(request, options):
    """The app's decision. A real app looks at what it is doing; this one does what its flags say."""
    reply = {
        "evacuationUid": request["evacuation"]["uid"],
        "podUid": request["pod"]["uid"],
        "answer": options.answer,
        "message": options.message,
    }
    if options.answer == "Delay":
        reply["delaySeconds"] = options.delay
    if options.answer == "Refuse" and options.retry_after:
        reply["retryAfterSeconds"] = options.retry_after
    return reply


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers POST requests with an EvacuationReview."""

    protocol_version = "HTTP/1.1"
    options = None

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        wanted_by = ", ".join(requester["name"] for requester in request["requesters"])
        # In a rehearsal nobody wants the pod to move: an app says what it would answer, and goes on working.
        kind = " (a rehearsal)" if request.get("rehearsal") else ""
        print(f"{request['action']} by {wanted_by}{kind}", flush=True)
        if request["action"] != "Cancel":
            review["response"] = answer(request, self.options)
            print(f"answering {self.options.answer}: {self.options.message}", flush=True)
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *arguments):
        """Says nothing of its own: what matters is printed above."""


def main():
    parser = argparse.ArgumentParser(description="Answers evacuations over HTTP.")
    parser.add_argument("--bind", default="0.0.0.0", help="the address to listen on")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--answer", choices=["Accept", "Delay", "Refuse"], default="Accept")
    parser.add_argument("--message", default="")
    parser.add_argument("--delay", type=int, default=30, help="for Delay, in seconds")
    parser.add_argument("--retry-after", type=int, default=0, help="for Refuse, in seconds")
    Handler.options = parser.parse_args()
    server = http.server.ThreadingHTTPServer((Handler.options.bind, Handler.options.port), Handler)
    print(f"listening on {Handler.options.bind}:{Handler.options.port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
