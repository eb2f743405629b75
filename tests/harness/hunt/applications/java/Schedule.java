// A worker asks for jobs on a schedule. PLANTED: an exception cancels the schedule, and nobody hears of it.
import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoException;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.Updates;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.bson.Document;

public class Schedule {
    static final boolean PLANTED = System.getenv("PLANTED") != null;

    static void work(MongoCollection<Document> jobs) {
        try {
            jobs.updateOne(Filters.eq("done", false), Updates.set("done", true));
        } catch (MongoException error) {
            if (PLANTED) {
                throw error;
            }
            System.err.println(error.getMessage());
        }
    }

    static long left(MongoCollection<Document> jobs) {
        try {
            return jobs.countDocuments(Filters.eq("done", false));
        } catch (MongoException error) {
            return 1;
        }
    }

    public static void main(String[] words) throws Exception {
        var settings = MongoClientSettings.builder()
                .applyConnectionString(new ConnectionString(System.getenv("MONGODB_URI")))
                .applicationName("worker")
                .build();
        long left = 1;
        var schedule = Executors.newSingleThreadScheduledExecutor();
        try (MongoClient client = MongoClients.create(settings)) {
            var jobs = client.getDatabase("queue").getCollection("jobs");
            for (int id = 1; id <= 4; id++) {
                jobs.insertOne(new Document("_id", id).append("done", false));
            }
            schedule.scheduleWithFixedDelay(() -> work(jobs), 20, 50, TimeUnit.MILLISECONDS);
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(12);
            while (left > 0 && System.nanoTime() < end) {
                Thread.sleep(50);
                left = left(jobs);
            }
            schedule.shutdown();
            schedule.awaitTermination(1, TimeUnit.MINUTES);
        } finally {
            schedule.shutdownNow();
        }
        if (left > 0) {
            System.err.println(left + " jobs are left");
            System.exit(1);
        }
    }
}
