import com.mongodb.MongoDriverInformation;
import com.mongodb.MongoNamespace;
import com.mongodb.ReadPreference;
import com.mongodb.TransactionOptions;
import com.mongodb.client.gridfs.model.GridFSDownloadOptions;
import com.mongodb.client.gridfs.model.GridFSUploadOptions;
import com.mongodb.client.model.BulkWriteOptions;
import com.mongodb.client.model.CountOptions;
import com.mongodb.client.model.CreateCollectionOptions;
import com.mongodb.client.model.CreateViewOptions;
import com.mongodb.client.model.DeleteManyModel;
import com.mongodb.client.model.DeleteOneModel;
import com.mongodb.client.model.DeleteOptions;
import com.mongodb.client.model.DropIndexOptions;
import com.mongodb.client.model.EstimatedDocumentCountOptions;
import com.mongodb.client.model.FindOneAndDeleteOptions;
import com.mongodb.client.model.FindOneAndReplaceOptions;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.IndexOptions;
import com.mongodb.client.model.InsertManyOptions;
import com.mongodb.client.model.InsertOneModel;
import com.mongodb.client.model.InsertOneOptions;
import com.mongodb.client.model.RenameCollectionOptions;
import com.mongodb.client.model.ReplaceOneModel;
import com.mongodb.client.model.ReplaceOptions;
import com.mongodb.client.model.SearchIndexModel;
import com.mongodb.client.model.TimeSeriesOptions;
import com.mongodb.client.model.UpdateManyModel;
import com.mongodb.client.model.UpdateOneModel;
import com.mongodb.client.model.UpdateOptions;
import com.mongodb.client.model.WriteModel;
import com.mongodb.client.model.bulk.ClientBulkWriteOptions;
import com.mongodb.client.model.bulk.ClientDeleteManyOptions;
import com.mongodb.client.model.bulk.ClientDeleteOneOptions;
import com.mongodb.client.model.bulk.ClientNamespacedWriteModel;
import com.mongodb.client.model.bulk.ClientReplaceOneOptions;
import com.mongodb.client.model.bulk.ClientUpdateManyOptions;
import com.mongodb.client.model.bulk.ClientUpdateOneOptions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.bson.BsonArray;
import org.bson.BsonDocument;
import org.bson.BsonNumber;
import org.bson.BsonString;
import org.bson.BsonValue;
import org.bson.Document;

/** The operations of the unified test format, by the kind of entity and by name. */
final class Operations {
    private final Driver driver;
    private final Map<String, Map<String, Operation>> byKind;

