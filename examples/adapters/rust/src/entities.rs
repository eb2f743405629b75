//! What scenarios work with: clients with their monitors, databases, collections, buckets, sessions, cursors.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use mongodb::bson::{Bson, Document, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::session::SessionChangeStream;
use mongodb::event::EventHandler;
use mongodb::event::sdam::{SdamEvent, TopologyDescription};
use mongodb::gridfs::GridFsBucket;
use mongodb::options::{
    ClientOptions, CollectionOptions, DatabaseOptions, GridFsBucketOptions, SessionOptions,
};
use mongodb::otel::OpentelemetryOptions;
use mongodb::raw_batch_cursor::{RawBatch, RawBatchCursor, SessionRawBatchCursor};
use mongodb::{ClientSession, Collection, Database, ServerType};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::arguments::Arguments;
use crate::words::{Servers, Spans};
use crate::{Answer, Failure, Outcome, subdocument, text, words};

const CLOSE_TIME: Duration = Duration::from_secs(2);
/// Bytes of a document in a log message; the driver's default cuts some of scenarios.
const LOGGED_BYTES: usize = 10_000;
/// The options of a URI that the driver passes over: a scenario would hold, or fail, without reason.
const IGNORED_OPTIONS: [&str; 2] = ["socketTimeoutMS", "waitQueueTimeoutMS"];

/// Reports an event: its kind and its fields.
pub type Report = Arc<dyn Fn(&str, Document) + Send + Sync>;

#[derive(Clone)]
pub enum Entity {
    Client(Client),
    Database(Database),
    Collection(Collection<Document>),
    Bucket(GridFsBucket),
    Session(Session),
    Cursor(Arc<Cursor>),
}

impl Entity {
    /// The session that everything asked of the entity uses.
    pub fn session(&self) -> Option<Session> {
        match self {
            Self::Session(session) => Some(session.clone()),
            Self::Cursor(cursor) => cursor.session.clone(),
            _ => None,
        }
    }

    pub fn into_client(self) -> Option<Client> {
        match self {
            Self::Client(client) => Some(client),
            _ => None,
        }
    }
}

/// Makes a database or a session of a client, a collection or a bucket of a database.
pub async fn create(parent: Entity, kind: &str, spec: &Document) -> Outcome {
    let mut options = Arguments::new(subdocument(spec, &format!("{kind}Options")));
    let entity = match (kind, parent) {
        ("database", Entity::Client(client)) => {
            let name = text(spec, "databaseName");
            let options = options.options::<DatabaseOptions>()?;
            Entity::Database(client.driver.database_with_options(&name, options))
        }
        ("collection", Entity::Database(database)) => {
            let name = text(spec, "collectionName");
            let options = options.options::<CollectionOptions>()?;
            Entity::Collection(database.collection_with_options(&name, options))
        }
        ("bucket", Entity::Database(database)) => {
            options.take("disableMD5"); // the driver always works without MD5
            Entity::Bucket(database.gridfs_bucket(options.options::<GridFsBucketOptions>()?))
        }
        ("session", Entity::Client(client)) => {
            let options = options.options::<SessionOptions>()?;
            let session = client.driver.start_session().with_options(options).await?;
            Entity::Session(Session::new(session, client.servers))
        }
        _ => return Err(Failure::Unsupported(format!("no entity {kind}"))),
    };
    Ok(Answer::Entity(entity))
}

// ---- Clients -----------------------------------------------------------------------------------------------

/// A client of the driver, and what it said last of the deployment.
#[derive(Clone)]
pub struct Client {
    pub driver: mongodb::Client,
    topology: Topology,
    servers: Servers,
}

type Topology = Arc<Mutex<Option<TopologyDescription>>>;

impl Client {
    /// Makes a client that reports the events and the log messages that are observed.
    pub async fn new(params: &Document, report: Report) -> Result<Self, Failure> {
        let given = subdocument(params, "options");
        if let Some(name) = IGNORED_OPTIONS.iter().find(|name| given.contains_key(name)) {
            return Err(Failure::Unsupported(format!("the driver has no {name}")));
        }
        let mut options = ClientOptions::parse(text(params, "uri")).await?;
        if let Ok(api) = params.get_document("serverApi") {
            options.server_api = Some(Arguments::new(api.clone()).options()?);
        }
        options.tracing_max_document_length_bytes = Some(LOGGED_BYTES);
        if let Ok(spans) = params.get_document("observeSpans") {
            options.tracing = Some(tracing(spans, Arc::clone(&report)));
        }
        let (topology, servers) = (Topology::default(), Servers::default());
        observe(&mut options, params, report, (Arc::clone(&topology), Arc::clone(&servers)));
        Ok(Self { driver: mongodb::Client::with_options(options)?, topology, servers })
    }

