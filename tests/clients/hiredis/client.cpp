// hiredis: the client library under most others.
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../shared/harness.hpp"

namespace {

using namespace harness;

struct Free {
  void operator()(redisContext* context) const { redisFree(context); }
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Context = std::unique_ptr<redisContext, Free>;
using Reply = std::unique_ptr<redisReply, Free>;

// Null if the connection is lost.
template <typename... Words>
Reply ask_or_lose(redisContext& context, const char* format, Words... words) {
  return Reply(static_cast<redisReply*>(redisCommand(&context, format, words...)));
}

template <typename... Words>
Reply ask(redisContext& context, const char* format, Words... words) {
  Reply reply = ask_or_lose(context, format, words...);
  expect(reply != nullptr, format);
  return reply;
}

Reply ask_words(redisContext& context, const std::vector<std::string>& words) {
  std::vector<const char*> starts;
  std::vector<std::size_t> lengths;
  for (const std::string& word : words) {
    starts.push_back(word.data());
    lengths.push_back(word.size());
  }
  Reply reply(static_cast<redisReply*>(
      redisCommandArgv(&context, static_cast<int>(words.size()), starts.data(), lengths.data())));
  expect(reply != nullptr, words.front().c_str());
  return reply;
}

Reply receive(redisContext& context) {
  void* reply = nullptr;
  expect(redisGetReply(&context, &reply) == REDIS_OK, "a reply to each request of a pipeline");
  return Reply(static_cast<redisReply*>(reply));
}

// Null if no server answers.
Context try_connect() {
  Context context(redisConnect("127.0.0.1", port()));
  return context != nullptr && context->err == 0 ? std::move(context) : nullptr;
}

Context connect() {
  Context context = try_connect();
  expect(context != nullptr, "connect");
  return context;
}

void auth() {
  const Context context = connect();
  expect(is_error(*ask(*context, "PING"), "NOAUTH Authentication required."), "no password");
  expect(is_error(*ask(*context, "AUTH %s %s", "default", "wrong"), "WRONGPASS"), "a wrong password");
  expect(is_status(*ask(*context, "AUTH %s", variable("SEPAL_PASSWORD")), "OK"), "a password");
  expect(is_status(*ask(*connect(), "AUTH %s %s", "default", variable("SEPAL_PASSWORD")), "OK"),
         "a user and a password");
  ok("auth");
  if (variable("SEPAL_USER") == nullptr) return;
  const Context user = connect();
  expect(is_status(*ask(*user, "AUTH %s %s", variable("SEPAL_USER"), variable("SEPAL_USER_PASSWORD")), "OK"),
         "another user");
  expect(text(*ask(*user, "ACL WHOAMI")) == variable("SEPAL_USER"), "the user's name");
  ok("user");
}

void move_filter(redisContext& context) {
  expect(is_numbers(*ask(context, "BF.MADD source a b"), {1, 1}), "BF.MADD source");
  for (long long iterator = 0;;) {
    const Reply piece = ask(context, "BF.SCANDUMP source %lld", iterator);
    expect(piece->type == REDIS_REPLY_ARRAY && piece->elements == 2, "BF.SCANDUMP");
    iterator = piece->element[0]->integer;
    if (iterator == 0) break;
    const redisReply& data = *piece->element[1];
    expect(is_status(*ask(context, "BF.LOADCHUNK moved %lld %b", iterator, data.str, data.len), "OK"),
           "BF.LOADCHUNK");
  }
  expect(is_numbers(*ask(context, "BF.MEXISTS moved a b c"), {1, 1, 0}), "a filter that was moved");
}

void commands(redisContext& context) {
  expect(is_status(*ask(context, "BF.RESERVE users 0.001 1000 EXPANSION 4"), "OK"), "BF.RESERVE");
  expect(is_status(*ask(context, "BF.RESERVE fixed 0.01 100 NONSCALING"), "OK"), "BF.RESERVE NONSCALING");
  expect(is_number(*ask(context, "BF.ADD users alice"), 1), "BF.ADD");
  expect(is_numbers(*ask(context, "BF.MADD users alice bob"), {0, 1}), "BF.MADD");
  expect(is_numbers(*ask(context, "BF.INSERT other CAPACITY 500 ERROR 0.01 EXPANSION 4 ITEMS x y"), {1, 1}),
         "BF.INSERT");
  expect(is_number(*ask(context, "BF.EXISTS users alice"), 1), "BF.EXISTS");
  expect(is_number(*ask(context, "BF.EXISTS users carol"), 0), "BF.EXISTS of a new item");
  expect(is_numbers(*ask(context, "BF.MEXISTS users alice carol"), {1, 0}), "BF.MEXISTS");
  const Reply info = ask(context, "BF.INFO users");
  expect(field(*info, "Capacity") == 1000 && field(*info, "Expansion rate") == 4 &&
             field(*info, "Number of items inserted") == 2,
         "BF.INFO");
  expect(is_numbers(*ask(context, "BF.INFO users ITEMS"), {2}), "BF.INFO ITEMS");
  expect(is_number(*ask(context, "BF.CARD users"), 2), "BF.CARD");
  move_filter(context);
  ok("commands");
  expect(is_error(*ask(context, "BF.RESERVE users 0.001 1000"), "item exists"), "a second BF.RESERVE");
  expect(is_error(*ask(context, "BF.INSERT nothing NOCREATE ITEMS x"), "not found"), "NOCREATE");
  expect(is_error(*ask(context, "NOSUCH"), "unknown command"), "an unknown command");
  ok("errors");
}

void binary(redisContext& context) {
  const std::string key = binary_key();
  const std::string item = binary_item();
  expect(is_number(*ask(context, "BF.ADD %b %b", key.data(), key.size(), item.data(), item.size()), 1),
         "a binary item");
  expect(is_number(*ask(context, "BF.ADD %b %b", key.data(), key.size(), "", std::size_t{0}), 1),
         "the empty item");
  const Reply keys = ask(context, "KEYS binary:*");
  expect(keys->elements == 1 && text(*keys->element[0]) == key, "a binary key");
  ok("binary");
}

void pipeline(redisContext& context) {
  for (int number = 0; number < pipeline_depth; ++number)
    redisAppendCommand(&context, "BF.ADD piped p:%d", number);
  int ones = 0;
  for (int number = 0; number < pipeline_depth; ++number) ones += is_number(*receive(context), 1) ? 1 : 0;
  expect(ones > new_min * pipeline_depth, "new items");
  ok("pipeline");
}

void transaction(redisContext& context) {
  expect(is_status(*ask(context, "WATCH counted"), "OK"), "WATCH");
  expect(is_status(*ask(context, "MULTI"), "OK"), "MULTI");
  expect(is_status(*ask(context, "BF.ADD counted a"), "QUEUED"), "a queued add");
  expect(is_status(*ask(context, "BF.EXISTS counted a"), "QUEUED"), "a queued look-up");
  expect(is_numbers(*ask(context, "EXEC"), {1, 1}), "EXEC");
  ask(context, "WATCH counted");
  const Context other = connect();
  ask(*other, "AUTH %s", variable("SEPAL_PASSWORD"));
  expect(is_number(*ask(*other, "BF.ADD counted b"), 1), "an add of another client");
  ask(context, "MULTI");
  ask(context, "BF.ADD counted c");
  expect(ask(context, "EXEC")->type == REDIS_REPLY_NIL, "EXEC after a watched key changed");
  ok("transaction");
}

void script(redisContext& context) {
  if (variable("SEPAL_SCRIPTS") == nullptr) return;
  expect(is_number(*ask(context, "EVAL %s 1 scripted a", add_script), 1), "EVAL");
  const Reply name = ask(context, "SCRIPT LOAD %s", add_script);
  expect(is_number(*ask(context, "EVALSHA %s 1 scripted a", name->str), 0), "EVALSHA");
  ok("script");
}

void batch(redisContext& context) {
  expect(is_status(*ask(context, "BF.RESERVE batch 0.001 %d", batch_items), "OK"), "BF.RESERVE batch");
  const Reply replies = ask_words(context, batch_words());
  expect(replies->elements == batch_items, "a reply to each item");
  expect(count_ones(*replies) > new_min * batch_items, "new items");
  ok("batch");
}

void tour() {
  auth();
  const Context context = connect();
  ask(*context, "AUTH %s", variable("SEPAL_PASSWORD"));
  commands(*context);
  binary(*context);
  pipeline(*context);
  transaction(*context);
  script(*context);
  batch(*context);
}

// A connection that the server answers, once it does.
Context reconnect() {
  for (;;) {
    Context context = try_connect();
    if (context != nullptr) {
      const Reply reply = ask_or_lose(*context, "AUTH %s", variable("SEPAL_PASSWORD"));
      if (reply != nullptr && is_status(*reply, "OK")) return context;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void write() {
  Context context = reconnect();
  for (int number = 0;; ++number) {
    for (;;) {
      const Reply reply = ask_or_lose(*context, "BF.ADD written w:%d", number);
      if (reply != nullptr && reply->type == REDIS_REPLY_INTEGER) break;
      context = reconnect();
    }
    std::printf("%d\n", number);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  // The library writes to a connection that the server has reset.
  std::signal(SIGPIPE, SIG_IGN);
  if (std::strcmp(argv[1], "write") == 0) write();
  tour();
}
