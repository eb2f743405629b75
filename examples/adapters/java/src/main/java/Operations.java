import com.mongodb.MongoDriverInformation;
import com.mongodb.MongoNamespace;
import com.mongodb.ReadPreference;
import com.mongodb.TransactionOptions;
import com.mongodb.client.AggregateIterable;
import com.mongodb.client.ChangeStreamIterable;
import com.mongodb.client.ClientSession;
import com.mongodb.client.ListSearchIndexesIterable;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoCursor;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.MongoIterable;
import com.mongodb.client.gridfs.GridFSBucket;
import com.mongodb.client.gridfs.model.GridFSDownloadOptions;
import com.mongodb.client.gridfs.model.GridFSFile;
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
import com.mongodb.client.model.bulk.ClientBulkWriteResult;
import com.mongodb.client.model.bulk.ClientDeleteManyOptions;
import com.mongodb.client.model.bulk.ClientDeleteOneOptions;
import com.mongodb.client.model.bulk.ClientNamespacedWriteModel;
import com.mongodb.client.model.bulk.ClientReplaceOneOptions;
import com.mongodb.client.model.bulk.ClientUpdateManyOptions;
import com.mongodb.client.model.bulk.ClientUpdateOneOptions;
import com.mongodb.client.result.DeleteResult;
import com.mongodb.client.result.InsertManyResult;
import com.mongodb.client.result.InsertOneResult;
import com.mongodb.client.result.UpdateResult;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.bson.BsonArray;
import org.bson.BsonBinary;
import org.bson.BsonDocument;
import org.bson.BsonInt32;
import org.bson.BsonInt64;
import org.bson.BsonObjectId;
import org.bson.BsonString;
import org.bson.BsonValue;
import org.bson.Document;
import org.bson.types.ObjectId;

/** The operations of the unified test format, by the kind of entity and by name. */
final class Operations {
    private static final Map<String, Map<String, Operation>> BY_KIND = Map.of(
            "client", Map.ofEntries(
                    of("listDatabases", (c, a) -> all(a.apply(withClass(a, client(c), "listDatabases")))),
                    of("listDatabaseNames", (c, a) -> names(a.apply((MongoIterable<?>) a.call(client(c), "listDatabaseNames")))),
                    of("dropDatabase", (c, a) -> drop(a, ((Entities.Client) c).client().getDatabase(a.text("database")))),
                    of("clientBulkWrite", (c, a) -> clientBulkWrite(client(c), a)),
                    of("appendMetadata", (c, a) -> appendMetadata((Entities.Client) c, a)),
                    of("createChangeStream", (c, a) -> stream(a, client(c)))),
            "database", Map.ofEntries(
                    of("runCommand", Operations::runCommand),
                    of("aggregate", Operations::aggregate),
                    of("listCollections", (d, a) -> all(a.apply(withClass(a, d, "listCollections")))),
                    of("listCollectionNames", (d, a) -> names(a.apply((MongoIterable<?>) a.call(d, "listCollectionNames")))),
                    of("createCollection", (d, a) -> createCollection((MongoDatabase) d, a)),
                    of("dropCollection", (d, a) ->
                            drop(a, ((MongoDatabase) d).getCollection(a.text("collection"), BsonDocument.class))),
                    of("modifyCollection", Operations::modifyCollection),
                    of("createChangeStream", (d, a) -> stream(a, d))),
            "collection", collection(),
            "bucket", Map.ofEntries(
                    of("upload", (b, a) -> new BsonObjectId((ObjectId) a.call(b, "uploadFromStream",
                            a.text("filename"), source(a), upload(a)))),
                    of("uploadWithId", (b, a) -> a.call(b, "uploadFromStream", a.take("id").orElseThrow(),
                            a.text("filename"), source(a), upload(a))),
                    of("download", (b, a) -> download(a, b, a.take("id").orElseThrow(), null)),
                    of("downloadByName", (b, a) -> download(a, b, a.text("filename"),
                            a.apply(new GridFSDownloadOptions()))),
                    of("delete", (b, a) -> a.call(b, "delete", a.take("id").orElseThrow())),
                    of("rename", (b, a) -> a.call(b, "rename", a.take("id").orElseThrow(), a.text("newFilename"))),
                    of("drop", (b, a) -> drop(a, b)),
                    of("find", (b, a) -> files(a.apply(((GridFSBucket) b).find(a.document("filter")))))),
            "session", Map.ofEntries(
                    of("startTransaction", (s, a) -> nothing(() ->
                            session(s).startTransaction(a.apply(TransactionOptions.builder()).build()))),
                    of("commitTransaction", (s, a) -> nothing(session(s)::commitTransaction)),
                    of("abortTransaction", (s, a) -> nothing(session(s)::abortTransaction)),
                    of("withTransaction", (s, a) -> session(s).withTransaction(
                            () -> nothing(a.callback), a.apply(TransactionOptions.builder()).build())),
                    of("getSnapshotTime", (s, a) -> session(s).getSnapshotTimestamp()),
                    of("endSession", (s, a) -> nothing(session(s)::close))),
            "findCursor", cursor(),
            "changeStream", cursor());

