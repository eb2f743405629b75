//! The operations of the unified test format, by the kind of entity and by name.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{AsyncReadExt, AsyncWriteExt, FutureExt, TryStreamExt};
use mongodb::action::Action;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, doc, serialize_to_bson};
use mongodb::gridfs::GridFsBucket;
use mongodb::options::*;
use mongodb::{ClientSession, Collection, Database, IndexModel, Namespace, SearchIndexModel};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::entities::{Client, Cursor, Entity, Iteration, Session, settle};
use crate::{Answer, Failure, Outcome, words};

/// The session that an operation runs in, lent for as long.
type Lent<'s> = Option<&'s mut ClientSession>;

/// Does what a scenario asks of an entity.
pub async fn run(
    target: Entity,
    kind: String,
    name: String,
    mut given: Arguments,
    session: Lent<'_>,
) -> Outcome {
    let done = dispatch(&target, &name, &mut given, session).await;
    match done {
        Err(Failure::Unsupported(reason)) if reason.is_empty() => {
            Err(Failure::Unsupported(format!("no {name} on a {kind}")))
        }
        done => done,
    }
}

fn dispatch<'a>(
    target: &'a Entity,
    name: &'a str,
    given: &'a mut Arguments,
    session: Lent<'a>,
) -> BoxFuture<'a, Outcome> {
    match target {
        Entity::Client(client) => of_client(client, name, given, session).boxed(),
        Entity::Database(database) => of_database(database, name, given, session).boxed(),
        Entity::Collection(collection) => of_collection(collection, name, given, session).boxed(),
        Entity::Bucket(bucket) => of_bucket(bucket, name, given).boxed(),
        Entity::Session(handle) => of_session(handle, name, given, session).boxed(),
        Entity::Cursor(cursor) => of_cursor(cursor, name, session).boxed(),
    }
}

/// The answer to an operation that the driver does not have.
fn unknown() -> Outcome {
    Err(Failure::Unsupported(String::new()))
}

/// Runs an action, in its session where there is one.
macro_rules! run {
    ($action:expr, $session:expr) => {
        $action.optional($session, |action, session| action.session(session)).await?
    };
}

/// Runs an action that makes a cursor, in its session where there is one, and drains the cursor.
macro_rules! drain {
    ($action:expr, $session:expr) => {{
        let drained = match $session {
            None => $action.await?.try_collect::<Vec<_>>().await,
            Some(session) => {
                let mut cursor = $action.session(&mut *session).await?;
                cursor.stream(session).try_collect::<Vec<_>>().await
            }
        };
        if drained.is_err() {
            settle().await;
        }
        drained?
    }};
}

/// Runs an action that makes a cursor, which is iterated later.
macro_rules! open {
    ($action:expr, $given:expr, $session:expr) => {{
        let open = match $session {
            None => Iteration::Batches($action.batch().await?, VecDeque::new()),
            Some(session) => {
                Iteration::BatchesInSession($action.session(session).batch().await?, VecDeque::new())
            }
        };
        iterated(open, $given)
    }};
}

/// Opens a change stream.
macro_rules! watch {
    ($target:expr, $given:expr, $session:expr) => {{
        let pipeline = $given.documents("pipeline");
        let action =
            $target.watch().pipeline(pipeline).with_options($given.options::<ChangeStreamOptions>()?);
        let open = match $session {
            None => Iteration::Changes(Box::new(action.await?.with_type())),
            Some(session) => {
                Iteration::ChangesInSession(Box::new(action.session(session).await?.with_type()))
            }
        };
        iterated(open, $given)
    }};
}

fn iterated(open: Iteration, given: &Arguments) -> Outcome {
    let cursor = Cursor { open: Some(open).into(), session: given.session.clone() };
    Ok(Answer::Entity(Entity::Cursor(Arc::new(cursor))))
}

fn nothing() -> Outcome {
    Ok(Answer::Result(Bson::Null))
}

fn result(value: impl Serialize) -> Outcome {
    Ok(Answer::Result(serialize_to_bson(&value)?))
}

// ---- Clients -----------------------------------------------------------------------------------------------

