import com.mongodb.client.ClientSession;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.bson.BsonArray;
import org.bson.BsonBoolean;
import org.bson.BsonDocument;
import org.bson.BsonDouble;
import org.bson.BsonInt32;
import org.bson.BsonInt64;
import org.bson.BsonNull;
import org.bson.BsonString;
import org.bson.BsonValue;
import org.bson.json.JsonMode;
import org.bson.json.JsonWriterSettings;

/**
 * The Java driver as an adapter of pushbackd: requests come in and answers go out, one JSON document a line.
 *
 * <pre>
 * mvn -q compile dependency:copy-dependencies -DoutputDirectory=target/lib
 * pushbackd conform SCENARIOS --adapter "cmd:java -cp target/classes:target/lib/* Adapter"
 * </pre>
 *
 * This class speaks the protocol (docs/WRITING-ADAPTERS.md). {@link Entities} makes what a scenario works with,
 * {@link Operations} does what it asks for, with {@link Arguments}; {@link Events} and {@link Words} say what came
 * of it in the words of the specifications.
 */
public final class Adapter {
    private static final BsonArray FEATURES = Words.array(List.of(
            "COMMAND_EVENTS", "POOL_EVENTS", "SDAM_EVENTS", "LOG_MESSAGES", "SESSIONS", "TRANSACTIONS",
            "CHANGE_STREAMS", "GRIDFS", "FIND_CURSORS", "CLIENT_BULK_WRITE", "TIMEOUT_MS", "SERVER_API",
            "MAX_ADAPTIVE_RETRIES"));
    private static final JsonWriterSettings CANONICAL =
            JsonWriterSettings.builder().outputMode(JsonMode.EXTENDED).build();

    private final PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private final ExecutorService threads = Executors.newCachedThreadPool(run -> {
        Thread thread = new Thread(run);
        thread.setDaemon(true);
        return thread;
    });
    private final Map<Long, Object> entities = new ConcurrentHashMap<>();
    private final Map<Long, RuntimeException> errors = new ConcurrentHashMap<>();
    private final Map<Long, CompletableFuture<Void>> callbacks = new ConcurrentHashMap<>();

    /** What a request made: later requests know it by the id of that request. */
    record Entity(Object value) {}

    /** What this adapter, or the driver, does not do: a case that asks for it is skipped with the reason. */
    static final class Unsupported extends RuntimeException {
        private static final long serialVersionUID = 1;

        Unsupported(final String reason) {
            super(reason);
        }
    }

    private record Request(long id, long on, BsonDocument params) {}

    /** Serves requests until the input ends. */
    public static void main(final String[] arguments) throws IOException {
        Adapter adapter = new Adapter();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            BsonDocument asked = BsonDocument.parse(line);
            // Scenarios have threads: a request may wait while others are served.
            adapter.threads.execute(() -> adapter.serve(asked));
        }
        System.exit(0);
    }

    private void serve(final BsonDocument asked) {
        Request request = new Request(
                asked.getNumber("id").longValue(),
                asked.containsKey("on") ? asked.getNumber("on").longValue() : 0,
                asked.getDocument("params", new BsonDocument()));
        BsonDocument answer = new BsonDocument("id", new BsonInt64(request.id));
        try {
            Object result = perform(asked.getString("method").getValue(), request);
            if (result instanceof Entity entity) {
                entities.put(request.id, entity.value);
                answer.append("entity", BsonBoolean.TRUE);
            } else {
                answer.append("result", result == null ? BsonNull.VALUE : (BsonValue) result);
            }
        } catch (Unsupported unsupported) {
            answer.append("unsupported", new BsonString(unsupported.getMessage()));
        } catch (RuntimeException error) {
            errors.put(request.id, error);
            answer.append("error", Words.error(error));
        }
        tell(answer.append("clock", clock()));
    }

    private Object perform(final String method, final Request request) {
        return switch (method) {
            case "hello" -> new BsonDocument("protocol", new BsonInt32(1))
                    .append("name", new BsonString("java")).append("features", FEATURES);
            case "client" -> new Entity(new Entities.Client(request.params, (kind, fields) ->
                    tell(new BsonDocument("event", new BsonDocument("client", new BsonInt64(request.id))
                            .append("kind", new BsonString(kind)).append("at", clock()).append("fields", fields)))));
            case "create" -> Entities.create(entities.get(request.on), request.params.getString("kind").getValue(),
                    request.params.getDocument("spec"));
            case "call" -> call(request);
            case "return" -> returned(request);
            case "session" -> Entities.report((ClientSession) entities.get(request.on));
            case "advanceClusterTime" -> {
                ((ClientSession) entities.get(request.on)).advanceClusterTime(request.params.getDocument("clusterTime"));
                yield null;
            }
            case "topology" -> ((Entities.Client) entities.get(request.on)).topology();
            case "closeClient" -> {
                ((Entities.Client) entities.get(request.on)).close();
                yield null;
            }
            case "close" -> close();
            default -> throw new Unsupported("no method " + method);
        };
    }

    private Object call(final Request request) {
        String kind = request.params.getString("kind").getValue();
        String name = request.params.getString("operation").getValue();
        Operations.Operation operation = Operations.find(kind, name);
        Arguments given = new Arguments(request.params.getDocument("arguments", new BsonDocument()));
        given.number("session").ifPresent(
                id -> given.session = (ClientSession) entities.get(id.longValue()));
        if (given.take("callback").isPresent()) {
            given.callback = () -> callBack(request.id);
        }
        return operation.run(given.timed(entities.get(request.on)), given);
    }

    /** Has the runner run a transaction's callback, and waits for its end. */
    private void callBack(final long call) {
        CompletableFuture<Void> ended = new CompletableFuture<>();
        callbacks.put(call, ended);
        tell(new BsonDocument("callback", new BsonInt64(call)));
        try {
            ended.get();
        } catch (ExecutionException error) {
            throw (RuntimeException) error.getCause();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private Object returned(final Request request) {
        CompletableFuture<Void> ended = callbacks.get(request.on);
        if (request.params.containsKey("error")) {
            long number = request.params.getNumber("error").longValue();
            ended.completeExceptionally(Optional.ofNullable(errors.get(number))
                    .orElseGet(() -> new IllegalStateException("the scenario failed")));
        } else {
            ended.complete(null);
        }
        return null;
    }

    private Object close() {
        entities.values().parallelStream().filter(Entities.Client.class::isInstance)
                .forEach(client -> ((Entities.Client) client).close());
        List.of(entities, errors, callbacks).forEach(Map::clear);
        return null;
    }

    private synchronized void tell(final BsonDocument message) {
        output.println(message.toJson(CANONICAL));
    }

    /** Returns the seconds of a clock that nobody sets. */
    private static BsonDouble clock() {
        return new BsonDouble(System.nanoTime() / 1e9);
    }
}
