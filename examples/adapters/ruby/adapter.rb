# frozen_string_literal: true

# The Ruby driver as an adapter of pushbackd: requests come in and answers go out, one JSON document a line.
#
#     gem install mongo
#     pushbackd conform SCENARIOS --adapter "cmd:ruby examples/adapters/ruby/adapter.rb"
#
# This file speaks the protocol (docs/WRITING-ADAPTERS.md); entities.rb makes what scenarios name, operations.rb does
# what they ask for, and words.rb says what came of it in the words of the specifications.

require 'mongo'

require_relative 'entities'
require_relative 'operations'
require_relative 'words'

Mongo::Logger.logger = Logger.new($stderr, level: Logger::FATAL)

# Requests are threads, because one may wait while others are served.
class Adapter
  # The driver has no structured log messages and no bulkWrite of a client. Spans need gems that it does not ask for.
  FEATURES = %w[
    COMMAND_EVENTS POOL_EVENTS SDAM_EVENTS SESSIONS TRANSACTIONS CHANGE_STREAMS GRIDFS FIND_CURSORS COMMAND_CURSORS
    TIMEOUT_MS SERVER_API MAX_ADAPTIVE_RETRIES
  ].freeze
  METHODS = %w[
    hello client create call return session advanceClusterTime topology closeClient close
  ].freeze
  ENTITIES = [Mongo::Collection, Mongo::Collection::View::ChangeStream, Mongo::Cursor].freeze

  def initialize(output)
    @output = output
    @writing = Mutex.new
    @entities = {} # by the id of the request that created them
    @clients = []
    @errors = {} # what failed, by the id of the request that it failed
    @callbacks = {} # queues of transactions that wait for their callback, by the id of their call
  end

  def serve(request)
    id, method, on = request.values_at('id', 'method', 'on')
    raise Unsupported, "no method #{method}" unless METHODS.include?(method)

    answer(id, __send__("on_#{method}", request.fetch('params', {}), id, on))
  rescue Unsupported, Mongo::Error::UnsupportedFeatures => e # the latter is for servers that are too old
    answer(id, { unsupported: e.message })
  rescue StandardError => e
    @errors[id] = e
    answer(id, { error: Words.error(e) })
  end

  private

  def clock
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def tell(message)
    line = message.to_extended_json
    @writing.synchronize do
      @output.write(line, "\n")
      @output.flush
    end
  end

  # Answers carry the clock, so that it can be compared with that of the deployment.
  def answer(id, outcome)
    tell({ id:, **outcome, clock: })
  end

  def keep(id, entity)
    @entities[id] = entity
    { entity: true }
  end

  def on_hello(*)
    driver = { name: 'mongo-ruby-driver', version: Mongo::VERSION }
    { result: { protocol: 1, name: 'ruby', driver:, features: FEATURES } }
  end

  def on_client(params, id, _on)
    client = Entities.client(params) do |kind, fields|
      tell({ event: { client: id, kind:, at: clock, fields: } })
    end
    @clients << client
    keep(id, client)
  end

  def on_create(params, id, on)
    keep(id, Entities.make(params['kind'], @entities[on], params['spec']))
  end

  def on_call(params, id, on)
    kind, operation, given = params.values_at('kind', 'operation', 'arguments')
    given['session'] = @entities[given['session']] if given.key?('session')
    given['callback'] = -> { call_back(id) } if given.key?('callback')
    result = Operations.call(kind, operation, @entities[on], given)
    ENTITIES.any? { |type| result.is_a?(type) } ? keep(id, result) : { result: }
  end

  def on_return(params, _id, on)
    @callbacks[on] << params['error']
    { result: nil }
  end

  def on_session(_params, _id, on)
    { result: Words.session(@entities[on]) }
  end

  def on_advanceClusterTime(params, _id, on)
    @entities[on].advance_cluster_time(Mongo::ClusterTime[params['clusterTime']])
    { result: nil }
  end

  def on_topology(_params, _id, on)
    topology = @entities[on].cluster.topology
    primary = topology.server_descriptions.values.find(&:primary?)
    { result: { type: topology.display_name, primary: primary&.address&.to_s } }
  end

  def on_closeClient(_params, _id, on)
    @entities[on].close
    { result: nil }
  end

  def on_close(*)
    @clients.map { |client| Thread.new { client.close } }.each(&:join)
    [@clients, @entities, @errors, @callbacks].each(&:clear)
    { result: nil }
  end

  # The runner runs a transaction's callback; the driver waits for it here.
  def call_back(id)
    @callbacks[id] ||= Queue.new
    tell({ callback: id })
    error = @callbacks[id].pop
    raise @errors.fetch(error) { RuntimeError.new('the scenario failed') } if error
  end
end

# The end of the input is the end of the process.
adapter = Adapter.new($stdout)
$stdin.each_line do |line|
  request = BSON::ExtJSON.parse(line)
  Thread.new { adapter.serve(request) }
end
exit!(0)
