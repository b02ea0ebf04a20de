// What is of one kind in the making of a filter of others (remaking.hpp): a Bloom filter, or one that
// forgets.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/base/result.hpp>
#include <sepal/value/kind_row.hpp>
#include <sepal/value/value.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sepal::command {

struct RemakeRequest {
  std::uint32_t database = 0;
  std::string key;
  std::vector<std::string> part_keys{};  // each once; the key itself among them: the filter goes on
  std::vector<value::ValuePtr> parts{};  // what these keys name: filters of one kind
  bool unites = false;                   // else there is one Bloom filter, to be shrunk
  bool replaces = false;                 // what is under the key may be replaced
  std::optional<double> allowed{};       // the error rate of a union
  std::uint64_t capacity = 0;            // of a shrunk filter
  WallTime now{};
  std::optional<std::size_t> continued{};  // the part under the key itself
};

class Uniting {
 public:
  // The request outlives it.
  [[nodiscard]] static std::unique_ptr<Uniting> of(const RemakeRequest& request);
  virtual ~Uniting() = default;

  // The gate is closed. What is read: the layers that the parts have now. Errors, with a sentence:
  // out_of_range, in_use.
  [[nodiscard]] virtual Result<void> begin() = 0;
  // Measures. Errors, with a sentence: out_of_range (the union would err too often).
  [[nodiscard]] virtual Result<void> count() = 0;
  [[nodiscard]] virtual std::uint64_t byte_count() const = 0;
  // A filter without bits. Errors: too_large, out_of_memory.
  [[nodiscard]] virtual Result<value::ValuePtr> make(const value::Limits& limits) const = 0;
  // Sets the bits of the parts. Errors: io (given up).
  [[nodiscard]] virtual Result<void> take_parts(value::Value& made, const value::GoOn& go_on) = 0;
  // Sets what the continued part was given meanwhile. False: it has grown.
  [[nodiscard]] virtual bool take_entries(value::Value& made, std::span<const Fingerprint> entries) = 0;
  // The gate is closed. Sets the last counts. False: there is no room for what the continued part was given
  // meanwhile, or it has grown.
  [[nodiscard]] virtual bool finish(value::Value& made) const = 0;
  [[nodiscard]] virtual std::uint32_t extent(std::size_t part) const = 0;
};

// --- for the kinds ----------------------------------------------------------------------------------------

// A filter's own rate scatters around the one that it is planned for, and so does what a sample of its bits
// says.
inline constexpr double rate_tolerance = 1.05;
// What the samples of all parts may read.
inline constexpr std::uint64_t sampled_bytes_max = std::uint64_t{64} << 20;

// The error of a union that errs too often. `whose`: "it has", and the numbers are its items and its room.
[[nodiscard]] Error too_full(double rate, double allowed, const char* whose, double items,
                             std::uint64_t room);

[[nodiscard]] std::unique_ptr<Uniting> uniting_of_windows(const RemakeRequest& request);

}  // namespace sepal::command
