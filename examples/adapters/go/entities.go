package main

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"time"
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/session"
)

const loggedCharacters = 10_000 // of a document in a log message; the driver's default cuts some of scenarios

// The options of a URI that the driver passes over: a scenario would seem to hold, or to fail, without reason.
var ignoredOptions = []string{"socketTimeoutMS", "waitQueueTimeoutMS", "waitQueueMultiple", "wTimeoutMS", "wtimeoutMS"}

// client is a client of the driver, and what its monitors said last of the deployment.
type client struct {
	*mongo.Client
	closing  sync.Once
	mutex    sync.Mutex
	topology event.TopologyDescription
}

// newClient makes a client that reports the events and the log messages that are observed.
func newClient(params bson.Raw, report func(kind string, fields bson.D)) (*client, error) {
	for _, name := range ignoredOptions {
		if _, err := subdocument(params, "options").LookupErr(name); err == nil {
			panic(unsupported("the driver has no " + name))
		}
	}
	made := &client{topology: event.TopologyDescription{Kind: "Unknown"}}
	chosen := options.Client().ApplyURI(text(params, "uri"))
	observed := map[string]bool{}
	for _, kind := range list(params, "observeEvents") {
		observed[kind.StringValue()] = true
	}
	observe(chosen, func(kind string, fields func() bson.D) {
		if observed[kind] {
			report(kind, fields())
		}
	}, made.changed)
	if given, ok := params.Lookup("serverApi").DocumentOK(); ok {
		chosen.SetServerAPIOptions(serverAPI(newArguments(given)))
	}
	if components := list(params, "observeLogs"); len(components) > 0 {
		logging := options.Logger().SetSink(sink(report)).SetMaxDocumentLength(loggedCharacters)
		for _, component := range components {
			logging.SetComponentLevel(logComponents[component.StringValue()], options.LogLevelDebug)
		}
		chosen.SetLoggerOptions(logging)
	}
	connected, err := mongo.Connect(chosen)
	made.Client = connected
	return made, err
}

func serverAPI(given *arguments) *options.ServerAPIOptions {
	api := options.ServerAPI(options.ServerAPIVersion(given.text("version")))
	return apply(given, api)
}

func (c *client) changed(description event.TopologyDescription) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.topology = description
}

// report returns the type of the topology, and the address of its primary.
func (c *client) report() bson.D {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var primary any
	for _, server := range c.topology.Servers {
		if server.Kind == "RSPrimary" {
			primary = server.Addr.String()
		}
	}
	return bson.D{{Key: "type", Value: c.topology.Kind}, {Key: "primary", Value: primary}}
}

// close disconnects the client, once: a second time is no error of a scenario.
func (c *client) close() (result any) {
	c.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if err := c.Disconnect(ctx); err != nil {
			result = err
		}
	})
	return result
}

// create makes a database or a session of a client, a collection or a bucket of a database.
func create(parent any, kind string, spec bson.Raw) any {
	switch kind {
	case "database":
		chosen := apply(newArguments(subdocument(spec, "databaseOptions")), options.Database())
		return entity{parent.(*client).Database(text(spec, "databaseName"), chosen)}
	case "collection":
		chosen := apply(newArguments(subdocument(spec, "collectionOptions")), options.Collection())
		return entity{parent.(*mongo.Database).Collection(text(spec, "collectionName"), chosen)}
	case "bucket":
		chosen := apply(newArguments(subdocument(spec, "bucketOptions")), options.GridFSBucket())
		return entity{parent.(*mongo.Database).GridFSBucket(chosen)}
	case "session":
		chosen := apply(newArguments(subdocument(spec, "sessionOptions")), options.Session())
		started, err := parent.(*client).StartSession(chosen)
		if err != nil {
			return err
		}
		return entity{started}
	default:
		return unsupported("no entity " + kind)
	}
}

