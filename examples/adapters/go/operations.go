package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// operation does what a scenario asks of an entity.
type operation func(ctx context.Context, target any, given *arguments) (any, error)

// The operations of the unified test format, by the kind of entity and by name.
var operations = map[string]map[string]operation{
	"client": on(map[string]func(context.Context, *client, *arguments) (any, error){
		"listDatabases":      listDatabases,
		"listDatabaseNames":  listDatabaseNames,
		"createChangeStream": watchClient,
		"clientBulkWrite":    clientBulkWrite,
		"appendMetadata":     appendMetadata,
		"dropDatabase":       dropDatabase,
	}),
	"database": on(map[string]func(context.Context, *mongo.Database, *arguments) (any, error){
		"runCommand":          runCommand,
		"runCursorCommand":    runCursorCommand,
		"createCommandCursor": createCommandCursor,
		"aggregate":           aggregateDatabase,
		"listCollections":     listCollections,
		"listCollectionNames": listCollectionNames,
		"createCollection":    createCollection,
		"dropCollection":      dropCollection,
		"modifyCollection":    modifyCollection,
		"createChangeStream":  watchDatabase,
	}),
	"collection": on(map[string]func(context.Context, *mongo.Collection, *arguments) (any, error){
		"insertOne":              insertOne,
		"insertMany":             insertMany,
		"updateOne":              updateOne,
		"updateMany":             updateMany,
		"replaceOne":             replaceOne,
		"deleteOne":              deleteOne,
		"deleteMany":             deleteMany,
		"bulkWrite":              bulkWrite,
		"find":                   find,
		"findOne":                findOne,
		"findOneAndDelete":       findOneAndDelete,
		"findOneAndReplace":      findOneAndReplace,
		"findOneAndUpdate":       findOneAndUpdate,
		"createFindCursor":       createFindCursor,
		"aggregate":              aggregate,
		"countDocuments":         countDocuments,
		"estimatedDocumentCount": estimatedDocumentCount,
		"distinct":               distinct,
		"createIndex":            createIndex,
		"dropIndex":              dropIndex,
		"dropIndexes":            dropIndexes,
		"listIndexes":            listIndexes,
		"drop":                   drop,
		"createChangeStream":     watch,
		"createSearchIndex":      createSearchIndex,
		"createSearchIndexes":    createSearchIndexes,
		"updateSearchIndex":      updateSearchIndex,
		"dropSearchIndex":        dropSearchIndex,
		"listSearchIndexes":      listSearchIndexes,
	}),
	"bucket": on(map[string]func(context.Context, *mongo.GridFSBucket, *arguments) (any, error){
		"upload":         upload,
		"uploadWithId":   uploadWithID,
		"download":       download,
		"downloadByName": downloadByName,
		"delete":         deleteFile,
		"rename":         renameFile,
		"drop":           dropBucket,
		"find":           findFiles,
	}),
	"session": on(map[string]func(context.Context, *mongo.Session, *arguments) (any, error){
		"startTransaction":  startTransaction,
		"commitTransaction": commitTransaction,
		"abortTransaction":  abortTransaction,
		"withTransaction":   withTransaction,
		"endSession":        endSession,
		"getSnapshotTime":   snapshotTime,
	}),
	"findCursor":    on(cursorOperations),
	"commandCursor": on(cursorOperations),
	"changeStream":  on(cursorOperations),
}

// on gives each operation its entity by its own type.
func on[Target any](of map[string]func(context.Context, Target, *arguments) (any, error)) map[string]operation {
	all := map[string]operation{}
	for name, run := range of {
		all[name] = func(ctx context.Context, target any, given *arguments) (any, error) {
			return run(ctx, target.(Target), given)
		}
	}
	return all
}

// ---- Clients -----------------------------------------------------------------------------------------------

func listDatabases(ctx context.Context, c *client, given *arguments) (any, error) {
	result, err := c.ListDatabases(ctx, filterOf(given), apply(given, options.ListDatabases()))
	if err != nil {
		return nil, err
	}
	documents := bson.A{}
	for _, each := range result.Databases {
		documents = append(documents, bson.D{{Key: "name", Value: each.Name},
			{Key: "sizeOnDisk", Value: each.SizeOnDisk}, {Key: "empty", Value: each.Empty}})
	}
	return documents, nil
}

func listDatabaseNames(ctx context.Context, c *client, given *arguments) (any, error) {
	return c.ListDatabaseNames(ctx, filterOf(given), apply(given, options.ListDatabases()))
}

func dropDatabase(ctx context.Context, c *client, given *arguments) (any, error) {
	name := given.text("database")
	refuseOptions(given)
	return nil, c.Database(name).Drop(ctx)
}

