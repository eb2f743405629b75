import com.mongodb.connection.ClusterConnectionMode;
import com.mongodb.connection.ClusterDescription;
import com.mongodb.connection.ClusterType;
import com.mongodb.connection.ConnectionDescription;
import com.mongodb.connection.ConnectionId;
import com.mongodb.connection.ServerDescription;
import com.mongodb.connection.ServerId;
import com.mongodb.connection.ServerType;
import com.mongodb.event.ClusterClosedEvent;
import com.mongodb.event.ClusterDescriptionChangedEvent;
import com.mongodb.event.ClusterListener;
import com.mongodb.event.ClusterOpeningEvent;
import com.mongodb.event.CommandEvent;
import com.mongodb.event.CommandFailedEvent;
import com.mongodb.event.CommandListener;
import com.mongodb.event.CommandStartedEvent;
import com.mongodb.event.CommandSucceededEvent;
import com.mongodb.event.ConnectionCheckOutFailedEvent;
import com.mongodb.event.ConnectionCheckOutStartedEvent;
import com.mongodb.event.ConnectionCheckedInEvent;
import com.mongodb.event.ConnectionCheckedOutEvent;
import com.mongodb.event.ConnectionClosedEvent;
import com.mongodb.event.ConnectionCreatedEvent;
import com.mongodb.event.ConnectionPoolClearedEvent;
import com.mongodb.event.ConnectionPoolClosedEvent;
import com.mongodb.event.ConnectionPoolCreatedEvent;
import com.mongodb.event.ConnectionPoolListener;
import com.mongodb.event.ConnectionPoolReadyEvent;
import com.mongodb.event.ConnectionReadyEvent;
import com.mongodb.event.ServerClosedEvent;
import com.mongodb.event.ServerDescriptionChangedEvent;
import com.mongodb.event.ServerHeartbeatFailedEvent;
import com.mongodb.event.ServerHeartbeatStartedEvent;
import com.mongodb.event.ServerHeartbeatSucceededEvent;
import com.mongodb.event.ServerListener;
import com.mongodb.event.ServerMonitorListener;
import com.mongodb.event.ServerOpeningEvent;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Supplier;
import org.bson.BsonBoolean;
import org.bson.BsonDocument;
import org.bson.BsonInt32;
import org.bson.BsonInt64;
import org.bson.BsonObjectId;
import org.bson.BsonString;

