import com.mongodb.ClientBulkWriteException;
import com.mongodb.MongoBulkWriteException;
import com.mongodb.MongoCommandException;
import com.mongodb.MongoException;
import com.mongodb.MongoExecutionTimeoutException;
import com.mongodb.MongoOperationTimeoutException;
import com.mongodb.MongoServerException;
import com.mongodb.MongoSocketException;
import com.mongodb.MongoSocketReadTimeoutException;
import com.mongodb.MongoWriteConcernException;
import com.mongodb.MongoWriteException;
import com.mongodb.bulk.BulkWriteResult;
import com.mongodb.client.gridfs.model.GridFSFile;
import com.mongodb.client.model.bulk.ClientBulkWriteResult;
import com.mongodb.client.result.DeleteResult;
import com.mongodb.client.result.InsertManyResult;
import com.mongodb.client.result.InsertOneResult;
import com.mongodb.client.result.UpdateResult;
import com.mongodb.internal.logging.LogMessage;
import java.util.Collection;
import java.util.Map;
import org.bson.BsonArray;
import org.bson.BsonBoolean;
import org.bson.BsonDateTime;
import org.bson.BsonDocument;
import org.bson.BsonDouble;
import org.bson.BsonInt32;
import org.bson.BsonInt64;
import org.bson.BsonNull;
import org.bson.BsonObjectId;
import org.bson.BsonString;
import org.bson.BsonValue;
import org.bson.types.ObjectId;

/** What came of an operation, in the words of the specifications: results, errors and log messages. */
final class Words {
    private static final BsonDocument UNACKNOWLEDGED = new BsonDocument("acknowledged", BsonBoolean.FALSE);

    private Words() {}

    static BsonArray array(final Collection<String> texts) {
        return new BsonArray(texts.stream().map(BsonString::new).toList());
    }

    // ---- Errors ----

    static BsonDocument error(final RuntimeException error) {
        BsonDocument report = new BsonDocument("message", new BsonString(String.valueOf(error.getMessage())))
                .append("isClientError", BsonBoolean.valueOf(isClientError(error)))
                .append("isTimeoutError", BsonBoolean.valueOf(error instanceof MongoOperationTimeoutException
                        || error instanceof MongoExecutionTimeoutException
                        || error instanceof MongoSocketReadTimeoutException))
                .append("labels", error instanceof MongoException mongo ? array(mongo.getErrorLabels())
                        : new BsonArray());
        if (error instanceof MongoCommandException command) {
            report.append("code", new BsonInt32(command.getErrorCode()))
                    .append("codeName", new BsonString(command.getErrorCodeName()))
                    .append("response", command.getResponse());
        } else if (error instanceof MongoExecutionTimeoutException timeout) {
            report.append("code", new BsonInt32(timeout.getCode()));
        } else if (error instanceof MongoWriteException write) {
            report.append("code", new BsonInt32(write.getError().getCode()))
                    .append("response", write.getError().getDetails());
        } else if (error instanceof MongoWriteConcernException write) {
            report.append("code", new BsonInt32(write.getWriteConcernError().getCode()))
                    .append("codeName", new BsonString(write.getWriteConcernError().getCodeName()));
        } else if (error instanceof MongoBulkWriteException bulk) {
            bulkError(report, bulk);
        } else if (error instanceof ClientBulkWriteException bulk) {
            clientBulkError(report, bulk);
        }
        return report;
    }

    private static boolean isClientError(final RuntimeException error) {
        if (error instanceof ClientBulkWriteException bulk) {
            return bulk.getCause() != null && isClientError(bulk.getCause());
        }
        return error instanceof MongoSocketException || !(error instanceof MongoServerException
                || error instanceof MongoExecutionTimeoutException);
    }

