import com.mongodb.internal.build.MongoDriverVersion;
import com.mongodb.session.ClientSession;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
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
 * This class speaks the protocol (docs/WRITING-ADAPTERS.md). {@link Entities} makes what a scenario works with,
 * {@link Operations} does what it asks for, with {@link Arguments}; {@link Events} and {@link Words} say what came
 * of it in the words of the specifications. A {@link Driver} has what the driver's interfaces do each in its own way;
 * {@code Sync} and {@code Reactive} are the programs.
 */
final class Adapter {
    private static final JsonWriterSettings CANONICAL =
            JsonWriterSettings.builder().outputMode(JsonMode.EXTENDED).build();

    private final Driver driver;
    private final Operations operations;
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

    Adapter(final Driver driver) {
        this.driver = driver;
        this.operations = new Operations(driver);
    }

    /** Serves requests until the input ends. */
    void serve(final InputStream requests) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(requests, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            BsonDocument asked = BsonDocument.parse(line);
            // Scenarios have threads: a request may wait while others are served.
            threads.execute(() -> serve(asked));
        }
        System.exit(0);
    }

    private void serve(final BsonDocument asked) {
        Request request = new Request(
                asked.getNumber("id").longValue(),
                asked.containsKey("on") ? asked.getNumber("on").longValue() : 0,
                asked.getDocument("params", new BsonDocument()));
        try {
            driver.end(perform(asked.getString("method").getValue(), request))
                    .whenComplete((result, error) -> answer(request, result, error));
        } catch (RuntimeException error) {
            answer(request, null, error);
        }
    }

    private void answer(final Request request, final Object result, final Throwable error) {
        BsonDocument answer = new BsonDocument("id", new BsonInt64(request.id));
        if (error instanceof Unsupported) {
            answer.append("unsupported", new BsonString(error.getMessage()));
        } else if (error != null) {
            errors.put(request.id, (RuntimeException) error);
            answer.append("error", Words.error((RuntimeException) error));
        } else if (result instanceof Entity entity) {
            entities.put(request.id, entity.value);
            answer.append("entity", BsonBoolean.TRUE);
        } else {
            answer.append("result", result == null ? BsonNull.VALUE : (BsonValue) result);
        }
        tell(answer.append("clock", clock()));
    }

    private Object perform(final String method, final Request request) {
        return switch (method) {
            case "hello" -> new BsonDocument("protocol", new BsonInt32(1))
                    .append("name", new BsonString(driver.name()))
                    .append("driver", new BsonDocument("name", new BsonString(MongoDriverVersion.NAME))
                            .append("version", new BsonString(MongoDriverVersion.VERSION)))
                    .append("features", Words.array(driver.features()));
            case "client" -> new Entity(new Entities.Client(driver, request.params, (kind, fields) ->
                    tell(new BsonDocument("event", new BsonDocument("client", new BsonInt64(request.id))
                            .append("kind", new BsonString(kind)).append("at", clock()).append("fields", fields)))));
            case "create" -> Entities.create(driver, entities.get(request.on),
                    request.params.getString("kind").getValue(), request.params.getDocument("spec"));
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
        Operations.Operation operation = operations.find(kind, name);
        Arguments given = new Arguments(request.params.getDocument("arguments", new BsonDocument()));
        given.number("session").ifPresent(
                id -> given.session = (ClientSession) entities.get(id.longValue()));
        if (given.take("callback").isPresent()) {
            given.callback = () -> callBack(request.id);
        }
        return operation.run(given.timed(kind, entities.get(request.on)), given);
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