    Operations(final Driver driver) {
        this.driver = driver;
        byKind = Map.of(
                "client", Map.ofEntries(
                        of("listDatabases", (c, a) ->
                                all(a.apply(a.call(client(c), "listDatabases", BsonDocument.class)))),
                        of("listDatabaseNames", (c, a) -> all(a.apply(a.call(client(c), "listDatabaseNames")))),
                        of("dropDatabase", (c, a) ->
                                drop(a, Arguments.invoke(client(c), "getDatabase", a.text("database")))),
                        of("clientBulkWrite", (c, a) -> clientBulkWrite(client(c), a)),
                        of("appendMetadata", (c, a) -> appendMetadata(client(c), a)),
                        of("createChangeStream", (c, a) -> stream(a, client(c)))),
                "database", Map.ofEntries(
                        of("runCommand", this::runCommand),
                        of("aggregate", this::aggregate),
                        of("listCollections", (d, a) -> all(a.apply(a.call(d, "listCollections", BsonDocument.class)))),
                        of("listCollectionNames", (d, a) -> all(a.apply(a.call(d, "listCollectionNames")))),
                        of("createCollection", this::createCollection),
                        of("dropCollection", (d, a) -> drop(a, collection(d, a.text("collection")))),
                        of("modifyCollection", this::modifyCollection),
                        of("createChangeStream", (d, a) -> stream(a, d))),
                "collection", collection(),
                "bucket", Map.ofEntries(
                        of("upload", (b, a) -> driver.upload(a, b, List.of(a.text("filename")), source(a), upload(a))),
                        of("uploadWithId", (b, a) -> driver.upload(a, b,
                                List.of(a.take("id").orElseThrow(), a.text("filename")), source(a), upload(a))),
                        of("download", (b, a) -> driver.download(a, b, a.take("id").orElseThrow())),
                        of("downloadByName", (b, a) -> driver.download(a, b, a.text("filename"),
                                a.apply(new GridFSDownloadOptions()))),
                        of("delete", (b, a) -> one(a.call(b, "delete", a.take("id").orElseThrow()))),
                        of("rename", (b, a) ->
                                one(a.call(b, "rename", a.take("id").orElseThrow(), a.text("newFilename")))),
                        of("drop", (b, a) -> drop(a, b)),
                        of("find", (b, a) -> all(a.apply(a.call(b, "find", a.document("filter")))))),
                "session", Map.ofEntries(
                        of("startTransaction", (s, a) -> a.call(s, "startTransaction",
                                a.apply(TransactionOptions.builder()).build())),
                        of("commitTransaction", (s, a) -> one(a.call(s, "commitTransaction"))),
                        of("abortTransaction", (s, a) -> one(a.call(s, "abortTransaction"))),
                        of("withTransaction", (s, a) -> driver.withTransaction(s, a.callback,
                                a.apply(TransactionOptions.builder()).build())),
                        of("getSnapshotTime", (s, a) -> a.call(s, "getSnapshotTimestamp")),
                        of("endSession", (s, a) -> a.call(s, "close"))),
                "findCursor", cursor(),
                "changeStream", cursor());
    }

    /** Does what a scenario asks of an entity. */
    interface Operation {
        Object run(Object target, Arguments given);
    }

    Operation find(final String kind, final String name) {
        Operation operation = byKind.getOrDefault(kind, Map.of()).get(name);
        if (operation == null) {
            throw new Adapter.Unsupported("no " + name + " on a " + kind);
        }
        return operation;
    }

    private static Map.Entry<String, Operation> of(final String name, final Operation operation) {
        return Map.entry(name, operation);
    }

    private static Object client(final Object entity) {
        return ((Entities.Client) entity).client();
    }

    private static Object collection(final Object database, final String name) {
        return Arguments.invoke(database, "getCollection", name, BsonDocument.class);
    }

    private Object one(final Object returned) {
        return driver.map(returned, Words::value);
    }

    private Object all(final Object found) {
        return driver.all(found);
    }

    private Object drop(final Arguments a, final Object target) {
        refuseOptions(a);
        return one(a.call(target, "drop"));
    }

    /** Skips a case that has options for a method of the driver that takes none. */
    private static void refuseOptions(final Arguments a) {
        a.apply(new Object());
    }

    // ---- Collections ----

