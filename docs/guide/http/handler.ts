/**
 * An app that answers evacuations over plain HTTP: one handler, Node alone, no Kubernetes client.
 *
 * Its pod carries the annotation
 *
 *     evacuation.dev/responders: '[{"name":"self","http":{"port":8080,"path":"/evacuation"}}]'
 *
 * and the controller posts an EvacuationReview there. The reply repeats the two UIDs and holds the answer.
 *
 *     tsc --strict --module nodenext handler.ts && node handler.js --bind 10.1.2.3 --port 8080 \
 *         --answer Refuse --message "backup runs" --retry-after 60
 */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { parseArgs } from "node:util";

type Answer = "Accept" | "Delay" | "Refuse";

interface Named {
  namespace: string;
  name: string;
  uid: string;
}

interface ReviewRequest {
  action: "Ask" | "Remind" | "Cancel";
  evacuation: Named;
  pod: Named;
  requesters: { name: string; reason?: string; message?: string }[];
  rehearsal?: boolean;
}

interface ReviewResponse {
  evacuationUid: string;
  podUid: string;
  answer: Answer;
  delaySeconds?: number;
  retryAfterSeconds?: number;
  message?: string;
}

interface Review {
  apiVersion: string;
  kind: string;
  request?: ReviewRequest;
  response?: ReviewResponse;
}

const MAX_BODY = 1 << 20;

const { values: options } = parseArgs({
  options: {
    bind: { type: "string", default: "0.0.0.0" },
    port: { type: "string", default: "8080" },
    answer: { type: "string", default: "Accept" },
    message: { type: "string", default: "" },
    delay: { type: "string", default: "30" },
    "retry-after": { type: "string", default: "0" },
  },
});

/** The app's decision. A real app looks at what it is doing; this one does what its flags say. */
function decide(request: ReviewRequest): ReviewResponse {
  const reply: ReviewResponse = {
    evacuationUid: request.evacuation.uid,
    podUid: request.pod.uid,
    answer: options.answer as Answer,
    message: options.message,
  };
  const retryAfter = Number(options["retry-after"]);
  if (reply.answer === "Delay") {
    reply.delaySeconds = Number(options.delay);
  } else if (reply.answer === "Refuse" && retryAfter > 0) {
    reply.retryAfterSeconds = retryAfter;
  }
  return reply;
}

async function read(incoming: IncomingMessage): Promise<Review> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming) {
    size += chunk.length;
    if (size > MAX_BODY) {
      throw new Error("the body is too long");
    }
    chunks.push(chunk);
  }
  return JSON.parse(Buffer.concat(chunks).toString("utf8")) as Review;
}

/** Answers a POST with an EvacuationReview. */
async function handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const { apiVersion, kind, request } = await read(incoming);
  if (!request) {
    throw new Error("not an EvacuationReview");
  }
  // In a rehearsal nobody wants the pod to move: an app says what it would answer, and goes on working.
  const mark = request.rehearsal ? " (a rehearsal)" : "";
  console.log(`${request.action} by ${request.requesters.map((requester) => requester.name).join(", ")}${mark}`);
  const reply: Review = { apiVersion, kind };
  if (request.action !== "Cancel") {
    reply.response = decide(request);
    console.log(`answering ${options.answer}: ${options.message}`);
  }
  const body = JSON.stringify(reply);
  outgoing.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) });
  outgoing.end(body);
}

const server = createServer((incoming, outgoing) => {
  handle(incoming, outgoing).catch(() => outgoing.writeHead(400).end());
});
server.listen(Number(options.port), options.bind, () => {
  console.log(`listening on ${options.bind}:${options.port}`);
});
