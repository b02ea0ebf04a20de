// hiredis with callbacks. The loop below is the adapter: a few lines around poll.
#include <hiredis/async.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <poll.h>
#include <string>
#include <utility>
#include <vector>

#include "../shared/harness.hpp"

namespace {

using namespace harness;
using Action = std::function<void(const redisReply&)>;

// What hiredis waits for on one connection.
struct Loop {
  redisAsyncContext* context = nullptr;  // null when hiredis has freed it
  bool reads = false;
  bool writes = false;
};

template <bool Loop::*flag, bool value>
void set(void* loop) {
  static_cast<Loop*>(loop)->*flag = value;
}

void forget(void* loop) {
  static_cast<Loop*>(loop)->context = nullptr;
}

void attach(Loop& loop, redisAsyncContext& context) {
  loop.context = &context;
  context.ev.data = &loop;
  context.ev.addRead = set<&Loop::reads, true>;
  context.ev.delRead = set<&Loop::reads, false>;
  context.ev.addWrite = set<&Loop::writes, true>;
  context.ev.delWrite = set<&Loop::writes, false>;
  context.ev.cleanup = forget;
}

// Waits for the connection's next event, and lets hiredis handle it.
void turn(Loop& loop) {
  const short wanted = static_cast<short>((loop.reads ? POLLIN : 0) | (loop.writes ? POLLOUT : 0));
  pollfd waited{loop.context->c.fd, wanted, 0};
  expect(poll(&waited, 1, 60000) > 0, "an event within a minute");
  if ((waited.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && loop.reads) redisAsyncHandleRead(loop.context);
  if (loop.context != nullptr && (waited.revents & (POLLOUT | POLLHUP | POLLERR)) != 0 && loop.writes) {
    redisAsyncHandleWrite(loop.context);
  }
}

// Hands the reply to the action of its request. A request whose connection is lost gets no reply.
void answered(redisAsyncContext* /*context*/, void* reply, void* data) {
  const std::unique_ptr<Action> action(static_cast<Action*>(data));
  if (reply != nullptr) (*action)(*static_cast<redisReply*>(reply));
}

class Connection {
 public:
  Connection() {
    redisAsyncContext* context = redisAsyncConnect("127.0.0.1", port());
    expect(context != nullptr, "redisAsyncConnect");
    if (context->err != 0) {
      redisAsyncFree(context);
      return;
    }
    attach(loop_, *context);
    // hiredis tells the loop of a connection attempt only through this call.
    redisAsyncSetConnectCallback(context, [](const redisAsyncContext*, int) {});
  }
  ~Connection() {
    if (loop_.context != nullptr) redisAsyncFree(loop_.context);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] bool lives() const { return loop_.context != nullptr; }

  void send(const std::vector<std::string>& words, Action action) {
    std::vector<const char*> starts;
    std::vector<std::size_t> lengths;
    for (const std::string& word : words) {
      starts.push_back(word.data());
      lengths.push_back(word.size());
    }
    auto* data = new Action(std::move(action));
    if (redisAsyncCommandArgv(loop_.context, answered, data, static_cast<int>(words.size()), starts.data(),
                              lengths.data()) != REDIS_OK) {
      delete data;
    }
  }

  // One turn of the loop. False once the connection is lost.
  bool run_once() {
    if (lives()) turn(loop_);
    return lives();
  }

 private:
  Loop loop_;
};

// Sends requests, each with what its reply must be, and waits for all replies.
class Steps {
 public:
  explicit Steps(Connection& connection) : connection_(connection) {}

  void add(const std::vector<std::string>& words, Action check) {
    ++waiting_;
    connection_.send(words, [this, check = std::move(check)](const redisReply& reply) {
      --waiting_;
      check(reply);
    });
  }

  void add(const std::vector<std::string>& words, std::function<bool(const redisReply&)> test) {
    add(words, Action([name = words.front(), test = std::move(test)](const redisReply& reply) {
          expect(test(reply), name.c_str());
        }));
  }

  void wait() {
    while (waiting_ > 0) expect(connection_.run_once(), "the connection stays");
  }

 private:
  Connection& connection_;
  int waiting_ = 0;
};

using Test = std::function<bool(const redisReply&)>;

Test number(long long wanted) {
  return [wanted](const redisReply& reply) { return is_number(reply, wanted); };
}
Test numbers(std::vector<long long> wanted) {
  return [wanted](const redisReply& reply) { return is_numbers(reply, wanted); };
}
Test status(std::string wanted) {
  return [wanted](const redisReply& reply) { return is_status(reply, wanted); };
}
Test error(std::string wanted) {
  return [wanted](const redisReply& reply) { return is_error(reply, wanted); };
}

void auth(Connection& connection) {
  const std::string password = variable("SEPAL_PASSWORD");
  Steps steps(connection);
  steps.add({"PING"}, error("NOAUTH Authentication required."));
  steps.add({"AUTH", "default", "wrong"}, error("WRONGPASS"));
  steps.add({"AUTH", password}, status("OK"));
  steps.add({"AUTH", "default", password}, status("OK"));
  steps.wait();
  ok("auth");
  if (variable("SEPAL_USER") == nullptr) return;
  Connection other;
  Steps user(other);
  user.add({"AUTH", variable("SEPAL_USER"), variable("SEPAL_USER_PASSWORD")}, status("OK"));
  user.add({"ACL", "WHOAMI"},
           Test([](const redisReply& reply) { return text(reply) == variable("SEPAL_USER"); }));
  user.wait();
  ok("user");
}

// Each piece is asked for by the callback of the one before.
void move_filter(Connection& connection, Steps& steps, const std::string& iterator) {
  steps.add({"BF.SCANDUMP", "source", iterator}, Action([&connection, &steps](const redisReply& reply) {
              expect(reply.type == REDIS_REPLY_ARRAY && reply.elements == 2, "BF.SCANDUMP");
              const std::string next = std::to_string(reply.element[0]->integer);
              if (next == "0") return;
              steps.add({"BF.LOADCHUNK", "moved", next, std::string(text(*reply.element[1]))}, status("OK"));
              move_filter(connection, steps, next);
            }));
}

void commands(Connection& connection) {
  Steps steps(connection);
  steps.add({"BF.RESERVE", "users", "0.001", "1000", "EXPANSION", "4"}, status("OK"));
  steps.add({"BF.RESERVE", "fixed", "0.01", "100", "NONSCALING"}, status("OK"));
  steps.add({"BF.ADD", "users", "alice"}, number(1));
  steps.add({"BF.MADD", "users", "alice", "bob"}, numbers({0, 1}));
  steps.add({"BF.INSERT", "other", "CAPACITY", "500", "ERROR", "0.01", "EXPANSION", "4", "ITEMS", "x", "y"},
            numbers({1, 1}));
  steps.add({"BF.EXISTS", "users", "alice"}, number(1));
  steps.add({"BF.EXISTS", "users", "carol"}, number(0));
  steps.add({"BF.MEXISTS", "users", "alice", "carol"}, numbers({1, 0}));
  steps.add({"BF.INFO", "users"},
            Test([](const redisReply& reply) { return field(reply, "Capacity") == 1000; }));
  steps.add({"BF.INFO", "users", "ITEMS"}, numbers({2}));
  steps.add({"BF.CARD", "users"}, number(2));
  steps.add({"BF.MADD", "source", "a", "b"}, numbers({1, 1}));
  move_filter(connection, steps, "0");
  steps.wait();
  steps.add({"BF.MEXISTS", "moved", "a", "b", "c"}, numbers({1, 1, 0}));
  steps.wait();
  ok("commands");
  steps.add({"BF.RESERVE", "users", "0.001", "1000"}, error("item exists"));
  steps.add({"BF.INSERT", "nothing", "NOCREATE", "ITEMS", "x"}, error("not found"));
  steps.add({"NOSUCH"}, error("unknown command"));
  steps.wait();
  ok("errors");
}

void binary(Connection& connection) {
  Steps steps(connection);
  steps.add({"BF.ADD", binary_key(), binary_item()}, number(1));
  steps.add({"BF.ADD", binary_key(), ""}, number(1));
  steps.add({"KEYS", "binary:*"}, Test([](const redisReply& reply) {
              return reply.elements == 1 && text(*reply.element[0]) == binary_key();
            }));
  steps.wait();
  ok("binary");
}

void pipeline(Connection& connection) {
  int ones = 0;
  Steps steps(connection);
  for (int at = 0; at < pipeline_depth; ++at) {
    steps.add({"BF.ADD", "piped", "p:" + std::to_string(at)},
              Action([&ones](const redisReply& reply) { ones += is_number(reply, 1) ? 1 : 0; }));
  }
  steps.wait();
  expect(ones > new_min * pipeline_depth, "new items");
  ok("pipeline");
}

void transaction(Connection& connection) {
  Steps steps(connection);
  steps.add({"WATCH", "counted"}, status("OK"));
  steps.add({"MULTI"}, status("OK"));
  steps.add({"BF.ADD", "counted", "a"}, status("QUEUED"));
  steps.add({"BF.EXISTS", "counted", "a"}, status("QUEUED"));
  steps.add({"EXEC"}, numbers({1, 1}));
  steps.add({"WATCH", "counted"}, status("OK"));
  steps.wait();
  Connection other;
  Steps beside(other);
  beside.add({"AUTH", variable("SEPAL_PASSWORD")}, status("OK"));
  beside.add({"BF.ADD", "counted", "b"}, number(1));
  beside.wait();
  steps.add({"MULTI"}, status("OK"));
  steps.add({"BF.ADD", "counted", "c"}, status("QUEUED"));
  steps.add({"EXEC"}, Test([](const redisReply& reply) { return reply.type == REDIS_REPLY_NIL; }));
  steps.wait();
  ok("transaction");
}

void script(Connection& connection) {
  if (variable("SEPAL_SCRIPTS") == nullptr) return;
  Steps steps(connection);
  std::string name;
  steps.add({"EVAL", add_script, "1", "scripted", "a"}, number(1));
  steps.add({"SCRIPT", "LOAD", add_script}, Action([&name](const redisReply& reply) { name = text(reply); }));
  steps.wait();
  steps.add({"EVALSHA", name, "1", "scripted", "a"}, number(0));
  steps.wait();
  ok("script");
}

void batch(Connection& connection) {
  Steps steps(connection);
  steps.add({"BF.RESERVE", "batch", "0.001", std::to_string(batch_items)}, status("OK"));
  steps.add(batch_words(), Test([](const redisReply& reply) {
              return reply.elements == batch_items && count_ones(reply) > new_min * batch_items;
            }));
  steps.wait();
  ok("batch");
}

void tour() {
  Connection connection;
  auth(connection);
  commands(connection);
  binary(connection);
  pipeline(connection);
  transaction(connection);
  script(connection);
  batch(connection);
}

// Adds one item after the other, until the connection is lost. `next` is the first item that no reply
// answers.
void add_while_it_lives(int& next) {
  Connection connection;
  if (!connection.lives()) return;
  connection.send({"AUTH", variable("SEPAL_PASSWORD")}, [](const redisReply&) {});
  std::function<void()> add = [&] {
    connection.send({"BF.ADD", "written", "w:" + std::to_string(next)}, [&](const redisReply& reply) {
      if (is_number(reply, 0) || is_number(reply, 1)) {
        std::printf("%d\n", next);
        std::fflush(stdout);
        ++next;
      }
      add();
    });
  };
  add();
  while (connection.run_once()) {
  }
}

void write() {
  for (int next = 0;;) {
    add_while_it_lives(next);
    poll(nullptr, 0, 20);
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
