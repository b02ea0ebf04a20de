// Parts of a tour, for the programs that use hiredis.
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

constexpr int pipeline_depth = 10000;
constexpr int batch_items = 100000;
// A filter of 1% may call so many new items known.
constexpr double new_min = 0.97;
constexpr const char* add_script = "return redis.call('BF.ADD', KEYS[1], ARGV[1])";

// Null if the variable is not set or empty.
inline const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

inline int port() {
  return std::atoi(variable("SEPAL_PORT"));
}

inline void ok(const char* part) {
  std::printf("ok %s\n", part);
  std::fflush(stdout);
}

inline void expect(bool claim, const char* what) {
  if (claim) return;
  std::printf("failed: %s\n", what);
  std::exit(1);
}

inline std::string binary_key() {
  std::string key = "binary:";
  for (int byte = 0; byte < 256; ++byte) key += static_cast<char>(byte);
  return key;
}

inline std::string binary_item() {
  std::string item;
  for (int byte = 255; byte >= 0; --byte) item += static_cast<char>(byte);
  return item;
}

inline std::string_view text(const redisReply& reply) {
  return {reply.str, reply.len};
}

inline bool is_number(const redisReply& reply, long long number) {
  return reply.type == REDIS_REPLY_INTEGER && reply.integer == number;
}

inline bool is_status(const redisReply& reply, std::string_view status) {
  return reply.type == REDIS_REPLY_STATUS && text(reply) == status;
}

inline bool is_error(const redisReply& reply, std::string_view part) {
  return reply.type == REDIS_REPLY_ERROR && text(reply).find(part) != std::string_view::npos;
}

inline bool is_numbers(const redisReply& reply, const std::vector<long long>& numbers) {
  if (reply.type != REDIS_REPLY_ARRAY || reply.elements != numbers.size()) return false;
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    if (!is_number(*reply.element[at], numbers[at])) return false;
  }
  return true;
}

// How many numbers of an array are 1.
inline int count_ones(const redisReply& reply) {
  int ones = 0;
  for (std::size_t at = 0; at < reply.elements; ++at) ones += is_number(*reply.element[at], 1) ? 1 : 0;
  return ones;
}

// The number behind a name in the flat list that BF.INFO answers; -1 if it is not there.
inline long long field(const redisReply& reply, std::string_view name) {
  for (std::size_t at = 0; at + 1 < reply.elements; at += 2) {
    if (text(*reply.element[at]) == name) return reply.element[at + 1]->integer;
  }
  return -1;
}

// The words of `BF.MADD batch b:0 b:1 ...`.
inline std::vector<std::string> batch_words() {
  std::vector<std::string> words{"BF.MADD", "batch"};
  for (int number = 0; number < batch_items; ++number) words.push_back("b:" + std::to_string(number));
  return words;
}

}  // namespace harness