    /// Returns the type of the topology, and the address of its primary.
    pub fn report(&self) -> Bson {
        let last = self.topology.lock().unwrap();
        let Some(topology) = last.as_ref() else {
            return Bson::Document(doc! {"type": "Unknown", "primary": null});
        };
        let servers = topology.servers();
        let primary = servers.values().find(|server| server.server_type() == ServerType::RsPrimary);
        Bson::Document(doc! {
            "type": topology.topology_type().to_string(),
            "primary": primary.map(|server| server.address().to_string()),
        })
    }

    /// Closes the client although there are sessions and cursors of it.
    pub async fn close(&self) {
        let _ = timeout(CLOSE_TIME, self.driver.clone().shutdown().immediate(true)).await;
    }

    /// Closes the client when its sessions have ended and its cursors have been killed.
    pub async fn finish(&self) {
        if timeout(CLOSE_TIME, self.driver.clone().shutdown()).await.is_err() {
            self.close().await;
        }
    }
}

fn tracing(observed: &Document, report: Report) -> OpentelemetryOptions {
    let shows_commands = observed.get_bool("enableCommandPayload").unwrap_or_default();
    OpentelemetryOptions::builder()
        .enabled(true)
        .query_text_max_length(if shows_commands { LOGGED_BYTES } else { 0 })
        .tracer_provider(SdkTracerProvider::builder().with_span_processor(Spans(report)).build())
        .build()
}

/// Has all monitors of a client report, and keeps what they say of the topology and of transactions.
fn observe(
    options: &mut ClientOptions,
    params: &Document,
    report: Report,
    (topology, servers): (Topology, Servers),
) {
    let listed = |name: &str| -> Vec<String> {
        let values = params.get_array(name).into_iter().flatten();
        values.filter_map(Bson::as_str).map(str::to_string).collect()
    };
    let (kinds, components) = (listed("observeEvents"), listed("observeLogs"));
    let logs = Arc::clone(&report);
    let events: Report = Arc::new(move |kind, fields| {
        if kinds.iter().any(|observed| observed == kind) {
            report(kind, fields);
        }
    });
    let of_commands = Arc::clone(&events);
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        words::note_server(&servers, &event);
        let (kind, fields) = words::command_event(event);
        of_commands(kind, fields);
    }));
    let of_pools = Arc::clone(&events);
    options.cmap_event_handler = Some(EventHandler::callback(move |event| {
        let (kind, fields) = words::pool_event(event);
        of_pools(kind, fields);
    }));
    options.sdam_event_handler = Some(EventHandler::callback(move |event| {
        match &event {
            SdamEvent::TopologyOpening(opening) => {
                words::observe_topology(opening.topology_id, components.clone(), Arc::clone(&logs));
            }
            SdamEvent::TopologyDescriptionChanged(change) => {
                *topology.lock().unwrap() = Some(change.new_description.clone());
            }
            _ => {}
        }
        let (kind, fields) = words::discovery_event(event);
        events(kind, fields);
    }));
}

// ---- Sessions ----------------------------------------------------------------------------------------------

type Job = Box<dyn for<'s> FnOnce(&'s mut ClientSession) -> BoxFuture<'s, ()> + Send>;

/// A session, which serves one request at a time.
///
/// The driver lends it to the callback of a transaction, which then serves the requests in its place.
#[derive(Clone)]
pub struct Session {
    jobs: mpsc::UnboundedSender<Job>,
    queue: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Job>>>,
    servers: Servers,
}

impl Session {
    fn new(mut session: ClientSession, servers: Servers) -> Self {
        let (jobs, queue) = mpsc::unbounded_channel::<Job>();
        let queue = Arc::new(tokio::sync::Mutex::new(queue));
        let served = Arc::clone(&queue);
        tokio::spawn(async move {
            loop {
                let job = served.lock().await.recv().await;
                let Some(job) = job else { break };
                job(&mut session).await;
            }
        });
        Self { jobs, queue, servers }
    }