/** The driver's events, under the specifications' names. */
final class Events implements CommandListener, ConnectionPoolListener, ClusterListener, ServerListener,
        ServerMonitorListener {
    private static final Map<ServerType, String> SERVER_TYPES = Map.of(
            ServerType.STANDALONE, "Standalone", ServerType.REPLICA_SET_PRIMARY, "RSPrimary",
            ServerType.REPLICA_SET_SECONDARY, "RSSecondary", ServerType.REPLICA_SET_ARBITER, "RSArbiter",
            ServerType.REPLICA_SET_OTHER, "RSOther", ServerType.REPLICA_SET_GHOST, "RSGhost",
            ServerType.SHARD_ROUTER, "Mongos", ServerType.LOAD_BALANCER, "LoadBalancer",
            ServerType.UNKNOWN, "Unknown");
    private static final Map<ConnectionClosedEvent.Reason, String> CLOSE_REASONS = Map.of(
            ConnectionClosedEvent.Reason.STALE, "stale", ConnectionClosedEvent.Reason.IDLE, "idle",
            ConnectionClosedEvent.Reason.ERROR, "error", ConnectionClosedEvent.Reason.POOL_CLOSED, "poolClosed");
    private static final Map<ConnectionCheckOutFailedEvent.Reason, String> FAILURE_REASONS = Map.of(
            ConnectionCheckOutFailedEvent.Reason.POOL_CLOSED, "poolClosed",
            ConnectionCheckOutFailedEvent.Reason.TIMEOUT, "timeout",
            ConnectionCheckOutFailedEvent.Reason.CONNECTION_ERROR, "connectionError");

    private final BiConsumer<String, Supplier<BsonDocument>> report;

    Events(final BiConsumer<String, Supplier<BsonDocument>> report) {
        this.report = report;
    }

    // ---- Commands ----

    @Override
    public void commandStarted(final CommandStartedEvent event) {
        report.accept("commandStartedEvent", () -> command(event).append("command", event.getCommand()));
    }

    @Override
    public void commandSucceeded(final CommandSucceededEvent event) {
        report.accept("commandSucceededEvent", () -> command(event)
                .append("durationMS", milliseconds(event.getElapsedTime(TimeUnit.MILLISECONDS)))
                .append("reply", event.getResponse()));
    }

    @Override
    public void commandFailed(final CommandFailedEvent event) {
        report.accept("commandFailedEvent", () -> command(event)
                .append("durationMS", milliseconds(event.getElapsedTime(TimeUnit.MILLISECONDS)))
                .append("failure", new BsonDocument("message",
                        new BsonString(String.valueOf(event.getThrowable().getMessage())))));
    }

    private static BsonDocument command(final CommandEvent event) {
        ConnectionDescription connection = event.getConnectionDescription();
        BsonDocument fields = new BsonDocument("commandName", new BsonString(event.getCommandName()))
                .append("databaseName", new BsonString(event.getDatabaseName()))
                .append("requestId", new BsonInt32(event.getRequestId()))
                .append("connectionId", new BsonString(connection.getServerAddress().toString()));
        Long number = connection.getConnectionId().getServerValue();
        if (number != null) {
            fields.append("serverConnectionId", new BsonInt64(number));
        }
        if (connection.getServiceId() != null) {
            fields.append("serviceId", new BsonObjectId(connection.getServiceId()));
        }
        return fields;
    }

    // ---- Pools ----

    @Override
    public void connectionPoolCreated(final ConnectionPoolCreatedEvent event) {
        report.accept("poolCreatedEvent", () -> server(event.getServerId()));
    }

    @Override
    public void connectionPoolReady(final ConnectionPoolReadyEvent event) {
        report.accept("poolReadyEvent", () -> server(event.getServerId()));
    }

    @Override
    public void connectionPoolCleared(final ConnectionPoolClearedEvent event) {
        report.accept("poolClearedEvent", () -> {
            BsonDocument fields = server(event.getServerId());
            return event.getServiceId() == null ? fields
                    : fields.append("serviceId", new BsonObjectId(event.getServiceId()));
        });
    }

    @Override
    public void connectionPoolClosed(final ConnectionPoolClosedEvent event) {
        report.accept("poolClosedEvent", () -> server(event.getServerId()));
    }

    @Override
    public void connectionCreated(final ConnectionCreatedEvent event) {
        report.accept("connectionCreatedEvent", () -> connection(event.getConnectionId()));
    }

    @Override
    public void connectionReady(final ConnectionReadyEvent event) {
        report.accept("connectionReadyEvent", () -> connection(event.getConnectionId())
                .append("durationMS", milliseconds(event.getElapsedTime(TimeUnit.MILLISECONDS))));
    }

    @Override
    public void connectionClosed(final ConnectionClosedEvent event) {
        report.accept("connectionClosedEvent", () -> connection(event.getConnectionId())
                .append("reason", new BsonString(CLOSE_REASONS.get(event.getReason()))));
    }

    @Override
    public void connectionCheckOutStarted(final ConnectionCheckOutStartedEvent event) {
        report.accept("connectionCheckOutStartedEvent", () -> server(event.getServerId()));
    }

    @Override
    public void connectionCheckOutFailed(final ConnectionCheckOutFailedEvent event) {
        report.accept("connectionCheckOutFailedEvent", () -> server(event.getServerId())
                .append("durationMS", milliseconds(event.getElapsedTime(TimeUnit.MILLISECONDS)))
                .append("reason", new BsonString(FAILURE_REASONS.getOrDefault(event.getReason(), "unknown"))));
    }

    @Override
    public void connectionCheckedOut(final ConnectionCheckedOutEvent event) {
        report.accept("connectionCheckedOutEvent", () -> connection(event.getConnectionId())
                .append("durationMS", milliseconds(event.getElapsedTime(TimeUnit.MILLISECONDS))));
    }

    @Override
    public void connectionCheckedIn(final ConnectionCheckedInEvent event) {
        report.accept("connectionCheckedInEvent", () -> connection(event.getConnectionId()));
    }

    private static BsonDocument server(final ServerId id) {
        return new BsonDocument("address", new BsonString(id.getAddress().toString()));
    }

    private static BsonDocument connection(final ConnectionId id) {
        return server(id.getServerId()).append("connectionId", new BsonInt64(id.getLocalValue()));
    }

    private static BsonInt64 milliseconds(final long elapsed) {
        return new BsonInt64(elapsed);
    }

    // ---- Discovery and monitoring ----

    @Override
    public void clusterOpening(final ClusterOpeningEvent event) {
        report.accept("topologyOpeningEvent", BsonDocument::new);
    }

    @Override
    public void clusterClosed(final ClusterClosedEvent event) {
        report.accept("topologyClosedEvent", BsonDocument::new);
    }

    @Override
    public void clusterDescriptionChanged(final ClusterDescriptionChangedEvent event) {
        report.accept("topologyDescriptionChangedEvent", () ->
                change(typeOf(event.getPreviousDescription()), typeOf(event.getNewDescription())));
    }

    @Override
    public void serverOpening(final ServerOpeningEvent event) {
        report.accept("serverOpeningEvent", () -> server(event.getServerId()));
    }

    @Override
    public void serverClosed(final ServerClosedEvent event) {
        report.accept("serverClosedEvent", () -> server(event.getServerId()));
    }

    @Override
    public void serverDescriptionChanged(final ServerDescriptionChangedEvent event) {
        report.accept("serverDescriptionChangedEvent", () -> {
            BsonDocument fields = change(typeOf(event.getPreviousDescription()), typeOf(event.getNewDescription()));
            fields.putAll(server(event.getServerId()));
            return fields;
        });
    }

    @Override
    public void serverHearbeatStarted(final ServerHeartbeatStartedEvent event) {
        report.accept("serverHeartbeatStartedEvent", () -> server(event.getConnectionId().getServerId())
                .append("awaited", BsonBoolean.valueOf(event.isAwaited())));
    }

    @Override
    public void serverHeartbeatSucceeded(final ServerHeartbeatSucceededEvent event) {
        report.accept("serverHeartbeatSucceededEvent", () -> server(event.getConnectionId().getServerId())
                .append("awaited", BsonBoolean.valueOf(event.isAwaited())));
    }

    @Override
    public void serverHeartbeatFailed(final ServerHeartbeatFailedEvent event) {
        report.accept("serverHeartbeatFailedEvent", () -> server(event.getConnectionId().getServerId())
                .append("awaited", BsonBoolean.valueOf(event.isAwaited())));
    }

    private static BsonDocument change(final String before, final String after) {
        return new BsonDocument("previousDescription", new BsonDocument("type", new BsonString(before)))
                .append("newDescription", new BsonDocument("type", new BsonString(after)));
    }

    private static String typeOf(final ServerDescription description) {
        return SERVER_TYPES.get(description.getType());
    }

    /** Returns the type of a topology: the driver has one type for both kinds of replica set. */
    static String typeOf(final ClusterDescription description) {
        if (description.getConnectionMode() == ClusterConnectionMode.SINGLE) {
            return description.getServerDescriptions().isEmpty() ? "Unknown" : "Single";
        } else if (description.getConnectionMode() == ClusterConnectionMode.LOAD_BALANCED) {
            return description.getServerDescriptions().isEmpty() ? "Unknown" : "LoadBalanced";
        } else if (description.getType() == ClusterType.SHARDED) {
            return "Sharded";
        } else if (description.getType() == ClusterType.REPLICA_SET) {
            return description.getServerDescriptions().stream()
                    .anyMatch(each -> each.getType() == ServerType.REPLICA_SET_PRIMARY)
                    ? "ReplicaSetWithPrimary" : "ReplicaSetNoPrimary";
        }
        return "Unknown";
    }
}
