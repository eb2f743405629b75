//! Events, log messages, errors and results in the words of the specifications.

use std::collections::HashMap;
use std::fmt::{Debug, Formatter};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{Error, ErrorKind, PartialBulkWriteResult, WriteFailure};
use mongodb::event::cmap::{CmapEvent, ConnectionCheckoutFailedReason, ConnectionClosedReason};
use mongodb::event::command::{CommandEvent, ConnectionInfo};
use mongodb::event::sdam::SdamEvent;
use mongodb::results::{
    DeleteResult, InsertManyResult, InsertOneResult, SummaryBulkWriteResult, UpdateResult,
    VerboseBulkWriteResult,
};
use opentelemetry::trace::SpanId;
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::Failure;
use crate::entities::Report;

// ---- Events ------------------------------------------------------------------------------------------------

pub fn command_event(event: CommandEvent) -> (&'static str, Document) {
    match event {
        CommandEvent::Started(event) => {
            let mut fields =
                command_fields(event.command_name, event.request_id, &event.connection, event.service_id);
            fields.insert("databaseName", event.db);
            fields.insert("command", event.command);
            ("commandStartedEvent", fields)
        }
        CommandEvent::Succeeded(event) => {
            let mut fields =
                command_fields(event.command_name, event.request_id, &event.connection, event.service_id);
            fields.insert("durationMS", milliseconds(event.duration));
            fields.insert("reply", event.reply);
            ("commandSucceededEvent", fields)
        }
        CommandEvent::Failed(event) => {
            let mut fields =
                command_fields(event.command_name, event.request_id, &event.connection, event.service_id);
            fields.insert("durationMS", milliseconds(event.duration));
            fields.insert("failure", doc! {"message": event.failure.to_string()});
            ("commandFailedEvent", fields)
        }
        event => unreachable!("{event:?}"),
    }
}

fn command_fields(
    name: String,
    request: i32,
    connection: &ConnectionInfo,
    service: Option<ObjectId>,
) -> Document {
    let mut fields = doc! {
        "commandName": name, "requestId": request, "connectionId": connection.address.to_string(),
    };
    if let Some(number) = connection.server_id {
        fields.insert("serverConnectionId", number);
    }
    if let Some(service) = service {
        fields.insert("serviceId", service);
    }
    fields
}

pub fn pool_event(event: CmapEvent) -> (&'static str, Document) {
    use CmapEvent::*;
    let at = |address: mongodb::options::ServerAddress| doc! {"address": address.to_string()};
    let of = |address: mongodb::options::ServerAddress, id: u32| {
        doc! {"address": address.to_string(), "connectionId": i64::from(id)}
    };
    match event {
        PoolCreated(event) => ("poolCreatedEvent", at(event.address)),
        PoolReady(event) => ("poolReadyEvent", at(event.address)),
        PoolCleared(event) => {
            let mut fields = at(event.address);
            fields.insert("interruptInUseConnections", event.interrupt_in_use_connections);
            if let Some(service) = event.service_id {
                fields.insert("serviceId", service);
            }
            ("poolClearedEvent", fields)
        }
        PoolClosed(event) => ("poolClosedEvent", at(event.address)),
        ConnectionCreated(event) => ("connectionCreatedEvent", of(event.address, event.connection_id)),
        ConnectionReady(event) => {
            let mut fields = of(event.address, event.connection_id);
            fields.insert("durationMS", milliseconds(event.duration));
            ("connectionReadyEvent", fields)
        }
        ConnectionClosed(event) => {
            let mut fields = of(event.address, event.connection_id);
            fields.insert("reason", closed_reason(&event.reason));
            ("connectionClosedEvent", fields)
        }
        ConnectionCheckoutStarted(event) => ("connectionCheckOutStartedEvent", at(event.address)),
        ConnectionCheckoutFailed(event) => {
            let mut fields = at(event.address);
            fields.insert("reason", failed_reason(&event.reason));
            fields.insert("durationMS", milliseconds(event.duration));
            ("connectionCheckOutFailedEvent", fields)
        }
        ConnectionCheckedOut(event) => {
            let mut fields = of(event.address, event.connection_id);
            fields.insert("durationMS", milliseconds(event.duration));
            ("connectionCheckedOutEvent", fields)
        }
        ConnectionCheckedIn(event) => ("connectionCheckedInEvent", of(event.address, event.connection_id)),
        event => unreachable!("{event:?}"),
    }
}

