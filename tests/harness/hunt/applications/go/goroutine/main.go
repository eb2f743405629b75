// Jobs are done by goroutines. PLANTED: one that fails returns, and its jobs are left.
package main

import (
	"context"
	"log"
	"os"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func work(ctx context.Context, done *mongo.Collection, jobs []int) error {
	for _, job := range jobs {
		if _, err := done.InsertOne(ctx, bson.D{{Key: "_id", Value: job}}); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	_, planted := os.LookupEnv("PLANTED")
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")).SetAppName("jobs"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Disconnect(ctx)
	done := client.Database("office").Collection("done")
	var wait sync.WaitGroup
	failed := make([]error, 2)
	for number, jobs := range [][]int{{1, 2, 3}, {4, 5, 6}} {
		wait.Go(func() { failed[number] = work(ctx, done, jobs) })
	}
	wait.Wait()
	for _, err := range failed {
		if err != nil {
			log.Print(err)
			if !planted {
				os.Exit(1)
			}
		}
	}
}
