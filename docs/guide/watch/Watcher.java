import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * An app that answers evacuations of its own pod by watching: the JDK alone, no Kubernetes client.
 *
 * <p>Its pod carries the annotation
 *
 * <pre>evacuation.dev/responders: '[{"name":"self"}]'</pre>
 *
 * and needs no rights. While the busy file exists, the app delays; then it accepts.
 *
 * <pre>java Watcher.java --busy-file /tmp/busy --delay 30</pre>
 */
public final class Watcher {
    private static final Path FOLDER = Path.of(System.getenv().getOrDefault(
            "FOLDER", "/var/run/secrets/kubernetes.io/serviceaccount"));
    /** The server ends a watch after this time. A connection that is silent for longer is dead. */
    private static final int WATCH_SECONDS = 30;
    private static final int MAX_PAUSE = 15;

    private final Path busyFile;
    private final int delay;
    private final ExecutorService workers = Executors.newCachedThreadPool();
    private final ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
    /** The questions that are being worked on, by the UID of the Evacuation. The latch stops the work. */
    private final Map<String, CountDownLatch> questions = new HashMap<>();

    private String version;

    private Watcher(Path busyFile, int delay) {
        this.busyFile = busyFile;
        this.delay = delay;
    }

    /** A reply that is no success. */
    private static final class Failed extends IOException {
        private final int code;
        private final String body;

        Failed(int code, String body) {
            super(code + " " + body.substring(0, Math.min(body.length(), 4096)));
            this.code = code;
            this.body = body;
        }

        /** Whether the server has rejected an answer. A 404 or 409 that gives no details says nothing about it. */
        boolean isFinal(Object name) {
            try {
                return switch (code) {
                    case 400, 403, 422 -> true;
                    case 404 -> name.equals(at(Json.read(body), "details", "name"));
                    case 409 -> !list(Json.read(body), "details", "causes").isEmpty();
                    default -> false;
                };
            } catch (IllegalArgumentException e) {
                return false;
            }
        }
    }

    private static String file(String name) throws IOException {
        return Files.readString(FOLDER.resolve(name)).strip();
    }

    /** A client that trusts the cluster's CA alone. */
    private static HttpClient client() throws IOException {
        try (InputStream pem = Files.newInputStream(FOLDER.resolve("ca.crt"))) {
            KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
            trusted.load(null);
            int number = 0;
            for (Certificate authority : CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
                trusted.setCertificateEntry("ca-" + number++, authority);
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(trusted);
            SSLContext tls = SSLContext.getInstance("TLS");
            tls.init(null, trust.getTrustManagers(), null);
            // The kube-apiserver closes an HTTP/2 connection after a 401, which this client reports without the code.
            return HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).sslContext(tls)
                    .connectTimeout(Duration.ofSeconds(10)).build();
        } catch (GeneralSecurityException e) {
            throw new IOException("the CA cannot be used", e);
        }
    }

    /** Returns the body of the reply. The kubelet replaces the files, so each request reads them again. */
    private static InputStream request(String method, String path, Object body)
            throws IOException, InterruptedException {
        String host = System.getenv("KUBERNETES_SERVICE_HOST");
        String url = "https://" + (host.contains(":") ? "[" + host + "]" : host) + ":"
                + System.getenv("KUBERNETES_SERVICE_PORT") + "/apis/evacuation.dev/v1alpha1/namespaces/"
                + file("namespace") + "/selfevacuations" + path;
        HttpRequest request = HttpRequest.newBuilder(URI.create(url))
                .header("Authorization", "Bearer " + file("token"))
                .header("Content-Type", "application/json")
                .timeout(Duration.ofSeconds(WATCH_SECONDS))
                .method(method, body == null
                        ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(Json.write(body)))
                .build();
        HttpResponse<InputStream> reply = client().send(request, HttpResponse.BodyHandlers.ofInputStream());
        if (reply.statusCode() >= 300) {
            try (InputStream said = reply.body()) {
                throw new Failed(reply.statusCode(), new String(said.readNBytes(65536), StandardCharsets.UTF_8));
            }
        }
        return reply.body();
    }

    private static Object read(String method, String path, Object body) throws IOException, InterruptedException {
        try (InputStream reply = request(method, path, body)) {
            return Json.read(new String(reply.readAllBytes(), StandardCharsets.UTF_8));
        }
    }

    /** Posts an answer until the server has taken or rejected it. Returns the reply, or null. */
    private static Object answer(Object evacuation, Map<String, Object> spec, CountDownLatch stop)
            throws InterruptedException {
        spec.put("evacuationUid", at(evacuation, "metadata", "uid"));
        spec.put("podUid", at(evacuation, "spec", "target", "pod", "uid"));
        Map<String, Object> body = new LinkedHashMap<>(
                Map.of("apiVersion", "evacuation.dev/v1alpha1", "kind", "EvacuationResponse", "spec", spec));
        int pause = 1;
        do {
            try {
                return read("POST", "/" + at(evacuation, "metadata", "name") + "/respond", body);
            } catch (IOException | IllegalArgumentException e) {
                System.out.println("not answered: " + e);
                if (e instanceof Failed failed && failed.isFinal(at(evacuation, "metadata", "name"))) {
                    return null;
                }
            }
            pause = Math.min(2 * pause, MAX_PAUSE);
        } while (!stop.await(pause, TimeUnit.SECONDS));
        return null;
    }

