# frozen_string_literal: true

require 'mongo'

# What the driver says, in the words of the specifications: events, errors, results, and the state of a session.
module Words
  Event = Mongo::Monitoring::Event

  SERVER_TYPES = {
    arbiter: 'RSArbiter', ghost: 'RSGhost', load_balancer: 'LoadBalancer', other: 'RSOther', primary: 'RSPrimary',
    secondary: 'RSSecondary', sharded: 'Mongos', standalone: 'Standalone', unknown: 'Unknown'
  }.freeze
  REASONS = { pool_closed: 'poolClosed', connection_error: 'connectionError', handshake_failed: 'error' }.freeze
  STATES = {
    no_transaction: 'none', starting_transaction: 'starting', transaction_in_progress: 'in_progress',
    transaction_committed: 'committed', transaction_aborted: 'aborted'
  }.freeze

  COMMAND = lambda { |event|
    { commandName: event.command_name, databaseName: event.database_name, requestId: event.request_id,
      connectionId: event.address.to_s, serverConnectionId: event.server_connection_id, serviceId: event.service_id }
  }
  ENDED = ->(event) { { **COMMAND[event], durationMS: event.duration * 1000.0 } }
  ADDRESS = ->(event) { { address: event.address.to_s } }
  CONNECTION = ->(event) { { address: event.address.to_s, connectionId: event.connection_id } }
  REASON = ->(event) { REASONS.fetch(event.reason, event.reason.to_s) }
  HEARTBEAT = ->(event) { { address: event.address.to_s, awaited: event.awaited? } }
  NOTHING = ->(_event) { {} }

  EVENTS = {
    Event::CommandStarted => ['commandStartedEvent', ->(event) { { **COMMAND[event], command: event.command } }],
    Event::CommandSucceeded => ['commandSucceededEvent', ->(event) { { **ENDED[event], reply: event.reply } }],
    Event::CommandFailed => [
      'commandFailedEvent', ->(event) { { **ENDED[event], failure: { message: event.message.to_s } } }
    ],
    Event::Cmap::PoolCreated => ['poolCreatedEvent', ADDRESS],
    Event::Cmap::PoolReady => ['poolReadyEvent', ADDRESS],
    Event::Cmap::PoolCleared => [
      'poolClearedEvent',
      lambda { |event|
        interrupts = event.options[:interrupt_in_use_connections]
        { **ADDRESS[event], serviceId: event.service_id, interruptInUseConnections: interrupts }
      }
    ],
    Event::Cmap::PoolClosed => ['poolClosedEvent', ADDRESS],
    Event::Cmap::ConnectionCreated => ['connectionCreatedEvent', CONNECTION],
    Event::Cmap::ConnectionReady => ['connectionReadyEvent', CONNECTION],
    Event::Cmap::ConnectionClosed => [
      'connectionClosedEvent', ->(event) { { **CONNECTION[event], reason: REASON[event] } }
    ],
    Event::Cmap::ConnectionCheckOutStarted => ['connectionCheckOutStartedEvent', ADDRESS],
    Event::Cmap::ConnectionCheckOutFailed => [
      'connectionCheckOutFailedEvent', ->(event) { { **ADDRESS[event], reason: REASON[event] } }
    ],
    Event::Cmap::ConnectionCheckedOut => ['connectionCheckedOutEvent', CONNECTION],
    Event::Cmap::ConnectionCheckedIn => ['connectionCheckedInEvent', CONNECTION],
    Event::ServerHeartbeatStarted => ['serverHeartbeatStartedEvent', HEARTBEAT],
    Event::ServerHeartbeatSucceeded => ['serverHeartbeatSucceededEvent', HEARTBEAT],
    Event::ServerHeartbeatFailed => ['serverHeartbeatFailedEvent', HEARTBEAT],
    Event::ServerOpening => ['serverOpeningEvent', ADDRESS],
    Event::ServerClosed => ['serverClosedEvent', ADDRESS],
    Event::ServerDescriptionChanged => [
      'serverDescriptionChangedEvent',
      lambda { |event|
        previous, new = [event.previous_description, event.new_description].map { |description| server(description) }
        { **ADDRESS[event], previousDescription: previous, newDescription: new }
      }
    ],
    Event::TopologyOpening => ['topologyOpeningEvent', NOTHING],
    Event::TopologyChanged => [
      'topologyDescriptionChangedEvent',
      lambda { |event|
        previous, new = [event.previous_topology, event.new_topology].map(&:display_name)
        { previousDescription: { type: previous }, newDescription: { type: new } }
      }
    ],
    Event::TopologyClosed => ['topologyClosedEvent', NOTHING]
  }.freeze

  module_function

  # Returns the kind of the event, and the function that gives its fields.
  def event(event)
    EVENTS.fetch(event.class)
  end

  def server(description)
    { type: SERVER_TYPES.fetch(description.server_type) }
  end

  # In the words of expectError.
  def error(error)
    report = { message: error.message, isClientError: true, isTimeoutError: error.is_a?(Mongo::Error::TimeoutError),
               labels: error.respond_to?(:labels) ? error.labels : [] }
    case error
    when Mongo::Error::OperationFailure::Family
      report.merge(isClientError: false, code: error.code, codeName: error.code_name, response: error.document)
    when Mongo::Error::BulkWriteError
      report.merge(bulk_error(error))
    else
      report
    end
  end

  def bulk_error(error)
    failures = %w[writeErrors writeConcernErrors].flat_map { |name| error.result[name] || [] }
    { isClientError: false, code: failures.first&.fetch('code', nil),
      message: failures.map { |failure| failure['errmsg'] }.join('; '),
      writeErrors: (error.result['writeErrors'] || []).to_h { |failure| write_error(failure) },
      result: partial(Mongo::BulkWrite::Result.new(error.result, true)) }
  end

  def write_error(failure)
    [failure['index'].to_s, { code: failure['code'], message: failure['errmsg'] }]
  end

  # Ids of upserts are left out, because their requests are not known.
  def partial(result)
    (result.upserted_ids || []).empty? ? { **bulk_counts(result), upsertedIds: {} } : bulk_counts(result)
  end

  # The results of writes, in the form of expectResult.

  def inserted_one(result)
    result.acknowledged? ? { insertedId: result.inserted_id } : { acknowledged: false }
  end

  def inserted_many(result)
    result.acknowledged? ? { insertedIds: by_index(result.inserted_ids) } : { acknowledged: false }
  end

  def updated(result)
    return { acknowledged: false } unless result.acknowledged?

    { matchedCount: result.matched_count, modifiedCount: result.modified_count, upsertedCount: result.upserted_count,
      upsertedId: result.upserted_id }.reject { |name, value| name == :upsertedId && value.nil? }
  end

  def deleted(result)
    result.acknowledged? ? { deletedCount: result.deleted_count } : { acknowledged: false }
  end

  def bulk(result, requests)
    return { acknowledged: false } unless result.acknowledged?

    { **bulk_counts(result),
      insertedIds: at_requests(result.inserted_ids || [], requests) { |name, _body| name == 'insertOne' },
      upsertedIds: at_requests(result.upserted_ids || [], requests) { |_name, body| body['upsert'] } }
  end

  def bulk_counts(result)
    %w[inserted matched modified deleted upserted].to_h do |name|
      ["#{name}Count", result.public_send("#{name}_count") || 0]
    end
  end

  # The driver gives the ids of a bulk write without the indexes of their requests, which only all of a kind tell.
  def at_requests(ids, requests, &made)
    indexes = requests.each_index.select { |index| made.call(*requests[index].first) }
    indexes.size == ids.size ? indexes.map(&:to_s).zip(ids).to_h : by_index(ids)
  end

  def by_index(ids)
    ids.each_with_index.to_h { |id, index| [index.to_s, id] }
  end

  # What a session is pinned to is the address of a mongos; behind a load balancer the driver knows a connection only.
  def session(session)
    { lsid: session.session_id, dirty: session.dirty? || false,
      pinned: (session.pinned_server&.address || session.pinned_connection_global_id)&.to_s,
      transaction: STATES.fetch(session.instance_variable_get(:@state)) }
  end
end