func appendMetadata(_ context.Context, c *client, given *arguments) (any, error) {
	value, _ := given.find("driverInfoOptions")
	info := value.Document()
	c.AppendDriverInfo(options.DriverInfo{
		Name: text(info, "name"), Version: text(info, "version"), Platform: text(info, "platform"),
	})
	return nil, nil
}

func clientBulkWrite(ctx context.Context, c *client, given *arguments) (any, error) {
	var writes []mongo.ClientBulkWrite
	for _, request := range given.documents("models") {
		name, model := only(request)
		database, collection, _ := strings.Cut(model.text("namespace"), ".")
		make, known := clientModels[name]
		if !known {
			panic(unsupported("no model " + name))
		}
		writes = append(writes, mongo.ClientBulkWrite{Database: database, Collection: collection, Model: make(model)})
	}
	result, err := c.BulkWrite(ctx, writes, apply(given, options.ClientBulkWrite()))
	if err != nil {
		return nil, err
	}
	if !result.Acknowledged {
		return unacknowledged, nil
	}
	return clientBulkResult(result), nil
}

var clientModels = map[string]func(*arguments) mongo.ClientWriteModel{
	"insertOne": func(a *arguments) mongo.ClientWriteModel { return apply(a, mongo.NewClientInsertOneModel()) },
	"updateOne": func(a *arguments) mongo.ClientWriteModel {
		update := a.get("update")
		return apply(a, mongo.NewClientUpdateOneModel()).SetUpdate(update)
	},
	"updateMany": func(a *arguments) mongo.ClientWriteModel {
		update := a.get("update")
		return apply(a, mongo.NewClientUpdateManyModel()).SetUpdate(update)
	},
	"replaceOne": func(a *arguments) mongo.ClientWriteModel { return apply(a, mongo.NewClientReplaceOneModel()) },
	"deleteOne":  func(a *arguments) mongo.ClientWriteModel { return apply(a, mongo.NewClientDeleteOneModel()) },
	"deleteMany": func(a *arguments) mongo.ClientWriteModel { return apply(a, mongo.NewClientDeleteManyModel()) },
}

func watchClient(ctx context.Context, c *client, given *arguments) (any, error) {
	return streamed(c.Watch(ctx, given.list("pipeline"), apply(given, options.ChangeStream())))
}

// ---- Databases ---------------------------------------------------------------------------------------------

// command returns the command of a scenario; its name comes first, whatever its order in the file.
func command(given *arguments) bson.D {
	name, fields := given.text("commandName"), given.get("command").(bson.D)
	slices.SortStableFunc(fields, func(one, other bson.E) int {
		switch name {
		case one.Key:
			return -1
		case other.Key:
			return 1
		}
		return 0
	})
	return fields
}

func runCommand(ctx context.Context, database *mongo.Database, given *arguments) (any, error) {
	asked := command(given)
	return decoded(database.RunCommand(ctx, asked, apply(given, options.RunCmd())))
}

func commandCursor(ctx context.Context, database *mongo.Database, given *arguments) (*mongo.Cursor, error) {
	asked := command(given)
	size, hasSize := given.find("batchSize")
	comment := given.get("comment")
	cursor, err := database.RunCommandCursor(ctx, asked, apply(given, options.RunCmd()))
	if err != nil {
		return nil, err
	}
	if hasSize {
		cursor.SetBatchSize(int32(size.AsInt64()))
	}
	if comment != nil {
		cursor.SetComment(comment)
	}
	return cursor, nil
}

func runCursorCommand(ctx context.Context, database *mongo.Database, given *arguments) (any, error) {
	return all(ctx)(commandCursor(ctx, database, given))
}

func createCommandCursor(ctx context.Context, database *mongo.Database, given *arguments) (any, error) {
	return opened(commandCursor(ctx, database, given))
}

func aggregateDatabase(ctx context.Context, database *mongo.Database, given *arguments) (any, error) {
	return all(ctx)(database.Aggregate(ctx, given.list("pipeline"), apply(given, options.Aggregate())))
}

func listCollections(ctx context.Context, database *mongo.Database, given *arguments) (any, error) {
	return all(ctx)(database.ListCollections(ctx, filterOf(given), apply(given, options.ListCollections())))
}

func listCollectionNames(ctx context.Context, database *mongo.Database, given *arguments) (any, error) {
	return database.ListCollectionNames(ctx, filterOf(given), apply(given, options.ListCollections()))
}

