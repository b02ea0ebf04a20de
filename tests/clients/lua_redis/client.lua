-- lua-redis, as Debian packages it.
local redis = require("redis")
local socket = require("socket")

local PORT, PASSWORD = os.getenv("SEPAL_PORT"), os.getenv("SEPAL_PASSWORD")
local USER, USER_PASSWORD = os.getenv("SEPAL_USER"), os.getenv("SEPAL_USER_PASSWORD")
local PIPELINE, BATCH = 10000, 100000
-- A filter of 1% may call so many new items known.
local NEW_MIN = 0.97
local ADD_SCRIPT = "return redis.call('BF.ADD', KEYS[1], ARGV[1])"
-- What an error has if the server is away, or loads its data.
local AWAY = { "connection error", "could not connect", "closed", "LOADING" }

for _, name in ipairs({ "RESERVE", "ADD", "MADD", "INSERT", "EXISTS", "MEXISTS", "INFO", "CARD", "SCANDUMP", "LOADCHUNK" }) do
  redis.commands["bf" .. name:lower()] = redis.command("BF." .. name)
end
redis.commands.acl = redis.command("ACL")
redis.commands.nosuch = redis.command("NOSUCH")

local function ok(part)
  print("ok " .. part)
  io.stdout:flush()
end

local function fail(what, got)
  print(("%s: %s"):format(what, tostring(got)))
  os.exit(1)
end

local function expect(got, wanted, what)
  if got ~= wanted then fail(what, got) end
end

local function expect_list(got, wanted, what)
  expect(table.concat(got, " "), table.concat(wanted, " "), what)
end

-- The call must fail, with an error that has the text.
local function refused(text, what, call, ...)
  local done, problem = pcall(call, ...)
  if done or not tostring(problem):find(text, 1, true) then fail(what, problem) end
end

local function connect(...)
  local client = redis.connect("127.0.0.1", PORT)
  if select("#", ...) > 0 then client:auth(...) end
  return client
end

local function count_ones(replies)
  local ones = 0
  for _, reply in ipairs(replies) do ones = ones + reply end
  return ones
end

local function auth()
  local client = connect()
  refused("NOAUTH", "no password", client.ping, client)
  refused("WRONGPASS", "a wrong password", client.auth, client, "default", "wrong")
  expect(client:auth(PASSWORD), true, "a password")
  expect(client:ping(), true, "ping")
  expect(connect("default", PASSWORD):ping(), true, "a user and a password")
  ok("auth")
  expect(connect(USER, USER_PASSWORD):acl("WHOAMI"), USER, "the user")
  ok("user")
end

local function check_info(client)
  local fields, list = {}, client:bfinfo("users")
  for i = 1, #list, 2 do fields[list[i]] = list[i + 1] end
  expect(fields["Capacity"], 1000, "capacity")
  expect(fields["Expansion rate"], 4, "expansion")
  expect(fields["Number of items inserted"], 2, "items")
  expect_list(client:bfinfo("users", "ITEMS"), { 2 }, "BF.INFO ITEMS")
end

local function move_filter(client)
  client:bfmadd("source", "a", "b")
  local iterator = 0
  while true do
    local piece = client:bfscandump("source", iterator)
    iterator = piece[1]
    if iterator == 0 then break end
    expect(client:bfloadchunk("moved", iterator, piece[2]), true, "BF.LOADCHUNK")
  end
  expect_list(client:bfmexists("moved", "a", "b", "c"), { 1, 1, 0 }, "a filter that was moved")
end

