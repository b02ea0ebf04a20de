// Whole images, for values of any kind.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/value/kind_row.hpp>
#include <sepal/value/value.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sepal::value {

// Gives head and body, in this order, in pieces of at most mapped_allocation_min. Errors: io (given up).
Result<void> write_image(const FrozenView& value, const std::function<void(std::string piece)>& take,
                         const GoOn& go_on);

// A value as it was at one instant, to be copied while other threads go on changing it. Keeps the value
// alive. Immutable.
class Frozen {
 public:
  explicit Frozen(ValuePtr value);  // exclusive: this is the instant

  [[nodiscard]] const ValuePtr& value() const { return value_; }
  [[nodiscard]] FrozenView view() const {
    return {.value = *value_, .numbers = numbers_, .still = still_.get()};
  }
  [[nodiscard]] std::vector<std::byte> head() const;
  [[nodiscard]] std::uint64_t body_bytes() const { return row_of(*value_).body_bytes(view()); }
  // The bytes that write_image() gives in all.
  [[nodiscard]] std::uint64_t image_bytes() const {
    return row_of(*value_).head_bytes(view()) + body_bytes();
  }

  // A value with the same image. Outside the gate. Errors: too_large, out_of_memory, mapping_limit, io (given
  // up).
  [[nodiscard]] Result<ValuePtr> copy(const Limits& limits, const GoOn& go_on) const;

 private:
  ValuePtr value_;
  std::vector<std::uint64_t> numbers_;
  std::unique_ptr<Still> still_;
};

// Exclusive, or no other thread changes the value: its image. Allocates all of it: for small values.
[[nodiscard]] std::vector<std::byte> image_of(const Value& value);
[[nodiscard]] std::uint64_t image_bytes(const Value& value);
// What image_of() gave. Believes nothing. Errors: damaged (of no kind, or not as long as its head says),
// unsupported_version, layer_limit, out_of_range, too_large, out_of_memory, mapping_limit.
Result<ValuePtr> value_of(std::span<const std::byte> image, const Limits& limits);

// Whether no bit of these bytes is set.
[[nodiscard]] bool all_zero(std::span<const std::byte> bytes);

}  // namespace sepal::value