func createCollection(ctx context.Context, database *mongo.Database, given *arguments) (any, error) {
	name := given.text("collection")
	if source := given.text("viewOn"); source != "" {
		err := database.CreateView(ctx, name, source, given.list("pipeline"), apply(given, options.CreateView()))
		return entity{database.Collection(name)}, err
	}
	err := database.CreateCollection(ctx, name, apply(given, options.CreateCollection()))
	return entity{database.Collection(name)}, err
}

func dropCollection(ctx context.Context, database *mongo.Database, given *arguments) (any, error) {
	name := given.text("collection")
	refuseOptions(given)
	return nil, database.Collection(name).Drop(ctx)
}

func modifyCollection(ctx context.Context, database *mongo.Database, given *arguments) (any, error) {
	asked := bson.D{{Key: "collMod", Value: given.text("collection")}}
	elements, _ := given.raw.Elements()
	for _, element := range elements {
		if !slices.Contains(given.taken, element.Key()) {
			asked = append(asked, bson.E{Key: element.Key(), Value: plain(element.Value())})
		}
	}
	return decoded(database.RunCommand(ctx, asked))
}

func watchDatabase(ctx context.Context, database *mongo.Database, given *arguments) (any, error) {
	return streamed(database.Watch(ctx, given.list("pipeline"), apply(given, options.ChangeStream())))
}

// ---- Collections -------------------------------------------------------------------------------------------

func insertOne(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return insertOneResult(c.InsertOne(ctx, given.get("document"), apply(given, options.InsertOne())))
}

func insertMany(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return insertManyResult(c.InsertMany(ctx, given.list("documents"), apply(given, options.InsertMany())))
}

func updateOne(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	filter, update := given.get("filter"), given.get("update")
	return updateResult(c.UpdateOne(ctx, filter, update, apply(given, options.UpdateOne())))
}

func updateMany(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	filter, update := given.get("filter"), given.get("update")
	return updateResult(c.UpdateMany(ctx, filter, update, apply(given, options.UpdateMany())))
}

func replaceOne(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	filter, replacement := given.get("filter"), given.get("replacement")
	return updateResult(c.ReplaceOne(ctx, filter, replacement, apply(given, options.Replace())))
}

func deleteOne(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return deleteResult(c.DeleteOne(ctx, given.get("filter"), apply(given, options.DeleteOne())))
}

func deleteMany(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return deleteResult(c.DeleteMany(ctx, given.get("filter"), apply(given, options.DeleteMany())))
}

func bulkWrite(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	var models []mongo.WriteModel
	inserted := bson.D{}
	for index, request := range given.documents("requests") {
		name, model := only(request)
		make, known := writeModels[name]
		if !known {
			panic(unsupported("no model " + name))
		}
		if name == "insertOne" {
			inserted = append(inserted, bson.E{Key: strconv.Itoa(index), Value: idOf(model)})
		}
		models = append(models, make(model))
	}
	result, err := c.BulkWrite(ctx, models, apply(given, options.BulkWrite()))
	return bulkResult(result, inserted, err)
}

var writeModels = map[string]func(*arguments) mongo.WriteModel{
	"insertOne":  func(a *arguments) mongo.WriteModel { return apply(a, mongo.NewInsertOneModel()) },
	"updateOne":  func(a *arguments) mongo.WriteModel { return apply(a, mongo.NewUpdateOneModel()) },
	"updateMany": func(a *arguments) mongo.WriteModel { return apply(a, mongo.NewUpdateManyModel()) },
	"replaceOne": func(a *arguments) mongo.WriteModel { return apply(a, mongo.NewReplaceOneModel()) },
	"deleteOne":  func(a *arguments) mongo.WriteModel { return apply(a, mongo.NewDeleteOneModel()) },
	"deleteMany": func(a *arguments) mongo.WriteModel { return apply(a, mongo.NewDeleteManyModel()) },
}

func find(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return all(ctx)(c.Find(ctx, given.get("filter"), apply(given, options.Find())))
}

func findOne(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return decoded(c.FindOne(ctx, given.get("filter"), apply(given, options.FindOne())))
}

func createFindCursor(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return opened(c.Find(ctx, given.get("filter"), apply(given, options.Find())))
}

func findOneAndDelete(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return decoded(c.FindOneAndDelete(ctx, given.get("filter"), apply(given, options.FindOneAndDelete())))
}

func findOneAndReplace(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	filter, replacement := given.get("filter"), given.get("replacement")
	return decoded(c.FindOneAndReplace(ctx, filter, replacement, apply(given, options.FindOneAndReplace())))
}

