// Memory that the handlers of one worker reuse from request to request.
#pragma once

#include <sepal/bloom/commands/find.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/resp/reply.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace sepal::command {

// Confined to its worker.
class Scratch {
 public:
  // `count` flags with unspecified values; valid until the next call. They are no std::vector<bool>, whose
  // elements are bits, and are not cleared: each handler writes all of them.
  std::span<bool> flags(std::size_t count) {
    if (count <= few_.size()) return std::span(few_).first(count);
    if (count > many_count_) {
      many_ = std::make_unique<bool[]>(count);
      many_count_ = count;
    }
    return {many_.get(), count};
  }

  std::vector<bloom::Filter::AddOutcome> outcomes;  // of the request that runs
  std::vector<cuckoo::Filter::AddOutcome> cuckoo_outcomes;
  bloom::FindWindow find_window;             // of a short BF.FIND
  std::vector<std::string_view> part_words;  // of the part of a long request that runs
  resp::Reply part_reply;
  std::vector<std::string_view> queued_words;  // of a command that a transaction queues
  std::vector<std::string_view> last_words;    // of the commands of a transaction that run together

  // For choices that need not be unpredictable: splitmix64 (Steele, Lea, Flood 2014), stirred with `entropy`.
  std::uint64_t random(std::uint64_t entropy) {
    random_state_ += 0x9e3779b97f4a7c15 ^ entropy;
    std::uint64_t mixed = random_state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }

 private:
  std::array<bool, 64> few_{};
  std::unique_ptr<bool[]> many_;
  std::size_t many_count_ = 0;
  std::uint64_t random_state_ = 0;
};

}  // namespace sepal::command
