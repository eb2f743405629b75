# What a user of the Ruby driver does: connect, write, read, and survive a lost connection.
require "json"
require "uri"
# The driver is older than its interpreter: Ruby 3 took this away.
URI.singleton_class.define_method(:decode) { |text| URI.decode_www_form_component(text) } unless URI.respond_to?(:decode)
require "mongo"

Mongo::Logger.logger.level = Logger::FATAL
client = Mongo::Client.new(ARGV[0], retry_writes: true)
things = client.use("db")[:things]
things.insert_many([{ _id: 1, x: 1 }, { _id: 2, x: 2 }])
things.update_one({ _id: 1 }, "$inc" => { x: 10 })
things.delete_one(_id: 2)

admin = client.use("admin").database
admin.command(
  configureFailPoint: "failCommand",
  mode: { times: 1 },
  data: { failCommands: ["insert"], closeConnection: true },
)
things.insert_one(_id: 3, x: 3, text: "x" * 100_000)

found = things.find.projection(text: 0).sort(_id: 1).to_a
status = admin.command(connectionStatus: 1).documents.first
puts JSON.generate(found: found, users: status["authInfo"]["authenticatedUsers"], version: Mongo::VERSION)
client.close