    /// Does something with the session.
    pub async fn with<F>(&self, work: F) -> Outcome
    where
        F: for<'s> FnOnce(&'s mut ClientSession) -> BoxFuture<'s, Outcome> + Send + 'static,
    {
        let (done, outcome) = oneshot::channel();
        let job: Job = Box::new(move |session| {
            async move {
                // Nobody waits any more for what a scenario that has ended asked for.
                let _ = done.send(work(session).await);
            }
            .boxed()
        });
        let _ = self.jobs.send(job); // dropped if the session has ended, which drops `done`
        outcome.await.unwrap_or(Err(Failure::Nothing("the session has ended")))
    }

    /// Does something with the session at once.
    pub async fn look<F>(&self, look: F) -> Outcome
    where
        F: FnOnce(&mut ClientSession) -> Bson + Send + 'static,
    {
        self.with(move |session| async move { Ok(Answer::Result(look(session))) }.boxed()).await
    }

    /// Returns the state of the session.
    pub async fn report(&self) -> Outcome {
        let servers = Arc::clone(&self.servers);
        self.look(move |session| words::session_report(session, &servers)).await
    }

    /// Serves requests with a session that the driver lends, until something has happened.
    pub async fn lend<T>(&self, session: &mut ClientSession, until: impl Future<Output = T>) -> T {
        tokio::pin!(until);
        loop {
            let job = async { self.queue.lock().await.recv().await };
            tokio::select! {
                Some(job) = job => job(session).await,
                happened = &mut until => return happened,
            }
        }
    }

    /// Ends the session, once: a second time is no error of a scenario.
    pub async fn end(&self) -> Outcome {
        if !self.jobs.is_closed() {
            let queue = Arc::clone(&self.queue);
            let close = async move {
                queue.lock().await.close();
                Ok(Answer::Result(Bson::Null))
            };
            self.with(move |_| close.boxed()).await?;
            settle().await;
        }
        Ok(Answer::Result(Bson::Null))
    }
}

/// Waits for what the driver does in tasks of its own when a session or a cursor is dropped.
///
/// There is nothing to wait for: only `Client::shutdown` knows these tasks.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

// ---- Cursors -----------------------------------------------------------------------------------------------

/// A cursor or a change stream that is iterated step by step, and the session that it was created with.
pub struct Cursor {
    pub open: tokio::sync::Mutex<Option<Iteration>>,
    pub session: Option<Session>,
}

/// A batch at a time is the only way of the driver to ask once for a cursor's next document.
pub enum Iteration {
    Batches(RawBatchCursor, VecDeque<Document>),
    BatchesInSession(SessionRawBatchCursor, VecDeque<Document>),
    Changes(Box<ChangeStream<Document>>),
    ChangesInSession(Box<SessionChangeStream<Document>>),
}

impl Iteration {
    /// Returns the next document, None when there is nothing yet; an error at the end.
    pub async fn next(&mut self, session: Option<&mut ClientSession>) -> Result<Option<Document>, Failure> {
        let (batch, documents) = match (self, session) {
            (Self::Changes(stream), _) => return Ok(stream.next_if_any().await?),
            (Self::ChangesInSession(stream), Some(session)) => {
                return Ok(stream.next_if_any(session).await?);
            }
            (Self::Batches(_, documents) | Self::BatchesInSession(_, documents), _)
                if !documents.is_empty() =>
            {
                return Ok(documents.pop_front());
            }
            (Self::Batches(cursor, documents), _) => (cursor.next().await, documents),
            (Self::BatchesInSession(cursor, documents), Some(session)) => {
                (cursor.stream(session).next().await, documents)
            }
            _ => return Err(Failure::Nothing("a cursor of a session needs its session")),
        };
        let Some(batch) = batch else {
            return Err(Failure::Nothing("the cursor has no more documents"));
        };
        *documents = documents_of(&batch?)?;
        Ok(documents.pop_front())
    }
}

fn documents_of(batch: &RawBatch) -> Result<VecDeque<Document>, Failure> {
    let mut documents = VecDeque::new();
    for value in batch.doc_slices()? {
        match Bson::try_from(value?)? {
            Bson::Document(document) => documents.push_back(document),
            other => return Err(Failure::Unsupported(format!("a batch has {other}"))),
        }
    }
    Ok(documents)
}
