package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"go.mongodb.org/mongo-driver/v2/tag"
)

// arguments are those of an operation. What no operation has taken is an option, see apply.
type arguments struct {
	raw      bson.Raw
	taken    []string
	callback func() error
}

func newArguments(raw bson.Raw) *arguments { return &arguments{raw: raw} }

// find takes an argument that may be there.
func (a *arguments) find(name string) (bson.RawValue, bool) {
	a.taken = append(a.taken, name)
	value, err := a.raw.LookupErr(name)
	return value, err == nil
}

// get takes an argument; nil where there is none.
func (a *arguments) get(name string) any {
	value, ok := a.find(name)
	if !ok {
		return nil
	}
	return plain(value)
}

func (a *arguments) text(name string) string {
	value, _ := a.find(name)
	found, _ := value.StringValueOK()
	return found
}

func (a *arguments) list(name string) []any {
	found, _ := a.get(name).(bson.A)
	return found
}

// documents takes a list of documents, each as arguments of its own.
func (a *arguments) documents(name string) []*arguments {
	value, _ := a.find(name)
	elements, ok := value.ArrayOK()
	if !ok {
		return nil
	}
	values, _ := elements.Values()
	found := make([]*arguments, 0, len(values))
	for _, each := range values {
		found = append(found, newArguments(each.Document()))
	}
	return found
}

// timeout takes timeoutMS, which this driver has as the deadline of a context.
func (a *arguments) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	value, ok := a.find("timeoutMS")
	if !ok {
		return ctx, func() {}
	}
	milliseconds := value.AsInt64()
	if milliseconds == 0 {
		panic(unsupported("an operation has no timeoutMS of 0: a context is late then"))
	}
	return context.WithTimeout(ctx, time.Duration(milliseconds)*time.Millisecond)
}

// The names of setters that are not those of the specifications.
var setters = map[string]string{
	"bucketMaxSpanSeconds":  "BucketMaxSpan",
	"bucketRoundingSeconds": "BucketRounding",
	"bucketName":            "Name",
	"default_language":      "DefaultLanguage",
	"driverInfoOptions":     "DriverInfo",
	"language_override":     "LanguageOverride",
	"max":                   "Max",
	"maxAwaitTimeMS":        "MaxAwaitTime",
	"showRecordId":          "ShowRecordID",
	"size":                  "SizeInBytes",
	"timeseries":            "TimeSeriesOptions",
	"sphereIndexVersion":    "SphereVersion",
	"textIndexVersion":      "TextVersion",
}

// apply gives a builder of the driver all that was not taken, each by the setter of its name.
//
// So the driver itself says which options it has: a case that needs another one is skipped, where it would
// seem to hold if the option were ignored.
func apply[Builder any](a *arguments, builder Builder) Builder {
	elements, _ := a.raw.Elements()
	for _, element := range elements {
		if name := element.Key(); !slices.Contains(a.taken, name) {
			set(builder, name, element.Value())
		}
	}
	return builder
}

func set(builder any, name string, value bson.RawValue) {
	setter := setters[name]
	if setter == "" {
		setter = strings.ToUpper(name[:1]) + name[1:]
	}
	method := reflect.ValueOf(builder).MethodByName("Set" + setter)
	if !method.IsValid() || method.Type().NumIn() != 1 {
		panic(unsupported(fmt.Sprintf("the driver does not take %s here", name)))
	}
	method.Call([]reflect.Value{convert(name, value, method.Type().In(0))})
}

// convert returns an option as its setter takes it.
func convert(name string, value bson.RawValue, wanted reflect.Type) reflect.Value {
	if converter, special := converters()[wanted]; special {
		return reflect.ValueOf(converter(name, value))
	}
	if wanted.Kind() == reflect.Interface {
		return reflect.ValueOf(&[]any{plain(value)}[0]).Elem()
	}
	target := reflect.New(wanted)
	if err := value.Unmarshal(target.Interface()); err != nil {
		panic(unsupported(fmt.Sprintf("%s: %v", name, err)))
	}
	return target.Elem()
}

