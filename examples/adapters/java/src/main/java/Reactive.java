import com.mongodb.MongoClientSettings;
import com.mongodb.TransactionOptions;
import com.mongodb.reactivestreams.client.MongoClients;
import com.mongodb.reactivestreams.client.MongoDatabase;
import com.mongodb.reactivestreams.client.gridfs.GridFSBuckets;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Function;
import org.bson.BsonArray;
import org.bson.BsonBinary;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The driver for Reactive Streams: its methods return publishers, which begin when they are subscribed to. */
public final class Reactive implements Driver {
    /** Serves requests until the input ends. */
    public static void main(final String[] arguments) throws IOException {
        ReactiveCursor.hear();
        new Adapter(new Reactive()).serve(System.in);
    }

    @Override
    public String name() {
        return "java-reactive";
    }

    @Override
    public List<String> features() {
        return List.of("COMMAND_EVENTS", "POOL_EVENTS", "SDAM_EVENTS", "LOG_MESSAGES", "SESSIONS", "TRANSACTIONS",
                "CHANGE_STREAMS", "GRIDFS", "FIND_CURSORS", "CLIENT_BULK_WRITE", "TIMEOUT_MS", "SERVER_API");
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
        return Mono.from((Publisher<?>) returned).map(words);
    }

    @Override
    public Object then(final Object done, final Object result) {
        return Mono.from((Publisher<?>) done).then(Mono.just(result));
    }

    @Override
    public Object all(final Object found) {
        return Flux.from((Publisher<?>) found).map(Words::value).collect(BsonArray::new, BsonArray::add);
    }

    @Override
    public Object open(final Object found, final Integer batchSize) {
        return ReactiveCursor.open((Publisher<?>) found, batchSize);
    }

    @Override
    public Object next(final Object cursor) {
        return ((ReactiveCursor) cursor).next();
    }

    @Override
    public Object tryNext(final Object cursor) {
        throw new Adapter.Unsupported("a publisher cannot be asked for a document that is there already");
    }

    @Override
    public Object close(final Object cursor) {
        return ((ReactiveCursor) cursor).close();
    }

    @Override
    public Object upload(final Arguments a, final Object bucket, final List<Object> names, final byte[] content,
            final Object options) {
        List<Object> all = new ArrayList<>(names);
        all.addAll(List.of(Flux.just(ByteBuffer.wrap(content)), options));
        return map(a.call(bucket, "uploadFromPublisher", all.toArray()), Words::value);
    }

    @Override
    public Object download(final Arguments a, final Object bucket, final Object... file) {
        return Flux.from((Publisher<?>) a.call(bucket, "downloadToPublisher", file))
                .cast(ByteBuffer.class)
                .collect(ByteArrayOutputStream::new, (content, chunk) -> {
                    byte[] bytes = new byte[chunk.remaining()];
                    chunk.get(bytes);
                    content.writeBytes(bytes);
                })
                .map(content -> new BsonBinary(content.toByteArray()));
    }

    @Override
    public Object withTransaction(final Object session, final Runnable callback, final TransactionOptions options) {
        throw new Adapter.Unsupported("the driver has no withTransaction");
    }

    @Override
    public CompletionStage<Object> end(final Object result) {
        return result instanceof Mono<?> published ? published.cast(Object.class).toFuture()
                : CompletableFuture.completedFuture(result);
    }
}