async fn of_client(client: &Client, name: &str, given: &mut Arguments, session: Lent<'_>) -> Outcome {
    let driver = &client.driver;
    match name {
        "listDatabases" => {
            let action = driver.list_databases().with_options(given.options::<ListDatabasesOptions>()?);
            result(run!(action, session))
        }
        "listDatabaseNames" => {
            let action = driver.list_database_names().with_options(given.options::<ListDatabasesOptions>()?);
            result(run!(action, session))
        }
        "dropDatabase" => {
            let database = driver.database(&given.need::<String>("database")?);
            given.refuse_options()?;
            run!(database.drop(), session);
            nothing()
        }
        "appendMetadata" => {
            driver.append_metadata(given.need("driverInfoOptions")?)?;
            nothing()
        }
        "createChangeStream" => watch!(driver, given, session),
        "clientBulkWrite" => {
            let models = given.documents("models");
            let models = models.into_iter().map(write_model).collect::<Result<Vec<_>, _>>()?;
            let is_verbose = given.get::<bool>("verboseResults")?.unwrap_or_default();
            let action = driver.bulk_write(models).with_options(given.options::<BulkWriteOptions>()?);
            Ok(Answer::Result(if is_verbose {
                words::verbose_result(&run!(action.verbose_results(), session))
            } else {
                words::summary_result(&run!(action, session))
            }))
        }
        _ => unknown(),
    }
}

/// Returns a write of a bulk write. The driver's own types of them are only built, never read.
fn write_model(request: Document) -> Result<WriteModel, Failure> {
    let Some((name, Bson::Document(model))) = request.into_iter().next() else {
        return Err(Failure::Unsupported("a write is a document with one field".into()));
    };
    let given = &mut Arguments::new(model);
    let namespace: Namespace = given.need("namespace")?;
    let (hint, collation) = (given.take("hint"), given.get::<Document>("collation")?);
    let written = match name.as_str() {
        "insertOne" => {
            InsertOneModel::builder().namespace(namespace).document(given.document("document")).build().into()
        }
        "updateOne" => UpdateOneModel::builder()
            .namespace(namespace)
            .filter(given.document("filter"))
            .update(update(given))
            .array_filters(given.get::<Vec<Bson>>("arrayFilters")?)
            .collation(collation)
            .hint(hint)
            .upsert(given.get::<bool>("upsert")?)
            .sort(given.get::<Document>("sort")?)
            .build()
            .into(),
        "updateMany" => UpdateManyModel::builder()
            .namespace(namespace)
            .filter(given.document("filter"))
            .update(update(given))
            .array_filters(given.get::<Vec<Bson>>("arrayFilters")?)
            .collation(collation)
            .hint(hint)
            .upsert(given.get::<bool>("upsert")?)
            .build()
            .into(),
        "replaceOne" => ReplaceOneModel::builder()
            .namespace(namespace)
            .filter(given.document("filter"))
            .replacement(given.document("replacement"))
            .collation(collation)
            .hint(hint)
            .upsert(given.get::<bool>("upsert")?)
            .sort(given.get::<Document>("sort")?)
            .build()
            .into(),
        "deleteOne" => DeleteOneModel::builder()
            .namespace(namespace)
            .filter(given.document("filter"))
            .collation(collation)
            .hint(hint)
            .build()
            .into(),
        "deleteMany" => DeleteManyModel::builder()
            .namespace(namespace)
            .filter(given.document("filter"))
            .collation(collation)
            .hint(hint)
            .build()
            .into(),
        _ => return Err(Failure::Unsupported(format!("no model {name}"))),
    };
    given.refuse_options()?;
    Ok(written)
}

fn update(given: &mut Arguments) -> UpdateModifications {
    match given.take("update") {
        Some(Bson::Document(document)) => UpdateModifications::Document(document),
        Some(pipeline) => {
            let mut stages = Arguments::new(doc! {"pipeline": pipeline});
            UpdateModifications::Pipeline(stages.documents("pipeline"))
        }
        None => UpdateModifications::Document(Document::new()),
    }
}

// ---- Databases ---------------------------------------------------------------------------------------------

