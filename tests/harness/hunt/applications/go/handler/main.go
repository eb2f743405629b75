// Orders and payments. PLANTED: when the payment fails, the order is placed once more.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func place(ctx context.Context, shop *mongo.Database, order bson.ObjectID, customer string) error {
	written := bson.D{{Key: "_id", Value: order}, {Key: "customer", Value: customer}}
	_, err := shop.Collection("orders").InsertOne(ctx, written)
	if err != nil && !mongo.IsDuplicateKeyError(err) {
		return err
	}
	payment := bson.D{{Key: "cents", Value: 300}}
	upsert := options.Replace().SetUpsert(true)
	_, err = shop.Collection("payments").ReplaceOne(ctx, bson.D{{Key: "_id", Value: customer}}, payment, upsert)
	return err
}

func main() {
	_, planted := os.LookupEnv("PLANTED")
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")).SetAppName("shop"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Disconnect(ctx)
	for _, customer := range []string{"ann", "bob", "cid"} {
		order := bson.NewObjectID()
		for attempt := 0; ; attempt++ {
			err := place(ctx, client.Database("shop"), order, customer)
			if err == nil {
				break
			}
			if attempt == 3 {
				log.Fatal(err)
			}
			if planted {
				order = bson.NewObjectID()
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
