// Makes a filter of the bits of filters that keys name, while clients go on adding to these, and puts it
// under a key in one instant.
//
//     a worker:    finds the parts, and holds them
//     a job:       follow --> measure, check the rate --> make --> catch up --> gate closed: look again, put
//
// If the filter under the key is one of the parts, the new one goes on in its place. Then no item that a
// client adds meanwhile may get lost: each add tells this object of its new items (keyspace::Follower), and
// the job sets their bits in the new filter.
//
// What is recorded names the parts. So nothing is written to a file, and a crash leaves all of it or nothing.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/command/run/adoptions.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

struct RemakeRequest {
  std::uint32_t database = 0;
  std::string key;
  std::vector<std::string> part_keys{};   // each once; the key itself among them: the filter goes on
  std::vector<bloom::FilterPtr> parts{};  // what these keys name
  bloom::ImageHeader shape{};             // with the counts of this moment where a filter is shrunk
  bool unites = false;        // counts and rate are to be found out; else there is one part, shrunk
  bool replaces = false;      // what is under the key may be replaced
  double error_rate_max = 0;  // of a union
};

class Remaking final : public keyspace::Follower {
 public:
  explicit Remaking(RemakeRequest request);

  // For the steps of a job, in their order (adoptions.hpp). Errors have a sentence for the client where their
  // code is out_of_range or in_use.
  [[nodiscard]] Result<value::ValuePtr> make(const JobContext& job);
  [[nodiscard]] Result<void> catch_up(const value::ValuePtr& made, const JobContext& job);
  [[nodiscard]] std::optional<Result<void>> put(keyspace::Mutator& changes, const value::ValuePtr& made);
  void end(keyspace::Keyspace& keyspace);

  // All of it at once, with the gate closed, for parts that are small together.
  [[nodiscard]] Result<void> make_now(keyspace::Mutator& changes);

  void added(std::string_view item) noexcept override;

 private:
  [[nodiscard]] Result<void> count();
  [[nodiscard]] Result<void> take_bits(bloom::Filter& made, const JobContext& job);
  void take_followed(bloom::Filter& made);
  [[nodiscard]] Result<void> check(const keyspace::Keyspace& keyspace) const;
  [[nodiscard]] bool set_counts(bloom::Filter& made);

  RemakeRequest request_;
  std::vector<const bloom::Filter*> parts_;
  const bloom::Filter* continued_ = nullptr;  // the part under the key itself
  std::vector<std::uint64_t> counts_before_;  // of its layers, when its items were counted
  bool following_ = false;
  std::uint64_t bytes_done_ = 0;

  Mutex mutex_;  // Lock order: after the gate; nothing is locked inside.
  std::vector<Fingerprint> followed_ SEPAL_GUARDED_BY(mutex_);
  bool overflowed_ SEPAL_GUARDED_BY(mutex_) = false;
  std::vector<Fingerprint> taken_;  // the job's, so that no memory is asked for while a client adds
};

}  // namespace sepal::command