// converters reads what BSON alone does not say, by the type that a setter takes. It is a function, because
// options are converted that have options themselves.
func converters() map[reflect.Type]func(string, bson.RawValue) any {
	return map[reflect.Type]func(string, bson.RawValue) any{
		reflect.TypeFor[time.Duration]():                      duration,
		reflect.TypeFor[options.Collation]():                  func(_ string, v bson.RawValue) any { return *collation(v) },
		reflect.TypeFor[*options.Collation]():                 func(_ string, v bson.RawValue) any { return collation(v) },
		reflect.TypeFor[options.CursorType]():                 cursorType,
		reflect.TypeFor[options.ReturnDocument]():             returnDocument,
		reflect.TypeFor[*options.TransactionOptionsBuilder](): builderOf(options.Transaction),
		reflect.TypeFor[*options.TimeSeriesOptionsBuilder]():  builderOf(options.TimeSeries),
		reflect.TypeFor[*readconcern.ReadConcern]():           readConcern,
		reflect.TypeFor[*readpref.ReadPref]():                 readPreference,
		reflect.TypeFor[*writeconcern.WriteConcern]():         writeConcern,
	}
}

func builderOf[Builder any](make func() Builder) func(string, bson.RawValue) any {
	return func(_ string, value bson.RawValue) any { return apply(newArguments(value.Document()), make()) }
}

func duration(name string, value bson.RawValue) any {
	unit := time.Millisecond
	if strings.HasSuffix(name, "Seconds") {
		unit = time.Second
	}
	return time.Duration(value.AsInt64()) * unit
}

// collation reads the fields by their names in lower case, as the driver's own type has them.
func collation(value bson.RawValue) *options.Collation {
	var fields, lower bson.D
	if err := value.Unmarshal(&fields); err != nil {
		panic(unsupported(err.Error()))
	}
	for _, field := range fields {
		lower = append(lower, bson.E{Key: strings.ToLower(field.Key), Value: field.Value})
	}
	document, err := bson.Marshal(lower)
	if err != nil {
		panic(unsupported(err.Error()))
	}
	found := &options.Collation{}
	if err := bson.Unmarshal(document, found); err != nil {
		panic(unsupported(err.Error()))
	}
	return found
}

func cursorType(_ string, value bson.RawValue) any {
	switch value.StringValue() {
	case "tailable":
		return options.Tailable
	case "tailableAwait":
		return options.TailableAwait
	default:
		return options.NonTailable
	}
}

func returnDocument(_ string, value bson.RawValue) any {
	if value.StringValue() == "After" {
		return options.After
	}
	return options.Before
}

func readConcern(_ string, value bson.RawValue) any {
	level, _ := value.Document().Lookup("level").StringValueOK()
	return &readconcern.ReadConcern{Level: level}
}

func writeConcern(_ string, value bson.RawValue) any {
	concern := &writeconcern.WriteConcern{}
	elements, _ := value.Document().Elements()
	for _, element := range elements {
		switch each := element.Value(); element.Key() {
		case "w":
			if number, ok := each.AsInt64OK(); ok {
				concern.W = int(number)
			} else {
				concern.W = each.StringValue()
			}
		case "journal":
			journal := each.Boolean()
			concern.Journal = &journal
		default:
			panic(unsupported(fmt.Sprintf("a write concern has no %s in the driver", element.Key())))
		}
	}
	return concern
}

func readPreference(_ string, value bson.RawValue) any {
	var given struct {
		Mode                string              `bson:"mode"`
		TagSets             []map[string]string `bson:"tagSets"`
		MaxStalenessSeconds *int64              `bson:"maxStalenessSeconds"`
	}
	if err := value.Unmarshal(&given); err != nil {
		panic(unsupported(err.Error()))
	}
	mode, err := readpref.ModeFromString(given.Mode)
	if err != nil {
		panic(unsupported(err.Error()))
	}
	var chosen []readpref.Option
	if given.TagSets != nil {
		sets := make([]tag.Set, 0, len(given.TagSets))
		for _, each := range given.TagSets {
			sets = append(sets, tag.NewTagSetFromMap(each))
		}
		chosen = append(chosen, readpref.WithTagSets(sets...))
	}
	if given.MaxStalenessSeconds != nil {
		chosen = append(chosen, readpref.WithMaxStaleness(time.Duration(*given.MaxStalenessSeconds)*time.Second))
	}
	preference, err := readpref.New(mode, chosen...)
	if err != nil {
		panic(unsupported(err.Error()))
	}
	return preference
}

// plain returns a value as the driver would read it where it knows no type.
func plain(value bson.RawValue) any {
	var found any
	if err := value.Unmarshal(&found); err != nil {
		panic(unsupported(err.Error()))
	}
	return found
}

func text(document bson.Raw, name string) string {
	found, _ := document.Lookup(name).StringValueOK()
	return found
}

func subdocument(document bson.Raw, name string) bson.Raw {
	found, _ := document.Lookup(name).DocumentOK()
	return found
}
