#include <sepal/base/assert.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>

namespace sepal::value {
namespace {

template <class Test>
const KindRow* first_of(const Test& test) {
  const auto found = std::ranges::find_if(kinds, [&](const KindRow* row) { return test(*row); });
  return found == kinds.end() ? nullptr : *found;
}

}  // namespace

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
  return first_of([&](const KindRow& row) { return row.begins_image(bytes); });
}

const KindRow* row_of_payload(std::span<const std::byte> payload) {
  // From the last kind on: the first one takes values of all modules that no other kind takes, and says what
  // is wrong with them.
  for (auto row = kinds.rbegin(); row != kinds.rend(); ++row)
    if ((*row)->payload != nullptr && (*row)->payload->begins(payload)) return *row;
  return nullptr;
}

std::string words_of_kinds(const std::function<std::string(const KindRow& row)>& before) {
  std::string words;
  for (const KindRow* const row : kinds) {
    if (!words.empty()) words += row == kinds.back() ? " and " : ", ";
    if (before) words += before(*row);
    words.append(row->word).append("s");
  }
  return words;
}

}  // namespace sepal::value
