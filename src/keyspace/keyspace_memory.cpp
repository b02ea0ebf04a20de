// The memory that values and keys take, and may take.
#include <sepal/base/assert.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/value/kept_bytes.hpp>

#include <algorithm>
#include <limits>

namespace sepal::keyspace {

namespace {

// What a value may take when neither a limit nor the machine's memory is known: more than any machine has,
// yet small enough that sums of a few such numbers do not wrap.
constexpr std::uint64_t unbounded_bytes = std::uint64_t{1} << 62;

}  // namespace

std::uint64_t Keyspace::memory_used() const {
  return memory_used_.load(std::memory_order_relaxed) + value::KeptBytes::total();
}

std::uint64_t Keyspace::memory_peak() const {
  // What copies keep is in no call of account().
  return std::max(memory_peak_.load(std::memory_order_relaxed), memory_used());
}

std::uint64_t Keyspace::memory_limit() const {
  for (const std::uint64_t limit : {options_.memory_max, memory_share_})
    if (limit != 0) return limit;
  return options_.machine_bytes;
}

bool Keyspace::over_memory_limit() const {
  const std::uint64_t limit = memory_limit();
  return limit != 0 && memory_used() > limit;
}

std::uint64_t Keyspace::bytes_beside(std::uint64_t bytes_used) const {
  const std::uint64_t limit = memory_limit();
  if (limit == 0) return unbounded_bytes;
  // More may be in use than the limit allows: the operator may have lowered it.
  return std::min(limit - std::min(limit, bytes_used), unbounded_bytes);
}

std::uint64_t Keyspace::bytes_free(std::uint64_t bytes_held) const {
  return bytes_beside(memory_used() - std::min(memory_used(), bytes_held));
}

value::Limits Keyspace::value_limits(std::uint64_t bytes_held) const {
  return {.bytes_max = bytes_free(bytes_held), .layers_max = options_.layers_max};
}

value::Limits Keyspace::machine_limits() const {
  // For a replay: it repeats what has fitted before, whatever the operator has set since. Only the machine
  // itself bounds it.
  return {.bytes_max = options_.machine_bytes != 0 ? options_.machine_bytes : unbounded_bytes,
          .layers_max = std::numeric_limits<std::uint32_t>::max()};
}

Result<void> Keyspace::hold(std::uint64_t byte_count) {
  if (byte_count > bytes_free(0)) return fail(Errc::memory_limit);
  held_bytes_ += byte_count;
  account(byte_count);
  return {};
}

void Keyspace::release(std::uint64_t byte_count) {
  SEPAL_ASSERT(byte_count <= held_bytes_, "more is released than was held");
  held_bytes_ -= byte_count;
  account(-byte_count);
}

void Keyspace::set_memory_max(std::uint64_t bytes) {
  options_.memory_max = bytes;
}

void Keyspace::set_memory_share(std::uint64_t bytes) {
  memory_share_ = bytes;
}

void Keyspace::account(std::uint64_t bytes, std::uint64_t least) {
  if (least != 0) least_bytes_.fetch_add(least, std::memory_order_relaxed);
  if (bytes == 0) return;
  const std::uint64_t used = memory_used_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::uint64_t peak = memory_peak_.load(std::memory_order_relaxed);
  while (used > peak && !memory_peak_.compare_exchange_weak(peak, used, std::memory_order_relaxed)) {
  }
}

}  // namespace sepal::keyspace