    private Map<String, Operation> collection() {
        return Map.ofEntries(
                of("insertOne", (c, a) -> one(a.call(c, "insertOne",
                        a.document("document"), a.apply(new InsertOneOptions())))),
                of("insertMany", (c, a) -> one(a.call(c, "insertMany",
                        a.documents("documents"), a.apply(new InsertManyOptions())))),
                of("updateOne", (c, a) -> one(a.call(c, "updateOne",
                        a.document("filter"), update(a), a.apply(new UpdateOptions())))),
                of("updateMany", (c, a) -> one(a.call(c, "updateMany",
                        a.document("filter"), update(a), a.apply(new UpdateOptions())))),
                of("replaceOne", (c, a) -> one(a.call(c, "replaceOne",
                        a.document("filter"), a.document("replacement"), a.apply(new ReplaceOptions())))),
                of("deleteOne", (c, a) -> one(a.call(c, "deleteOne",
                        a.document("filter"), a.apply(new DeleteOptions())))),
                of("deleteMany", (c, a) -> one(a.call(c, "deleteMany",
                        a.document("filter"), a.apply(new DeleteOptions())))),
                of("bulkWrite", (c, a) -> one(a.call(c, "bulkWrite",
                        a.documents("requests").stream().map(Operations::model).toList(),
                        a.apply(new BulkWriteOptions())))),
                of("findOneAndDelete", (c, a) -> one(a.call(c, "findOneAndDelete",
                        a.document("filter"), a.apply(new FindOneAndDeleteOptions())))),
                of("findOneAndReplace", (c, a) -> one(a.call(c, "findOneAndReplace", a.document("filter"),
                        a.document("replacement"), a.apply(new FindOneAndReplaceOptions())))),
                of("findOneAndUpdate", (c, a) -> one(a.call(c, "findOneAndUpdate", a.document("filter"), update(a),
                        a.apply(new FindOneAndUpdateOptions())))),
                of("find", (c, a) -> all(found(c, a))),
                of("findOne", (c, a) -> one(Arguments.invoke(found(c, a), "first"))),
                of("createFindCursor", (c, a) -> open(found(c, a), a)),
                of("aggregate", this::aggregate),
                of("countDocuments", (c, a) -> one(a.call(c, "countDocuments",
                        a.document("filter"), a.apply(new CountOptions())))),
                of("estimatedDocumentCount", (c, a) -> one(Arguments.invoke(c, "estimatedDocumentCount",
                        a.apply(new EstimatedDocumentCountOptions())))),
                of("distinct", (c, a) -> all(a.apply(a.call(c, "distinct",
                        a.text("fieldName"), a.document("filter"), BsonValue.class)))),
                of("createIndex", (c, a) -> one(a.call(c, "createIndex",
                        a.document("keys"), a.apply(new IndexOptions())))),
                of("dropIndex", (c, a) -> one(a.call(c, "dropIndex", a.text("name"), a.apply(new DropIndexOptions())))),
                of("dropIndexes", (c, a) -> one(a.call(c, "dropIndexes", a.apply(new DropIndexOptions())))),
                of("listIndexes", (c, a) -> all(a.apply(a.call(c, "listIndexes", BsonDocument.class)))),
                of("drop", (c, a) -> drop(a, c)),
                of("rename", this::rename),
                of("listSearchIndexes", this::listSearchIndexes),
                of("createSearchIndex", this::createSearchIndex),
                of("createSearchIndexes", (c, a) -> all(Arguments.invoke(c, "createSearchIndexes",
                        a.documents("models").stream().map(Operations::searchIndex).toList()))),
                of("updateSearchIndex", (c, a) ->
                        one(a.call(c, "updateSearchIndex", a.text("name"), a.document("definition")))),
                of("dropSearchIndex", (c, a) -> one(a.call(c, "dropSearchIndex", a.text("name")))),
                of("createChangeStream", (c, a) -> stream(a, c)));
    }

    private static Object update(final Arguments a) {
        boolean isPipeline = a.all.isArray("update");
        return isPipeline ? a.documents("update") : a.document("update");
    }

    private static Object found(final Object collection, final Arguments a) {
        return a.apply(a.call(collection, "find", a.document("filter"), BsonDocument.class));
    }

    private Object open(final Object found, final Arguments a) {
        Integer batchSize = a.number("batchSize").map(BsonNumber::intValue).orElse(null);
        return driver.map(driver.open(found, batchSize), Adapter.Entity::new);
    }

    /** Aggregates; where the last stage writes, the driver is asked for that, and not for the collection's content. */
    private Object aggregate(final Object target, final Arguments a) {
        List<BsonDocument> stages = a.documents("pipeline");
        Object found = a.apply(a.call(target, "aggregate", stages, BsonDocument.class));
        String last = stages.isEmpty() ? "" : stages.get(stages.size() - 1).getFirstKey();
        return last.equals("$out") || last.equals("$merge")
                ? driver.then(Arguments.invoke(found, "toCollection"), new BsonArray()) : all(found);
    }

    private Object rename(final Object collection, final Arguments a) {
        MongoNamespace from = (MongoNamespace) Arguments.invoke(collection, "getNamespace");
        return one(a.call(collection, "renameCollection", new MongoNamespace(from.getDatabaseName(), a.text("to")),
                a.apply(new RenameCollectionOptions())));
    }

