// Manages an Evacuation by the official JavaScript client, and prints a report as JSON.
//
// `client.mjs manage FILE` creates, reads, lists, patches and applies the object of the file, and leaves it
// there. `client.mjs follow FILE` watches it, and has an informer of it, while it is changed and deleted.
// `client.mjs console FILE SERVER TOKEN` watches by the WebSocket of browsers while the object is changed.
import { readFileSync } from 'node:fs';
import {
    CustomObjectsApi, KubeConfig, KubernetesObjectApi, PatchStrategy, Watch, makeInformer, setHeaderOptions,
} from '@kubernetes/client-node';

// Milliseconds after which a change that was not seen is a failure.
const PATIENCE = 60_000;

const [step, file, server, bearer] = process.argv.slice(2);
const wanted = JSON.parse(readFileSync(file, 'utf8'));
const config = new KubeConfig();
config.loadFromDefault();
const objects = config.makeApiClient(CustomObjectsApi);
const { name, namespace } = wanted.metadata;
const place = { group: 'evacuation.dev', version: 'v1alpha1', plural: 'evacuations', namespace };
const one = { ...place, name };
const MERGE = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);

// Returns code, reason and message of a call that must fail.
async function refusal(call) {
    try {
        await call;
    } catch (error) {
        const status = typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
        return { code: error.code, reason: status.reason, message: status.message };
    }
    throw new Error('the call did not fail');
}

async function manage() {
    const generic = KubernetesObjectApi.makeApiClient(config);
    const created = await objects.createNamespacedCustomObject({
        ...place, body: wanted, fieldManager: 'javascript',
    });
    const pages = [];
    let token;
    do {
        const page = await objects.listNamespacedCustomObject({
            ...place, labelSelector: 'app=db', limit: 1, _continue: token,
        });
        pages.push(page.items.map((item) => item.metadata.name));
        token = page.metadata._continue ?? page.metadata.continue;
    } while (token);
    const merged = await objects.patchNamespacedCustomObject(
        { ...one, body: { metadata: { annotations: { merged: 'yes' } } } }, MERGE,
    );
    const pointed = await objects.patchNamespacedCustomObject({
        ...one,
        body: [
            { op: 'test', path: '/metadata/uid', value: created.metadata.uid },
            { op: 'add', path: '/metadata/annotations/pointed', value: 'yes' },
        ],
    }, setHeaderOptions('Content-Type', PatchStrategy.JsonPatch));
    const head = { apiVersion: wanted.apiVersion, kind: wanted.kind };
    const applied = await generic.patch(
        { ...head, metadata: { name, namespace, labels: { applied: 'yes' } } },
        undefined, undefined, 'javascript-apply', false, PatchStrategy.ServerSideApply,
    );
    const read = await generic.read({ ...head, metadata: { name, namespace } });
    const listed = await generic.list(head.apiVersion, head.kind, namespace);
    const { resourceVersion } = created.metadata;
    const stale = { ...read, metadata: { ...read.metadata, resourceVersion } };
    return {
        pages,
        annotations: [merged.metadata.annotations, pointed.metadata.annotations],
        applied: applied.metadata.labels.applied,
        // The object API makes times of texts.
        created: read.metadata.creationTimestamp instanceof Date,
        listed: listed.items.map((item) => item.metadata.name),
        missing: await refusal(objects.getNamespacedCustomObject({ ...one, name: 'nobody' })),
        existing: await refusal(objects.createNamespacedCustomObject({ ...place, body: wanted })),
        stale: await refusal(generic.replace(stale)),
        invalid: await refusal(objects.patchNamespacedCustomObject(
            { ...one, body: { spec: { target: { pod: { name: 'other' } } } } }, MERGE,
        )),
    };
}

// Collects events. `until` waits for one of this kind that fits.
class Events {
    #seen = [];
    #wake = () => {};

    push(kind, item) {
        this.#seen.push([kind, item]);
        this.#wake();
    }

    async until(kind, fits = () => true) {
        const deadline = Date.now() + PATIENCE;
        for (;;) {
            const found = this.#seen.findIndex(([seen, item]) => seen === kind && fits(item));
            if (found >= 0) {
                this.#seen.splice(0, found + 1);
                return kind;
            }
            const left = deadline - Date.now();
            if (left <= 0) throw new Error(`no ${kind}`);
            await new Promise((resolve) => {
                const timer = setTimeout(resolve, left);
                this.#wake = () => { clearTimeout(timer); resolve(); };
            });
        }
    }
}

async function follow() {
    const path = `/apis/evacuation.dev/v1alpha1/namespaces/${namespace}/evacuations`;
    const list = () => objects.listNamespacedCustomObject({ ...place, labelSelector: 'app=db' });
    const [informed, watched] = [new Events(), new Events()];
    const informer = makeInformer(config, path, list, 'app=db');
    for (const kind of ['add', 'update', 'delete', 'error']) {
        informer.on(kind, (item) => informed.push(kind, item));
    }
    await informer.start();
    const request = await new Watch(config).watch(
        path, { labelSelector: 'app=db' },
        (kind, item) => watched.push(kind, item), () => watched.push('END'),
    );
    const changed = (item) => item.metadata.annotations?.round === 'one';
    const report = { informer: [await informed.until('add')], watch: [await watched.until('ADDED')] };
    await objects.patchNamespacedCustomObject(
        { ...one, body: { metadata: { annotations: { round: 'one' } } } }, MERGE,
    );
    report.informer.push(await informed.until('update', changed));
    report.watch.push(await watched.until('MODIFIED', changed));
    report.cached = informer.list(namespace).map((item) => item.metadata.annotations.round);
    const deleted = await objects.deleteNamespacedCustomObject({ ...one, propagationPolicy: 'Background' });
    report.deleted = deleted.kind;
    report.informer.push(await informed.until('delete'));
    report.watch.push(await watched.until('DELETED'));
    report.left = informer.list(namespace).length;
    await informer.stop();
    request.abort();
    return report;
}

// A browser cannot set headers: the token is a subprotocol.
async function watchConsole() {
    const token = Buffer.from(bearer).toString('base64url');
    const path = `/apis/evacuation.dev/v1alpha1/namespaces/${namespace}/evacuations?watch=true`;
    const socket = new WebSocket(`${server.replace(/^https/, 'wss')}${path}`, [
        `base64url.bearer.authorization.k8s.io.${token}`, 'base64.binary.k8s.io',
    ]);
    const watched = new Events();
    socket.addEventListener('message', ({ data }) => {
        const { type, object } = JSON.parse(data);
        watched.push(type, object);
    });
    socket.addEventListener('close', ({ code, wasClean }) => watched.push('CLOSE', { code, wasClean }));
    const round = `${Date.now()}`;
    const report = { watch: [await watched.until('ADDED')] };
    await objects.patchNamespacedCustomObject({ ...one, body: { metadata: { annotations: { round } } } }, MERGE);
    report.watch.push(await watched.until('MODIFIED', (item) => item.metadata.annotations?.round === round));
    report.protocol = socket.protocol;
    report.extensions = socket.extensions;
    socket.close(1000);
    report.closed = await watched.until('CLOSE', ({ wasClean }) => wasClean);
    return report;
}

console.log(JSON.stringify(await { manage, follow, console: watchConsole }[step]()));