func findOneAndUpdate(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	filter, update := given.get("filter"), given.get("update")
	return decoded(c.FindOneAndUpdate(ctx, filter, update, apply(given, options.FindOneAndUpdate())))
}

func aggregate(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return all(ctx)(c.Aggregate(ctx, given.list("pipeline"), apply(given, options.Aggregate())))
}

func countDocuments(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return c.CountDocuments(ctx, given.get("filter"), apply(given, options.Count()))
}

func estimatedDocumentCount(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return c.EstimatedDocumentCount(ctx, apply(given, options.EstimatedDocumentCount()))
}

func distinct(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	field, filter := given.text("fieldName"), filterOf(given)
	values := bson.A{}
	result := c.Distinct(ctx, field, filter, apply(given, options.Distinct()))
	return &values, result.Decode(&values)
}

func createIndex(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	keys := given.get("keys")
	return c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys, Options: apply(given, options.Index())})
}

func dropIndex(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	name := given.text("name")
	return nil, c.Indexes().DropOne(ctx, name, apply(given, options.DropIndexes()))
}

func dropIndexes(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return nil, c.Indexes().DropAll(ctx, apply(given, options.DropIndexes()))
}

func listIndexes(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return all(ctx)(c.Indexes().List(ctx, apply(given, options.ListIndexes())))
}

func drop(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return nil, c.Drop(ctx, apply(given, options.DropCollection()))
}

func watch(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return streamed(c.Watch(ctx, given.list("pipeline"), apply(given, options.ChangeStream())))
}

func searchIndex(model *arguments) mongo.SearchIndexModel {
	definition := model.get("definition")
	return mongo.SearchIndexModel{Definition: definition, Options: apply(model, options.SearchIndexes())}
}

func createSearchIndex(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	model, _ := given.find("model")
	return c.SearchIndexes().CreateOne(ctx, searchIndex(newArguments(model.Document())))
}

func createSearchIndexes(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	models := []mongo.SearchIndexModel{}
	for _, each := range given.documents("models") {
		models = append(models, searchIndex(each))
	}
	return c.SearchIndexes().CreateMany(ctx, models)
}

func updateSearchIndex(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return nil, c.SearchIndexes().UpdateOne(ctx, given.text("name"), given.get("definition"))
}

func dropSearchIndex(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	return nil, c.SearchIndexes().DropOne(ctx, given.text("name"))
}

