// Rooms are booked in transactions. PLANTED: one that met a conflict is not tried again.
package main

import (
	"context"
	"log"
	"os"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func book(ctx context.Context, hotel *mongo.Database, room int) error {
	update := bson.D{{Key: "$set", Value: bson.D{{Key: "free", Value: false}}}}
	if _, err := hotel.Collection("rooms").UpdateByID(ctx, room, update); err != nil {
		return err
	}
	_, err := hotel.Collection("bookings").InsertOne(ctx, bson.D{{Key: "_id", Value: room}})
	return err
}

func main() {
	_, planted := os.LookupEnv("PLANTED")
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")).SetAppName("hotel"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Disconnect(ctx)
	hotel := client.Database("hotel")
	for room := range 2 {
		_, err := hotel.Collection("rooms").InsertOne(ctx, bson.D{{Key: "_id", Value: room}, {Key: "free", Value: true}})
		if err != nil {
			log.Fatal(err)
		}
	}
	for room := range 2 {
		err := client.UseSession(ctx, func(ctx context.Context) error {
			session := mongo.SessionFromContext(ctx)
			callback := func(ctx context.Context) (any, error) { return nil, book(ctx, hotel, room) }
			if !planted {
				_, err := session.WithTransaction(ctx, callback)
				return err
			}
			if err := session.StartTransaction(); err != nil {
				return err
			}
			if _, err := callback(ctx); err != nil {
				return err
			}
			return session.CommitTransaction(ctx)
		})
		if err != nil {
			log.Fatal(err)
		}
	}
}
