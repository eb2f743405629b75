import com.mongodb.reactivestreams.client.internal.BatchCursor;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Queue;
import org.bson.BsonValue;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscription;
import reactor.core.CoreSubscriber;
import reactor.core.publisher.BaseSubscriber;
import reactor.core.publisher.Hooks;
import reactor.core.publisher.Mono;
import reactor.core.publisher.MonoSink;
import reactor.core.publisher.Operators;
import reactor.util.context.Context;

/**
 * A subscription as a cursor: its documents are kept until they are asked for.
 *
 * It demands one batch after the other, each when the one before has been used up, or all where a cursor has no size
 * of batches, as the driver's own tests do.
 */
final class ReactiveCursor extends BaseSubscriber<Object> {
    private static final Duration CLOSING = Duration.ofMillis(100);

    private final long batchSize;
    private final MonoSink<Object> opened;
    private final Queue<Object> found = new ArrayDeque<>();
    private final Queue<MonoSink<BsonValue>> asking = new ArrayDeque<>();
    private Throwable end;
    private long taken;

    private ReactiveCursor(final long batchSize, final MonoSink<Object> opened) {
        this.batchSize = batchSize;
        this.opened = opened;
    }

    /** Publishes a cursor once the server has it. */
    static Mono<Object> open(final Publisher<?> found, final Integer batchSize) {
        long size = batchSize == null || batchSize == 0 ? Long.MAX_VALUE : batchSize;
        return Mono.create(opened -> found.subscribe(new ReactiveCursor(size, opened)));
    }

    /** Lets cursors hear that they are open: a publisher says nothing of one whose first batch is empty. */
    static void hear() {
        Hooks.onEachOperator(Operators.lift((publisher, subscriber) ->
                subscriber.currentContext().<ReactiveCursor>getOrEmpty(ReactiveCursor.class)
                        .<CoreSubscriber<? super Object>>map(cursor -> new Opening(subscriber, cursor))
                        .orElse(subscriber)));
    }

    /** Publishes the next document, or the error of a cursor that has none. */
    Mono<BsonValue> next() {
        return Mono.create(this::ask);
    }

    private synchronized void ask(final MonoSink<BsonValue> sink) {
        asking.add(sink);
        if (taken == batchSize) {
            taken = 0;
            request(batchSize);
        }
        answer();
    }

    private synchronized void answer() {
        while (!asking.isEmpty() && !found.isEmpty()) {
            taken++;
            asking.remove().success((BsonValue) found.remove());
        }
        while (!asking.isEmpty() && end != null) {
            asking.remove().error(end);
        }
    }

    /** Closes the cursor; the driver does not say when a cancelled one is gone from the server. */
    Mono<Object> close() {
        return Mono.fromRunnable(this::cancel).then(Mono.delay(CLOSING)).then(Mono.empty());
    }

    @Override
    public Context currentContext() {
        return Context.of(ReactiveCursor.class, this);
    }

    @Override
    protected void hookOnSubscribe(final Subscription subscription) {
        subscription.request(batchSize);
    }

    @Override
    protected synchronized void hookOnNext(final Object document) {
        found.add(document);
        answer();
    }

    @Override
    protected void hookOnError(final Throwable error) {
        opened.error(error);
        end(error);
    }

    @Override
    protected void hookOnComplete() {
        end(new IllegalStateException("the cursor has no more documents"));
    }

    private synchronized void end(final Throwable reason) {
        end = reason;
        answer();
    }

    /** Passes on what an operator publishes, and hears of the driver's cursor. */
    private record Opening(CoreSubscriber<? super Object> subscriber, ReactiveCursor cursor)
            implements CoreSubscriber<Object> {
        @Override
        public Context currentContext() {
            return subscriber.currentContext();
        }

        @Override
        public void onSubscribe(final Subscription subscription) {
            subscriber.onSubscribe(subscription);
        }

        @Override
        public void onNext(final Object published) {
            if (published instanceof BatchCursor) {
                cursor.opened.success(cursor);
            }
            subscriber.onNext(published);
        }

        @Override
        public void onError(final Throwable error) {
            subscriber.onError(error);
        }

        @Override
        public void onComplete() {
            subscriber.onComplete();
        }
    }
}
