// What filters that delete hold, Sepal's own and RedisBloom's, as clients know it from the replies.
#pragma once

#include <sepal/value/value.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sepal::test {

// Items have the numbers below this. They are few, so many are there several times, and a test can ask for
// all.
inline constexpr std::uint32_t cuckoo_items = 160;
std::string cuckoo_item(std::uint32_t number);

struct CuckooModel {
  std::map<std::uint32_t, std::uint64_t> copies{};  // of the items that have any
  std::uint64_t others = 0;                         // items that have no number
  std::uint64_t removed = 0;
  // The image of a filter of RedisBloom, which has exactly these bytes. Null: Sepal's own filter, which has
  // exactly these copies. It errs so rarely that it tells all items apart.
  std::shared_ptr<const std::vector<std::byte>> bytes{};

  [[nodiscard]] std::uint64_t item_count() const;
};

// `value` is a filter that deletes. The copies in one of RedisBloom are not known: it has none here.
CuckooModel cuckoo_model_of(const value::Value& value);
// Whether the value has exactly what the model says. If `next` is not null, the value may also have a part of
// a chunk that makes it `next`.
bool is_like(const value::Value& value, const CuckooModel& model, const CuckooModel* next);
// An own filter with so many items that a few more split its cell.
value::ValuePtr about_to_split();

}  // namespace sepal::test
