package main

import (
	"errors"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// ---- Events ------------------------------------------------------------------------------------------------

var poolKinds = map[string]string{
	event.ConnectionPoolCreated:     "poolCreatedEvent",
	event.ConnectionPoolReady:       "poolReadyEvent",
	event.ConnectionPoolCleared:     "poolClearedEvent",
	event.ConnectionPoolClosed:      "poolClosedEvent",
	event.ConnectionCreated:         "connectionCreatedEvent",
	event.ConnectionReady:           "connectionReadyEvent",
	event.ConnectionClosed:          "connectionClosedEvent",
	event.ConnectionCheckOutStarted: "connectionCheckOutStartedEvent",
	event.ConnectionCheckOutFailed:  "connectionCheckOutFailedEvent",
	event.ConnectionCheckedOut:      "connectionCheckedOutEvent",
	event.ConnectionCheckedIn:       "connectionCheckedInEvent",
}

func startedFields(e *event.CommandStartedEvent) bson.D {
	fields := bson.D{
		{Key: "commandName", Value: e.CommandName},
		{Key: "databaseName", Value: e.DatabaseName},
		{Key: "requestId", Value: e.RequestID},
		{Key: "connectionId", Value: addressOf(e.ConnectionID)},
		{Key: "command", Value: shown(e.Command)},
	}
	return connectionFields(fields, e.ServerConnectionID, e.ServiceID)
}

func finishedFields(e *event.CommandFinishedEvent) bson.D {
	fields := bson.D{
		{Key: "commandName", Value: e.CommandName},
		{Key: "databaseName", Value: e.DatabaseName},
		{Key: "requestId", Value: e.RequestID},
		{Key: "connectionId", Value: addressOf(e.ConnectionID)},
		took(e.Duration),
	}
	return connectionFields(fields, e.ServerConnectionID, e.ServiceID)
}

func connectionFields(fields bson.D, number *int64, service *bson.ObjectID) bson.D {
	if number != nil {
		fields = append(fields, bson.E{Key: "serverConnectionId", Value: *number})
	}
	if service != nil {
		fields = append(fields, bson.E{Key: "serviceId", Value: *service})
	}
	return fields
}

func poolFields(e *event.PoolEvent) bson.D {
	fields := bson.D{{Key: "address", Value: e.Address}}
	if e.ConnectionID != 0 {
		fields = append(fields, bson.E{Key: "connectionId", Value: e.ConnectionID})
	}
	if e.ServiceID != nil {
		fields = append(fields, bson.E{Key: "serviceId", Value: *e.ServiceID})
	}
	if e.Reason != "" {
		fields = append(fields, bson.E{Key: "reason", Value: e.Reason})
	}
	switch e.Type {
	case event.ConnectionPoolCleared:
		fields = append(fields, bson.E{Key: "interruptInUseConnections", Value: e.Interruption})
	case event.ConnectionReady, event.ConnectionCheckedOut, event.ConnectionCheckOutFailed:
		fields = append(fields, took(e.Duration))
	}
	return fields
}

func change(before, after string) bson.D {
	return bson.D{
		{Key: "previousDescription", Value: bson.D{{Key: "type", Value: before}}},
		{Key: "newDescription", Value: bson.D{{Key: "type", Value: after}}},
	}
}

// shown returns a command or a reply; empty is what the driver took out because it may hold a secret.
func shown(document bson.Raw) any {
	if len(document) == 0 {
		return bson.D{}
	}
	return document
}

func failure(err error) bson.D { return bson.D{{Key: "message", Value: err.Error()}} }

// ---- Log messages ------------------------------------------------------------------------------------------

var logComponents = map[string]options.LogComponent{
	"command":         options.LogComponentCommand,
	"topology":        options.LogComponentTopology,
	"serverSelection": options.LogComponentServerSelection,
	"connection":      options.LogComponentConnection,
}

// sink reports log messages. The driver says no component: it is known by how the message begins.
type sink func(kind string, fields bson.D)

func (s sink) Info(level int, message string, keysAndValues ...any) {
	severity := "debug"
	if level == 0 { // what logr calls V(0)
		severity = "info"
	}
	s.log(severity, message, keysAndValues)
}

func (s sink) Error(_ error, message string, keysAndValues ...any) {
	s.log("error", message, keysAndValues)
}

func (s sink) log(severity, message string, keysAndValues []any) {
	data := bson.D{{Key: "message", Value: message}}
	for index := 0; index+1 < len(keysAndValues); index += 2 {
		if name, ok := keysAndValues[index].(string); ok {
			data = append(data, bson.E{Key: name, Value: keysAndValues[index+1]})
		}
	}
	s("logMessage", bson.D{
		{Key: "level", Value: severity},
		{Key: "component", Value: componentOf(message)},
		{Key: "data", Value: data},
	})
}

func componentOf(message string) string {
	switch {
	case strings.HasPrefix(message, "Command"):
		return "command"
	case strings.HasPrefix(message, "Connection"):
		return "connection"
	case strings.HasPrefix(message, "Server selection"), strings.HasPrefix(message, "Waiting"):
		return "serverSelection"
	default:
		return "topology"
	}
}

// ---- Errors ------------------------------------------------------------------------------------------------

// errorReport returns an error in the words of expectError.
func errorReport(err error) bson.D {
	report := bson.D{
		{Key: "message", Value: err.Error()},
		{Key: "isTimeoutError", Value: mongo.IsTimeout(err)},
		{Key: "labels", Value: labelsOf(err)},
	}
	var partial *partialError
	if errors.As(err, &partial) {
		report = append(report, bson.E{Key: "result", Value: partial.result})
	}
	var bulk mongo.ClientBulkWriteException
	if errors.As(err, &bulk) {
		return append(report, clientBulkFields(bulk)...)
	}
	var many mongo.BulkWriteException
	if errors.As(err, &many) {
		failed := bson.D{}
		for _, each := range many.WriteErrors {
			failed = append(failed, bson.E{Key: strconv.Itoa(each.Index), Value: coded(each.Code, each.Message)})
		}
		report = append(report, bson.E{Key: "writeErrors", Value: failed})
	}
	fields := serverFields(err)
	return append(append(report, fields...), bson.E{Key: "isClientError", Value: fields == nil})
}

// serverFields returns what a server said; nil when the error is the client's, as that of a connection is.
func serverFields(err error) bson.D {
	var command mongo.CommandError
	var write mongo.WriteException
	var bulk mongo.BulkWriteException
	var concern *mongo.WriteConcernError
	var raw bson.Raw
	switch {
	case mongo.IsNetworkError(err):
		return nil
	case errors.As(err, &command):
		if command.Raw == nil && command.Code == 0 {
			return nil // the driver's own, under the name of a command's
		}
		return described(int(command.Code), command.Name, command.Raw)
	case errors.As(err, &write):
		concern, raw = write.WriteConcernError, write.Raw
		if len(write.WriteErrors) > 0 {
			return described(write.WriteErrors[0].Code, "", raw)
		}
	case errors.As(err, &bulk):
		concern = bulk.WriteConcernError
		if len(bulk.WriteErrors) > 0 {
			return described(bulk.WriteErrors[0].Code, "", nil)
		}
	default:
		return nil
	}
	if concern == nil {
		return bson.D{}
	}
	return described(concern.Code, concern.Name, raw)
}

func described(code int, name string, reply bson.Raw) bson.D {
	fields := bson.D{{Key: "code", Value: code}}
	if name != "" {
		fields = append(fields, bson.E{Key: "codeName", Value: name})
	}
	if reply != nil {
		fields = append(fields, bson.E{Key: "response", Value: reply})
	}
	return fields
}

func labelsOf(err error) []string {
	var command mongo.CommandError
	var write mongo.WriteException
	var bulk mongo.BulkWriteException
	switch {
	case errors.As(err, &command):
		return present(command.Labels)
	case errors.As(err, &write):
		return present(write.Labels)
	case errors.As(err, &bulk):
		return present(bulk.Labels)
	}
	return []string{}
}

func present(labels []string) []string { return append([]string{}, labels...) }

func clientBulkFields(bulk mongo.ClientBulkWriteException) bson.D {
	fields := bson.D{}
	isClientError := false
	if bulk.WriteError != nil {
		fields = append(fields, bson.E{Key: "code", Value: bulk.WriteError.Code})
		isClientError = bulk.WriteError.Raw == nil && bulk.WriteError.Code == 0
	}
	byIndex := bson.D{}
	for index, each := range bulk.WriteErrors {
		byIndex = append(byIndex, bson.E{Key: strconv.Itoa(index), Value: coded(each.Code, each.Message)})
	}
	concerns := bson.A{}
	for _, each := range bulk.WriteConcernErrors {
		concerns = append(concerns, coded(each.Code, each.Message))
	}
	fields = append(fields, bson.E{Key: "isClientError", Value: isClientError},
		bson.E{Key: "writeErrors", Value: byIndex}, bson.E{Key: "writeConcernErrors", Value: concerns})
	if bulk.PartialResult != nil {
		fields = append(fields, bson.E{Key: "result", Value: clientBulkResult(bulk.PartialResult)})
	}
	return fields
}

func coded(code int, message string) bson.D {
	return bson.D{{Key: "code", Value: code}, {Key: "message", Value: message}}
}

// partialError is an error with what had been done before it.
type partialError struct {
	error
	result any
}

func (e *partialError) Unwrap() error { return e.error }

// ---- Results -----------------------------------------------------------------------------------------------

var unacknowledged = bson.D{{Key: "acknowledged", Value: false}}

func insertOneResult(result *mongo.InsertOneResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if !result.Acknowledged {
		return unacknowledged, nil
	}
	return bson.D{{Key: "insertedId", Value: result.InsertedID}}, nil
}

func insertManyResult(result *mongo.InsertManyResult, err error) (any, error) {
	switch {
	case result == nil:
		return nil, err
	case err == nil && !result.Acknowledged:
		return unacknowledged, nil
	}
	ids := byIndex(result.InsertedIDs)
	if err != nil {
		done := counts(int64(len(ids)), 0, 0, 0, 0)
		done = append(done, bson.E{Key: "insertedIds", Value: ids}, bson.E{Key: "upsertedIds", Value: bson.D{}})
		return nil, &partialError{err, done}
	}
	return bson.D{{Key: "insertedIds", Value: ids}}, nil
}

// counts are what each bulk write reports.
func counts(inserted, matched, modified, deleted, upserted int64) bson.D {
	return bson.D{
		{Key: "insertedCount", Value: inserted},
		{Key: "matchedCount", Value: matched},
		{Key: "modifiedCount", Value: modified},
		{Key: "deletedCount", Value: deleted},
		{Key: "upsertedCount", Value: upserted},
	}
}

func byIndex(values []any) bson.D {
	found := bson.D{}
	for index, value := range values {
		found = append(found, bson.E{Key: strconv.Itoa(index), Value: value})
	}
	return found
}

func updateResult(result *mongo.UpdateResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if !result.Acknowledged {
		return unacknowledged, nil
	}
	document := bson.D{{Key: "matchedCount", Value: result.MatchedCount},
		{Key: "modifiedCount", Value: result.ModifiedCount}, {Key: "upsertedCount", Value: result.UpsertedCount}}
	if result.UpsertedID != nil {
		document = append(document, bson.E{Key: "upsertedId", Value: result.UpsertedID})
	}
	return document, nil
}

func deleteResult(result *mongo.DeleteResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if !result.Acknowledged {
		return unacknowledged, nil
	}
	return bson.D{{Key: "deletedCount", Value: result.DeletedCount}}, nil
}

func bulkResult(result *mongo.BulkWriteResult, inserted bson.D, err error) (any, error) {
	if result == nil {
		return nil, err
	}
	if err == nil && !result.Acknowledged {
		return unacknowledged, nil
	}
	upserted := bson.D{}
	for index, id := range result.UpsertedIDs {
		upserted = append(upserted, bson.E{Key: strconv.FormatInt(index, 10), Value: id})
	}
	document := counts(result.InsertedCount, result.MatchedCount, result.ModifiedCount, result.DeletedCount,
		result.UpsertedCount)
	document = append(document, bson.E{Key: "insertedIds", Value: inserted}, bson.E{Key: "upsertedIds", Value: upserted})
	if err != nil {
		return nil, &partialError{err, document}
	}
	return document, nil
}

func clientBulkResult(result *mongo.ClientBulkWriteResult) bson.D {
	document := counts(result.InsertedCount, result.MatchedCount, result.ModifiedCount, result.DeletedCount,
		result.UpsertedCount)
	if !result.HasVerboseResults {
		return document
	}
	inserts, updates, deletes := bson.D{}, bson.D{}, bson.D{}
	for index, each := range result.InsertResults {
		one := bson.D{{Key: "insertedId", Value: each.InsertedID}}
		inserts = append(inserts, bson.E{Key: strconv.Itoa(index), Value: one})
	}
	for index, each := range result.UpdateResults {
		one := bson.D{{Key: "matchedCount", Value: each.MatchedCount}, {Key: "modifiedCount", Value: each.ModifiedCount}}
		if each.UpsertedID != nil {
			one = append(one, bson.E{Key: "upsertedId", Value: each.UpsertedID})
		}
		updates = append(updates, bson.E{Key: strconv.Itoa(index), Value: one})
	}
	for index, each := range result.DeleteResults {
		one := bson.D{{Key: "deletedCount", Value: each.DeletedCount}}
		deletes = append(deletes, bson.E{Key: strconv.Itoa(index), Value: one})
	}
	return append(document, bson.E{Key: "insertResults", Value: inserts},
		bson.E{Key: "updateResults", Value: updates}, bson.E{Key: "deleteResults", Value: deletes})
}
