import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;

/**
 * An app that answers evacuations over plain HTTP: one handler, the JDK alone, no Kubernetes client.
 *
 * <p>Its pod carries the annotation
 *
 * <pre>evacuation.dev/responders: '[{"name":"self","http":{"port":8080,"path":"/evacuation"}}]'</pre>
 *
 * and the controller posts an EvacuationReview there. The reply repeats the two UIDs and holds the answer.
 *
 * <pre>java Handler.java --bind 10.1.2.3 --port 8080 --answer Refuse --message "backup runs" --retry-after 60</pre>
 */
public final class Handler {
    private static final int MAX_BODY = 1 << 20;

    private final Map<String, String> options;

    private Handler(Map<String, String> options) {
        this.options = options;
    }

    /** The app's decision. A real app looks at what it is doing; this one does what its flags say. */
    private Map<String, Object> decide(Map<?, ?> request) {
        Map<String, Object> reply = new LinkedHashMap<>();
        reply.put("evacuationUid", ((Map<?, ?>) request.get("evacuation")).get("uid"));
        reply.put("podUid", ((Map<?, ?>) request.get("pod")).get("uid"));
        reply.put("answer", options.get("answer"));
        reply.put("message", options.get("message"));
        int retryAfter = Integer.parseInt(options.get("retry-after"));
        if (options.get("answer").equals("Delay")) {
            reply.put("delaySeconds", Integer.parseInt(options.get("delay")));
        } else if (options.get("answer").equals("Refuse") && retryAfter > 0) {
            reply.put("retryAfterSeconds", retryAfter);
        }
        return reply;
    }

    /** Answers a POST with an EvacuationReview. */
    private void handle(HttpExchange exchange) throws IOException {
        try (exchange) {
            byte[] body = exchange.getRequestBody().readNBytes(MAX_BODY);
            Map<String, Object> review = new LinkedHashMap<>();
            try {
                Map<?, ?> asked = (Map<?, ?>) new Json(new String(body, StandardCharsets.UTF_8)).document();
                Map<?, ?> request = (Map<?, ?>) asked.get("request");
                String names = ((List<?>) request.get("requesters")).stream()
                        .map(requester -> (String) ((Map<?, ?>) requester).get("name"))
                        .collect(Collectors.joining(", "));
                // In a rehearsal nobody wants the pod to move: an app says what it would answer, and goes on working.
                String kind = Boolean.TRUE.equals(request.get("rehearsal")) ? " (a rehearsal)" : "";
                System.out.println(request.get("action") + " by " + names + kind);
                review.put("apiVersion", asked.get("apiVersion"));
                review.put("kind", asked.get("kind"));
                if (!"Cancel".equals(request.get("action"))) {
                    review.put("response", decide(request));
                    System.out.println("answering " + options.get("answer") + ": " + options.get("message"));
                }
            } catch (ClassCastException | NullPointerException | IllegalArgumentException e) {
                exchange.sendResponseHeaders(400, -1);
                return;
            }
            byte[] reply = Json.write(review).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, reply.length);
            exchange.getResponseBody().write(reply);
        }
    }

    public static void main(String[] arguments) throws IOException {
        Map<String, String> options = new HashMap<>(Map.of(
                "bind", "0.0.0.0", "port", "8080", "answer", "Accept", "message", "", "delay", "30", "retry-after", "0"));
        for (int i = 0; i < arguments.length; i += 2) {
            String name = arguments[i].replaceFirst("^--", "");
            if (!options.containsKey(name) || i + 1 == arguments.length) {
                System.err.println("usage: [--bind IP] [--port N] [--answer Accept|Delay|Refuse]"
                        + " [--message TEXT] [--delay SECONDS] [--retry-after SECONDS]");
                System.exit(2);
            }
            options.put(name, arguments[i + 1]);
        }
        int port = Integer.parseInt(options.get("port"));
        HttpServer server = HttpServer.create(new InetSocketAddress(options.get("bind"), port), 0);
        server.createContext("/evacuation", new Handler(options)::handle);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
        System.out.println("listening on " + options.get("bind") + ":" + port);
    }

    /** JSON (RFC 8259), which the JDK lacks; an app with a JSON library uses that one instead. */
    private static final class Json {
        private static final int MAX_DEPTH = 100;

        private final String text;
        private int at;
        private int depth;

        Json(String text) {
            this.text = text;
        }

        /** The whole text: objects are maps, arrays lists, the rest strings, numbers, booleans and null. */
        Object document() {
            Object value = value();
            if (at != text.length()) {
                throw wrong();
            }
            return value;
        }

        private Object value() {
            if (++depth > MAX_DEPTH) {
                throw wrong();
            }
            space();
            Object value = switch (peek()) {
                case '{' -> object();
                case '[' -> array();
                case '"' -> string();
                case 't' -> word("true", Boolean.TRUE);
                case 'f' -> word("false", Boolean.FALSE);
                case 'n' -> word("null", null);
                default -> number();
            };
            space();
            depth--;
            return value;
        }

        private Map<String, Object> object() {
            Map<String, Object> members = new LinkedHashMap<>();
            expect('{');
            space();
            if (peek() != '}') {
                do {
                    space();
                    String name = string();
                    space();
                    expect(':');
                    members.put(name, value());
                } while (comma());
            }
            expect('}');
            return members;
        }

        private List<Object> array() {
            List<Object> items = new ArrayList<>();
            expect('[');
            space();
            if (peek() != ']') {
                do {
                    items.add(value());
                } while (comma());
            }
            expect(']');
            return items;
        }

        private String string() {
            StringBuilder out = new StringBuilder();
            expect('"');
            while (peek() != '"') {
                char c = text.charAt(at++);
                if (c < ' ') {
                    throw wrong();
                }
                if (c != '\\') {
                    out.append(c);
                    continue;
                }
                char escaped = peek();
                at++;
                switch (escaped) {
                    case '"', '\\', '/' -> out.append(escaped);
                    case 'b' -> out.append('\b');
                    case 'f' -> out.append('\f');
                    case 'n' -> out.append('\n');
                    case 'r' -> out.append('\r');
                    case 't' -> out.append('\t');
                    case 'u' -> out.append(hex());
                    default -> throw wrong();
                }
            }
            at++;
            return out.toString();
        }

        private char hex() {
            if (at + 4 > text.length() || !text.substring(at, at + 4).matches("[0-9a-fA-F]{4}")) {
                throw wrong();
            }
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 4, at), 16);
        }

        private Double number() {
            int begin = at;
            while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
            String number = text.substring(begin, at);
            if (!number.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
                throw wrong();
            }
            return Double.valueOf(number);
        }

        private Object word(String word, Object meaning) {
            if (!text.startsWith(word, at)) {
                throw wrong();
            }
            at += word.length();
            return meaning;
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
