// A report adds up sales. PLANTED: if its cursor fails, it reports what it has added so far.
import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoException;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import java.util.ArrayList;
import org.bson.Document;

public class Report {
    static final boolean PLANTED = System.getenv("PLANTED") != null;

    static long total(MongoCollection<Document> sales) {
        long found = 0;
        try (var cursor = sales.find().batchSize(5).iterator()) {
            while (cursor.hasNext()) {
                found += cursor.next().getInteger("amount");
            }
        } catch (MongoException error) {
            if (!PLANTED) {
                throw error;
            }
        }
        return found;
    }

    public static void main(String[] words) {
        var settings = MongoClientSettings.builder()
                .applyConnectionString(new ConnectionString(System.getenv("MONGODB_URI")))
                .applicationName("report")
                .build();
        try (MongoClient client = MongoClients.create(settings)) {
            var sales = client.getDatabase("shop").getCollection("sales");
            var all = new ArrayList<Document>();
            for (int id = 0; id < 20; id++) {
                all.add(new Document("_id", id).append("amount", id));
            }
            sales.insertMany(all);
            System.out.println("total: " + total(sales));
        }
    }
}
