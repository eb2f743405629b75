import com.mongodb.MongoClientSettings;
import com.mongodb.TransactionOptions;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.function.Function;

/**
 * What the driver's interfaces do each in its own way: the synchronous one returns results and blocks until then,
 * the reactive one returns publishers of them at once. All else has the same names in both.
 */
interface Driver {
    /** Returns the name that reports know the driver by. */
    String name();

    List<String> features();

    /** Returns a client. */
    Object connect(MongoClientSettings settings);

    Object bucket(Object database, String name);

    /** Returns what a method returned, or will publish, in the words of the protocol. */
    Object map(Object returned, Function<Object, Object> words);

    /** Returns a result once something is done. */
    Object then(Object done, Object result);

    /** Returns all that was found, in the words of the protocol. */
    Object all(Object found);

    /** Returns a cursor, which exists on the server then; the size of its batches is null where none was asked for. */
    Object open(Object found, Integer batchSize);

    /** Returns the next document of a cursor, and waits for it. */
    Object next(Object cursor);

    /** Returns the next document of a cursor if there is one. */
    Object tryNext(Object cursor);

    Object close(Object cursor);

    /** Uploads a file; its id comes before its name where it has been chosen. */
    Object upload(Arguments a, Object bucket, List<Object> names, byte[] content, Object options);

    /** Downloads a file by its id, or by its name and options. */
    Object download(Arguments a, Object bucket, Object... file);

    Object withTransaction(Object session, Runnable callback, TransactionOptions options);

    /** Returns when the result of an operation is there. */
    CompletionStage<Object> end(Object result);
}