// sessionReport returns the state of a session, most of which the driver shows to nobody.
func sessionReport(of *mongo.Session) bson.D {
	field := reflect.ValueOf(of).Elem().FieldByName("clientSession")
	state := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Interface().(*session.Client)
	var pinned any
	switch {
	case state.PinnedServerAddr != nil:
		pinned = state.PinnedServerAddr.String()
	case state.PinnedConnection != nil:
		pinned = state.PinnedConnection.ID()
	}
	return bson.D{
		{Key: "lsid", Value: of.ID()},
		{Key: "dirty", Value: state.Server != nil && state.Dirty},
		{Key: "pinned", Value: pinned},
		{Key: "transaction", Value: strings.ReplaceAll(state.TransactionState.String(), " ", "_")},
	}
}

func list(document bson.Raw, name string) []bson.RawValue {
	elements, ok := document.Lookup(name).ArrayOK()
	if !ok {
		return nil
	}
	values, _ := elements.Values()
	return values
}

// observe has all monitors of a client report, and says how the topology changed.
func observe(
	chosen *options.ClientOptions,
	report func(kind string, fields func() bson.D),
	changed func(event.TopologyDescription),
) {
	chosen.SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			report("commandStartedEvent", func() bson.D { return startedFields(e) })
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			report("commandSucceededEvent", func() bson.D {
				return append(finishedFields(&e.CommandFinishedEvent), bson.E{Key: "reply", Value: shown(e.Reply)})
			})
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			report("commandFailedEvent", func() bson.D {
				return append(finishedFields(&e.CommandFinishedEvent), bson.E{Key: "failure", Value: failure(e.Failure)})
			})
		},
	})
	chosen.SetPoolMonitor(&event.PoolMonitor{Event: func(e *event.PoolEvent) {
		report(poolKinds[e.Type], func() bson.D { return poolFields(e) })
	}})
	chosen.SetServerMonitor(serverMonitor(report, changed))
}

func serverMonitor(
	report func(kind string, fields func() bson.D),
	changed func(event.TopologyDescription),
) *event.ServerMonitor {
	at := func(address string, more ...bson.E) func() bson.D {
		return func() bson.D { return append(bson.D{{Key: "address", Value: address}}, more...) }
	}
	none := func() bson.D { return bson.D{} }
	return &event.ServerMonitor{
		ServerOpening: func(e *event.ServerOpeningEvent) { report("serverOpeningEvent", at(e.Address.String())) },
		ServerClosed:  func(e *event.ServerClosedEvent) { report("serverClosedEvent", at(e.Address.String())) },
		ServerDescriptionChanged: func(e *event.ServerDescriptionChangedEvent) {
			report("serverDescriptionChangedEvent",
				at(e.Address.String(), change(e.PreviousDescription.Kind, e.NewDescription.Kind)...))
		},
		TopologyOpening: func(*event.TopologyOpeningEvent) { report("topologyOpeningEvent", none) },
		TopologyClosed:  func(*event.TopologyClosedEvent) { report("topologyClosedEvent", none) },
		TopologyDescriptionChanged: func(e *event.TopologyDescriptionChangedEvent) {
			changed(e.NewDescription)
			report("topologyDescriptionChangedEvent", func() bson.D {
				return change(e.PreviousDescription.Kind, e.NewDescription.Kind)
			})
		},
		ServerHeartbeatStarted: func(e *event.ServerHeartbeatStartedEvent) {
			report("serverHeartbeatStartedEvent", at(addressOf(e.ConnectionID), awaited(e.Awaited)))
		},
		ServerHeartbeatSucceeded: func(e *event.ServerHeartbeatSucceededEvent) {
			report("serverHeartbeatSucceededEvent",
				at(addressOf(e.ConnectionID), awaited(e.Awaited), took(e.Duration)))
		},
		ServerHeartbeatFailed: func(e *event.ServerHeartbeatFailedEvent) {
			report("serverHeartbeatFailedEvent",
				at(addressOf(e.ConnectionID), awaited(e.Awaited), took(e.Duration)))
		},
	}
}

func awaited(yes bool) bson.E { return bson.E{Key: "awaited", Value: yes} }

func took(elapsed time.Duration) bson.E {
	return bson.E{Key: "durationMS", Value: float64(elapsed) / float64(time.Millisecond)}
}

// addressOf returns the address of a connection: `localhost:27017[-3]` is the third to localhost:27017.
func addressOf(connection string) string {
	address, _, _ := strings.Cut(connection, "[")
	return address
}
