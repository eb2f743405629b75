// What a user of the Java driver does: connect, write, read, and survive a lost connection.
import com.mongodb.MongoClient;
import com.mongodb.MongoClientURI;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.Projections;
import com.mongodb.client.model.Sorts;
import com.mongodb.client.model.Updates;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bson.Document;

public class Crud {
    public static void main(String[] arguments) {
        try (MongoClient client = new MongoClient(new MongoClientURI(arguments[0]))) {
            MongoCollection<Document> things = client.getDatabase("db").getCollection("things");
            things.insertMany(Arrays.asList(thing(1), thing(2)));
            things.updateOne(Filters.eq("_id", 1), Updates.inc("x", 10));
            things.deleteOne(Filters.eq("_id", 2));
            client.getDatabase("admin").runCommand(new Document("configureFailPoint", "failCommand")
                .append("mode", new Document("times", 1))
                .append("data", new Document("failCommands", List.of("insert")).append("closeConnection", true)));
            things.insertOne(thing(3).append("text", "x".repeat(100_000)));
            List<Document> found = things.find().projection(Projections.exclude("text")).sort(Sorts.ascending("_id")).into(new ArrayList<>());
            Document status = client.getDatabase("admin").runCommand(new Document("connectionStatus", 1));
            Object users = status.get("authInfo", Document.class).get("authenticatedUsers");
            System.out.println(new Document("found", found).append("users", users).toJson());
        }
    }

    private static Document thing(int id) {
        return new Document("_id", id).append("x", id);
    }
}
