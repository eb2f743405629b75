# frozen_string_literal: true

require 'mongo'

require_relative 'words'

# What this adapter, or the driver, does not do: a case that asks for it is skipped with the reason.
class Unsupported < StandardError; end

# Options of scenarios as those of the driver, which ignores what it does not have: the scenario would seem to hold.
module Options
  CONCERNS = %w[readConcern readPreference writeConcern].freeze
  TRANSACTION = [*CONCERNS, 'maxCommitTimeMS', 'timeoutMS'].freeze

  # The driver has some options under names of its own.
  NAMES = {
    'readPreference' => :read, 'showRecordId' => :show_disk_loc, 'journal' => :j, 'wtimeoutMS' => :wtimeout,
    'maxStalenessSeconds' => :max_staleness, 'chunkSizeBytes' => :chunk_size, 'timeseries' => :time_series,
    'expireAfterSeconds' => :expire_after, 'disableMD5' => :disable_md5
  }.freeze

  VALUES = {
    'readPreference' => ->(given) { convert(given, given.keys) },
    'mode' => ->(name) { snake_case(name) },
    'tagSets' => ->(sets) { sets.map { |set| set.transform_keys(&:to_sym).to_h } },
    'readConcern' => ->(given) { { level: given['level'].to_sym } },
    'writeConcern' => ->(given) { convert(given, given.keys) },
    'w' => ->(given) { given == 'majority' ? :majority : given },
    'returnDocument' => ->(name) { snake_case(name) },
    'cursorType' => ->(name) { snake_case(name) },
    'timeoutMode' => ->(name) { snake_case(name) },
    'defaultTransactionOptions' => ->(given) { convert(given, TRANSACTION) }
  }.freeze

  module_function

  # Returns the driver's options; raises Unsupported for one that is not allowed.
  def convert(given, allowed)
    given.to_h do |name, value|
      raise Unsupported, "the driver does not take #{name} here" unless allowed.include?(name)

      [NAMES.fetch(name) { snake_case(name) }, VALUES.fetch(name, :itself.to_proc).call(value)]
    end
  end

  def snake_case(name)
    name.gsub(/(?<=[a-z])(?=[A-Z])/, '_').downcase.to_sym
  end
end

# Clients with their subscribers, databases, collections, sessions and buckets.
module Entities
  URI_OPTIONS = Mongo::URI::OptionsMapper::URI_OPTION_MAP

  SESSION = %w[causalConsistency snapshot snapshotTime defaultTransactionOptions defaultTimeoutMS].freeze
  BUCKET = [*Options::CONCERNS, 'bucketName', 'chunkSizeBytes', 'timeoutMS'].freeze

  MAKERS = {
    'database' => lambda { |client, spec|
      given = Options.convert(spec.fetch('databaseOptions', {}), [*Options::CONCERNS, 'timeoutMS'])
      client.with(database: spec['databaseName'], **given).database
    },
    'collection' => lambda { |database, spec|
      given = Options.convert(spec.fetch('collectionOptions', {}), [*Options::CONCERNS, 'timeoutMS'])
      database[spec['collectionName'], given]
    },
    'session' => lambda { |client, spec|
      client.start_session(Options.convert(spec.fetch('sessionOptions', {}), SESSION))
    },
    'bucket' => ->(database, spec) { database.fs(Options.convert(spec.fetch('bucketOptions', {}), BUCKET)) }
  }.freeze

  module_function

  # Returns a client that reports its events to the block. It begins to monitor, and waits for nobody. Retries of a
  # kind older than the specifications are off, as in the driver's own tests of scenarios.
  def client(params, &report)
    params['options'].each_key do |name|
      raise Unsupported, "the driver has no option #{name}" unless URI_OPTIONS.key?(name.downcase)
    end
    Mongo::Client.new(
      params['uri'],
      scan: false,
      max_read_retries: 0,
      max_write_retries: 0,
      sdam_proc: ->(made) { Subscriber.new(report, params['observeEvents']).join(made) },
      **server_api(params['serverApi'])
    )
  end

  def server_api(given)
    given ? { server_api: Options.convert(given, given.keys) } : {}
  end

  def make(kind, parent, spec)
    MAKERS.fetch(kind) { raise Unsupported, "no entity #{kind}" }.call(parent, spec)
  end
end

# One subscriber of all topics, which are published in two ways: by method, and by event.
class Subscriber
  TOPICS = [
    Mongo::Monitoring::COMMAND,
    Mongo::Monitoring::CONNECTION_POOL,
    Mongo::Monitoring::SERVER_HEARTBEAT,
    Mongo::Monitoring::SERVER_OPENING,
    Mongo::Monitoring::SERVER_CLOSED,
    Mongo::Monitoring::SERVER_DESCRIPTION_CHANGED,
    Mongo::Monitoring::TOPOLOGY_OPENING,
    Mongo::Monitoring::TOPOLOGY_CHANGED,
    Mongo::Monitoring::TOPOLOGY_CLOSED
  ].freeze

  def initialize(report, wanted)
    @report = report
    @wanted = wanted
  end

  def join(client)
    TOPICS.each { |topic| client.subscribe(topic, self) }
  end

  def published(event)
    kind, fields = Words.event(event)
    @report.call(kind, fields.call(event).compact) if @wanted.include?(kind)
  end

  alias started published
  alias succeeded published
  alias failed published
end
