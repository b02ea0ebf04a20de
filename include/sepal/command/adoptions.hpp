// Filters that come or go whole, not item by item: what is copied, dumped, restored, imported, exported or
// uploaded. What takes long is done off the workers, one thing after the other, and the client that asked
// waits (Next::wait) until it is done. `command` declares, `app` implements; tests use fakes.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/command/client_state.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/filter/frozen.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/resp/reply.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace sepal::command {

// What whoever works off the workers goes by.
struct Making {
  filter::FilterLimits limits;  // of a filter
  // About how many bytes a filter is going to take: they count as used memory from here on until it is under
  // its key, or given up. Errors: memory_limit.
  std::function<Result<void>(std::uint64_t byte_count)> hold;
  filter::GoOn go_on;  // false: nobody wants it any more
};

using Answer = std::function<void(resp::Reply& reply)>;

struct Adoption {
  std::string_view what;  // is done, in a word, for INFO; of static storage
  std::uint32_t database = 0;
  std::string key;
  keyspace::Deadline deadline = keyspace::no_deadline;
  bool replace = false;  // else a key that is there when the filter is made is an error: key_exists
  // Makes the filter, which nobody else knows. Outside the gate; may block.
  std::function<Result<keyspace::FilterPtr>(const Making& making)> make;
  // Asked once the filter is made, inside the closed gate: false ends it with no_such_key. May be empty.
  std::function<bool()> still_wanted = {};
  // Called once the filter is under its key, also where the client has gone meanwhile, and off the workers
  // not before it is durable as far as the policy asks. Any thread. May be empty.
  std::function<void()> adopted = {};
  // Tells the client how it went. Errors: key_exists, no_such_key, those of `make` and of Mutator::adopt,
  // not_recorded, those of the disk; reason_text() has words for all of them.
  std::function<void(resp::Reply& reply, const Result<void>& outcome)> answer;
};

// Of what changes no key.
struct Errand {
  std::string_view what;  // as Adoption's
  // Outside the gate; may block. Returns what the client is told.
  std::function<Answer(const Making& making)> run;
};

struct AdoptionStatus {
  std::uint64_t waiting = 0;  // behind the one that is under way
  std::string_view what;      // is under way; empty: nothing
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
};

class Adoptions {
 public:
  virtual ~Adoptions() = default;
  // Inside the gate; waits for nothing. The filter is under its key, and durable as far as the policy asks,
  // when the client is answered. It is given up when the client goes before that.
  virtual void adopt(ClientState& client, Adoption adoption) = 0;
  virtual void run(ClientState& client, Errand errand) = 0;
  virtual AdoptionStatus status() const = 0;  // any thread
};

struct OutgoingFile {
  std::string name;
  std::string key;
  filter::Frozen filter;
  bool replace = false;  // a file that is there
};

// Filter files in one folder, by plain names (is_plain_name). From within Adoption::make and Errand::run; all
// but enabled() may block.
class Transfers {
 public:
  virtual ~Transfers() = default;
  [[nodiscard]] virtual bool enabled() const = 0;  // there is a folder; immutable
  // Verifies all of it. Errors, with a sentence: not_found, damaged, unsupported_version, out_of_range (it
  // holds no filter, or several), too_large, memory_limit, out_of_memory, those of the disk.
  virtual Result<keyspace::FilterPtr> read(const std::string& name, const Making& making) = 0;
  // Written aside, synced and renamed. Errors: those of the disk; io where the file is there already.
  virtual Result<void> write(const OutgoingFile& file, const Making& making) = 0;
};

// Of a file that cannot lie anywhere but in the folder: no separators, no dot in front.
inline constexpr std::size_t plain_name_bytes_max = 240;
[[nodiscard]] bool is_plain_name(std::string_view name);

}  // namespace sepal::command
