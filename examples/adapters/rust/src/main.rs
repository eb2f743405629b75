//! The Rust driver as an adapter of pushbackd: requests come in and answers go out, one JSON document a line.
//!
//! ```console
//! $ cargo build --target-dir /tmp/rust-adapter
//! $ pushbackd conform SCENARIOS --adapter "cmd:/tmp/rust-adapter/debug/rust-adapter"
//! ```
//!
//! This file speaks the protocol (docs/WRITING-ADAPTERS.md); entities.rs makes what a scenario works with,
//! operations.rs does what it asks for, with the arguments of arguments.rs, and words.rs says what came of it
//! in the words of the specifications.

mod arguments;
mod entities;
mod operations;
mod words;

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::join_all;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;
use mongodb::{ClientSession, ClusterTime};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::oneshot;

use arguments::Arguments;
use entities::{Client, Entity, Session};

const PROTOCOL: i32 = 1;

/// What the driver can do. Its pool cannot be reached from outside, and it has no timeoutMS.
const FEATURES: [&str; 14] = [
    "COMMAND_EVENTS",
    "POOL_EVENTS",
    "SDAM_EVENTS",
    "LOG_MESSAGES",
    "TRACING",
    "SESSIONS",
    "TRANSACTIONS",
    "CHANGE_STREAMS",
    "GRIDFS",
    "FIND_CURSORS",
    "COMMAND_CURSORS",
    "CLIENT_BULK_WRITE",
    "SERVER_API",
    "MAX_ADAPTIVE_RETRIES",
];

/// The driver tells its version to servers only; the locked dependencies have it, too.
fn driver_version() -> &'static str {
    include_str!("../Cargo.lock")
        .split("name = \"mongodb\"\nversion = \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("Cargo.lock has the driver")
}

/// What a request has led to.
pub enum Answer {
    Result(Bson),
    Entity(Entity),
}

/// Why a request has no result.
pub enum Failure {
    /// The driver failed.
    Driver(Error),
    /// The driver has no such thing: the case is skipped.
    Unsupported(String),
    /// There is nothing to work on any more, such as a document of a cursor at its end.
    Nothing(&'static str),
}

pub type Outcome = Result<Answer, Failure>;

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        words::lack(&error).map_or_else(|| Self::Driver(error), Self::Unsupported)
    }
}

struct Request {
    id: i64,
    method: String,
    on: i64,
    params: Document,
}

impl Request {
    fn read(line: &str) -> Result<Self, String> {
        let value: serde_json::Value = serde_json::from_str(line).map_err(|why| why.to_string())?;
        let Ok(Bson::Document(request)) = Bson::try_from(value) else {
            return Err("no document of extended JSON".into());
        };
        Ok(Self {
            id: number(&request, "id").ok_or("no id")?,
            method: text(&request, "method"),
            on: number(&request, "on").unwrap_or_default(),
            params: subdocument(&request, "params"),
        })
    }
}

/// What scenarios have made, by the ids of the requests that made it.
#[derive(Default)]
struct Adapter {
    entities: Mutex<HashMap<i64, Entity>>,
    errors: Mutex<HashMap<i64, Error>>,
    callbacks: Mutex<HashMap<i64, oneshot::Sender<Result<(), Error>>>>,
}

#[tokio::main]
async fn main() {
    words::observe_logs();
    let adapter = Arc::new(Adapter::default());
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match Request::read(&line) {
            // Scenarios have threads: a request may wait while others are served.
            Ok(request) => drop(tokio::spawn(Arc::clone(&adapter).serve(request))),
            Err(why) => {
                eprintln!("a line that is no request: {why}");
                std::process::exit(1);
            }
        }
    }
}

impl Adapter {
    async fn serve(self: Arc<Self>, request: Request) {
        let id = request.id;
        let mut message = doc! {"id": id};
        match self.answer(request).await {
            Ok(Answer::Result(result)) => message.insert("result", result),
            Ok(Answer::Entity(entity)) => {
                self.entities.lock().unwrap().insert(id, entity);
                message.insert("entity", true)
            }
            Err(Failure::Driver(error)) => {
                let report = words::error_report(&error);
                self.errors.lock().unwrap().insert(id, error);
                message.insert("error", report)
            }
            Err(Failure::Unsupported(reason)) => message.insert("unsupported", reason),
            Err(Failure::Nothing(why)) => {
                message.insert("error", doc! {"message": why, "isClientError": true})
            }
        };
        message.insert("clock", clock());
        tell(message);
    }

