#include "tools/redis/moved_keys.hpp"

#include <sepal/bloom/filter/filter.hpp>

#include <algorithm>
#include <array>
#include <string_view>

#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

struct ModuleType {
  std::string_view type;
  std::string_view name;  // of its values, for people
  bool is_sketch = false;
};
// The types of modules that many servers have. The sketches and filters among them are those of RedisBloom,
// and Valkey's Bloom filter.
constexpr std::array<ModuleType, 9> module_types{{{"CMSk-TYPE", "count-min sketches", true},
                                                  {"TopK-TYPE", "top-k lists", true},
                                                  {"TDIS-TYPE", "t-digests", true},
                                                  {"bloomfltr", "Bloom filters of Valkey's module", true},
                                                  {"ReJSON-RL", "JSON documents"},
                                                  {"TSDB-TYPE", "time series"},
                                                  {"ft_index0", "search indexes"},
                                                  {"graphdata", "graphs"},
                                                  {"vectorset", "vector sets"}}};

}  // namespace

void MovedKeys::refuse(const std::string& why, std::uint64_t database, const std::string& key) {
  // All keys are counted and only some are kept: a server may have millions of such keys.
  ++refused[why];
  if (refused_keys.size() < refused_keys_max)
    refused_keys.push_back(std::to_string(database) + ":" + readable_key(key));
}

void MovedKeys::leave(const std::string& type, std::uint64_t database, const std::string& key) {
  const auto* const found = std::ranges::find(module_types, type, &ModuleType::type);
  if (found == module_types.end()) {
    ++others["of type " + readable_key(type)];
  } else if (const std::string what = std::string(found->name) + " (" + type + ")"; found->is_sketch) {
    refuse("sepald has no " + what, database, key);
  } else {
    ++others[what];
  }
}

std::vector<std::string> report_of(const MovedKeys& keys) {
  std::vector<std::string> lines;
  lines.push_back(format("filters  %llu with %llu items, %s of bits", wide(keys.filters), wide(keys.items),
                         bytes_text(keys.bytes).c_str()));
  if (keys.strings != 0)
    lines.push_back(
        format("strings  %llu with %s", wide(keys.strings), bytes_text(keys.string_bytes).c_str()));
  if (keys.layers_most > bloom::FilterLimits{}.layers_max)
    lines.push_back(format("layers   up to %llu in one filter: start sepald with layers_max = %llu",
                           wide(keys.layers_most), wide(keys.layers_most)));
  for (const auto& [what, count] : keys.others)
    lines.push_back(format("skipped  %llu %s", wide(count), what.c_str()));
  for (const auto& [why, count] : keys.refused)
    lines.push_back(format("LEFT OUT %llu key%s: %s", wide(count), count == 1 ? "" : "s", why.c_str()));
  for (const std::string& key : keys.refused_keys) lines.push_back("LEFT OUT " + key);
  return lines;
}

std::string readable_key(const std::string& key) {
  // Keys and a server's words are any bytes. Control characters among them must not reach the terminal.
  constexpr std::size_t shown_max = 100;
  std::string text;
  for (const char letter : key.substr(0, shown_max)) {
    const auto code = static_cast<unsigned char>(letter);
    text += code < ' ' || code > '~' ? format("\\x%02x", unsigned{code}) : std::string(1, letter);
  }
  return text + (key.size() > shown_max ? "..." : "");
}

}  // namespace sepal::tools