    private static void bulkError(final BsonDocument report, final MongoBulkWriteException bulk) {
        if (!bulk.getWriteErrors().isEmpty()) {
            report.append("code", new BsonInt32(bulk.getWriteErrors().get(0).getCode()));
        } else if (bulk.getWriteConcernError() != null) {
            report.append("code", new BsonInt32(bulk.getWriteConcernError().getCode()))
                    .append("codeName", new BsonString(bulk.getWriteConcernError().getCodeName()));
        }
        BsonDocument errors = new BsonDocument();
        bulk.getWriteErrors().forEach(each ->
                errors.append(String.valueOf(each.getIndex()), coded(each.getCode(), each.getMessage())));
        report.append("writeErrors", errors).append("result", result(bulk.getWriteResult()));
    }

    private static void clientBulkError(final BsonDocument report, final ClientBulkWriteException bulk) {
        if (bulk.getCause() != null) {
            for (Map.Entry<String, BsonValue> field : error(bulk.getCause()).entrySet()) {
                if (!field.getKey().equals("message")) {
                    report.put(field.getKey(), field.getValue());
                }
            }
        }
        BsonDocument errors = new BsonDocument();
        bulk.getWriteErrors().forEach((index, each) ->
                errors.append(index.toString(), coded(each.getCode(), each.getMessage())));
        BsonArray concerns = new BsonArray(bulk.getWriteConcernErrors().stream()
                .map(each -> coded(each.getCode(), each.getMessage())).toList());
        report.append("writeErrors", errors).append("writeConcernErrors", concerns);
        bulk.getPartialResult().ifPresent(partial -> report.append("result", result(partial)));
    }

    private static BsonDocument coded(final int code, final String message) {
        return new BsonDocument("code", new BsonInt32(code)).append("message", new BsonString(message));
    }

    // ---- Results ----

    /** Returns what the driver returned. */
    static BsonValue value(final Object returned) {
        if (returned instanceof String text) {
            return new BsonString(text);
        } else if (returned instanceof Long number) {
            return new BsonInt64(number);
        } else if (returned instanceof ObjectId id) {
            return new BsonObjectId(id);
        } else if (returned instanceof GridFSFile file) {
            return result(file);
        } else if (returned instanceof InsertOneResult result) {
            return result(result);
        } else if (returned instanceof InsertManyResult result) {
            return result(result);
        } else if (returned instanceof UpdateResult result) {
            return result(result);
        } else if (returned instanceof DeleteResult result) {
            return result(result);
        } else if (returned instanceof BulkWriteResult result) {
            return result(result);
        } else if (returned instanceof ClientBulkWriteResult result) {
            return result(result);
        }
        return (BsonValue) returned;
    }

    private static BsonDocument result(final GridFSFile file) {
        BsonDocument document = new BsonDocument("_id", file.getId())
                .append("length", new BsonInt64(file.getLength()))
                .append("chunkSize", new BsonInt32(file.getChunkSize()))
                .append("uploadDate", new BsonDateTime(file.getUploadDate().getTime()))
                .append("filename", new BsonString(file.getFilename()));
        return file.getMetadata() == null ? document
                : document.append("metadata", file.getMetadata().toBsonDocument());
    }

    private static BsonDocument result(final InsertOneResult result) {
        if (!result.wasAcknowledged()) {
            return UNACKNOWLEDGED;
        }
        BsonValue id = result.getInsertedId();
        return new BsonDocument("insertedId", id == null ? BsonNull.VALUE : id);
    }

    private static BsonDocument result(final InsertManyResult result) {
        return result.wasAcknowledged() ? new BsonDocument("insertedIds", byIndex(result.getInsertedIds()))
                : UNACKNOWLEDGED;
    }

    private static BsonDocument result(final UpdateResult result) {
        if (!result.wasAcknowledged()) {
            return UNACKNOWLEDGED;
        }
        BsonDocument counts = new BsonDocument("matchedCount", new BsonInt64(result.getMatchedCount()))
                .append("modifiedCount", new BsonInt64(result.getModifiedCount()))
                .append("upsertedCount", new BsonInt32(result.getUpsertedId() == null ? 0 : 1));
        return result.getUpsertedId() == null ? counts : counts.append("upsertedId", result.getUpsertedId());
    }

    private static BsonDocument result(final DeleteResult result) {
        return result.wasAcknowledged() ? new BsonDocument("deletedCount", new BsonInt64(result.getDeletedCount()))
                : UNACKNOWLEDGED;
    }