    async fn answer(self: &Arc<Self>, request: Request) -> Outcome {
        match request.method.as_str() {
            "hello" => Ok(Answer::Result(Bson::Document(doc! {
                "protocol": PROTOCOL,
                "name": "rust",
                "driver": {"name": "mongo-rust-driver", "version": driver_version()},
                "features": FEATURES.to_vec(),
            }))),
            "client" => {
                let id = request.id;
                let report = move |kind: &str, fields: Document| {
                    tell(doc! {"event": {"client": id, "kind": kind, "at": clock(), "fields": fields}});
                };
                let client = Client::new(&request.params, Arc::new(report)).await?;
                Ok(Answer::Entity(Entity::Client(client)))
            }
            "create" => {
                let (kind, spec) = (text(&request.params, "kind"), subdocument(&request.params, "spec"));
                entities::create(self.entity(request.on)?, &kind, &spec).await
            }
            "call" => self.call(request).await,
            "return" => {
                let outcome = match number(&request.params, "error") {
                    None => Ok(()),
                    Some(id) => Err(self
                        .errors
                        .lock()
                        .unwrap()
                        .get(&id)
                        .cloned()
                        .unwrap_or_else(|| Error::custom("the scenario failed".to_string()))),
                };
                if let Some(waiting) = self.callbacks.lock().unwrap().remove(&request.on) {
                    // A transaction that is not waited for any more has nobody to be told.
                    let _ = waiting.send(outcome);
                }
                Ok(Answer::Result(Bson::Null))
            }
            "session" => self.session(request.on)?.report().await,
            "advanceClusterTime" => {
                let to: ClusterTime = Arguments::new(request.params).need("clusterTime")?;
                let advance = move |session: &mut ClientSession| {
                    session.advance_cluster_time(&to);
                    Bson::Null
                };
                self.session(request.on)?.look(advance).await
            }
            "topology" => match self.entity(request.on)? {
                Entity::Client(client) => Ok(Answer::Result(client.report())),
                _ => Err(Failure::Nothing("a topology is that of a client")),
            },
            "closeClient" => {
                if let Entity::Client(client) = self.entity(request.on)? {
                    client.close().await;
                }
                Ok(Answer::Result(Bson::Null))
            }
            "close" => {
                self.close().await;
                Ok(Answer::Result(Bson::Null))
            }
            method => Err(Failure::Unsupported(format!("no method {method}"))),
        }
    }

    async fn call(self: &Arc<Self>, request: Request) -> Outcome {
        let (id, on, params) = (request.id, request.on, request.params);
        let (kind, name) = (text(&params, "kind"), text(&params, "operation"));
        let mut given = Arguments::new(subdocument(&params, "arguments"));
        let target = self.entity(on)?;
        if given.take("callback").is_some() {
            let adapter = Arc::clone(self);
            given.callback = Some(Arc::new(move || Arc::clone(&adapter).call_back(id).boxed()));
        }
        given.session = match given.take("session") {
            Some(id) => Some(self.session(integer(&id).unwrap_or_default())?),
            None => target.session(),
        };
        match given.session.clone() {
            None => operations::run(target, kind, name, given, None).await,
            Some(session) if name == "endSession" => session.end().await,
            Some(session) => {
                session.with(|lent| operations::run(target, kind, name, given, Some(lent)).boxed()).await
            }
        }
    }

    /// Has the runner run a transaction's callback, and waits for its end.
    async fn call_back(self: Arc<Self>, call: i64) -> Result<(), Error> {
        let (ended, waiting) = oneshot::channel();
        self.callbacks.lock().unwrap().insert(call, ended);
        tell(doc! {"callback": call});
        waiting.await.unwrap_or_else(|_| Err(Error::custom("the scenario has ended".to_string())))
    }

    async fn close(&self) {
        self.callbacks.lock().unwrap().clear();
        self.errors.lock().unwrap().clear();
        let entities = std::mem::take(&mut *self.entities.lock().unwrap());
        // A client waits for its cursors and sessions, which end as they are dropped.
        let clients: Vec<Client> = entities.into_values().filter_map(Entity::into_client).collect();
        join_all(clients.iter().map(Client::finish)).await;
        words::forget_logs();
    }

    fn entity(&self, id: i64) -> Result<Entity, Failure> {
        self.entities.lock().unwrap().get(&id).cloned().ok_or(Failure::Nothing("no such entity"))
    }

    fn session(&self, id: i64) -> Result<Session, Failure> {
        self.entity(id)?.session().ok_or(Failure::Nothing("no such session"))
    }
}

/// Writes a line.
fn tell(message: Document) {
    let line = Bson::Document(message).into_canonical_extjson().to_string();
    let mut output = std::io::stdout().lock();
    if writeln!(output, "{line}").and_then(|()| output.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Returns the seconds of a clock that nobody sets.
fn clock() -> f64 {
    static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
    STARTED.elapsed().as_secs_f64()
}

fn integer(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

fn number(document: &Document, name: &str) -> Option<i64> {
    document.get(name).and_then(integer)
}

fn text(document: &Document, name: &str) -> String {
    document.get_str(name).unwrap_or_default().to_string()
}

fn subdocument(document: &Document, name: &str) -> Document {
    document.get_document(name).cloned().unwrap_or_default()
}
