// A till gives points for a purchase. PLANTED: when the answer is lost, they are given again.
import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoException;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.Updates;
import org.bson.Document;
import org.bson.types.ObjectId;

public class Points {
    static final boolean PLANTED = System.getenv("PLANTED") != null;

    static void give(MongoCollection<Document> members, String name) throws InterruptedException {
        var purchase = new ObjectId();
        var points = Updates.inc("points", 10);
        for (int attempt = 0; ; attempt++) {
            try {
                if (PLANTED) {
                    members.updateOne(Filters.eq(name), points);
                } else {
                    members.updateOne(
                            Filters.and(Filters.eq(name), Filters.ne("had", purchase)),
                            Updates.combine(points, Updates.push("had", purchase)));
                }
                return;
            } catch (MongoException error) {
                if (attempt == 3) {
                    throw error;
                }
                Thread.sleep(50);
            }
        }
    }

    public static void main(String[] words) throws Exception {
        var settings = MongoClientSettings.builder()
                .applyConnectionString(new ConnectionString(System.getenv("MONGODB_URI")))
                .applicationName("till")
                .build();
        try (MongoClient client = MongoClients.create(settings)) {
            var members = client.getDatabase("club").getCollection("members");
            for (var name : new String[] {"ann", "bob"}) {
                members.insertOne(new Document("_id", name).append("points", 0));
                give(members, name);
            }
        }
    }
}