func listSearchIndexes(ctx context.Context, c *mongo.Collection, given *arguments) (any, error) {
	chosen := options.SearchIndexes()
	if name := given.text("name"); name != "" {
		chosen.SetName(name)
	}
	value, _ := given.find("aggregationOptions")
	aggregation, _ := value.DocumentOK()
	list := &options.ListSearchIndexesOptionsBuilder{}
	if aggregation != nil {
		list.Opts = append(list.Opts, func(o *options.ListSearchIndexesOptions) error {
			o.AggregateOptions = &options.AggregateOptions{}
			for _, set := range apply(newArguments(aggregation), options.Aggregate()).Opts {
				if err := set(o.AggregateOptions); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all(ctx)(c.SearchIndexes().List(ctx, chosen, list))
}

// ---- Buckets -----------------------------------------------------------------------------------------------

func source(given *arguments) *bytes.Reader {
	value, _ := given.find("source")
	_, data := value.Binary()
	return bytes.NewReader(data)
}

func uploadOptions(given *arguments) *options.GridFSUploadOptionsBuilder {
	given.find("disableMD5") // the driver always works without MD5
	return apply(given, options.GridFSUpload())
}

func upload(ctx context.Context, bucket *mongo.GridFSBucket, given *arguments) (any, error) {
	name, data := given.text("filename"), source(given)
	return bucket.UploadFromStream(ctx, name, data, uploadOptions(given))
}

func uploadWithID(ctx context.Context, bucket *mongo.GridFSBucket, given *arguments) (any, error) {
	id, name, data := given.get("id"), given.text("filename"), source(given)
	return nil, bucket.UploadFromStreamWithID(ctx, id, name, data, uploadOptions(given))
}

func download(ctx context.Context, bucket *mongo.GridFSBucket, given *arguments) (any, error) {
	var data bytes.Buffer
	_, err := bucket.DownloadToStream(ctx, given.get("id"), &data)
	return bson.Binary{Data: data.Bytes()}, err
}

func downloadByName(ctx context.Context, bucket *mongo.GridFSBucket, given *arguments) (any, error) {
	var data bytes.Buffer
	name := given.text("filename")
	_, err := bucket.DownloadToStreamByName(ctx, name, &data, apply(given, options.GridFSName()))
	return bson.Binary{Data: data.Bytes()}, err
}

func deleteFile(ctx context.Context, bucket *mongo.GridFSBucket, given *arguments) (any, error) {
	return nil, bucket.Delete(ctx, given.get("id"))
}

func renameFile(ctx context.Context, bucket *mongo.GridFSBucket, given *arguments) (any, error) {
	return nil, bucket.Rename(ctx, given.get("id"), given.text("newFilename"))
}

func dropBucket(ctx context.Context, bucket *mongo.GridFSBucket, _ *arguments) (any, error) {
	return nil, bucket.Drop(ctx)
}

func findFiles(ctx context.Context, bucket *mongo.GridFSBucket, given *arguments) (any, error) {
	return all(ctx)(bucket.Find(ctx, given.get("filter"), apply(given, options.GridFSFind())))
}

// ---- Sessions ----------------------------------------------------------------------------------------------

func startTransaction(_ context.Context, session *mongo.Session, given *arguments) (any, error) {
	return nil, session.StartTransaction(apply(given, options.Transaction()))
}

func commitTransaction(ctx context.Context, session *mongo.Session, given *arguments) (any, error) {
	refuseOptions(given)
	return nil, session.CommitTransaction(ctx)
}

func abortTransaction(ctx context.Context, session *mongo.Session, given *arguments) (any, error) {
	refuseOptions(given)
	return nil, session.AbortTransaction(ctx)
}

func withTransaction(ctx context.Context, session *mongo.Session, given *arguments) (any, error) {
	run := func(context.Context) (any, error) { return nil, given.callback() }
	_, err := session.WithTransaction(ctx, run, apply(given, options.Transaction()))
	return nil, err
}

func endSession(ctx context.Context, session *mongo.Session, _ *arguments) (any, error) {
	session.EndSession(ctx)
	return nil, nil
}

func snapshotTime(_ context.Context, session *mongo.Session, _ *arguments) (any, error) {
	return session.SnapshotTime(), nil
}

// ---- Cursors -----------------------------------------------------------------------------------------------

// iterable is a cursor or a change stream.
type iterable interface {
	Next(context.Context) bool
	TryNext(context.Context) bool
	Decode(any) error
	Err() error
	Close(context.Context) error
}

var cursorOperations = map[string]func(context.Context, iterable, *arguments) (any, error){
	"close": func(ctx context.Context, cursor iterable, _ *arguments) (any, error) { return nil, cursor.Close(ctx) },
	"iterateOnce": func(ctx context.Context, cursor iterable, _ *arguments) (any, error) {
		if !cursor.TryNext(ctx) {
			return nil, cursor.Err()
		}
		return current(cursor)
	},
	"iterateUntilDocumentOrError": func(ctx context.Context, cursor iterable, _ *arguments) (any, error) {
		if cursor.Next(ctx) {
			return current(cursor)
		}
		if err := cursor.Err(); err != nil {
			return nil, err
		}
		return nil, errors.New("the cursor has no more documents")
	},
}

func current(cursor iterable) (any, error) {
	var document bson.D
	err := cursor.Decode(&document)
	return document, err
}

func opened(cursor *mongo.Cursor, err error) (any, error) { return entity{cursor}, err }

func streamed(stream *mongo.ChangeStream, err error) (any, error) { return entity{stream}, err }

// all drains a cursor.
func all(ctx context.Context) func(*mongo.Cursor, error) (any, error) {
	return func(cursor *mongo.Cursor, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		documents := []bson.D{}
		err = cursor.All(ctx, &documents)
		return documents, err
	}
}

// decoded returns the document of a result, nil where nothing was found.
func decoded(result *mongo.SingleResult) (any, error) {
	var document bson.D
	err := result.Decode(&document)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	return document, err
}

// ---- Arguments that several operations have ----------------------------------------------------------------

func filterOf(given *arguments) any {
	if filter := given.get("filter"); filter != nil {
		return filter
	}
	return bson.D{}
}

// refuseOptions skips a case that has options for a method of the driver that takes none.
func refuseOptions(given *arguments) { apply(given, struct{}{}) }

// only returns the one field of a document: a request of a bulk write and its name.
func only(request *arguments) (string, *arguments) {
	elements, _ := request.raw.Elements()
	if len(elements) != 1 {
		panic(unsupported("a request of a bulk write has one field"))
	}
	return elements[0].Key(), newArguments(elements[0].Value().Document())
}

// idOf returns the _id of a document to insert.
func idOf(model *arguments) any {
	id, err := model.raw.Lookup("document").Document().LookupErr("_id")
	if err != nil {
		return nil
	}
	return plain(id)
}