async fn of_database(database: &Database, name: &str, given: &mut Arguments, session: Lent<'_>) -> Outcome {
    match name {
        "runCommand" => {
            let (command, criteria) = (command(given), given.get("readPreference")?);
            given.refuse_options()?;
            let action = database.run_command(command);
            let action = action.optional(criteria, |action, criteria: SelectionCriteria| {
                action.selection_criteria(criteria)
            });
            result(run!(action, session))
        }
        "runCursorCommand" | "createCommandCursor" => {
            let command = command(given);
            let options = given.options::<RunCursorCommandOptions>()?;
            let action = database.run_cursor_command(command).with_options(options);
            if name == "createCommandCursor" {
                return open!(action, given, session);
            }
            result(drain!(action, session))
        }
        "aggregate" => {
            let pipeline = given.documents("pipeline");
            let action = database.aggregate(pipeline).with_options(given.options::<AggregateOptions>()?);
            result(drain!(action, session))
        }
        "listCollections" => {
            let action = database.list_collections().with_options(given.options::<ListCollectionsOptions>()?);
            result(drain!(action, session))
        }
        "listCollectionNames" => {
            let options = given.options::<ListCollectionsOptions>()?;
            let action = database.list_collection_names().with_options(options);
            result(match session {
                None => action.await?,
                Some(session) => action.session(session).await?,
            })
        }
        "createCollection" => {
            let name = given.need::<String>("collection")?;
            let options = given.options::<CreateCollectionOptions>()?;
            run!(database.create_collection(&name).with_options(options), session);
            Ok(Answer::Entity(Entity::Collection(database.collection(&name))))
        }
        "dropCollection" => {
            let collection = database.collection::<Document>(&given.need::<String>("collection")?);
            let options = given.options::<DropCollectionOptions>()?;
            run!(collection.drop().with_options(options), session);
            nothing()
        }
        "createChangeStream" => watch!(database, given, session),
        _ => unknown(),
    }
}

/// Takes a command, whose name comes first.
fn command(given: &mut Arguments) -> Document {
    let mut command = given.document("command");
    if let Some(Bson::String(name)) = given.take("commandName")
        && let Some(value) = command.remove(&name)
    {
        command = std::iter::once((name, value)).chain(command).collect();
    }
    command
}

// ---- Collections -------------------------------------------------------------------------------------------