fn closed_reason(reason: &ConnectionClosedReason) -> String {
    match reason {
        ConnectionClosedReason::Stale => "stale".into(),
        ConnectionClosedReason::Idle => "idle".into(),
        ConnectionClosedReason::Error => "error".into(),
        ConnectionClosedReason::PoolClosed => "poolClosed".into(),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn failed_reason(reason: &ConnectionCheckoutFailedReason) -> &'static str {
    match reason {
        ConnectionCheckoutFailedReason::Timeout => "timeout",
        _ => "connectionError",
    }
}

pub fn discovery_event(event: SdamEvent) -> (&'static str, Document) {
    use SdamEvent::*;
    let change = |before: String, after: String| {
        doc! {"previousDescription": {"type": before}, "newDescription": {"type": after}}
    };
    match event {
        ServerOpening(event) => ("serverOpeningEvent", doc! {"address": event.address.to_string()}),
        ServerClosed(event) => ("serverClosedEvent", doc! {"address": event.address.to_string()}),
        ServerDescriptionChanged(event) => {
            let (before, after) = (&event.previous_description, &event.new_description);
            let mut fields = change(before.server_type().to_string(), after.server_type().to_string());
            fields.insert("address", event.address.to_string());
            ("serverDescriptionChangedEvent", fields)
        }
        TopologyOpening(_) => ("topologyOpeningEvent", doc! {}),
        TopologyClosed(_) => ("topologyClosedEvent", doc! {}),
        TopologyDescriptionChanged(event) => {
            let (before, after) = (&event.previous_description, &event.new_description);
            let fields = change(before.topology_type().to_string(), after.topology_type().to_string());
            ("topologyDescriptionChangedEvent", fields)
        }
        ServerHeartbeatStarted(event) => {
            let fields = doc! {"address": event.server_address.to_string(), "awaited": event.awaited};
            ("serverHeartbeatStartedEvent", fields)
        }
        ServerHeartbeatSucceeded(event) => {
            let fields = doc! {
                "address": event.server_address.to_string(), "awaited": event.awaited,
                "durationMS": milliseconds(event.duration),
            };
            ("serverHeartbeatSucceededEvent", fields)
        }
        ServerHeartbeatFailed(event) => {
            let fields = doc! {
                "address": event.server_address.to_string(), "awaited": event.awaited,
                "durationMS": milliseconds(event.duration),
            };
            ("serverHeartbeatFailedEvent", fields)
        }
        event => unreachable!("{event:?}"),
    }
}

fn milliseconds(elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * 1000.0
}

// ---- Log messages ------------------------------------------------------------------------------------------

/// Who reports the log messages of a topology, or what was logged before that was known.
enum Observer {
    Known(Vec<String>, Report),
    Awaited(Vec<(String, Document)>),
}

/// The observers by topology: the driver has one log for all of its clients.
static OBSERVERS: LazyLock<Mutex<HashMap<String, Observer>>> = LazyLock::new(Mutex::default);

/// Has the driver's log messages reported from now on.
pub fn observe_logs() {
    tracing::subscriber::set_global_default(Log).expect("there is no other subscriber");
}

/// Reports the messages of some components about a topology.
pub fn observe_topology(id: ObjectId, components: Vec<String>, report: Report) {
    let known = Observer::Known(components, report);
    let mut observers = OBSERVERS.lock().unwrap();
    if let Some(Observer::Awaited(messages)) = observers.insert(id.to_hex(), known) {
        messages
            .into_iter()
            .for_each(|(component, message)| log(&mut observers, &id.to_hex(), component, message));
    }
}

pub fn forget_logs() {
    OBSERVERS.lock().unwrap().clear();
}

fn log(observers: &mut HashMap<String, Observer>, id: &str, component: String, message: Document) {
    match observers.entry(id.to_string()).or_insert_with(|| Observer::Awaited(Vec::new())) {
        Observer::Known(components, report) if components.contains(&component) => {
            report("logMessage", message)
        }
        Observer::Known(..) => {}
        Observer::Awaited(messages) => messages.push((component, message)),
    }
}

struct Log;

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("mongodb::")
    }

    fn event(&self, event: &Event<'_>) {
        let component = match event.metadata().target() {
            "mongodb::server_selection" => "serverSelection",
            target => target.trim_start_matches("mongodb::"),
        };
        let mut data = Data(Document::new());
        event.record(&mut data);
        let level = event.metadata().level().as_str().to_lowercase();
        if let Ok(id) = data.0.get_str("topologyId").map(str::to_string) {
            let message = doc! {"level": level, "component": component, "data": data.0};
            log(&mut OBSERVERS.lock().unwrap(), &id, component.to_string(), message);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The fields of a message.
struct Data(Document);

impl Data {
    fn add(&mut self, field: &Field, value: impl Into<Bson>) {
        self.0.insert(field.name(), value);
    }
}

impl Visit for Data {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.cast_signed());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.add(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, format!("{value:?}"));
    }
}

// ---- Spans -------------------------------------------------------------------------------------------------

/// Reports spans as they end.
pub struct Spans(pub Report);

