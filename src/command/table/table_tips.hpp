// Words that several rows of the command table share.
#pragma once

#include <string_view>

namespace sepal::command {

inline constexpr std::string_view on_all_shards = "request_policy:all_shards response_policy:all_succeeded";
inline constexpr std::string_view on_all_nodes = "request_policy:all_nodes response_policy:all_succeeded";
inline constexpr std::string_view one_of_shards = "request_policy:all_shards response_policy:one_succeeded";
inline constexpr std::string_view sum_over_shards = "request_policy:multi_shard response_policy:agg_sum";

}  // namespace sepal::command
