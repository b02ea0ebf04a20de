// Makes a filter of the bits of filters that keys name, while clients go on adding to these, and puts it
// under a key in one instant.
//
//     a worker:   finds the parts, and holds them
//     a job:      gate closed: look again, take the layers of the parts, follow
//                 measure, check the rate, make, catch up
//                 gate closed: look again, put
//
// If the filter under the key is one of the parts, the new one goes on in its place. Then no item that a
// client adds meanwhile may get lost: each add tells this object of its new items (keyspace::Follower), and
// the job sets their bits in the new filter.
//
// What is recorded names the parts. So nothing is written to a file, and a crash leaves all of it or nothing.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/run/adoptions.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "command/bloom/uniting.hpp"

namespace sepal::command {

class Remaking final : public keyspace::Follower {
 public:
  explicit Remaking(RemakeRequest request);

  // For the steps of a job, in their order (adoptions.hpp). Errors have a sentence for the client where their
  // code is out_of_range or in_use.
  [[nodiscard]] Result<value::ValuePtr> make(const JobContext& job);
  [[nodiscard]] Result<void> catch_up(const value::ValuePtr& made);
  [[nodiscard]] std::optional<Result<void>> put(keyspace::Mutator& changes, const value::ValuePtr& made);
  void end(keyspace::Keyspace& keyspace);

  // All of it at once, with the gate closed, for parts that are small together.
  [[nodiscard]] Result<void> make_now(keyspace::Mutator& changes);

  void added(std::span<const Fingerprint> entries) noexcept override;

 private:
  // With the gate closed.
  [[nodiscard]] Result<void> begin(const keyspace::Keyspace& keyspace);
  [[nodiscard]] Result<void> check(const keyspace::Keyspace& keyspace) const;

  // Too many items have come, or the filter has grown: nothing can be made of that.
  [[nodiscard]] Result<void> take_followed(value::Value& made);
  [[nodiscard]] const value::Value& continued() const { return *request_.parts[*request_.continued]; }

  RemakeRequest request_;
  std::unique_ptr<Uniting> uniting_;
  bool following_ = false;
  bool takes_long_ = false;

  Mutex mutex_;  // Lock order: after the gate; nothing is locked inside.
  std::vector<Fingerprint> followed_ SEPAL_GUARDED_BY(mutex_);
  bool overflowed_ SEPAL_GUARDED_BY(mutex_) = false;
  std::vector<Fingerprint> taken_;  // the job's: no memory is asked for while a client adds
  std::size_t last_taken_ = 0;
};

}  // namespace sepal::command
