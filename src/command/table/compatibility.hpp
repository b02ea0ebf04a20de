// The names and versions that Sepal reports. Clients look at these before they use a command.
#pragma once

#include <sepal/resp/reply.hpp>

#include <cstdint>
#include <string_view>

namespace sepal::command {

// Clients parse three numbers. Some clients use RESP3 features only if the server is a "redis" of a new
// enough version.
inline constexpr std::string_view server_name = "redis";
inline constexpr std::string_view redis_version = "7.4.1";
// The module whose commands Sepal has, and its release (major * 10000 + minor * 100 + patch).
inline constexpr std::string_view bloom_module_name = "bf";
inline constexpr std::int64_t bloom_module_version = 20802;

// The modules, as HELLO and MODULE LIST show them.
inline void append_modules(resp::Reply& reply) {
  reply.array(1);
  reply.map(4);
  reply.field("name").bulk(bloom_module_name);
  reply.field("ver").integer(bloom_module_version);
  reply.field("path").bulk("");
  reply.field("args").array(0);
}

}  // namespace sepal::command