    /** Delays while the app is busy, then accepts. */
    private void work(Object evacuation, CountDownLatch stop) {
        try {
            // In a rehearsal nobody wants the pod to move: an app says what it would answer, and goes on working.
            String kind = Boolean.TRUE.equals(at(evacuation, "spec", "rehearsal")) ? " (a rehearsal)" : "";
            System.out.println("asked by " + list(evacuation, "spec", "requesters").stream()
                    .map(requester -> (String) at(requester, "name")).collect(Collectors.joining(", ")) + kind);
            while (Files.exists(busyFile) && stop.getCount() > 0) {
                Object reply = answer(evacuation, new LinkedHashMap<>(Map.of(
                        "answer", "Delay", "delaySeconds", delay, "message", "finishing a job")), stop);
                // A renewal comes in time; one that was rejected changes nothing, and the work goes on.
                double granted = at(reply, "status", "grantedSeconds") instanceof Double seconds ? seconds : delay;
                long end = System.nanoTime() + (long) (granted * 1e9 * 2 / 3);
                while (Files.exists(busyFile) && System.nanoTime() < end && stop.getCount() > 0) {
                    stop.await(500, TimeUnit.MILLISECONDS);
                }
            }
            Map<String, Object> accept = new LinkedHashMap<>(Map.of("answer", "Accept"));
            if (stop.getCount() > 0 && answer(evacuation, accept, stop) != null) {
                System.out.println("accepted");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Begins to work when it is the pod's turn, and stops when that ends. */
    private void look(Object evacuation) {
        String uid = (String) at(evacuation, "metadata", "uid");
        Object mine = list(evacuation, "status", "responders").stream()
                .filter(responder -> "self".equals(at(responder, "name"))).findFirst().orElse(null);
        if ("Active".equals(at(mine, "state"))) {
            if (!questions.containsKey(uid) && !"Accept".equals(at(mine, "answer"))) {
                CountDownLatch stop = new CountDownLatch(1);
                questions.put(uid, stop);
                workers.execute(() -> work(evacuation, stop));
            }
            return;
        }
        forget(uid);
        if ("Canceled".equals(at(mine, "state")) && !Boolean.TRUE.equals(at(mine, "cancellationAcknowledged"))) {
            System.out.println("canceled: " + at(evacuation, "metadata", "name"));
            Map<String, Object> known = new LinkedHashMap<>(Map.of("acknowledgeCancellation", true));
            workers.submit(() -> answer(evacuation, known, new CountDownLatch(1)));
        }
    }

    private void forget(Object uid) {
        CountDownLatch stop = questions.remove(uid);
        if (stop != null) {
            stop.countDown();
        }
    }

    /** Looks at all Evacuations of the pod. */
    private void listAll() throws IOException, InterruptedException {
        Object found = read("GET", "", null);
        Set<Object> there = new HashSet<>();
        list(found, "items").forEach(item -> there.add(at(item, "metadata", "uid")));
        questions.keySet().stream().filter(uid -> !there.contains(uid)).toList().forEach(this::forget);
        list(found, "items").forEach(this::look);
        version = (String) at(found, "metadata", "resourceVersion");
    }

    /** Follows the changes until the watch ends. */
    private void watch() throws IOException, InterruptedException {
        InputStream reply = request("GET", "?watch=true&allowWatchBookmarks=true&resourceVersion=" + version
                + "&timeoutSeconds=" + WATCH_SECONDS, null);
        // The request's own timeout ends with its headers.
        var silent = clock.schedule(() -> close(reply), 2 * WATCH_SECONDS, TimeUnit.SECONDS);
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(reply, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                Object event = Json.read(line);
                Object object = at(event, "object");
                if ("ERROR".equals(at(event, "type"))) {
                    int code = at(object, "code") instanceof Double number ? number.intValue() : 500;
                    throw new Failed(code, String.valueOf(at(object, "message")));
                }
                version = (String) at(object, "metadata", "resourceVersion");
                switch ((String) at(event, "type")) {
                    case "DELETED" -> forget(at(object, "metadata", "uid"));
                    case "ADDED", "MODIFIED" -> look(object);
                    default -> { }
                }
            }
        } finally {
            silent.cancel(false);
        }
    }

    private static void close(InputStream stream) {
        try {
            stream.close();
        } catch (IOException e) {
            System.out.println("not closed: " + e);
        }
    }

    /** Lists, then watches for ever. A watch goes on where the last one ended. */
    private void follow() throws InterruptedException {
        int pause = 1;
        while (true) {
            try {
                if (version == null) {
                    listAll();
                }
                watch();
                pause = 1;
            } catch (IOException | IllegalArgumentException e) {
                System.out.println("the watch failed: " + e);
                // The version is too old: only a new list shows what is open.
                if (e instanceof Failed failed && failed.code == 410) {
                    version = null;
                }
            }
            TimeUnit.SECONDS.sleep(pause);
            pause = Math.min(2 * pause, MAX_PAUSE);
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        Map<String, String> options = new HashMap<>(Map.of("busy-file", "/tmp/busy", "delay", "30"));
        for (int i = 0; i < arguments.length; i += 2) {
            String name = arguments[i].replaceFirst("^--", "");
            if (!options.containsKey(name) || i + 1 == arguments.length) {
                System.err.println("usage: [--busy-file FILE] [--delay SECONDS]");
                System.exit(2);
            }
            options.put(name, arguments[i + 1]);
        }
        new Watcher(Path.of(options.get("busy-file")), Integer.parseInt(options.get("delay"))).follow();
    }

    /** The value at a path of names, or null. */
    private static Object at(Object value, String... path) {
        for (String name : path) {
            value = value instanceof Map<?, ?> members ? members.get(name) : null;
        }
        return value;
    }

    private static List<?> list(Object value, String... path) {
        return at(value, path) instanceof List<?> items ? items : List.of();
    }

    /** JSON (RFC 8259), which the JDK lacks; an app with a JSON library uses that one instead. */
    private static final class Json {
        private final String text;
        private int at;

        private Json(String text) {
            this.text = text;
        }

        /** The whole text: objects are maps, arrays lists, the rest strings, numbers, booleans and null. */
        static Object read(String text) {
            Json json = new Json(text);
            Object value = json.value();
            if (json.at != text.length()) {
                throw json.wrong();
            }
            return value;
        }

        private Object value() {
            space();
            Object value = switch (peek()) {
                case '{' -> object();
                case '[' -> array();
                case '"' -> string();
                default -> word();
            };
            space();
            return value;
        }

        private Map<String, Object> object() {
            Map<String, Object> members = new LinkedHashMap<>();
            if (opens('}')) {
                return members;
            }
            do {
                space();
                String name = string();
                space();
                expect(':');
                members.put(name, value());
            } while (comma());
            expect('}');
            return members;
        }

        private List<Object> array() {
            List<Object> items = new ArrayList<>();
            if (opens(']')) {
                return items;
            }
            do {
                items.add(value());
            } while (comma());
            expect(']');
            return items;
        }

        private boolean opens(char end) {
            at++;
            space();
            if (peek() != end) {
                return false;
            }
            at++;
            return true;
        }

        private String string() {
            StringBuilder out = new StringBuilder();
            expect('"');
            while (peek() != '"') {
                char c = text.charAt(at++);
                if (c != '\\') {
                    out.append(c);
                    continue;
                }
                c = peek();
                at++;
                switch (c) {
                    case 'b' -> out.append('\b');
                    case 'f' -> out.append('\f');
                    case 'n' -> out.append('\n');
                    case 'r' -> out.append('\r');
                    case 't' -> out.append('\t');
                    case 'u' -> {
                        if (at + 4 > text.length()) {
                            throw wrong();
                        }
                        out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                        at += 4;
                    }
                    default -> out.append(c);
                }
            }
            at++;
            return out.toString();
        }

        private Object word() {
            int begin = at;
            while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
                at++;
            }
            String word = text.substring(begin, at);
            return switch (word) {
                case "true" -> Boolean.TRUE;
                case "false" -> Boolean.FALSE;
                case "null" -> null;
                default -> Double.valueOf(word);
            };
        }

        private boolean comma() {
            if (peek() != ',') {
                return false;
            }
            at++;
            return true;
        }

        private char peek() {
            if (at >= text.length()) {
                throw wrong();
            }
            return text.charAt(at);
        }

        private void expect(char wanted) {
            if (peek() != wanted) {
                throw wrong();
            }
            at++;
        }

        private void space() {
            while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
        }

        private IllegalArgumentException wrong() {
            return new IllegalArgumentException("not JSON at " + at);
        }

        /** The text of a map, string, number, boolean or null. */
        static String write(Object value) {
            if (value instanceof Map<?, ?> map) {
                return map.entrySet().stream()
                        .map(member -> write(member.getKey()) + ":" + write(member.getValue()))
                        .collect(Collectors.joining(",", "{", "}"));
            }
            if (value instanceof String string) {
                return string.chars().mapToObj(Json::escape).collect(Collectors.joining("", "\"", "\""));
            }
            return String.valueOf(value);
        }

        private static String escape(int c) {
            if (c == '"' || c == '\\') {
                return "\\" + (char) c;
            }
            return c < ' ' ? String.format("\\u%04x", c) : String.valueOf((char) c);
        }
    }
}