    private Operations() {}

    /** Does what a scenario asks of an entity. */
    interface Operation {
        Object run(Object target, Arguments given);
    }

    static Operation find(final String kind, final String name) {
        Operation operation = BY_KIND.getOrDefault(kind, Map.of()).get(name);
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

    private static ClientSession session(final Object entity) {
        return (ClientSession) entity;
    }

    private static Object nothing(final Runnable work) {
        work.run();
        return null;
    }

    private static Object drop(final Arguments a, final Object target) {
        refuseOptions(a);
        return a.call(target, "drop");
    }

    /** Skips a case that has options for a method of the driver that takes none. */
    private static void refuseOptions(final Arguments a) {
        a.apply(new Object());
    }

    // ---- Collections ----

    private static Map<String, Operation> collection() {
        return Map.ofEntries(
                of("insertOne", (c, a) -> Words.result((InsertOneResult) a.call(c, "insertOne",
                        a.document("document"), a.apply(new InsertOneOptions())))),
                of("insertMany", (c, a) -> Words.result((InsertManyResult) a.call(c, "insertMany",
                        a.documents("documents"), a.apply(new InsertManyOptions())))),
                of("updateOne", (c, a) -> Words.result((UpdateResult) a.call(c, "updateOne",
                        a.document("filter"), update(a), a.apply(new UpdateOptions())))),
                of("updateMany", (c, a) -> Words.result((UpdateResult) a.call(c, "updateMany",
                        a.document("filter"), update(a), a.apply(new UpdateOptions())))),
                of("replaceOne", (c, a) -> Words.result((UpdateResult) a.call(c, "replaceOne",
                        a.document("filter"), a.document("replacement"), a.apply(new ReplaceOptions())))),
                of("deleteOne", (c, a) -> Words.result((DeleteResult) a.call(c, "deleteOne",
                        a.document("filter"), a.apply(new DeleteOptions())))),
                of("deleteMany", (c, a) -> Words.result((DeleteResult) a.call(c, "deleteMany",
                        a.document("filter"), a.apply(new DeleteOptions())))),
                of("bulkWrite", (c, a) -> Words.result((com.mongodb.bulk.BulkWriteResult) a.call(c, "bulkWrite",
                        a.documents("requests").stream().map(Operations::model).toList(),
                        a.apply(new BulkWriteOptions())))),
                of("findOneAndDelete", (c, a) -> a.call(c, "findOneAndDelete",
                        a.document("filter"), a.apply(new FindOneAndDeleteOptions()))),
                of("findOneAndReplace", (c, a) -> a.call(c, "findOneAndReplace", a.document("filter"),
                        a.document("replacement"), a.apply(new FindOneAndReplaceOptions()))),
                of("findOneAndUpdate", (c, a) -> a.call(c, "findOneAndUpdate", a.document("filter"), update(a),
                        a.apply(new FindOneAndUpdateOptions()))),
                of("find", (c, a) -> all(found(c, a))),
                of("findOne", (c, a) -> found(c, a).first()),
                of("createFindCursor", (c, a) -> new Adapter.Entity(found(c, a).cursor())),
                of("aggregate", Operations::aggregate),
                of("countDocuments", (c, a) -> new BsonInt64((Long) a.call(c, "countDocuments",
                        a.document("filter"), a.apply(new CountOptions())))),
                of("estimatedDocumentCount", (c, a) -> new BsonInt64(((MongoCollection<?>) c)
                        .estimatedDocumentCount(a.apply(new EstimatedDocumentCountOptions())))),
                of("distinct", (c, a) -> all(a.apply((MongoIterable<?>) a.call(c, "distinct",
                        a.text("fieldName"), a.document("filter"), BsonValue.class)))),
                of("createIndex", (c, a) -> new BsonString((String) a.call(c, "createIndex",
                        a.document("keys"), a.apply(new IndexOptions())))),
                of("dropIndex", (c, a) -> a.call(c, "dropIndex", a.text("name"), a.apply(new DropIndexOptions()))),
                of("dropIndexes", (c, a) -> a.call(c, "dropIndexes", a.apply(new DropIndexOptions()))),
                of("listIndexes", (c, a) -> all(a.apply(withClass(a, c, "listIndexes")))),
                of("drop", (c, a) -> drop(a, c)),
                of("rename", (c, a) -> a.call(c, "renameCollection",
                        new MongoNamespace(((MongoCollection<?>) c).getNamespace().getDatabaseName(), a.text("to")),
                        a.apply(new RenameCollectionOptions()))),
                of("listSearchIndexes", Operations::listSearchIndexes),
                of("createSearchIndex", (c, a) -> new BsonString(((MongoCollection<?>) c)
                        .createSearchIndexes(List.of(searchIndex(a.document("model")))).get(0))),
                of("createSearchIndexes", (c, a) -> Words.array(((MongoCollection<?>) c).createSearchIndexes(
                        a.documents("models").stream().map(Operations::searchIndex).toList()))),
                of("updateSearchIndex", (c, a) ->
                        a.call(c, "updateSearchIndex", a.text("name"), a.document("definition"))),
                of("dropSearchIndex", (c, a) -> a.call(c, "dropSearchIndex", a.text("name"))),
                of("createChangeStream", (c, a) -> stream(a, c)));
    }

    private static Object update(final Arguments a) {
        boolean isPipeline = a.all.isArray("update");
        return isPipeline ? a.documents("update") : a.document("update");
    }

    private static MongoIterable<?> found(final Object collection, final Arguments a) {
        return a.apply((MongoIterable<?>) a.call(collection, "find", a.document("filter"), BsonDocument.class));
    }

    /** Aggregates; where the last stage writes, the driver is asked for that, and not for the collection's content. */
    private static Object aggregate(final Object target, final Arguments a) {
        List<BsonDocument> stages = a.documents("pipeline");
        AggregateIterable<?> found = a.apply(
                (AggregateIterable<?>) a.call(target, "aggregate", stages, BsonDocument.class));
        String last = stages.isEmpty() ? "" : stages.get(stages.size() - 1).getFirstKey();
        if (last.equals("$out") || last.equals("$merge")) {
            found.toCollection();
            return new BsonArray();
        }
        return all(found);
    }

    private static SearchIndexModel searchIndex(final BsonDocument model) {
        return new SearchIndexModel(model.containsKey("name") ? model.getString("name").getValue() : null,
                model.getDocument("definition"));
    }

    private static Object listSearchIndexes(final Object collection, final Arguments a) {
        ListSearchIndexesIterable<?> found = ((MongoCollection<?>) collection).listSearchIndexes(BsonDocument.class);
        return all(Arguments.apply(a.all.containsKey("name") ? found.name(a.text("name")) : found,
                a.document("aggregationOptions")));
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

    private static Object clientBulkWrite(final Object client, final Arguments a) {
        List<ClientNamespacedWriteModel> models = new ArrayList<>();
        a.documents("models").forEach(request -> models.add(clientModel(request)));
        ClientBulkWriteOptions options = a.apply(ClientBulkWriteOptions.clientBulkWriteOptions());
        return Words.result((ClientBulkWriteResult) a.call(client, "bulkWrite", models, options));
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

    private static Object appendMetadata(final Entities.Client client, final Arguments a) {
        MongoDriverInformation.Builder builder = MongoDriverInformation.builder();
        BsonDocument info = a.document("driverInfoOptions");
        builder.driverName(info.getString("name").getValue());
        if (info.containsKey("version")) {
            builder.driverVersion(info.getString("version").getValue());
        }
        if (info.containsKey("platform")) {
            builder.driverPlatform(info.getString("platform").getValue());
        }
        client.client().appendMetadata(builder.build());
        return null;
    }

    private static Object runCommand(final Object database, final Arguments a) {
        BsonDocument command = ordered(a);
        ReadPreference preference = a.take("readPreference")
                .map(given -> Arguments.readPreference(given.asDocument())).orElse(ReadPreference.primary());
        refuseOptions(a);
        return a.call(database, "runCommand", command, preference, BsonDocument.class);
    }

    /** Returns the command; its name comes first, whatever its order in the file. */
    private static BsonDocument ordered(final Arguments a) {
        BsonDocument given = a.document("command");
        String name = a.all.containsKey("commandName") ? a.text("commandName") : given.getFirstKey();
        BsonDocument command = new BsonDocument(name, given.get(name));
        command.putAll(Entities.without(given, name));
        return command;
    }

    private static Object createCollection(final MongoDatabase database, final Arguments a) {
        String name = a.text("collection");
        if (a.all.containsKey("viewOn")) {
            a.call(database, "createView", name, a.text("viewOn"), a.documents("pipeline"),
                    a.apply(new CreateViewOptions()));
        } else {
            CreateCollectionOptions options = new CreateCollectionOptions();
            a.take("timeseries").ifPresent(given -> {
                BsonDocument series = given.asDocument();
                options.timeSeriesOptions(Arguments.apply(
                        new TimeSeriesOptions(series.getString("timeField").getValue()),
                        Entities.without(series, "timeField")));
            });
            a.call(database, "createCollection", name, a.apply(options));
        }
        return new Adapter.Entity(database.getCollection(name, BsonDocument.class));
    }

    private static Object modifyCollection(final Object database, final Arguments a) {
        BsonDocument command = new BsonDocument("collMod", new BsonString(a.text("collection")));
        command.putAll(a.rest());
        return a.call(database, "runCommand", command, ReadPreference.primary(), BsonDocument.class);
    }

    private static Object stream(final Arguments a, final Object target) {
        ChangeStreamIterable<?> changes = (ChangeStreamIterable<?>) a.call(target, "watch", a.documents("pipeline"),
                BsonDocument.class);
        return new Adapter.Entity(a.apply(changes).withDocumentClass(BsonDocument.class).cursor());
    }

    private static MongoIterable<?> withClass(final Arguments a, final Object target, final String name) {
        return (MongoIterable<?>) a.call(target, name, BsonDocument.class);
    }

    // ---- Buckets ----

    private static ByteArrayInputStream source(final Arguments a) {
        return new ByteArrayInputStream(Arguments.bytes(a.take("source").orElseThrow()));
    }

    private static GridFSUploadOptions upload(final Arguments a) {
        a.take("disableMD5"); // the driver always works without MD5
        GridFSUploadOptions options = new GridFSUploadOptions();
        a.take("metadata").ifPresent(given -> options.metadata(Document.parse(given.asDocument().toJson())));
        return a.apply(options);
    }

    private static Object download(final Arguments a, final Object bucket, final Object file, final Object options) {
        ByteArrayOutputStream data = new ByteArrayOutputStream();
        if (options == null) {
            a.call(bucket, "downloadToStream", file, data);
        } else {
            a.call(bucket, "downloadToStream", file, data, options);
        }
        return new BsonBinary(data.toByteArray());
    }

    private static BsonArray files(final MongoIterable<?> files) {
        BsonArray documents = new BsonArray();
        for (Object each : files) {
            GridFSFile file = (GridFSFile) each;
            BsonDocument document = new BsonDocument("_id", file.getId())
                    .append("length", new BsonInt64(file.getLength()))
                    .append("chunkSize", new BsonInt32(file.getChunkSize()))
                    .append("uploadDate", new org.bson.BsonDateTime(file.getUploadDate().getTime()))
                    .append("filename", new BsonString(file.getFilename()));
            if (file.getMetadata() != null) {
                document.append("metadata", file.getMetadata().toBsonDocument());
            }
            documents.add(document);
        }
        return documents;
    }

    // ---- Cursors ----

    private static Map<String, Operation> cursor() {
        return Map.of(
                "close", (c, a) -> nothing(((MongoCursor<?>) c)::close),
                "iterateOnce", (c, a) -> document(((MongoCursor<?>) c).tryNext()),
                "iterateUntilDocumentOrError", (c, a) -> {
                    try {
                        return document(((MongoCursor<?>) c).next());
                    } catch (NoSuchElementException end) {
                        throw new IllegalStateException("the cursor has no more documents", end);
                    }
                });
    }

    private static BsonValue document(final Object found) {
        return (BsonValue) found;
    }

    private static BsonArray all(final MongoIterable<?> found) {
        BsonArray values = new BsonArray();
        for (Object each : found) {
            values.add((BsonValue) each);
        }
        return values;
    }

    private static BsonArray names(final MongoIterable<?> found) {
        BsonArray values = new BsonArray();
        for (Object each : found) {
            values.add(new BsonString((String) each));
        }
        return values;
    }
}