async fn of_collection(
    collection: &Collection<Document>,
    name: &str,
    given: &mut Arguments,
    session: Lent<'_>,
) -> Outcome {
    match name {
        "insertOne" => {
            let document = given.document("document");
            let options = given.options::<InsertOneOptions>()?;
            result(run!(collection.insert_one(document).with_options(options), session))
        }
        "insertMany" => {
            let documents = given.documents("documents");
            let write_concern = given.get("writeConcern")?;
            let mut options = given.options::<InsertManyOptions>()?;
            options.write_concern = write_concern;
            let done = run!(collection.insert_many(documents).with_options(options), session);
            Ok(Answer::Result(words::insert_many_result(&done)))
        }
        "updateOne" => {
            let (filter, update) = (given.document("filter"), update(given));
            let options = given.options::<UpdateOptions>()?;
            let done = run!(collection.update_one(filter, update).with_options(options), session);
            Ok(Answer::Result(words::update_result(&done)))
        }
        "updateMany" => {
            let (filter, update) = (given.document("filter"), update(given));
            let options = given.options::<UpdateOptions>()?;
            let done = run!(collection.update_many(filter, update).with_options(options), session);
            Ok(Answer::Result(words::update_result(&done)))
        }
        "replaceOne" => {
            let (filter, replacement) = (given.document("filter"), given.document("replacement"));
            let options = given.options::<ReplaceOptions>()?;
            let action = collection.replace_one(filter, replacement).with_options(options);
            Ok(Answer::Result(words::update_result(&run!(action, session))))
        }
        "deleteOne" => {
            let filter = given.document("filter");
            let options = given.options::<DeleteOptions>()?;
            result(run!(collection.delete_one(filter).with_options(options), session))
        }
        "deleteMany" => {
            let filter = given.document("filter");
            let options = given.options::<DeleteOptions>()?;
            result(run!(collection.delete_many(filter).with_options(options), session))
        }
        "find" | "createFindCursor" => {
            let filter = given.document("filter");
            let (cursor_type, max_await_time) = (given.get("cursorType")?, given.get("maxAwaitTimeMS")?);
            let mut options = given.options::<FindOptions>()?;
            options.cursor_type = cursor_type;
            options.max_await_time = max_await_time;
            let action = collection.find(filter).with_options(options);
            if name == "createFindCursor" {
                return open!(action, given, session);
            }
            result(drain!(action, session))
        }
        "findOne" => {
            let filter = given.document("filter");
            let options = given.options::<FindOneOptions>()?;
            result(run!(collection.find_one(filter).with_options(options), session))
        }
        "findOneAndDelete" => {
            let filter = given.document("filter");
            let options = given.options::<FindOneAndDeleteOptions>()?;
            result(run!(collection.find_one_and_delete(filter).with_options(options), session))
        }
        "findOneAndReplace" => {
            let (filter, replacement) = (given.document("filter"), given.document("replacement"));
            let options = given.options::<FindOneAndReplaceOptions>()?;
            let action = collection.find_one_and_replace(filter, replacement).with_options(options);
            result(run!(action, session))
        }
        "findOneAndUpdate" => {
            let (filter, update) = (given.document("filter"), update(given));
            let options = given.options::<FindOneAndUpdateOptions>()?;
            let action = collection.find_one_and_update(filter, update).with_options(options);
            result(run!(action, session))
        }
        "aggregate" => {
            let pipeline = given.documents("pipeline");
            let action = collection.aggregate(pipeline).with_options(given.options::<AggregateOptions>()?);
            result(drain!(action, session))
        }
        "countDocuments" => {
            let filter = given.document("filter");
            let options = given.options::<CountOptions>()?;
            let count = run!(collection.count_documents(filter).with_options(options), session);
            result(count.cast_signed())
        }
        "estimatedDocumentCount" if session.is_none() => {
            let options = given.options::<EstimatedDocumentCountOptions>()?;
            result(collection.estimated_document_count().with_options(options).await?.cast_signed())
        }
        "distinct" => {
            let (field, filter) = (given.need::<String>("fieldName")?, given.document("filter"));
            let options = given.options::<DistinctOptions>()?;
            result(run!(collection.distinct(field, filter).with_options(options), session))
        }
        "createIndex" => {
            let keys = given.document("keys");
            let made = create_index_options(given)?;
            let index = IndexModel::builder().keys(keys).options(given.options::<IndexOptions>()?).build();
            result(run!(collection.create_index(index).with_options(made), session).index_name)
        }
        "createIndexes" => {
            let models = given.documents("models").into_iter().map(|model| {
                let given = &mut Arguments::new(model);
                let keys = given.document("keys");
                Ok(IndexModel::builder().keys(keys).options(given.options::<IndexOptions>()?).build())
            });
            let models = models.collect::<Result<Vec<_>, Failure>>()?;
            let options = create_index_options(given)?;
            given.refuse_options()?;
            result(run!(collection.create_indexes(models).with_options(options), session).index_names)
        }
        "dropIndex" => {
            let name = given.need::<String>("name")?;
            run!(collection.drop_index(name).with_options(given.options::<DropIndexOptions>()?), session);
            nothing()
        }
        "dropIndexes" => {
            run!(collection.drop_indexes().with_options(given.options::<DropIndexOptions>()?), session);
            nothing()
        }
        "listIndexes" => {
            let options = given.options::<ListIndexesOptions>()?;
            result(drain!(collection.list_indexes().with_options(options), session))
        }
        "listIndexNames" => {
            let options = given.options::<ListIndexesOptions>()?;
            let action = collection.list_index_names().with_options(options);
            result(match session {
                None => action.await?,
                Some(session) => action.session(session).await?,
            })
        }
        "drop" => {
            run!(collection.drop().with_options(given.options::<DropCollectionOptions>()?), session);
            nothing()
        }
        "createChangeStream" => watch!(collection, given, session),
        _ if session.is_none() => of_search_indexes(collection, name, given).await,
        _ => unknown(),
    }
}

/// Takes the options of the command that creates indexes, whose type of the driver is never read.
fn create_index_options(given: &mut Arguments) -> Result<CreateIndexOptions, Failure> {
    let mut options = CreateIndexOptions::default();
    options.commit_quorum = given.get("commitQuorum")?;
    options.max_time = given.get("maxTimeMS")?;
    options.write_concern = given.get("writeConcern")?;
    options.comment = given.take("comment");
    Ok(options)
}

async fn of_search_indexes(collection: &Collection<Document>, name: &str, given: &mut Arguments) -> Outcome {
    match name {
        "createSearchIndex" => {
            let model = given.need::<SearchIndexModel>("model")?;
            result(collection.create_search_index(model).await?)
        }
        "createSearchIndexes" => {
            let models = given.need::<Vec<SearchIndexModel>>("models")?;
            result(collection.create_search_indexes(models).await?)
        }
        "updateSearchIndex" => {
            let name = given.need::<String>("name")?;
            collection.update_search_index(name, given.document("definition")).await?;
            nothing()
        }
        "dropSearchIndex" => {
            collection.drop_search_index(given.need::<String>("name")?).await?;
            nothing()
        }
        "listSearchIndexes" => {
            let (name, options) = (given.get("name")?, given.get("aggregationOptions")?);
            let action = collection
                .list_search_indexes()
                .optional(name, |action, name: String| action.name(name))
                .optional(options, |action, options: AggregateOptions| action.aggregate_options(options));
            result(action.await?.try_collect::<Vec<_>>().await?)
        }
        _ => unknown(),
    }
}

