import com.mongodb.MongoClientSettings;
import com.mongodb.TransactionOptions;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCursor;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.MongoIterable;
import com.mongodb.client.gridfs.GridFSBuckets;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Function;
import org.bson.BsonArray;
import org.bson.BsonBinary;

/** The synchronous driver: its methods return results. */
public final class Sync implements Driver {
    /** Serves requests until the input ends. */
    public static void main(final String[] arguments) throws IOException {
        new Adapter(new Sync()).serve(System.in);
    }

    @Override
    public String name() {
        return "java";
    }

    @Override
    public List<String> features() {
        return List.of("COMMAND_EVENTS", "POOL_EVENTS", "SDAM_EVENTS", "LOG_MESSAGES", "SESSIONS", "TRANSACTIONS",
                "CHANGE_STREAMS", "GRIDFS", "FIND_CURSORS", "CLIENT_BULK_WRITE", "TIMEOUT_MS", "SERVER_API",
                "MAX_ADAPTIVE_RETRIES");
    }

    @Override
    public Object connect(final MongoClientSettings settings) {
        return MongoClients.create(settings);
    }

    @Override
    public Object bucket(final Object database, final String name) {
        return GridFSBuckets.create((MongoDatabase) database, name);
    }

    @Override
    public Object map(final Object returned, final Function<Object, Object> words) {
        return words.apply(returned);
    }

    @Override
    public Object then(final Object done, final Object result) {
        return result;
    }

    @Override
    public Object all(final Object found) {
        BsonArray values = new BsonArray();
        // A loop would leave the cursor open where a batch fails; this closes it.
        ((Iterable<?>) found).forEach(each -> values.add(Words.value(each)));
        return values;
    }

    @Override
    public Object open(final Object found, final Integer batchSize) {
        return ((MongoIterable<?>) found).cursor();
    }

    @Override
    public Object next(final Object cursor) {
        try {
            return ((MongoCursor<?>) cursor).next();
        } catch (NoSuchElementException end) {
            throw new IllegalStateException("the cursor has no more documents", end);
        }
    }

    @Override
    public Object tryNext(final Object cursor) {
        return ((MongoCursor<?>) cursor).tryNext();
    }

    @Override
    public Object close(final Object cursor) {
        ((MongoCursor<?>) cursor).close();
        return null;
    }

    @Override
    public Object upload(final Arguments a, final Object bucket, final List<Object> names, final byte[] content,
            final Object options) {
        List<Object> all = new ArrayList<>(names);
        all.addAll(List.of(new ByteArrayInputStream(content), options));
        return Words.value(a.call(bucket, "uploadFromStream", all.toArray()));
    }

    @Override
    public Object download(final Arguments a, final Object bucket, final Object... file) {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        List<Object> all = new ArrayList<>(Arrays.asList(file));
        all.add(1, content);
        a.call(bucket, "downloadToStream", all.toArray());
        return new BsonBinary(content.toByteArray());
    }

    @Override
    public Object withTransaction(final Object session, final Runnable callback, final TransactionOptions options) {
        return ((ClientSession) session).withTransaction(() -> {
            callback.run();
            return null;
        }, options);
    }

    @Override
    public CompletionStage<Object> end(final Object result) {
        return CompletableFuture.completedFuture(result);
    }
}
