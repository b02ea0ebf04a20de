// Filters that come whole, not item by item: what is copied, restored, imported or uploaded. What takes long
// is done off the workers, and the client that asked waits (Next::wait) until it is done. `command` declares,
// `app` implements; tests use fakes.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/command/client_state.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/resp/reply.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace sepal::command {

// What whoever makes a filter goes by.
struct Making {
  filter::FilterLimits limits;
  // Called now and then with the bytes that are done. False: nobody wants it any more.
  std::function<bool(std::uint64_t bytes_done)> go_on;
};

struct Adoption {
  std::uint32_t database = 0;
  std::string key;
  keyspace::Deadline deadline = keyspace::no_deadline;
  bool replace = false;  // else a key that is there when the filter is made is an error: key_exists
  // About what the filter takes; it counts as used memory while it is on its way.
  std::uint64_t byte_count = 0;
  // Makes the filter, which nobody else knows. Outside the gate, on the thread of adoptions: may block.
  std::function<Result<keyspace::FilterPtr>(const Making& making)> make;
  // Tells the client how it went. Errors: key_exists, those of `make` and of Mutator::adopt, not_recorded,
  // those of the disk; reason_text() has words for all of them.
  std::function<void(resp::Reply& reply, const Result<void>& outcome)> answer;
};

class Adoptions {
 public:
  virtual ~Adoptions() = default;
  // Inside the gate; waits for nothing. The filter is under its key, and durable as far as the policy asks,
  // when the client is answered. It is given up when the client goes before that.
  virtual void adopt(ClientState& client, Adoption adoption) = 0;
};

}  // namespace sepal::command
