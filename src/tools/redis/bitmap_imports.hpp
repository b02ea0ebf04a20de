// `sepal migrate --bitmap`: strings in which client programs kept Bloom filters become filters of the target.
// They are moved as strings first. Then BF.IMPORTBITMAP makes a filter of each, under the same key.
#pragma once

#include <sepal/base/result.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "tools/redis/migrate.hpp"
#include "tools/redis/redis_connection.hpp"

namespace sepal::tools {

// The first rule whose pattern the key matches; null: none.
[[nodiscard]] const BitmapRule* rule_for(std::span<const BitmapRule> rules, std::string_view key);

// Asks the target whether it would take each rule. Errors: out_of_range, with the rule and the target's
// words; io.
Result<void> check_rules(RedisConnection& target, std::span<const BitmapRule> rules);

// Makes filters of these keys of the target, if they are strings there. `refuse` is called with a key and the
// reason why it stays a string. Returns how many became filters. Errors: io.
Result<std::uint64_t> import_bitmaps(
    RedisConnection& target, std::span<const BitmapRule> rules, std::span<const std::string> keys,
    const std::function<void(const std::string&, const std::string&)>& refuse);

}  // namespace sepal::tools
