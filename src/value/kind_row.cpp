#include <sepal/base/assert.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <atomic>

namespace sepal::value {
namespace {

// The last kind is asked first: the first one takes what no other kind takes, and says what is wrong with it.
template <class Test>
const KindRow* row_that(const Test& test) {
  const auto found =
      std::find_if(kinds.rbegin(), kinds.rend(), [&](const KindRow* row) { return test(*row); });
  return found == kinds.rend() ? nullptr : *found;
}

}  // namespace

std::uint64_t new_identity() {
  static std::atomic<std::uint64_t> last{0};
  return 1 + last.fetch_add(1, std::memory_order_relaxed);
}

void Value::destroy(const Value* value) {
  const KindRow& row = row_of(*value);
  SEPAL_ASSERT(row.kind == value->kind(), "the row of a kind stands at another index");
  // The last pointer has gone, so no other thread knows the value.
  row.destroy(const_cast<Value*>(value));
}

const KindRow* find_row(std::uint8_t kind) {
  return kind < kinds.size() ? kinds[kind] : nullptr;
}

const KindRow* row_of_image(std::span<const std::byte> bytes) {
  return row_that([&](const KindRow& row) { return row.begins_image(bytes); });
}

const KindRow* row_of_payload(std::span<const std::byte> payload) {
  return row_that([&](const KindRow& row) { return row.payload != nullptr && row.payload->begins(payload); });
}

}  // namespace sepal::value
