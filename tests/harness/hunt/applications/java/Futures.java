// Letters are stored by a pool of threads. PLANTED: nobody asks the futures how it went.
import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.bson.Document;

public class Futures {
    static final boolean PLANTED = System.getenv("PLANTED") != null;

    public static void main(String[] words) throws Exception {
        var settings = MongoClientSettings.builder()
                .applyConnectionString(new ConnectionString(System.getenv("MONGODB_URI")))
                .applicationName("post")
                .build();
        List<Future<?>> stored = new ArrayList<>();
        try (MongoClient client = MongoClients.create(settings)) {
            var letters = client.getDatabase("post").getCollection("letters");
            var pool = Executors.newFixedThreadPool(2);
            for (int id = 1; id <= 4; id++) {
                var letter = new Document("_id", id);
                stored.add(pool.submit(() -> letters.insertOne(letter)));
            }
            pool.shutdown();
            pool.awaitTermination(1, TimeUnit.MINUTES);
        }
        if (!PLANTED) {
            for (var each : stored) {
                each.get();
            }
        }
    }
}
