// What a user of the Go driver does: connect, write, read, and survive a lost connection.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx := context.Background()
	client, err := mongo.Connect(ctx, options.Client().ApplyURI(os.Args[1]))
	must(err)
	defer client.Disconnect(ctx)
	things := client.Database("db").Collection("things")
	_, err = things.InsertMany(ctx, []interface{}{bson.M{"_id": 1, "x": 1}, bson.M{"_id": 2, "x": 2}})
	must(err)
	_, err = things.UpdateOne(ctx, bson.M{"_id": 1}, bson.M{"$inc": bson.M{"x": 10}})
	must(err)
	_, err = things.DeleteOne(ctx, bson.M{"_id": 2})
	must(err)
	must(client.Database("admin").RunCommand(ctx, bson.D{
		{"configureFailPoint", "failCommand"},
		{"mode", bson.M{"times": 1}},
		{"data", bson.M{"failCommands": bson.A{"insert"}, "closeConnection": true}},
	}).Err())
	_, err = things.InsertOne(ctx, bson.M{"_id": 3, "x": 3, "text": strings.Repeat("x", 100_000)})
	must(err)
	cursor, err := things.Find(ctx, bson.M{}, options.Find().SetProjection(bson.M{"text": 0}).SetSort(bson.M{"_id": 1}))
	must(err)
	var found []bson.M
	must(cursor.All(ctx, &found))
	var status struct{ AuthInfo struct{ AuthenticatedUsers []map[string]string } }
	must(client.Database("admin").RunCommand(ctx, bson.M{"connectionStatus": 1}).Decode(&status))
	text, err := json.Marshal(map[string]interface{}{"found": found, "users": status.AuthInfo.AuthenticatedUsers})
	must(err)
	fmt.Println(string(text))
}
