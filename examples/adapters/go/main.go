// The Go driver as an adapter of pushbackd: requests come in and answers go out, one JSON document a line.
//
//	go build -o adapter .
//	pushbackd conform SCENARIOS --adapter "cmd:./adapter"
//
// This file speaks the protocol (docs/WRITING-ADAPTERS.md); entities.go makes what a scenario works with,
// operations.go does what it asks for, with the arguments of arguments.go, and words.go says what came of it
// in the words of the specifications.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/version"
)

const (
	protocol  = 1
	longest   = 64 << 20 // bytes of a line
	closeTime = 4 * time.Second
)

// What the driver can do. Its pool cannot be reached from outside.
var features = []string{
	"COMMAND_EVENTS", "POOL_EVENTS", "SDAM_EVENTS", "LOG_MESSAGES", "SESSIONS", "TRANSACTIONS", "CHANGE_STREAMS",
	"GRIDFS", "FIND_CURSORS", "COMMAND_CURSORS", "CLIENT_BULK_WRITE", "TIMEOUT_MS", "SERVER_API",
	"MAX_ADAPTIVE_RETRIES",
}

type request struct {
	ID     int64    `bson:"id"`
	Method string   `bson:"method"`
	On     int64    `bson:"on"`
	Params bson.Raw `bson:"params"`
}

// unsupported is the reason why a case is skipped. It is a panic, so that each operation can ask for what it
// needs without a check of each argument; answer recovers it.
type unsupported string

// entity is the answer to a request that made something that later requests work on.
type entity struct{ value any }

// adapter holds what scenarios have made, by the ids of the requests that made it.
type adapter struct {
	output    sync.Mutex
	mutex     sync.Mutex
	entities  map[int64]any
	errors    map[int64]error
	callbacks map[int64]chan error
	clients   []*client
}

var methods = map[string]func(*adapter, request) any{
	"hello":              (*adapter).hello,
	"client":             (*adapter).client,
	"create":             (*adapter).create,
	"call":               (*adapter).call,
	"return":             (*adapter).returned,
	"session":            (*adapter).session,
	"advanceClusterTime": (*adapter).advanceClusterTime,
	"topology":           (*adapter).topology,
	"closeClient":        (*adapter).closeClient,
	"close":              (*adapter).close,
}

func main() {
	a := &adapter{}
	a.forget()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 0, 1<<16), longest)
	for lines.Scan() {
		var asked request
		if err := bson.UnmarshalExtJSON(lines.Bytes(), true, &asked); err != nil {
			fmt.Fprintln(os.Stderr, "a line that is no request:", err)
			os.Exit(1)
		}
		// Scenarios have threads: a request may wait while others are served.
		go a.serve(asked)
	}
}

func (a *adapter) serve(asked request) {
	message := bson.D{{Key: "id", Value: asked.ID}}
	result := a.answer(asked)
	message = append(message, bson.E{Key: "clock", Value: clock()})
	switch result := result.(type) {
	case unsupported:
		message = append(message, bson.E{Key: "unsupported", Value: string(result)})
	case entity:
		message = append(message, bson.E{Key: "entity", Value: true})
	case error:
		message = append(message, bson.E{Key: "error", Value: errorReport(result)})
	default:
		message = append(message, bson.E{Key: "result", Value: result})
	}
	a.tell(message)
}

// answer returns a result, an entity that was kept, an error of the driver, or why there is none.
func (a *adapter) answer(asked request) (result any) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case unsupported:
			result = reason
		default:
			panic(reason)
		}
		a.mutex.Lock()
		defer a.mutex.Unlock()
		switch made := result.(type) {
		case entity:
			a.entities[asked.ID] = made.value
		case error:
			a.errors[asked.ID] = made
		}
	}()
	method, known := methods[asked.Method]
	if !known {
		return unsupported("no method " + asked.Method)
	}
	return method(a, asked)
}

