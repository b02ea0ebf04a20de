// What one connection carries from request to request.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/command/observe/monitors.hpp>
#include <sepal/command/run/transaction.hpp>
#include <sepal/command/users/acl_user.hpp>
#include <sepal/keyspace/watches.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace sepal::command {

struct CommandSpec;

// When a waiting client goes, its Lifeline tells the job that works for it.
class Lifeline {
 public:
  Lifeline() = default;
  ~Lifeline() {
    if (gone_ != nullptr) gone_->store(true);
  }
  Lifeline(Lifeline&&) noexcept = default;
  Lifeline& operator=(Lifeline&&) noexcept = default;
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  // The flag that becomes true when the client goes.
  [[nodiscard]] std::shared_ptr<const std::atomic<bool>> tie() {
    gone_ = std::make_shared<std::atomic<bool>>(false);
    return gone_;
  }
  [[nodiscard]] bool tied() const { return gone_ != nullptr; }
  // Call it when the client has its answer.
  void untie() { gone_ = nullptr; }

 private:
  std::shared_ptr<std::atomic<bool>> gone_;
};

// A command that administers the server, for the log.
struct Administration {
  std::string user;   // that sent it; the user may be gone when the command has its answer
  std::string words;  // without secrets
};

// Which replies CLIENT REPLY lets a client have. The session drops the others.
enum class Replies : std::uint8_t {
  all,
  none,
  all_but_two,  // all but the replies to the running request (CLIENT REPLY SKIP) and to the next one
  all_but_one,  // all but the reply to the next request; while that runs, all but its reply
};

// What a client says of itself. Many say nothing.
struct ClientNames {
  std::string client;
  std::string library;
  std::string library_version;
};

// Guarded by the gate: the client's own worker changes it inside the gate; other threads look at it or change
// it with the gate closed. The dispatcher keeps last_request_at, last_command and request_count; the
// connection keeps the bytes.
struct ClientState {
  std::uint64_t id = 0;  // unique for the life of the process, from 1
  std::string address;   // "127.0.0.1:50412", or the path of a UNIX socket
  std::string local_address;
  int descriptor = -1;  // for CLIENT LIST only
  std::uint32_t database = 0;
  std::unique_ptr<ClientNames> names;          // null: it said none
  const User* user = &User::without_rights();  // one of Users, which outlives the client or takes it away
  SteadyTime login_due{};
  bool authenticated = false;  // true for a new connection if `default` needs no password then
  // The request at the front of the client is a login that has failed; its answer is due at `login_due`.
  // Before, the client's logins are not checked.
  bool login_failed = false;
  bool no_evict = false;
  bool no_touch = false;
  Replies replies = Replies::all;
  std::uint8_t protocol = 2;       // what its Reply speaks
  bool close_after_reply = false;  // set by QUIT and by CLIENT KILL of itself
  // Set with the gate closed before ClientDirectory::kill(), which tells all workers: from then on the client
  // does not move from one worker, which was not told yet, to one that was.
  bool to_be_closed = false;
  SteadyTime connected_at{};
  SteadyTime last_request_at{};
  const CommandSpec* last_command = nullptr;  // for "cmd=" of CLIENT LIST; null before the first
  std::unique_ptr<Transaction> transaction;   // from MULTI to EXEC; else null
  std::unique_ptr<keyspace::Watch> watch;     // null: the client watches no key
  std::unique_ptr<Monitoring> monitoring;     // null: the client is no monitor
  Lifeline lifeline;                          // tied while the client waits for a job that ends with it
  // A command that has no answer yet (Next::wait); null: the client waits for the answer of no such command.
  std::unique_ptr<const Administration> administration;

  // Valid until the names change.
  [[nodiscard]] const ClientNames& shown_names() const {
    static const ClientNames none;
    return names == nullptr ? none : *names;
  }
  [[nodiscard]] ClientNames& names_to_change() {
    if (names == nullptr) names = std::make_unique<ClientNames>();
    return *names;
  }
  // Whether the next requests have replies that differ from each other, so that they cannot run together.
  [[nodiscard]] bool skips_a_reply() const { return replies > Replies::none; }

  // The memory of what waits for EXEC: queued commands and watched keys.
  [[nodiscard]] std::uint64_t bytes_for_exec() const {
    return (transaction == nullptr ? 0 : transaction->byte_count()) +
           (watch == nullptr ? 0 : watch->byte_count());
  }

  std::uint64_t request_count = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t bytes_unparsed = 0;     // read, and part of no complete request yet
  std::uint64_t bytes_of_job = 0;       // copied from the request, for a job that the client waits for
  std::uint64_t bytes_of_requests = 0;  // the memory of requests that have not come whole, or have not run
  std::uint64_t bytes_unsent = 0;       // the memory of replies that wait for the client to read
  // Whether the client may move to another worker: no worker has anything of it beside this.
  [[nodiscard]] bool can_move() const {
    return !to_be_closed && !close_after_reply && !login_failed && transaction == nullptr &&
           watch == nullptr && monitoring == nullptr && administration == nullptr && !lifeline.tied();
  }
  // What maxmemory_clients bounds.
  [[nodiscard]] std::uint64_t bytes_held() const { return bytes_of_requests + bytes_unsent; }
};

}  // namespace sepal::command
