// What became of the keys that a tool was to move: the counts of its report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sepal::tools {

struct MovedKeys {
  std::uint64_t filters = 0;
  std::uint64_t items = 0;  // as the filters count them
  std::uint64_t bytes = 0;  // of their bits
  std::uint64_t strings = 0;
  std::uint64_t string_bytes = 0;
  std::size_t layers_most = 0;  // of one filter
  // What was left out rightly: keys "of type hash", "past their deadline".
  std::map<std::string, std::uint64_t> others;
  // Filters and strings that were left out, by reason.
  std::map<std::string, std::uint64_t> refused;
  // The first few of these keys: "2:key".
  std::vector<std::string> refused_keys;

  static constexpr std::size_t refused_keys_max = 10;
  void refuse(const std::string& why, std::uint64_t database, const std::string& key);
  // A key of another type than filters and strings. A list or a hash is left out rightly: sepald never has
  // any. A filter or a sketch of another kind is refused: the user may count on it.
  void leave(const std::string& type, std::uint64_t database, const std::string& key);
};

// The lines of a report about them, without line feeds.
[[nodiscard]] std::vector<std::string> report_of(const MovedKeys& keys);

// A key as a person can read it: bytes that are not printable as "\xff", and a long one cut.
[[nodiscard]] std::string readable_key(const std::string& key);

}  // namespace sepal::tools
