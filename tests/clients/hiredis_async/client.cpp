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

#include "../shared/hiredis_tour.hpp"

namespace {

using namespace harness;

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
    Argv argv(words);
    auto* data = new Action(std::move(action));
    if (redisAsyncCommandArgv(loop_.context, answered, data, argv.count(), argv.starts.data(),
                              argv.lengths.data()) != REDIS_OK) {
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
  tour<Connection>();
}