impl Debug for Spans {
    fn fmt(&self, output: &mut Formatter<'_>) -> std::fmt::Result {
        output.write_str("Spans")
    }
}

impl SpanProcessor for Spans {
    fn on_end(&self, span: SpanData) {
        let began = span.start_time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let attributes: Document = span.attributes.iter().map(attribute).collect();
        let parent = Some(span.parent_span_id).filter(|id| *id != SpanId::INVALID);
        let fields = doc! {
            "id": span.span_context.span_id().to_string(),
            "parent": parent.map(|id| id.to_string()),
            "name": span.name.as_ref(),
            "attributes": attributes,
            "order": began.as_secs_f64(),
        };
        (self.0)("span", fields);
    }

    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

fn attribute(given: &KeyValue) -> (String, Bson) {
    let value = match &given.value {
        Value::Bool(value) => Bson::Boolean(*value),
        Value::I64(value) => Bson::Int64(*value),
        Value::F64(value) => Bson::Double(*value),
        value => Bson::String(value.to_string()),
    };
    match (given.key.as_str(), value) {
        // Attributes cannot be documents: that of a session is one as JSON.
        (name @ "db.mongodb.lsid", Bson::String(json)) => {
            let document = serde_json::from_str::<serde_json::Value>(&json).ok();
            (name.to_string(), document.and_then(|json| json.try_into().ok()).unwrap_or(Bson::String(json)))
        }
        (name, value) => (name.to_string(), value),
    }
}

// ---- Errors ------------------------------------------------------------------------------------------------

/// Returns an error in the words of expectError.
pub fn error_report(error: &Error) -> Document {
    let mut report = doc! {"message": error.to_string()};
    let mut labels: Vec<&String> = causes(error).flat_map(|cause| cause.labels()).collect();
    labels.sort();
    labels.dedup();
    report.insert("labels", labels.into_iter().map(String::as_str).collect::<Vec<_>>());
    if let Some(reply) = causes(error).find_map(Error::server_response)
        && let Ok(reply) = Document::try_from(reply.as_ref())
    {
        report.insert("response", reply);
    }
    let mut is_client_error = false;
    for cause in causes(error) {
        match &*cause.kind {
            ErrorKind::Command(error) => coded(&mut report, error.code, &error.code_name),
            ErrorKind::Write(WriteFailure::WriteError(error)) => {
                coded(&mut report, error.code, error.code_name.as_deref().unwrap_or_default());
            }
            ErrorKind::Write(WriteFailure::WriteConcernError(error)) => {
                coded(&mut report, error.code, &error.code_name);
            }
            ErrorKind::InsertMany(failure) => {
                if let Some(error) = failure.write_errors.iter().flatten().next() {
                    coded(&mut report, error.code, error.code_name.as_deref().unwrap_or_default());
                } else if let Some(error) = &failure.write_concern_error {
                    coded(&mut report, error.code, &error.code_name);
                }
            }
            ErrorKind::BulkWrite(failure) => {
                let errors = failure.write_errors.iter();
                report.insert(
                    "writeErrors",
                    by_index(errors, |error| {
                        Bson::Document(doc! {"code": error.code, "message": &error.message})
                    }),
                );
                let concerns = failure.write_concern_errors.iter();
                let concerns = concerns.map(|error| doc! {"code": error.code, "message": &error.message});
                report.insert("writeConcernErrors", concerns.collect::<Vec<_>>());
                match &failure.partial_result {
                    Some(PartialBulkWriteResult::Summary(result)) => {
                        report.insert("result", summary_result(result));
                    }
                    Some(PartialBulkWriteResult::Verbose(result)) => {
                        report.insert("result", verbose_result(result));
                    }
                    None => {}
                }
            }
            ErrorKind::Authentication { .. } if cause.server_response().is_some() => {}
            _ => is_client_error = true,
        }
    }
    report.insert("isClientError", is_client_error);
    report
}

/// Returns an error and those within it.
fn causes(error: &Error) -> impl Iterator<Item = &Error> {
    std::iter::successors(Some(error), |error| {
        let source = std::error::Error::source(*error)?.downcast_ref::<Box<Error>>()?;
        Some(&**source)
    })
}

/// Adds a code and its name, where there is none yet.
fn coded(report: &mut Document, code: i32, name: &str) {
    if !report.contains_key("code") {
        report.insert("code", code);
        if !name.is_empty() {
            report.insert("codeName", name);
        }
    }
}

/// Says what the driver does not have, if that is why it failed.
pub fn lack(error: &Error) -> Option<String> {
    match &*error.kind {
        ErrorKind::InvalidArgument { message, .. } if message.contains("is an invalid option") => {
            Some(message.clone())
        }
        ErrorKind::InvalidArgument { message, .. } if message.starts_with("Unacknowledged") => {
            Some("the driver has no unacknowledged writes".into())
        }
        ErrorKind::ServerSelection { message, .. } if message.contains("driver requires at least") => {
            Some("the driver does not work with servers before 4.4".into())
        }
        _ => None,
    }
}

/// Returns the driver's own error of a stream of a file.
pub fn of_stream(error: std::io::Error) -> Failure {
    error.downcast::<Error>().map_or_else(Failure::from, Failure::Driver)
}

// ---- Sessions ----------------------------------------------------------------------------------------------

/// The server that a transaction's commands went to, by the session's id: the driver shows whether it keeps to
/// one server, and not to which.
pub type Servers = Arc<Mutex<HashMap<Vec<u8>, String>>>;

/// Notes the server of a command in a transaction.
pub fn note_server(servers: &Servers, event: &CommandEvent) {
    if let CommandEvent::Started(event) = event
        && event.command.contains_key("autocommit")
        && let Some(id) = event.command.get_document("lsid").ok().and_then(id_of)
    {
        let address = event.connection.address.to_string();
        servers.lock().unwrap().insert(id, event.service_id.map_or(address, |id| id.to_hex()));
    }
}

fn id_of(lsid: &Document) -> Option<Vec<u8>> {
    match lsid.get("id") {
        Some(Bson::Binary(id)) => Some(id.bytes.clone()),
        _ => None,
    }
}

/// Returns the state of a session, most of which the driver shows only to who debugs.
pub fn session_report(session: &ClientSession, servers: &Servers) -> Bson {
    let shown = format!("{session:?}");
    let dirty = shown.split_once("dirty: ").is_some_and(|(_, rest)| rest.starts_with("true"));
    // The client, which comes before the transaction, has fields of other objects.
    let state = shown.rsplit_once("transaction: Transaction { state: ").map_or("", |(_, rest)| rest);
    let is_pinned = state.split_once("pinned: ").is_some_and(|(_, rest)| rest.starts_with("Some("));
    let server = || id_of(session.id()).and_then(|id| servers.lock().unwrap().get(&id).cloned());
    let pinned = if is_pinned { server() } else { None };
    let transaction = match state.split(|c: char| !c.is_alphanumeric()).next() {
        Some("Starting") => "starting",
        Some("InProgress") => "in_progress",
        Some("Committed") => "committed",
        Some("Aborted") => "aborted",
        _ => "none",
    };
    Bson::Document(doc! {
        "lsid": session.id(), "dirty": dirty, "pinned": pinned, "transaction": transaction,
    })
}

// ---- Results -----------------------------------------------------------------------------------------------

pub fn insert_many_result(result: &InsertManyResult) -> Bson {
    Bson::Document(doc! {"insertedIds": by_index(&result.inserted_ids, Clone::clone)})
}

pub fn update_result(result: &UpdateResult) -> Bson {
    let mut document = updated(result);
    document.insert("upsertedCount", i32::from(result.upserted_id.is_some()));
    Bson::Document(document)
}

fn updated(result: &UpdateResult) -> Document {
    let mut document = doc! {
        "matchedCount": result.matched_count.cast_signed(),
        "modifiedCount": result.modified_count.cast_signed(),
    };
    if let Some(id) = &result.upserted_id {
        document.insert("upsertedId", id);
    }
    document
}

fn insert_result(result: &InsertOneResult) -> Bson {
    Bson::Document(doc! {"insertedId": &result.inserted_id})
}

fn delete_result(result: &DeleteResult) -> Bson {
    Bson::Document(doc! {"deletedCount": result.deleted_count.cast_signed()})
}

pub fn summary_result(result: &SummaryBulkWriteResult) -> Bson {
    Bson::Document(counts(result))
}

pub fn verbose_result(result: &VerboseBulkWriteResult) -> Bson {
    let mut document = counts(&result.summary);
    document.insert("insertResults", by_index(&result.insert_results, insert_result));
    document.insert("updateResults", by_index(&result.update_results, |each| Bson::Document(updated(each))));
    document.insert("deleteResults", by_index(&result.delete_results, delete_result));
    Bson::Document(document)
}

fn counts(result: &SummaryBulkWriteResult) -> Document {
    doc! {
        "insertedCount": result.inserted_count,
        "matchedCount": result.matched_count,
        "modifiedCount": result.modified_count,
        "upsertedCount": result.upserted_count,
        "deletedCount": result.deleted_count,
    }
}

fn by_index<'a, T: 'a>(
    values: impl IntoIterator<Item = (&'a usize, &'a T)>,
    shown: impl Fn(&'a T) -> Bson,
) -> Document {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by_key(|(index, _)| **index);
    values.into_iter().map(|(index, value)| (index.to_string(), shown(value))).collect()
}