    private static BsonDocument result(final BulkWriteResult result) {
        if (!result.wasAcknowledged()) {
            return UNACKNOWLEDGED;
        }
        BsonDocument inserted = new BsonDocument();
        result.getInserts().forEach(each -> inserted.append(String.valueOf(each.getIndex()), each.getId()));
        BsonDocument upserted = new BsonDocument();
        result.getUpserts().forEach(each -> upserted.append(String.valueOf(each.getIndex()), each.getId()));
        return new BsonDocument("insertedCount", new BsonInt32(result.getInsertedCount()))
                .append("matchedCount", new BsonInt32(result.getMatchedCount()))
                .append("modifiedCount", new BsonInt32(result.getModifiedCount()))
                .append("deletedCount", new BsonInt32(result.getDeletedCount()))
                .append("upsertedCount", new BsonInt32(upserted.size()))
                .append("insertedIds", inserted)
                .append("upsertedIds", upserted);
    }

    private static BsonDocument result(final ClientBulkWriteResult result) {
        if (!result.isAcknowledged()) {
            return UNACKNOWLEDGED;
        }
        BsonDocument counts = new BsonDocument("insertedCount", new BsonInt64(result.getInsertedCount()))
                .append("matchedCount", new BsonInt64(result.getMatchedCount()))
                .append("modifiedCount", new BsonInt64(result.getModifiedCount()))
                .append("deletedCount", new BsonInt64(result.getDeletedCount()))
                .append("upsertedCount", new BsonInt64(result.getUpsertedCount()));
        result.getVerboseResults().ifPresent(verbose -> {
            BsonDocument inserts = new BsonDocument();
            verbose.getInsertResults().forEach((index, each) -> inserts.append(index.toString(),
                    new BsonDocument("insertedId", each.getInsertedId().orElse(BsonNull.VALUE))));
            BsonDocument updates = new BsonDocument();
            verbose.getUpdateResults().forEach((index, each) -> {
                BsonDocument one = new BsonDocument("matchedCount", new BsonInt64(each.getMatchedCount()))
                        .append("modifiedCount", new BsonInt64(each.getModifiedCount()));
                each.getUpsertedId().ifPresent(id -> one.append("upsertedId", id));
                updates.append(index.toString(), one);
            });
            BsonDocument deletes = new BsonDocument();
            verbose.getDeleteResults().forEach((index, each) -> deletes.append(index.toString(),
                    new BsonDocument("deletedCount", new BsonInt64(each.getDeletedCount()))));
            counts.append("insertResults", inserts).append("updateResults", updates).append("deleteResults", deletes);
        });
        return counts;
    }

    private static BsonDocument byIndex(final Map<Integer, BsonValue> values) {
        BsonDocument found = new BsonDocument();
        values.forEach((index, value) -> found.append(index.toString(), value));
        return found;
    }

    // ---- Log messages ----

    static BsonDocument log(final LogMessage message) {
        BsonDocument data = new BsonDocument("message", new BsonString(message.getMessageId()));
        for (LogMessage.Entry entry : message.getEntries()) {
            if (entry.getValue() != null) {
                data.append(entry.getName(), logged(entry.getValue()));
            }
        }
        if (message.getException() != null) {
            data.append("failure", new BsonString(message.getException().toString()));
        }
        return new BsonDocument("level", new BsonString(message.getLevel().name().toLowerCase()))
                .append("component", new BsonString(message.getComponent().getValue()))
                .append("data", data);
    }

    private static BsonValue logged(final Object value) {
        if (value instanceof Integer number) {
            return new BsonInt32(number);
        } else if (value instanceof Long number) {
            return new BsonInt64(number);
        } else if (value instanceof Double number) {
            return new BsonDouble(number);
        } else if (value instanceof Boolean flag) {
            return BsonBoolean.valueOf(flag);
        } else if (value instanceof ObjectId id) {
            return new BsonString(id.toHexString());
        }
        return new BsonString(value.toString());
    }
}