func (a *adapter) tell(message bson.D) {
	line, err := bson.MarshalExtJSON(message, true, false)
	if err != nil {
		fmt.Fprintln(os.Stderr, "an answer that is no BSON:", err)
		os.Exit(1)
	}
	a.output.Lock()
	defer a.output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

var started = time.Now()

// clock returns the seconds of a clock that nobody sets.
func clock() float64 { return time.Since(started).Seconds() }

func (a *adapter) hello(request) any {
	return bson.D{
		{Key: "protocol", Value: protocol},
		{Key: "name", Value: "go"},
		{Key: "driver", Value: bson.D{{Key: "name", Value: "mongo-go-driver"}, {Key: "version", Value: version.Driver}}},
		{Key: "features", Value: features},
	}
}

func (a *adapter) client(asked request) any {
	made, err := newClient(asked.Params, func(kind string, fields bson.D) {
		event := bson.D{
			{Key: "client", Value: asked.ID},
			{Key: "kind", Value: kind},
			{Key: "at", Value: clock()},
			{Key: "fields", Value: fields},
		}
		a.tell(bson.D{{Key: "event", Value: event}})
	})
	if err != nil {
		return err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.clients = append(a.clients, made)
	return entity{made}
}

func (a *adapter) create(asked request) any {
	return create(a.entity(asked.On), text(asked.Params, "kind"), subdocument(asked.Params, "spec"))
}

func (a *adapter) call(asked request) any {
	kind, name := text(asked.Params, "kind"), text(asked.Params, "operation")
	given := newArguments(subdocument(asked.Params, "arguments"))
	operation, known := operations[kind][name]
	if !known {
		return unsupported(fmt.Sprintf("no %s on a %s", name, kind))
	}
	ctx, cancel := given.timeout(context.Background())
	defer cancel()
	if session, ok := given.find("session"); ok {
		ctx = mongo.NewSessionContext(ctx, a.entity(session.AsInt64()).(*mongo.Session))
	}
	if _, ok := given.find("callback"); ok {
		given.callback = func() error { return a.callBack(asked.ID) }
	}
	result, err := operation(ctx, a.entity(asked.On), given)
	if err != nil {
		return err
	}
	return result
}

// callBack has the runner run a transaction's callback, and waits for its end.
func (a *adapter) callBack(call int64) error {
	ended := make(chan error)
	a.mutex.Lock()
	a.callbacks[call] = ended
	a.mutex.Unlock()
	a.tell(bson.D{{Key: "callback", Value: call}})
	return <-ended
}

func (a *adapter) returned(asked request) any {
	a.mutex.Lock()
	ended := a.callbacks[asked.On]
	var failure error
	if number, err := asked.Params.LookupErr("error"); err == nil {
		if failure = a.errors[number.AsInt64()]; failure == nil {
			failure = errors.New("the scenario failed")
		}
	}
	a.mutex.Unlock()
	ended <- failure
	return nil
}

func (a *adapter) session(asked request) any {
	return sessionReport(a.entity(asked.On).(*mongo.Session))
}

func (a *adapter) advanceClusterTime(asked request) any {
	err := a.entity(asked.On).(*mongo.Session).AdvanceClusterTime(subdocument(asked.Params, "clusterTime"))
	if err != nil {
		return err
	}
	return nil
}

func (a *adapter) topology(asked request) any {
	return a.entity(asked.On).(*client).report()
}

func (a *adapter) closeClient(asked request) any {
	return a.entity(asked.On).(*client).close()
}

func (a *adapter) close(request) any {
	a.mutex.Lock()
	clients := a.clients
	a.mutex.Unlock()
	var closing sync.WaitGroup
	for _, each := range clients {
		closing.Go(func() { each.close() })
	}
	closing.Wait()
	a.forget()
	return nil
}

func (a *adapter) forget() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.entities, a.errors, a.callbacks = map[int64]any{}, map[int64]error{}, map[int64]chan error{}
	a.clients = nil
}

func (a *adapter) entity(id int64) any {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.entities[id]
}