    private static SearchIndexModel searchIndex(final BsonDocument model) {
        return new SearchIndexModel(model.containsKey("name") ? model.getString("name").getValue() : null,
                model.getDocument("definition"));
    }

    private Object createSearchIndex(final Object collection, final Arguments a) {
        BsonDocument model = a.document("model");
        return one(model.containsKey("name")
                ? Arguments.invoke(collection, "createSearchIndex", model.getString("name").getValue(),
                        model.getDocument("definition"))
                : Arguments.invoke(collection, "createSearchIndex", model.getDocument("definition")));
    }

    private Object listSearchIndexes(final Object collection, final Arguments a) {
        BsonDocument options = a.document("aggregationOptions").clone();
        a.take("name").ifPresent(name -> options.append("name", name));
        return all(Arguments.apply(Arguments.invoke(collection, "listSearchIndexes", BsonDocument.class), options));
    }

    /** Returns the model of a request of a bulk write, a document of one field. */
    private static WriteModel<BsonDocument> model(final BsonDocument request) {
        Arguments a = new Arguments(request.getDocument(request.getFirstKey()));
        BsonDocument filter = a.document("filter");
        return switch (request.getFirstKey()) {
            case "insertOne" -> new InsertOneModel<>(a.document("document"));
            case "updateOne" -> a.all.isArray("update")
                    ? new UpdateOneModel<>(filter, a.documents("update"), a.apply(new UpdateOptions()))
                    : new UpdateOneModel<>(filter, a.document("update"), a.apply(new UpdateOptions()));
            case "updateMany" -> a.all.isArray("update")
                    ? new UpdateManyModel<>(filter, a.documents("update"), a.apply(new UpdateOptions()))
                    : new UpdateManyModel<>(filter, a.document("update"), a.apply(new UpdateOptions()));
            case "replaceOne" ->
                new ReplaceOneModel<>(filter, a.document("replacement"), a.apply(new ReplaceOptions()));
            case "deleteOne" -> new DeleteOneModel<>(filter, a.apply(new DeleteOptions()));
            case "deleteMany" -> new DeleteManyModel<>(filter, a.apply(new DeleteOptions()));
            default -> throw new Adapter.Unsupported("no model " + request.getFirstKey());
        };
    }

    // ---- Clients and databases ----

    private Object clientBulkWrite(final Object client, final Arguments a) {
        List<ClientNamespacedWriteModel> models = new ArrayList<>();
        a.documents("models").forEach(request -> models.add(clientModel(request)));
        ClientBulkWriteOptions options = a.apply(ClientBulkWriteOptions.clientBulkWriteOptions());
        return one(a.call(client, "bulkWrite", models, options));
    }

    private static ClientNamespacedWriteModel clientModel(final BsonDocument request) {
        Arguments a = new Arguments(request.getDocument(request.getFirstKey()));
        MongoNamespace namespace = new MongoNamespace(a.text("namespace"));
        BsonDocument filter = a.document("filter");
        boolean isPipeline = a.all.isArray("update");
        return switch (request.getFirstKey()) {
            case "insertOne" -> ClientNamespacedWriteModel.insertOne(namespace, a.document("document"));
            case "updateOne" -> isPipeline
                    ? ClientNamespacedWriteModel.updateOne(namespace, filter, a.documents("update"),
                            a.apply(ClientUpdateOneOptions.clientUpdateOneOptions()))
                    : ClientNamespacedWriteModel.updateOne(namespace, filter, a.document("update"),
                            a.apply(ClientUpdateOneOptions.clientUpdateOneOptions()));
            case "updateMany" -> isPipeline
                    ? ClientNamespacedWriteModel.updateMany(namespace, filter, a.documents("update"),
                            a.apply(ClientUpdateManyOptions.clientUpdateManyOptions()))
                    : ClientNamespacedWriteModel.updateMany(namespace, filter, a.document("update"),
                            a.apply(ClientUpdateManyOptions.clientUpdateManyOptions()));
            case "replaceOne" -> ClientNamespacedWriteModel.replaceOne(namespace, filter, a.document("replacement"),
                    a.apply(ClientReplaceOneOptions.clientReplaceOneOptions()));
            case "deleteOne" -> ClientNamespacedWriteModel.deleteOne(namespace, filter,
                    a.apply(ClientDeleteOneOptions.clientDeleteOneOptions()));
            case "deleteMany" -> ClientNamespacedWriteModel.deleteMany(namespace, filter,
                    a.apply(ClientDeleteManyOptions.clientDeleteManyOptions()));
            default -> throw new Adapter.Unsupported("no model " + request.getFirstKey());
        };
    }

