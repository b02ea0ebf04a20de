// Requests for which the system has no memory. The test makes operator new fail: at one allocation, at each
// in turn, or at all large ones.
#include <sepal/base/memory_reserve.hpp>

#include <exception>
#include <new>
#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "unit/session/session_world.hpp"

namespace lack_of_memory_test {
namespace {

constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

// Which allocations fail. Static: operator new needs it before main() has begun.
struct Plan {
  std::uint64_t left = never;   // so many that could fail succeed first
  std::size_t bytes_least = 0;  // a smaller one does not fail
  bool once = true;             // only one fails
  std::uint64_t failed = 0;
};
constinit Plan plan;

bool fails(std::size_t byte_count) {
  if (plan.left == never || byte_count < plan.bytes_least) return false;
  if (plan.left > 0) {
    --plan.left;
    return false;
  }
  ++plan.failed;
  if (plan.once) plan.left = never;
  return true;
}

}  // namespace
}  // namespace lack_of_memory_test

// As the library's: it asks the handler for memory until it has some.
void* operator new(std::size_t byte_count) {
  for (;;) {
    if (!lack_of_memory_test::fails(byte_count))
      if (void* const found = std::malloc(byte_count == 0 ? 1 : byte_count)) return found;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}
// AddressSanitizer has one of its own, whose blocks free() does not take.
void* operator new(std::size_t byte_count, const std::nothrow_t& /*tag*/) noexcept {
  try {
    return ::operator new(byte_count);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*byte_count*/) noexcept {
  std::free(memory);
}

namespace lack_of_memory_test {
namespace {

using namespace sepal;
using session::test::request;
using session::test::SessionWorld;

constexpr std::string_view refused = "-OOM the system gives the server no more memory\r\n";
constexpr std::string_view ping = "*1\r\n$4\r\nPING\r\n";

using Words = std::vector<std::string>;
using Contents = std::map<std::string, std::string>;

std::string joined(const std::vector<Words>& requests) {
  std::string bytes;
  for (const Words& words : requests) bytes += request(words);
  return bytes;
}

void prepare(SessionWorld& world) {
  for (const Words& words : {Words{"BF.RESERVE", "filter", "0.01", "100"},
                             {"BF.MADD", "filter", "a", "b"},
                             {"BF.RESERVE", "full", "0.01", "1", "EXPANSION", "2"},
                             {"BF.ADD", "full", "a"},
                             {"SET", "text", "12"}})
    world.ask(request(words));
  world.output.reserve(64 * 1024);
}

// What clients see of all keys that the requests name.
Contents contents_of(session::test::WorkerSession& session) {
  Contents all;
  for (const std::string key : {"filter", "full", "text", "new", "newer"})
    all[key] = session.ask(request({"DUMP", key})) + session.ask(request({"PEXPIRETIME", key}));
  return all;
}

// How a process ends in which one allocation of the request failed.
enum Outcome : int { right = 0, wrong = 1, ended = 2, nothing_failed = 3 };

// The request is refused and has changed nothing, or its change is whole. Other clients go on in any case.
Outcome outcome_of(std::uint64_t number, const std::string& bytes, const std::string& reply_expected,
                   const Contents& after) {
  SessionWorld world;
  prepare(world);
  const Contents before = contents_of(world);
  world.output.reserve(64 * 1024);
  plan = {.left = number};
  const std::string reply = world.ask(bytes);
  const bool has_failed = plan.failed != 0;
  plan = {};
  if (!has_failed) return nothing_failed;
  session::test::WorkerSession other(world.ground, world.services, 0);
  if (other.ask(ping) != "+PONG\r\n") return wrong;
  const Contents now = contents_of(other);
  if (reply == reply_expected) return now == after ? right : wrong;
  if (reply == refused) return now == before ? right : wrong;
  const bool is_lost = reply.find("-OOM") != std::string::npos || world.ask(ping).empty();
  return is_lost && (now == before || now == after) ? right : wrong;
}

// In a process of its own: it may end in the middle of a change.
Outcome try_with(std::uint64_t number, const std::string& bytes, const std::string& reply,
                 const Contents& after) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::set_terminate([] { ::_exit(ended); });
    ::_exit(outcome_of(number, bytes, reply, after));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return static_cast<Outcome>(WEXITSTATUS(status));
}

// Lets each allocation of the requests fail, one after the other. Returns how often the process ended.
int ends_of(const std::vector<Words>& requests) {
  const std::string bytes = joined(requests);
  SessionWorld world;
  prepare(world);
  const std::string reply = world.ask(bytes);
  const Contents after = contents_of(world);
  int ends = 0;
  for (std::uint64_t number = 0;; ++number) {
    const Outcome outcome = try_with(number, bytes, reply, after);
    if (outcome == nothing_failed) return ends;
    INFO(requests.back().front() << ", allocation " << number);
    CHECK(outcome != wrong);
    ends += outcome == ended ? 1 : 0;
  }
}

}  // namespace

TEST_CASE("a request that reads is refused when any one of its allocations fails") {
  const std::string items(200, 'x');
  for (const Words& words : {Words{"BF.MEXISTS", "filter", "a", items},
                             {"BF.INFO", "filter"},
                             {"DUMP", "filter"},
                             {"GET", "text"},
                             {"MGET", "text", "text"},
                             {"KEYS", "*"},
                             {"SCAN", "0"},
                             {"RANDOMKEY"},
                             {"COMMAND", "DOCS", "get"},
                             {"COMMAND", "INFO", "get"},
                             {"CONFIG", "GET", "*"},
                             {"INFO"},
                             {"CLIENT", "LIST"},
                             {"ACL", "GETUSER", "default"},
                             {"NOSUCH", items}})
    CHECK(ends_of({words}) == 0);
}

TEST_CASE("a request that changes a key does it whole or not at all, or ends the process") {
  const std::string value(300, 'v');
  for (const Words& words : {Words{"BF.RESERVE", "new", "0.01", "100"},
                             {"BF.ADD", "new", "a"},
                             {"BF.MADD", "filter", "c", "d", "e"},
                             {"BF.MADD", "full", "b", "c", "d"},
                             {"SET", "new", value},
                             {"SET", "text", value, "GET", "PXAT", "9999999999999"},
                             {"APPEND", "text", value},
                             {"SETRANGE", "text", "1000", "x"},
                             {"SETBIT", "new", "100", "1"},
                             {"INCR", "text"},
                             {"GETDEL", "text"},
                             {"DEL", "text"},
                             {"RENAME", "filter", "new"},
                             {"COPY", "filter", "new"},
                             {"PEXPIREAT", "filter", "9999999999999"},
                             {"FLUSHDB"}})
    ends_of({words});
}

TEST_CASE("a transaction is refused whole, or each of its commands runs or is refused") {
  const std::vector<Words> reads{{"MULTI"}, {"GET", "text"}, {"BF.EXISTS", "filter", "a"}, {"DISCARD"}};
  CHECK(ends_of(reads) == 0);
  ends_of({{"MULTI"}, {"SET", "new", "1"}, {"EXEC"}});
}

TEST_CASE("what is too large for memory is refused, and the next request is not") {
  memory_reserve::begin();
  constexpr std::size_t large = 256 * 1024;
  SessionWorld world;
  prepare(world);
  const std::string value(1'000'000, 'v');
  REQUIRE(world.ask(request({"SET", "text", value})) == "+OK\r\n");
  const std::string bulk = "$1000000\r\n" + value + "\r\n";
  const std::string bytes = joined({{"MULTI"}, {"GET", "text"}, {"EXEC"}});
  plan = {.left = 0, .bytes_least = large, .once = false};
  const std::string reply = world.ask(bytes);
  plan = {};
  CHECK(reply.starts_with("+OK\r\n+QUEUED\r\n*1\r\n-OOM the system "));
  CHECK(memory_reserve::permits());
  CHECK((world.ask(request({"GET", "text"})) == bulk));
  std::set_new_handler(nullptr);
}

TEST_CASE("a small allocation that fails takes from the reserve, and the request succeeds") {
  memory_reserve::begin();
  SessionWorld world;
  prepare(world);
  const std::uint64_t uses = memory_reserve::uses();
  const std::string bytes = request({"MULTI"});
  plan = {.left = 0};
  CHECK(world.ask(bytes) == "+OK\r\n");
  plan = {};
  CHECK(memory_reserve::uses() == uses + 1);
  CHECK(memory_reserve::broken.load());
  // The system gives memory again, so the next request is not refused.
  CHECK(world.ask(request({"BF.ADD", "new", "a"})) == "+QUEUED\r\n");
  CHECK_FALSE(memory_reserve::broken.load());
  std::set_new_handler(nullptr);
}

}  // namespace lack_of_memory_test
