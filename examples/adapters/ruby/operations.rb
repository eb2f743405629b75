# frozen_string_literal: true

require 'mongo'
require 'stringio'

require_relative 'entities'
require_relative 'words'

# The operations of the unified test format, by kind of entity and by name.
module Operations
  EVERY = %w[session comment timeoutMS].freeze
  READ = (EVERY + %w[maxTimeMS collation hint readPreference readConcern]).freeze
  FIND = (READ + %w[
    allowDiskUse allowPartialResults batchSize cursorType let limit max maxAwaitTimeMS min noCursorTimeout oplogReplay
    projection returnKey showRecordId skip sort timeoutMode
  ]).freeze
  AGGREGATE = (READ + %w[
    allowDiskUse batchSize bypassDocumentValidation let maxAwaitTimeMS timeoutMode writeConcern
  ]).freeze
  COUNT = (READ + %w[limit skip]).freeze
  INSERT = (EVERY + %w[bypassDocumentValidation writeConcern]).freeze
  DELETE = (EVERY + %w[collation hint let writeConcern]).freeze
  UPDATE = (DELETE + %w[arrayFilters bypassDocumentValidation upsert sort]).freeze
  FIND_AND_MODIFY = (UPDATE + %w[maxTimeMS projection returnDocument]).freeze
  BULK = (INSERT + %w[let ordered]).freeze
  MODEL = %w[document filter update replacement upsert collation arrayFilters hint sort].freeze
  WATCH = (EVERY + %w[
    batchSize collation fullDocument fullDocumentBeforeChange maxAwaitTimeMS resumeAfter showExpandedEvents startAfter
    startAtOperationTime timeoutMode
  ]).freeze
  COMMAND_CURSOR = (EVERY + %w[batchSize cursorType maxTimeMS readPreference timeoutMode]).freeze
  CREATE = %w[
    capped changeStreamPreAndPostImages clusteredIndex collation expireAfterSeconds max pipeline size timeseries
    validator viewOn writeConcern
  ].freeze
  INDEX = (EVERY + %w[
    background bits bucketSize collation commitQuorum name partialFilterExpression sparse storageEngine unique weights
    wildcardProjection
  ]).freeze
  LISTED = (EVERY + %w[batchSize timeoutMode]).freeze
  COLLECTIONS = (LISTED + %w[filter authorizedCollections]).freeze
  DATABASES = (EVERY + %w[authorizedDatabases]).freeze
  UPLOAD = %w[chunkSizeBytes disableMD5 metadata timeoutMS].freeze
  FILES = %w[allowDiskUse batchSize limit noCursorTimeout skip sort timeoutMS].freeze

  module_function

  # Returns what the operation does; raises Unsupported, and the errors of the driver.
  def call(kind, name, target, given)
    operation = OPERATIONS.dig(kind, name)
    raise Unsupported, "no #{name} on a #{kind}" unless operation

    operation.call(target, given.dup)
  end

  # Takes the named arguments out; what is left are options.
  def take(given, *names, allowed:)
    [*names.map { |name| given.delete(name) }, Options.convert(given, allowed)]
  end

  def find(collection, given)
    filter, options = take(given, 'filter', allowed: FIND)
    collection.find(filter, options.transform_keys({ max: :max_value, min: :min_value }))
  end

  def aggregate(target, given)
    pipeline, options = take(given, 'pipeline', allowed: AGGREGATE)
    target.aggregate(pipeline, options).to_a
  end

  # A change stream is on the server when it is made.
  def watch(target, given)
    pipeline, options = take(given, 'pipeline', allowed: WATCH)
    target.watch(pipeline, options)
  end

  # A command's name comes first, whatever its order in the file.
  def ordered(given)
    command = given.delete('command')
    name = given.delete('commandName') || command.keys.first
    BSON::Document.new(name => command[name]).merge(command)
  end

  def command_cursor(database, given)
    command = ordered(given)
    database.cursor_command(command, Options.convert(given, COMMAND_CURSOR))
  end

  def iterate(cursor)
    cursor.refresh_timeout! if cursor.respond_to?(:refresh_timeout!)
    loop do
      document = cursor.try_next
      return document if document
    end
    raise Mongo::Error::InvalidCursorOperation, 'the cursor has no more documents'
  end

  def requests(given)
    given.map do |request|
      name, body = request.first
      model = Options.convert(body, MODEL)
      { Options.snake_case(name) => name == 'insertOne' ? model[:document] : model }
    end
  end

  def names(documents)
    documents.map { |document| document['name'] }
  end

  def download(stream)
    BSON::Binary.new(stream.read.to_s)
  ensure
    stream.close
  end

  CURSOR = {
    'iterateUntilDocumentOrError' => ->(cursor, _given) { iterate(cursor) },
    'iterateOnce' => ->(cursor, _given) { cursor.try_next },
    'close' => ->(cursor, given) { cursor.close(Options.convert(given, ['timeoutMS'])) && nil }
  }.freeze

  CLIENT = {
    'listDatabases' => lambda { |client, given|
      filter, options = take(given, 'filter', allowed: DATABASES)
      client.list_databases(filter || {}, false, options)
    },
    'listDatabaseNames' => lambda { |client, given|
      filter, options = take(given, 'filter', allowed: DATABASES)
      client.database_names(filter || {}, options)
    },
    'dropDatabase' => lambda { |client, given|
      name, options = take(given, 'database', allowed: EVERY + ['writeConcern'])
      client.use(name).database.drop(options) && nil
    },
    'createChangeStream' => ->(client, given) { watch(client, given) }
  }.freeze

  DATABASE = {
    'runCommand' => lambda { |database, given|
      command = ordered(given)
      database.command(command, Options.convert(given, %w[session readPreference timeoutMS])).documents.first
    },
    'runCursorCommand' => ->(database, given) { command_cursor(database, given).to_a },
    'createCommandCursor' => ->(database, given) { command_cursor(database, given) },
    'aggregate' => ->(database, given) { aggregate(database, given) },
    'listCollections' => lambda { |database, given|
      database.list_collections(Options.convert(given, COLLECTIONS))
    },
    'listCollectionNames' => lambda { |database, given|
      database.collection_names(Options.convert(given, COLLECTIONS))
    },
    'createCollection' => lambda { |database, given|
      name, session, options = take(given, 'collection', 'session', allowed: CREATE)
      collection = database[name, options]
      collection.create({ session: }.compact)
      collection
    },
    'dropCollection' => lambda { |database, given|
      name, options = take(given, 'collection', allowed: %w[session timeoutMS writeConcern])
      database[name].drop(options) && nil
    },
    'createChangeStream' => ->(database, given) { watch(database, given) }
  }.freeze

  COLLECTION = {
    'insertOne' => lambda { |collection, given|
      document, options = take(given, 'document', allowed: INSERT)
      Words.inserted_one(collection.insert_one(document, options))
    },
    'insertMany' => lambda { |collection, given|
      documents, options = take(given, 'documents', allowed: INSERT + ['ordered'])
      Words.inserted_many(collection.insert_many(documents, options))
    },
    'updateOne' => lambda { |collection, given|
      filter, update, options = take(given, 'filter', 'update', allowed: UPDATE)
      Words.updated(collection.update_one(filter, update, options))
    },
    'updateMany' => lambda { |collection, given|
      filter, update, options = take(given, 'filter', 'update', allowed: UPDATE - ['sort'])
      Words.updated(collection.update_many(filter, update, options))
    },
    'replaceOne' => lambda { |collection, given|
      filter, replacement, options = take(given, 'filter', 'replacement', allowed: UPDATE - ['arrayFilters'])
      Words.updated(collection.replace_one(filter, replacement, options))
    },
    'deleteOne' => lambda { |collection, given|
      filter, options = take(given, 'filter', allowed: DELETE)
      Words.deleted(collection.delete_one(filter, options))
    },
    'deleteMany' => lambda { |collection, given|
      filter, options = take(given, 'filter', allowed: DELETE)
      Words.deleted(collection.delete_many(filter, options))
    },
    'bulkWrite' => lambda { |collection, given|
      models, options = take(given, 'requests', allowed: BULK)
      Words.bulk(collection.bulk_write(requests(models), options), models)
    },
    'findOneAndDelete' => lambda { |collection, given|
      filter, options = take(given, 'filter', allowed: FIND_AND_MODIFY - %w[upsert arrayFilters returnDocument])
      collection.find_one_and_delete(filter, options)
    },
    'findOneAndReplace' => lambda { |collection, given|
      filter, replacement, options = take(given, 'filter', 'replacement', allowed: FIND_AND_MODIFY - ['arrayFilters'])
      collection.find_one_and_replace(filter, replacement, options)
    },
    'findOneAndUpdate' => lambda { |collection, given|
      filter, update, options = take(given, 'filter', 'update', allowed: FIND_AND_MODIFY)
      collection.find_one_and_update(filter, update, options)
    },
    'find' => ->(collection, given) { find(collection, given).to_a },
    'findOne' => ->(collection, given) { find(collection, given).limit(-1).first },
    'createFindCursor' => lambda { |collection, given|
      view = find(collection, given)
      view.each
      view.cursor
    },
    'aggregate' => ->(collection, given) { aggregate(collection, given) },
    'count' => lambda { |collection, given|
      filter, options = take(given, 'filter', allowed: COUNT)
      collection.count(filter, options)
    },
    'countDocuments' => lambda { |collection, given|
      filter, options = take(given, 'filter', allowed: COUNT)
      collection.count_documents(filter, options)
    },
    'estimatedDocumentCount' => lambda { |collection, given|
      collection.estimated_document_count(Options.convert(given, EVERY + %w[maxTimeMS readPreference]))
    },
    'distinct' => lambda { |collection, given|
      field, filter, options = take(given, 'fieldName', 'filter', allowed: READ - ['hint'])
      collection.distinct(field, filter, options)
    },
    'createIndex' => lambda { |collection, given|
      keys, options = take(given, 'keys', allowed: INDEX)
      collection.indexes.create_one(keys, options)
      options[:name] || keys.flatten.join('_')
    },
    'dropIndex' => lambda { |collection, given|
      name, options = take(given, 'name', allowed: EVERY)
      collection.indexes.drop_one(name, options) && nil
    },
    'dropIndexes' => ->(collection, given) { collection.indexes.drop_all(Options.convert(given, EVERY)) && nil },
    'listIndexes' => ->(collection, given) { collection.indexes(Options.convert(given, LISTED)).to_a },
    'listIndexNames' => ->(collection, given) { names(collection.indexes(Options.convert(given, LISTED))) },
    'createSearchIndex' => lambda { |collection, given|
      model = given['model']
      given = model.slice('name', 'type').transform_keys(&:to_sym)
      collection.search_indexes.create_one(model['definition'], **given)
    },
    'createSearchIndexes' => lambda { |collection, given|
      collection.search_indexes.create_many(given['models'].map { |model| model.transform_keys(&:to_sym).to_h })
    },
    'updateSearchIndex' => lambda { |collection, given|
      collection.search_indexes.update_one(given['definition'], name: given['name']) && nil
    },
    'dropSearchIndex' => ->(collection, given) { collection.search_indexes.drop_one(name: given['name']) && nil },
    'listSearchIndexes' => lambda { |collection, given|
      options = Options.convert(given.fetch('aggregationOptions', {}), AGGREGATE)
      collection.search_indexes(**{ name: given['name'] }.compact, aggregate: options).to_a
    },
    'createChangeStream' => ->(collection, given) { watch(collection, given) }
  }.freeze

  BUCKET = {
    'upload' => lambda { |bucket, given|
      name, source, options = take(given, 'filename', 'source', allowed: UPLOAD)
      bucket.upload_from_stream(name, StringIO.new(source.data), options)
    },
    'uploadWithId' => lambda { |bucket, given|
      id, name, source, options = take(given, 'id', 'filename', 'source', allowed: UPLOAD)
      bucket.upload_from_stream(name, StringIO.new(source.data), file_id: id, **options) && nil
    },
    'download' => lambda { |bucket, given|
      id, = take(given, 'id', allowed: [])
      download(bucket.open_download_stream(id))
    },
    'downloadByName' => lambda { |bucket, given|
      name, options = take(given, 'filename', allowed: %w[revision timeoutMS])
      download(bucket.open_download_stream_by_name(name, options))
    },
    'delete' => lambda { |bucket, given|
      id, options = take(given, 'id', allowed: ['timeoutMS'])
      bucket.delete(id, options) && nil
    },
    'drop' => ->(bucket, given) { bucket.drop(Options.convert(given, ['timeoutMS'])) && nil },
    'find' => lambda { |bucket, given|
      filter, options = take(given, 'filter', allowed: FILES)
      bucket.find(filter, options).to_a
    }
  }.freeze

  SESSION = {
    'startTransaction' => lambda { |session, given|
      session.start_transaction(Options.convert(given, Options::TRANSACTION)) && nil
    },
    'commitTransaction' => lambda { |session, given|
      session.commit_transaction(Options.convert(given, ['timeoutMS'])) && nil
    },
    'abortTransaction' => lambda { |session, given|
      session.abort_transaction(Options.convert(given, ['timeoutMS'])) && nil
    },
    'withTransaction' => lambda { |session, given|
      callback, options = take(given, 'callback', allowed: Options::TRANSACTION)
      session.with_transaction(options) { callback.call }
      nil
    },
    'endSession' => ->(session, _given) { session.end_session && nil },
    'getSnapshotTime' => ->(session, _given) { session.snapshot_timestamp }
  }.freeze

  OPERATIONS = {
    'client' => CLIENT, 'database' => DATABASE, 'collection' => COLLECTION, 'bucket' => BUCKET, 'session' => SESSION,
    'findCursor' => CURSOR, 'commandCursor' => CURSOR, 'changeStream' => CURSOR
  }.freeze
end
