import com.mongodb.ClientSessionOptions;
import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.ServerApi;
import com.mongodb.ServerApiVersion;
import com.mongodb.TransactionOptions;
import com.mongodb.connection.ClusterDescription;
import com.mongodb.connection.ServerDescription;
import com.mongodb.internal.logging.StructuredLogger;
import com.mongodb.session.ClientSession;
import java.lang.reflect.Field;
import java.util.Map;
import java.util.UUID;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import org.bson.BsonBoolean;
import org.bson.BsonDocument;
import org.bson.BsonNull;
import org.bson.BsonString;
import org.bson.BsonValue;

/** What scenarios work with: clients, databases, collections, buckets and sessions. */
final class Entities {
    private Entities() {}

    /** A client of the driver, whose events and log messages go to a reporter. */
    static final class Client {
        private final Object client;
        private final String loggedAs;

        Client(final Driver driver, final BsonDocument params, final BiConsumer<String, BsonDocument> report) {
            ConnectionString uri = new ConnectionString(params.getString("uri").getValue());
            MongoClientSettings.Builder settings = MongoClientSettings.builder().applyConnectionString(uri);
            Map<String, Boolean> observed = params.getArray("observeEvents").stream()
                    .collect(Collectors.toMap(kind -> kind.asString().getValue(), kind -> true));
            Events events = new Events((kind, fields) -> {
                if (observed.containsKey(kind)) {
                    report.accept(kind, fields.get());
                }
            });
            settings.addCommandListener(events)
                    .applyToConnectionPoolSettings(pool -> pool.addConnectionPoolListener(events))
                    .applyToClusterSettings(cluster -> cluster.addClusterListener(events))
                    .applyToServerSettings(server -> server.addServerListener(events)
                            .addServerMonitorListener(events));
            if (params.isDocument("serverApi")) {
                settings.serverApi(serverApi(params.getDocument("serverApi")));
            }
            loggedAs = params.getArray("observeLogs").isEmpty() ? null : logged(uri, settings);
            if (loggedAs != null) {
                // Not public: what goes to SLF4J is text. Messages are known by the name of the application.
                StructuredLogger.addInterceptor(loggedAs, message -> {
                    if (params.getArray("observeLogs").contains(new BsonString(message.getComponent().getValue()))) {
                        report.accept("logMessage", Words.log(message));
                    }
                });
            }
            client = driver.connect(settings.build());
        }

        private static String logged(final ConnectionString uri, final MongoClientSettings.Builder settings) {
            String name = uri.getApplicationName() == null ? UUID.randomUUID().toString() : uri.getApplicationName();
            settings.applicationName(name);
            return name;
        }

        private static ServerApi serverApi(final BsonDocument given) {
            ServerApi.Builder api = ServerApi.builder()
                    .version(ServerApiVersion.findByValue(given.getString("version").getValue()));
            return Arguments.apply(api, without(given, "version")).build();
        }

        Object client() {
            return client;
        }

        BsonDocument topology() {
            ClusterDescription description = (ClusterDescription) Arguments.invoke(client, "getClusterDescription");
            BsonValue primary = description.getServerDescriptions().stream().filter(ServerDescription::isPrimary)
                    .filter(server -> server.isReplicaSetMember()).findFirst()
                    .map(server -> (BsonValue) new BsonString(server.getAddress().toString())).orElse(BsonNull.VALUE);
            return new BsonDocument("type", new BsonString(Events.typeOf(description))).append("primary", primary);
        }

        void close() {
            Arguments.invoke(client, "close");
            if (loggedAs != null) {
                StructuredLogger.removeInterceptor(loggedAs);
            }
        }
    }

    /** Returns, or publishes, a new entity. */
    static Object create(final Driver driver, final Object parent, final String kind, final BsonDocument spec) {
        return switch (kind) {
            case "database" -> new Adapter.Entity(Arguments.apply(
                    Arguments.invoke(((Client) parent).client(), "getDatabase",
                            spec.getString("databaseName").getValue()),
                    spec.getDocument("databaseOptions", new BsonDocument())));
            case "collection" -> new Adapter.Entity(Arguments.apply(
                    Arguments.invoke(parent, "getCollection", spec.getString("collectionName").getValue(),
                            BsonDocument.class),
                    spec.getDocument("collectionOptions", new BsonDocument())));
            case "bucket" -> new Adapter.Entity(
                    bucket(driver, parent, spec.getDocument("bucketOptions", new BsonDocument())));
            case "session" -> driver.map(Arguments.invoke(((Client) parent).client(), "startSession",
                    sessionOptions(spec.getDocument("sessionOptions", new BsonDocument()))), Adapter.Entity::new);
            default -> throw new Adapter.Unsupported("no entity " + kind);
        };
    }

    private static Object bucket(final Driver driver, final Object database, final BsonDocument given) {
        String name = given.getString("bucketName", new BsonString("fs")).getValue();
        return Arguments.apply(driver.bucket(database, name), without(given, "bucketName"));
    }

    private static ClientSessionOptions sessionOptions(final BsonDocument given) {
        ClientSessionOptions.Builder options = ClientSessionOptions.builder();
        TransactionOptions.Builder transactions = TransactionOptions.builder();
        if (given.containsKey("defaultTransactionOptions")) {
            options.defaultTransactionOptions(
                    Arguments.apply(transactions, given.getDocument("defaultTransactionOptions")).build());
        }
        return Arguments.apply(options, without(given, "defaultTransactionOptions")).build();
    }

    static BsonDocument report(final ClientSession session) {
        BsonValue pinned = BsonNull.VALUE;
        if (session.getPinnedServerAddress() != null) {
            pinned = new BsonString(session.getPinnedServerAddress().toString());
        } else if (session.getTransactionContext() != null) {
            pinned = new BsonString(session.getTransactionContext().toString());
        }
        return new BsonDocument("lsid", session.getServerSession().getIdentifier())
                .append("dirty", BsonBoolean.valueOf(session.getServerSession().isMarkedDirty()))
                .append("pinned", pinned)
                .append("transaction", new BsonString(transaction(session)));
    }

    /** Returns the state of a session's transaction, which the driver keeps to itself. */
    private static String transaction(final ClientSession session) {
        try {
            Field state = session.getClass().getDeclaredField("transactionState");
            Field sent = session.getClass().getDeclaredField("messageSentInCurrentTransaction");
            state.setAccessible(true);
            sent.setAccessible(true);
            String name = state.get(session).toString();
            return switch (name) {
                case "IN" -> sent.getBoolean(session) ? "in_progress" : "starting";
                default -> name.toLowerCase();
            };
        } catch (ReflectiveOperationException error) {
            throw new Adapter.Unsupported("this release keeps the state of a transaction elsewhere: " + error);
        }
    }

    static BsonDocument without(final BsonDocument given, final String name) {
        BsonDocument rest = given.clone();
        rest.remove(name);
        return rest;
    }
}
