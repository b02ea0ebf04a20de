// The tour of hiredis, for its two interfaces: a Connection sends words with an action for the reply, and
// run_once() lets the library go on.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness.hpp"

namespace harness {

using Action = std::function<void(const redisReply&)>;
using Test = std::function<bool(const redisReply&)>;

// Words as hiredis takes them.
struct Argv {
  explicit Argv(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      starts.push_back(word.data());
      lengths.push_back(word.size());
    }
  }
  [[nodiscard]] int count() const { return static_cast<int>(starts.size()); }

  std::vector<const char*> starts;
  std::vector<std::size_t> lengths;
};

// Sends requests, each with what its reply must be, and waits for all replies.
template <class Connection>
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

  void add(const std::vector<std::string>& words, Test test) {
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

inline Test number(long long wanted) {
  return [wanted](const redisReply& reply) { return is_number(reply, wanted); };
}
inline Test numbers(std::vector<long long> wanted) {
  return [wanted](const redisReply& reply) { return is_numbers(reply, wanted); };
}
inline Test status(std::string wanted) {
  return [wanted](const redisReply& reply) { return is_status(reply, wanted); };
}
inline Test error(std::string wanted) {
  return [wanted](const redisReply& reply) { return is_error(reply, wanted); };
}

template <class Connection>
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
template <class Connection>
void move_filter(Connection& connection, Steps<Connection>& steps, const std::string& iterator) {
  steps.add({"BF.SCANDUMP", "source", iterator}, Action([&connection, &steps](const redisReply& reply) {
              expect(reply.type == REDIS_REPLY_ARRAY && reply.elements == 2, "BF.SCANDUMP");
              const std::string next = std::to_string(reply.element[0]->integer);
              if (next == "0") return;
              steps.add({"BF.LOADCHUNK", "moved", next, std::string(text(*reply.element[1]))}, status("OK"));
              move_filter(connection, steps, next);
            }));
}

template <class Connection>
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
  steps.add({"BF.INFO", "users"}, Test([](const redisReply& reply) {
              return field(reply, "Capacity") == 1000 && field(reply, "Expansion rate") == 4 &&
                     field(reply, "Number of items inserted") == 2;
            }));
  steps.add({"BF.INFO", "users", "ITEMS"}, numbers({2}));
  steps.add({"BF.CARD", "users"}, number(2));
  steps.add({"BF.CHECK", "users", "alice", "carol"}, numbers({1, 0}));
  steps.add({"BF.FIND", "3", "nothing", "other", "users", "ITEMS", "alice", "x", "carol"},
            numbers({3, 2, 0}));
  steps.add({"BF.FIND", "2", "nothing", "users", "ALL", "ITEMS", "alice"}, Test([](const redisReply& reply) {
              return reply.elements == 1 && reply.element[0]->elements == 2 &&
                     reply.element[0]->element[0]->type == REDIS_REPLY_NIL &&
                     reply.element[0]->element[1]->integer == 1;
            }));
  steps.add({"BF.MADD", "source", "a", "b"}, numbers({1, 1}));
  move_filter(connection, steps, "0");
  steps.wait();
  steps.add({"BF.MEXISTS", "moved", "a", "b", "c"}, numbers({1, 1, 0}));
  steps.wait();
  ok("commands");
  steps.add({"BF.RESERVE", "users", "0.001", "1000"}, error("item exists"));
  steps.add({"BF.INSERT", "nothing", "NOCREATE", "ITEMS", "x"}, error("not found"));
  steps.add({"BF.CHECK", "nothing", "x"}, error("not found"));
  steps.add({"NOSUCH"}, error("unknown command"));
  steps.wait();
  ok("errors");
}

template <class Connection>
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

template <class Connection>
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

template <class Connection>
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

template <class Connection>
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

template <class Connection>
void batch(Connection& connection) {
  Steps steps(connection);
  steps.add({"BF.RESERVE", "batch", "0.001", std::to_string(batch_items)}, status("OK"));
  steps.add(batch_words(), Test([](const redisReply& reply) {
              return reply.elements == batch_items && count_ones(reply) > new_min * batch_items;
            }));
  steps.wait();
  ok("batch");
}

template <class Connection>
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

}  // namespace harness
