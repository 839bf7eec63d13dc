/**
 * An app that answers evacuations of its own pod by watching: Node alone, no Kubernetes client.
 *
 * Its pod carries the annotation
 *
 *     evacuation.dev/responders: '[{"name":"self"}]'
 *
 * and needs no rights. While the busy file exists, the app delays; then it accepts.
 *
 *     node watcher.mjs --busy-file /tmp/busy --delay 30
 */

import { existsSync, readFileSync } from "node:fs";
import { request as https } from "node:https";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const FOLDER = process.env.FOLDER ?? "/var/run/secrets/kubernetes.io/serviceaccount";
// The server ends a watch after this time. A connection that is silent for longer is dead.
const WATCH_SECONDS = 30;
const MAX_PAUSE = 15;

const { values: options } = parseArgs({
  options: {
    "busy-file": { type: "string", default: "/tmp/busy" },
    delay: { type: "string", default: "30" },
  },
});

/** A reply that is no success. */
class Failed extends Error {
  constructor(code, body) {
    super(`${code} ${String(body).slice(0, 4096)}`);
    this.code = code;
    this.body = body;
  }

  /** Whether the server has rejected an answer. A 404 or 409 that gives no details says nothing about it. */
  isFinal(name) {
    try {
      if (this.code === 404) {
        return JSON.parse(this.body).details.name === name;
      }
      if (this.code === 409) {
        return JSON.parse(this.body).details.causes.length > 0;
      }
    } catch {
      return false;
    }
    return [400, 403, 422].includes(this.code);
  }
}

const file = (name) => readFileSync(`${FOLDER}/${name}`, "utf8").trim();

async function text(reply) {
  const chunks = [];
  for await (const chunk of reply) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Returns the reply to a request. The kubelet replaces the files, so each request reads them again. */
async function request(method, path, body) {
  const reply = await new Promise((resolve, reject) => {
    const asked = https(
      {
        method,
        host: process.env.KUBERNETES_SERVICE_HOST,
        port: process.env.KUBERNETES_SERVICE_PORT,
        path: `/apis/evacuation.dev/v1alpha1/namespaces/${file("namespace")}/selfevacuations${path}`,
        headers: { Authorization: `Bearer ${file("token")}`, "Content-Type": "application/json" },
        ca: file("ca.crt"),
        agent: false,
        timeout: 2 * WATCH_SECONDS * 1000,
      },
      resolve,
    );
    asked.on("timeout", () => asked.destroy(new Error("the server says nothing")));
    asked.on("error", reject);
    asked.end(body === undefined ? undefined : JSON.stringify(body));
  });
  if (reply.statusCode >= 300) {
    throw new Failed(reply.statusCode, await text(reply));
  }
  return reply;
}

/** Posts an answer until the server has taken or rejected it. Returns the reply, if it was taken. */
async function answer(evacuation, spec, stop) {
  const uids = { evacuationUid: evacuation.metadata.uid, podUid: evacuation.spec.target.pod.uid };
  const body = { apiVersion: "evacuation.dev/v1alpha1", kind: "EvacuationResponse", spec: { ...uids, ...spec } };
  for (let pause = 1; !stop?.aborted; pause = Math.min(2 * pause, MAX_PAUSE)) {
    try {
      const reply = await request("POST", `/${evacuation.metadata.name}/respond`, body);
      return JSON.parse(await text(reply)).status ?? {};
    } catch (error) {
      console.log(`not answered: ${error.message}`);
      if (error instanceof Failed && error.isFinal(evacuation.metadata.name)) {
        return undefined;
      }
    }
    await sleep(pause * 1000);
  }
  return undefined;
}

const isBusy = () => existsSync(options["busy-file"]);

/** Delays while the app is busy, then accepts. */
async function work(evacuation, stop) {
  // In a rehearsal nobody wants the pod to move: an app says what it would answer, and goes on working.
  const kind = evacuation.spec.rehearsal ? " (a rehearsal)" : "";
  console.log(`asked by ${evacuation.spec.requesters.map((requester) => requester.name).join(", ")}${kind}`);
  const delaySeconds = Number(options.delay);
  while (isBusy() && !stop.aborted) {
    const reply = await answer(evacuation, { answer: "Delay", delaySeconds, message: "finishing a job" }, stop);
    // A renewal comes in time; one that was rejected changes nothing, and the work goes on.
    const end = Date.now() + ((reply?.grantedSeconds ?? delaySeconds) * 1000 * 2) / 3;
    while (isBusy() && Date.now() < end && !stop.aborted) {
      await sleep(500);
    }
  }
  if (!stop.aborted && (await answer(evacuation, { answer: "Accept" }, stop))) {
    console.log("accepted");
  }
}

/** The questions that are being worked on, by the UID of the Evacuation. */
const questions = new Map();

function forget(uid) {
  questions.get(uid)?.abort();
  questions.delete(uid);
}

/** Begins to work when it is the pod's turn, and stops when that ends. */
function look(evacuation) {
  const uid = evacuation.metadata.uid;
  const mine = evacuation.status?.responders?.find((responder) => responder.name === "self");
  if (mine?.state === "Active") {
    if (!questions.has(uid) && mine.answer !== "Accept") {
      const stop = new AbortController();
      questions.set(uid, stop);
      work(evacuation, stop.signal);
    }
    return;
  }
  forget(uid);
  if (mine?.state === "Canceled" && !mine.cancellationAcknowledged) {
    console.log(`canceled: ${evacuation.metadata.name}`);
    answer(evacuation, { acknowledgeCancellation: true });
  }
}

/** Looks at all Evacuations of the pod. Returns the version from which to watch. */
async function list() {
  const found = JSON.parse(await text(await request("GET", "")));
  const there = new Set(found.items.map((item) => item.metadata.uid));
  [...questions.keys()].filter((uid) => !there.has(uid)).forEach(forget);
  found.items.forEach(look);
  return found.metadata.resourceVersion;
}

let version;
let pause = 1;
// A watch goes on where the last one ended.
for (;;) {
  try {
    version ??= await list();
    const query = `?watch=true&allowWatchBookmarks=true&resourceVersion=${version}&timeoutSeconds=${WATCH_SECONDS}`;
    const reply = await request("GET", query);
    for await (const line of createInterface({ input: reply })) {
      const { type, object } = JSON.parse(line);
      if (type === "ERROR") {
        throw new Failed(object.code, object.message);
      }
      version = object.metadata.resourceVersion;
      if (type === "DELETED") {
        forget(object.metadata.uid);
      } else if (type !== "BOOKMARK") {
        look(object);
      }
    }
    pause = 1;
  } catch (error) {
    console.log(`the watch failed: ${error.message}`);
    // The version is too old: only a new list shows what is open.
    if (error.code === 410) {
      version = undefined;
    }
  }
  await sleep(pause * 1000);
  pause = Math.min(2 * pause, MAX_PAUSE);
}
