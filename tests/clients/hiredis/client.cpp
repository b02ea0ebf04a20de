// hiredis: the client library under most others.
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../shared/hiredis_tour.hpp"

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
Reply ask(redisContext& context, const char* format, Words... words) {
  return Reply(static_cast<redisReply*>(redisCommand(&context, format, words...)));
}

// Null if no server answers.
Context try_connect() {
  Context context(redisConnect("127.0.0.1", port()));
  return context != nullptr && context->err == 0 ? std::move(context) : nullptr;
}

// Requests go out together, when the first reply is read.
class Connection {
 public:
  Connection() : context_(try_connect()) { expect(context_ != nullptr, "connect"); }

  void send(const std::vector<std::string>& words, Action action) {
    Argv argv(words);
    redisAppendCommandArgv(context_.get(), argv.count(), argv.starts.data(), argv.lengths.data());
    actions_.push_back(std::move(action));
  }

  // Reads one reply. False once the connection is lost.
  bool run_once() {
    void* read = nullptr;
    if (redisGetReply(context_.get(), &read) != REDIS_OK) return false;
    const Reply reply(static_cast<redisReply*>(read));
    const Action action = std::move(actions_.front());
    actions_.pop_front();
    action(*reply);
    return true;
  }

 private:
  Context context_;
  std::deque<Action> actions_;
};

// A connection that the server answers, once it does.
Context reconnect() {
  for (;;) {
    Context context = try_connect();
    if (context != nullptr) {
      const Reply reply = ask(*context, "AUTH %s", variable("SEPAL_PASSWORD"));
      if (reply != nullptr && is_status(*reply, "OK")) return context;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// The library puts words into a format.
void formats() {
  const Context context = reconnect();
  const std::string item = binary_item();
  const std::string key = binary_key();
  const Reply reply = ask(*context, "BF.EXISTS %b %b", key.data(), key.size(), item.data(), item.size());
  expect(reply != nullptr && is_number(*reply, 1), "binary words in a format");
  const Reply moved = ask(*context, "BF.MEXISTS %s %s c", "moved", "a");
  expect(moved != nullptr && is_numbers(*moved, {1, 0}), "words in a format");
}

void write() {
  Context context = reconnect();
  for (int number = 0;; ++number) {
    for (;;) {
      const Reply reply = ask(*context, "BF.ADD written w:%d", number);
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
  tour<Connection>();
  formats();
}
