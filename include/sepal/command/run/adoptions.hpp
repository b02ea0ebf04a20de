// Filters that come or go whole, not item by item: they are copied, dumped, restored, imported, exported or
// uploaded. Work that takes long is done outside the workers, one job after the other, and the client that
// asked waits (Next::wait) until it is done. `command` declares, `app` implements; tests use fakes.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/command/run/client_state.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/resp/reply.hpp>
#include <sepal/value/image.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sepal::command {

// What a background job gets: limits, a way to reserve memory, and whether to go on.
struct JobContext {
  value::Limits limits;  // for one value
  // Counts about as many bytes as the filter is going to take as used memory, from here on until the filter
  // is under its key or given up. Errors: memory_limit.
  std::function<Result<void>(std::uint64_t byte_count)> hold;
  value::GoOn go_on;  // false: the result is no longer wanted
  // Calls work() with the gate closed.
  std::function<void(const std::function<void(keyspace::Keyspace& keyspace)>& work)> alone;
};

using Answer = std::function<void(resp::Reply& reply)>;

// How a filter comes under its key that is made of what keys name, while clients go on changing it.
struct Succession {
  // Outside the gate, before each put(): takes over what clients have done since the last call. An error ends
  // the adoption.
  std::function<Result<void>(const value::ValuePtr& made)> catch_up;
  // With the gate closed, in place of Mutator::adopt(). It records at most record_bytes_of_remaking().
  // Nothing: there is more to take over.
  std::function<std::optional<Result<void>>(keyspace::Mutator& changes, const value::ValuePtr& made)> put;
  // With the gate closed, once, at the end of each adoption that has begun to make a filter.
  std::function<void(keyspace::Keyspace& keyspace)> ended;
};

struct Adoption {
  std::string_view what;  // what is done, in a word, for INFO; of static storage
  std::uint32_t database = 0;
  std::string key;
  keyspace::Deadline deadline = keyspace::no_deadline;
  bool replace = false;  // false: a key that is there when the filter is made is an error: key_exists
  // Makes the filter, which no other thread knows. Outside the gate; may block.
  std::function<Result<value::ValuePtr>(const JobContext& job)> make;
  // Asked once the filter is made, inside the closed gate, when a key past its deadline is gone; false ends
  // the adoption with no_such_key. May be empty.
  std::function<bool()> still_wanted = {};
  // Called once the filter is under its key, also when the client has gone meanwhile. For a job outside the
  // workers, it is called only when the filter is as durable as the policy asks. Any thread. May be empty.
  std::function<void()> adopted = {};
  // If it has functions, no file is written, and may_adopt() is not asked.
  Succession succession = {};
  // Tells the client how it went. Errors: key_exists, no_such_key, those of `make` and of Mutator::adopt,
  // not_recorded (also where the filter cannot be written into the data directory); reason_text() has words
  // for all of them.
  std::function<void(resp::Reply& reply, const Result<void>& outcome)> answer;
};

// A job that changes no key.
struct Errand {
  std::string_view what;  // as Adoption's
  // Outside the gate; may block. Returns what the client is told.
  std::function<Answer(const JobContext& job)> run;
};

struct AdoptionStatus {
  std::uint64_t waiting = 0;  // jobs behind the one that is under way
  std::string_view what;      // the job that is under way; empty: none
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
  std::string refusal;  // why the last value could not be written into the data directory; empty: it could
};

// Called with the gate closed, before Mutator::adopt(): whether the filter may get under its key. Errors:
// key_exists (the key is taken, and not to be replaced), in_use (what is there is the target of a mirror).
Result<void> may_adopt(const keyspace::Keyspace& keyspace, keyspace::DatabaseKey key, bool replace);

class Adoptions {
 public:
  virtual ~Adoptions() = default;
  // Inside the gate; waits for nothing. When the client is answered, the filter is under its key, and as
  // durable as the policy asks. If the client goes before that, the filter is given up.
  virtual void adopt(ClientState& client, Adoption adoption) = 0;
  virtual void run(ClientState& client, Errand errand) = 0;
  [[nodiscard]] virtual AdoptionStatus status() const = 0;  // any thread
};

struct OutgoingFile {
  std::string name;
  std::string key;
  std::shared_ptr<const value::Frozen> value;
  bool replace = false;  // a file that is there may be replaced
};

// Filter files in one folder, by plain names (is_plain_name). Called from within Adoption::make and
// Errand::run; all members but enabled() may block.
class Transfers {
 public:
  virtual ~Transfers() = default;
  [[nodiscard]] virtual bool enabled() const = 0;  // there is a folder; immutable
  // A value of this kind. Verifies the whole file. Errors, with a sentence: not_found, damaged (it holds a
  // value of another kind as well), unsupported_version, out_of_range (it holds no value, or several),
  // too_large, memory_limit, out_of_memory, those of the disk.
  virtual Result<value::ValuePtr> read(const std::string& name, value::Kind kind, const JobContext& job) = 0;
  // Written aside, synced and renamed. Errors: those of the disk; io where the file is there already.
  virtual Result<void> write(const OutgoingFile& file, const JobContext& job) = 0;
};

// What is wrong with the name of a file in the folder, in words for the client; empty when nothing is. A name
// has no separators and no control characters, and is no longer than the system's names. It does not begin
// with a dot, because the names of files aside do.
inline constexpr std::size_t plain_name_bytes_max = 255;
[[nodiscard]] std::string_view wrong_with_name(std::string_view name);
[[nodiscard]] inline bool is_plain_name(std::string_view name) {
  return wrong_with_name(name).empty();
}

}  // namespace sepal::command