local function commands(client)
  expect(client:bfreserve("users", 0.001, 1000, "EXPANSION", 4), true, "BF.RESERVE")
  expect(client:bfreserve("fixed", 0.01, 100, "NONSCALING"), true, "BF.RESERVE NONSCALING")
  expect(client:bfadd("users", "alice"), 1, "BF.ADD")
  expect_list(client:bfmadd("users", "alice", "bob"), { 0, 1 }, "BF.MADD")
  expect_list(client:bfinsert("other", "CAPACITY", 500, "ERROR", 0.01, "ITEMS", "x", "y"), { 1, 1 }, "BF.INSERT")
  expect(client:bfexists("users", "alice"), 1, "BF.EXISTS")
  expect(client:bfexists("users", "carol"), 0, "BF.EXISTS of a new item")
  expect_list(client:bfmexists("users", "alice", "carol"), { 1, 0 }, "BF.MEXISTS")
  expect(client:bfcard("users"), 2, "BF.CARD")
  check_info(client)
  move_filter(client)
  ok("commands")
  refused("item exists", "a second BF.RESERVE", client.bfreserve, client, "users", 0.001, 1000)
  refused("not found", "NOCREATE", client.bfinsert, client, "nothing", "NOCREATE", "ITEMS", "x")
  refused("unknown command", "an unknown command", client.nosuch, client)
  ok("errors")
end

local function binary(client)
  local up, down = {}, {}
  for byte = 0, 255 do
    up[byte + 1] = string.char(byte)
    down[byte + 1] = string.char(255 - byte)
  end
  local key, item = "binary:" .. table.concat(up), table.concat(down)
  expect_list(client:bfmadd(key, item, ""), { 1, 1 }, "binary items")
  expect(client:bfexists(key, item), 1, "a binary item")
  local keys = client:keys("binary:*")
  expect(#keys, 1, "one binary key")
  expect(keys[1], key, "a binary key")
  ok("binary")
end

local function pipeline(client)
  local replies = client:pipeline(function(requests)
    for number = 0, PIPELINE - 1 do requests:bfadd("piped", "p:" .. number) end
  end)
  expect(#replies, PIPELINE, "replies of the pipeline")
  expect(count_ones(replies) > NEW_MIN * PIPELINE, true, "new items")
  ok("pipeline")
end

local function transaction(client)
  local replies = client:transaction({ watch = "counted" }, function(requests)
    requests:bfadd("counted", "a")
    requests:bfexists("counted", "a")
  end)
  expect_list(replies, { 1, 1 }, "a transaction")
  local other = connect(PASSWORD)
  local options = { watch = "counted", cas = true, retry = 0 }
  refused("aborted", "a watched key that changes", client.transaction, client, options, function(requests)
    other:bfadd("counted", "b")
    requests:multi()
    requests:bfadd("counted", "c")
  end)
  expect(client:bfexists("counted", "c"), 0, "what was not done")
  ok("transaction")
end

local function script(client)
  expect(client:eval(ADD_SCRIPT, 1, "scripted", "a"), 1, "EVAL")
  local digest = client:script("LOAD", ADD_SCRIPT)
  expect(client:evalsha(digest, 1, "scripted", "a"), 0, "EVALSHA")
  ok("script")
end

local function batch(client)
  expect(client:bfreserve("batch", 0.001, BATCH), true, "BF.RESERVE")
  local words = { "batch" }
  for number = 0, BATCH - 1 do words[#words + 1] = "b:" .. number end
  local replies = client:bfmadd(words)
  expect(#replies, BATCH, "replies of the batch")
  expect(count_ones(replies) > NEW_MIN * BATCH, true, "new items")
  ok("batch")
end

local function tour()
  auth()
  local client = connect(PASSWORD)
  commands(client)
  binary(client)
  pipeline(client)
  transaction(client)
  script(client)
  batch(client)
end

local function is_away(problem)
  for _, text in ipairs(AWAY) do
    if problem:find(text, 1, true) then return true end
  end
  return false
end

-- The library does not connect again by itself.
local function write()
  local client
  local number = 0
  while true do
    local done, problem = pcall(function()
      client = client or connect(PASSWORD)
      client:bfadd("written", "w:" .. number)
    end)
    if done then
      print(number)
      io.stdout:flush()
      number = number + 1
    elseif is_away(tostring(problem)) then
      client = nil
      socket.sleep(0.02)
    else
      fail("an add", problem)
    end
  end
end

({ tour = tour, write = write })[arg[1]]()
