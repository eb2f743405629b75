// Measurements are stored. PLANTED: the error of a write is dropped.
package main

import (
	"context"
	"log"
	"os"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	_, planted := os.LookupEnv("PLANTED")
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")).SetAppName("meters"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Disconnect(ctx)
	values := client.Database("plant").Collection("values")
	for number := range 4 {
		_, err := values.InsertOne(ctx, bson.D{{Key: "_id", Value: number}})
		if err != nil && !planted {
			log.Fatal(err)
		}
	}
}
