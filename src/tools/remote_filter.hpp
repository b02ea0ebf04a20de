// A filter on a server, as `sepal migrate` sees it.
#pragma once

#include <sepal/keyspace/deadline.hpp>

#include <cstdint>
#include <string>

#include "redis_connection.hpp"

namespace sepal::tools {

// The type of a filter's key, of RedisBloom and of sepald.
inline constexpr const char* filter_type = "MBbloom--";

// What BF.INFO tells that both servers tell alike, and the size.
struct FilterFigures {
  std::int64_t capacity = 0;
  std::int64_t layers = 0;
  std::int64_t items = 0;
  std::int64_t expansion = 0;  // 0: does not scale
  std::int64_t bytes = 0;      // each server counts them in its own way

  [[nodiscard]] bool alike(const FilterFigures& other) const {
    return capacity == other.capacity && layers == other.layers && items == other.items &&
           expansion == other.expansion;
  }
};

struct RemoteFilter {
  std::string key;
  std::string type;    // "none" where there is no key
  bool there = false;  // it is a filter, and was there for all questions
  FilterFigures figures;
  keyspace::Deadline deadline = keyspace::no_deadline;
};

// How a server tells deadlines.
enum class DeadlineQuestion : std::uint8_t {
  absolute,  // PEXPIRETIME
  relative,  // PTTL: Redis before version 7
};

// Asks about a filter. Then reads the answers to the same question.
void add_questions(RedisConnection& server, const std::string& key, DeadlineQuestion how);
Result<RemoteFilter> receive_answers(RedisConnection& server, const std::string& key, DeadlineQuestion how);

[[nodiscard]] FilterFigures figures_of(ReplyView info);

}  // namespace sepal::tools