// ---- Buckets -----------------------------------------------------------------------------------------------

async fn of_bucket(bucket: &GridFsBucket, name: &str, given: &mut Arguments) -> Outcome {
    match name {
        "upload" | "uploadWithId" => {
            let (file, id) = (given.need::<String>("filename")?, given.take("id"));
            let Some(Bson::Binary(source)) = given.take("source") else {
                return Err(Failure::Unsupported("the source of a file is $binary".into()));
            };
            given.take("disableMD5"); // the driver always works without MD5
            let options = given.options::<GridFsUploadOptions>()?;
            let action = bucket.open_upload_stream(file).with_options(options);
            let mut stream = action.optional(id, |action, id| action.id(id)).await?;
            stream.write_all(&source.bytes).await.map_err(words::of_stream)?;
            stream.close().await.map_err(words::of_stream)?;
            result(stream.id())
        }
        "download" => {
            downloaded(bucket.open_download_stream(given.take("id").unwrap_or_default()).await?).await
        }
        "downloadByName" => {
            let name = given.need::<String>("filename")?;
            let options = given.options::<GridFsDownloadByNameOptions>()?;
            downloaded(bucket.open_download_stream_by_name(name).with_options(options).await?).await
        }
        "delete" => {
            bucket.delete(given.take("id").unwrap_or_default()).await?;
            nothing()
        }
        "deleteByName" => {
            bucket.delete_by_name(given.need::<String>("filename")?).await?;
            nothing()
        }
        "rename" => {
            let id = given.take("id").unwrap_or_default();
            bucket.rename(id, given.need::<String>("newFilename")?).await?;
            nothing()
        }
        "renameByName" => {
            let (old, new) = (given.need::<String>("filename")?, given.need::<String>("newFilename")?);
            bucket.rename_by_name(old, new).await?;
            nothing()
        }
        "drop" => {
            bucket.drop().await?;
            nothing()
        }
        "find" => {
            let filter = given.document("filter");
            let options = given.options::<GridFsFindOptions>()?;
            result(bucket.find(filter).with_options(options).await?.try_collect::<Vec<_>>().await?)
        }
        _ => unknown(),
    }
}

async fn downloaded(mut stream: mongodb::gridfs::GridFsDownloadStream) -> Outcome {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.map_err(words::of_stream)?;
    Ok(Answer::Result(Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes })))
}

// ---- Sessions and cursors ----------------------------------------------------------------------------------

async fn of_session(handle: &Session, name: &str, given: &mut Arguments, session: Lent<'_>) -> Outcome {
    let Some(session) = session else {
        return unknown();
    };
    match name {
        "startTransaction" => {
            session.start_transaction().with_options(given.options::<TransactionOptions>()?).await?;
        }
        "commitTransaction" => {
            given.refuse_options()?;
            session.commit_transaction().await?;
        }
        "abortTransaction" => {
            given.refuse_options()?;
            session.abort_transaction().await?;
        }
        "withTransaction" => {
            let Some(callback) = given.callback.take() else {
                return unknown();
            };
            let action = session.start_transaction().with_options(given.options::<TransactionOptions>()?);
            let lent = (handle.clone(), callback);
            action
                .and_run(lent, |session, (handle, callback)| handle.lend(session, callback()).boxed())
                .await?;
        }
        "getSnapshotTime" => return result(session.snapshot_time()),
        _ => return unknown(),
    }
    nothing()
}

async fn of_cursor(cursor: &Cursor, name: &str, mut session: Lent<'_>) -> Outcome {
    let mut open = cursor.open.lock().await;
    if name == "close" {
        drop(open.take());
        settle().await;
        return nothing();
    }
    let Some(iteration) = open.as_mut() else {
        return Err(Failure::Nothing("the cursor is closed"));
    };
    loop {
        let next = iteration.next(session.as_deref_mut()).await?;
        match name {
            "iterateOnce" => return result(next),
            "iterateUntilDocumentOrError" if next.is_some() => return result(next),
            "iterateUntilDocumentOrError" => {}
            _ => return unknown(),
        }
    }
}
