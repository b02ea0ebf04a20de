# redis-rb, as Debian packages it.
require "digest"
require "redis"

PORT = ENV.fetch("SEPAL_PORT").to_i
PASSWORD = ENV.fetch("SEPAL_PASSWORD")
USER, USER_PASSWORD = ENV.fetch("SEPAL_USER"), ENV.fetch("SEPAL_USER_PASSWORD")
PIPELINE, BATCH = 10_000, 100_000
# A filter of 1% may call so many new items known.
NEW_MIN = 0.97
ADD_SCRIPT = "return redis.call('BF.ADD', KEYS[1], ARGV[1])".freeze
BINARY_KEY = ("binary:".b + (0..255).to_a.pack("C*")).freeze
BINARY_ITEM = (0..255).to_a.reverse.pack("C*").freeze

# The program uses nothing that the library will remove.
Redis.raise_deprecations = true
$stdout.sync = true

def ok(part)
  puts "ok #{part}"
end

def expect(got, wanted, what)
  abort "#{what}: #{got.inspect}" unless got == wanted
end

# The block must raise an error of the server that has the text.
def refused(text, what)
  got = yield
rescue Redis::BaseError => error
  abort "#{what}: #{error.message}" unless error.message.include?(text)
else
  abort "#{what}: #{got.inspect}"
end

def expect_mostly_new(replies, count, what)
  expect(replies.length, count, "replies of #{what}")
  expect(replies.count(1) > NEW_MIN * count, true, "new items of #{what}")
end

def connect(**credentials)
  credentials = { password: PASSWORD } if credentials.empty?
  Redis.new(host: "127.0.0.1", port: PORT, **credentials)
end

def auth
  refused("NOAUTH", "no password") { connect(password: nil).ping }
  refused("WRONGPASS", "a wrong password") { connect(password: "wrong").ping }
  refused("WRONGPASS", "a wrong password of a user") { connect(username: "default", password: "wrong").ping }
  expect(connect.ping, "PONG", "a password")
  expect(connect(username: "default", password: PASSWORD).ping("hello"), "hello", "a user and a password")
  expect(Redis.new(url: "redis://default:#{PASSWORD}@127.0.0.1:#{PORT}/2", id: "tour").client(:getname), "tour", "an address")
  ok "auth"
  other = connect(username: USER, password: USER_PASSWORD)
  expect(other.call("ACL", "WHOAMI"), USER, "another user")
  expect(other.auth("default", PASSWORD), "OK", "a change of the user")
  ok "user"
end

def move_filter(redis)
  expect(redis.call("BF.MADD", "source", "a", "b"), [1, 1], "BF.MADD")
  iterator = 0
  loop do
    iterator, data = redis.call("BF.SCANDUMP", "source", iterator)
    break if iterator.zero?

    expect(redis.call("BF.LOADCHUNK", "moved", iterator, data), "OK", "BF.LOADCHUNK")
  end
  expect(redis.call("BF.MEXISTS", "moved", "a", "b", "c"), [1, 1, 0], "a filter that was moved")
end

def filters(redis)
  expect(redis.call("BF.RESERVE", "users", 0.001, 1000, "EXPANSION", 4), "OK", "BF.RESERVE")
  expect(redis.call("BF.RESERVE", "fixed", 0.01, 100, "NONSCALING"), "OK", "BF.RESERVE NONSCALING")
  expect(redis.call("BF.ADD", "users", "alice"), 1, "BF.ADD")
  expect(redis.call("BF.MADD", "users", %w[alice bob]), [0, 1], "BF.MADD")
  expect(redis.call(%w[BF.INSERT other CAPACITY 500 ERROR 0.01 ITEMS x y]), [1, 1], "BF.INSERT")
  expect(redis.call("BF.EXISTS", "users", "alice"), 1, "BF.EXISTS")
  expect(redis.call("BF.EXISTS", "users", "carol"), 0, "BF.EXISTS of a new item")
  expect(redis.call("BF.MEXISTS", "users", "alice", "carol"), [1, 0], "BF.MEXISTS")
  expect(redis.call("BF.CARD", "users"), 2, "BF.CARD")
  info = redis.call("BF.INFO", "users").each_slice(2).to_h
  expect(info.values_at("Capacity", "Expansion rate", "Number of items inserted"), [1000, 4, 2], "BF.INFO")
  expect(redis.call("BF.INFO", "users", "ITEMS"), [2], "BF.INFO ITEMS")
  move_filter(redis)
end

# The methods for keys, which need not know what a key holds.
def keys(redis)
  expect(redis.exists?("users"), true, "exists?")
  expect(redis.expire("fixed", 100), true, "expire")
  expect((1..100).cover?(redis.ttl("fixed")), true, "ttl")
  expect(redis.persist("fixed"), true, "persist")
  expect(redis.rename("fixed", "renamed"), "OK", "rename")
  expect(redis.type("renamed"), "MBbloom--", "type")
  expect(redis.restore("restored", 0, redis.dump("users")), "OK", "restore")
  expect(redis.call("BF.MEXISTS", "restored", "alice", "carol"), [1, 0], "a restored filter")
  expect(redis.scan_each(match: "re*").sort, %w[renamed restored], "scan_each")
  expect(redis.scan_each(match: "re*", type: "MBbloom--").count, 2, "scan_each of a type")
  expect(redis.del("renamed", "restored"), 2, "del")
end