    private static Object appendMetadata(final Object client, final Arguments a) {
        MongoDriverInformation.Builder builder = MongoDriverInformation.builder();
        BsonDocument info = a.document("driverInfoOptions");
        builder.driverName(info.getString("name").getValue());
        if (info.containsKey("version")) {
            builder.driverVersion(info.getString("version").getValue());
        }
        if (info.containsKey("platform")) {
            builder.driverPlatform(info.getString("platform").getValue());
        }
        return Arguments.invoke(client, "appendMetadata", builder.build());
    }

    private Object runCommand(final Object database, final Arguments a) {
        BsonDocument command = ordered(a);
        ReadPreference preference = a.take("readPreference")
                .map(given -> Arguments.readPreference(given.asDocument())).orElse(ReadPreference.primary());
        refuseOptions(a);
        return one(a.call(database, "runCommand", command, preference, BsonDocument.class));
    }

    /** Returns the command; its name comes first, whatever its order in the file. */
    private static BsonDocument ordered(final Arguments a) {
        BsonDocument given = a.document("command");
        String name = a.all.containsKey("commandName") ? a.text("commandName") : given.getFirstKey();
        BsonDocument command = new BsonDocument(name, given.get(name));
        command.putAll(Entities.without(given, name));
        return command;
    }

    private Object createCollection(final Object database, final Arguments a) {
        String name = a.text("collection");
        Object done;
        if (a.all.containsKey("viewOn")) {
            done = a.call(database, "createView", name, a.text("viewOn"), a.documents("pipeline"),
                    a.apply(new CreateViewOptions()));
        } else {
            CreateCollectionOptions options = new CreateCollectionOptions();
            a.take("timeseries").ifPresent(given -> {
                BsonDocument series = given.asDocument();
                options.timeSeriesOptions(Arguments.apply(
                        new TimeSeriesOptions(series.getString("timeField").getValue()),
                        Entities.without(series, "timeField")));
            });
            done = a.call(database, "createCollection", name, a.apply(options));
        }
        return driver.then(done, new Adapter.Entity(collection(database, name)));
    }

    private Object modifyCollection(final Object database, final Arguments a) {
        BsonDocument command = new BsonDocument("collMod", new BsonString(a.text("collection")));
        command.putAll(a.rest());
        return one(a.call(database, "runCommand", command, ReadPreference.primary(), BsonDocument.class));
    }

    private Object stream(final Arguments a, final Object target) {
        Object changes = a.apply(a.call(target, "watch", a.documents("pipeline"), BsonDocument.class));
        return open(Arguments.invoke(changes, "withDocumentClass", BsonDocument.class), a);
    }

    // ---- Buckets ----

    private static byte[] source(final Arguments a) {
        return Arguments.bytes(a.take("source").orElseThrow());
    }

    private static GridFSUploadOptions upload(final Arguments a) {
        a.take("disableMD5"); // the driver always works without MD5
        GridFSUploadOptions options = new GridFSUploadOptions();
        a.take("metadata").ifPresent(given -> options.metadata(Document.parse(given.asDocument().toJson())));
        return a.apply(options);
    }

    // ---- Cursors ----

    private Map<String, Operation> cursor() {
        return Map.of(
                "close", (c, a) -> driver.close(c),
                "iterateOnce", (c, a) -> driver.tryNext(c),
                "iterateUntilDocumentOrError", (c, a) -> driver.next(c));
    }
}
