// What Sepal says it is compatible with. Clients look at these numbers before they use a command.
#pragma once

#include <sepal/resp/reply.hpp>

#include <cstdint>
#include <string_view>

namespace sepal::command {

// Clients parse three numbers, and some use RESP3 features only of a "redis" that is new enough.
inline constexpr std::string_view server_name = "redis";
inline constexpr std::string_view redis_version = "7.4.1";
// The module whose commands Sepal speaks, and the release (major * 10000 + minor * 100 + patch).
inline constexpr std::string_view bloom_module_name = "bf";
inline constexpr std::int64_t bloom_module_version = 20802;

// The modules, as HELLO and MODULE LIST show them.
inline void append_modules(resp::Reply& reply) {
  reply.array(1);
  reply.map(4);
  reply.bulk("name");
  reply.bulk(bloom_module_name);
  reply.bulk("ver");
  reply.integer(bloom_module_version);
  reply.bulk("path");
  reply.bulk("");
  reply.bulk("args");
  reply.array(0);
}

}  // namespace sepal::command