def strings(redis)
  expect(redis.setbit("bits", 7, 1), 0, "setbit")
  expect([redis.getbit("bits", 7), redis.getbit("bits", 8)], [1, 0], "getbit")
  expect([redis.bitcount("bits"), redis.bitpos("bits", 1)], [1, 7], "bitcount and bitpos")
  expect(redis.get("bits"), "\1", "get")
  expect(redis.set("text", BINARY_ITEM, nx: true, ex: 100), true, "set")
  expect(redis.set("text", "a", nx: true), false, "set of a key that is there")
  expect(redis.mapped_mget("text", "users").transform_values { |value| value&.b }, { "text" => BINARY_ITEM, "users" => nil }, "mapped_mget")
  refused("WRONGTYPE", "BF.ADD to a string") { redis.call("BF.ADD", "text", "a") }
  expect(redis.unlink("text", "bits"), 2, "unlink")
end

def server(redis)
  expect(redis.info["loading"], "0", "info")
  expect(redis.info(:commandstats).dig("bf.reserve", "calls"), "2", "info of commands")
  expect(redis.client(:setname, "tour"), "OK", "client setname")
  expect(redis.client(:list).any? { |client| client["name"] == "tour" }, true, "client list")
  expect(redis.config(:get, "maxclients"), { "maxclients" => "10000" }, "config")
  expect(redis.config(:set, "maxclients", 10_000), "OK", "config set")
  expect(redis.call("COMMAND", "INFO", "bf.add").first[1], 3, "command")
  expect(redis.slowlog(:len) >= 0, true, "slowlog")
  expect(redis.time.length, 2, "time")
  expect(redis.object(:encoding, "users").empty?, false, "object")
  expect(redis.dbsize > 0, true, "dbsize")
  expect(redis.lastsave > 0, true, "lastsave")
end

# MONITOR: the library gives each line to the block.
def monitor
  connect.monitor do |line|
    connect.call("BF.EXISTS", "users", 'a "quoted" item') if line == "OK"
    next unless line.include?("BF.EXISTS")

    expect(line.match?(/\A\d+\.\d{6} \[0 127\.0\.0\.1:\d+\] "BF\.EXISTS" "users" "a \\"quoted\\" item"\z/), true, line)
    break
  end
end

def errors(redis)
  refused("item exists", "a second BF.RESERVE") { redis.call("BF.RESERVE", "users", 0.001, 1000) }
  refused("not found", "NOCREATE") { redis.call("BF.INSERT", "nothing", "NOCREATE", "ITEMS", "x") }
  refused("unknown command", "an unknown command") { redis.call("NOSUCH") }
  ok "errors"
end

def binary(redis)
  expect(redis.call("BF.MADD", BINARY_KEY, BINARY_ITEM, ""), [1, 1], "binary items")
  expect(redis.call("BF.EXISTS", BINARY_KEY, BINARY_ITEM), 1, "a binary item")
  expect(redis.keys("binary:*").map(&:b), [BINARY_KEY], "a binary key")
  ok "binary"
end

def pipeline(redis)
  replies = redis.pipelined do |requests|
    PIPELINE.times { |number| requests.call("BF.ADD", "piped", "p:#{number}") }
  end
  expect_mostly_new(replies, PIPELINE, "the pipeline")
  refused("not found", "an error in a pipeline") { redis.pipelined { |requests| requests.call("BF.INFO", "nothing") } }
  ok "pipeline"
end

def transaction(redis)
  replies = redis.watch("counted") do
    redis.multi do |requests|
      requests.call("BF.ADD", "counted", "a")
      requests.call("BF.EXISTS", "counted", "a")
      requests.expire("counted", 100)
    end
  end
  expect(replies, [1, 1, true], "a transaction")
  replies = redis.watch("counted") do
    expect(connect.call("BF.ADD", "counted", "b"), 1, "an add of another client")
    redis.multi { |requests| requests.call("BF.ADD", "counted", "c") }
  end
  expect(replies, nil, "a watched key that changes")
  expect(redis.call("BF.EXISTS", "counted", "c"), 0, "what was not done")
  refused("unknown command", "a transaction with an unknown command") { redis.multi { |requests| requests.call("NOSUCH") } }
  ok "transaction"
end

def script(redis)
  digest = Digest::SHA1.hexdigest(ADD_SCRIPT)
  refused("NOSCRIPT", "an unknown script") { redis.evalsha(digest, keys: ["scripted"], argv: ["a"]) }
  expect(redis.eval(ADD_SCRIPT, keys: ["scripted"], argv: ["a"]), 1, "eval")
  expect(redis.evalsha(digest, keys: ["scripted"], argv: ["a"]), 0, "evalsha")
  expect(redis.script(:load, ADD_SCRIPT), digest, "script load")
  expect(redis.script(:exists, [digest, "0" * 40]), [true, false], "script exists")
  ok "script"
end

def batch(redis)
  expect(redis.call("BF.RESERVE", "batch", 0.001, BATCH), "OK", "BF.RESERVE")
  expect_mostly_new(redis.call("BF.MADD", "batch", (0...BATCH).map { |number| "b:#{number}" }), BATCH, "the batch")
  ok "batch"
end

def tour
  auth
  redis = connect
  filters(redis)
  keys(redis)
  strings(redis)
  server(redis)
  monitor
  ok "commands"
  errors(redis)
  binary(redis)
  pipeline(redis)
  transaction(redis)
  script(redis)
  batch(redis)
end

# The library connects again by itself, once for a request. While a server ends, it can close a connection that it has not
# accepted: for that the library raises an error of the system.
def write
  redis = connect
  number = 0
  loop do
    redis.call("BF.ADD", "written", "w:#{number}")
    puts number
    number += 1
  rescue Redis::BaseConnectionError, SystemCallError
    sleep 0.02
  rescue Redis::CommandError => error
    raise unless error.message.start_with?("LOADING")

    sleep 0.02
  end
end

ARGV.first == "write" ? write : tour
