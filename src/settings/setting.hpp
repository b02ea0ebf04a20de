// One row of the table of settings, and the values that are passed between a file, a flag and the struct.
#pragma once

#include <sepal/settings/settings.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sepal::settings {

// How a value is written. All kinds but `addresses` and `seed` use one of the first three alternatives of
// Value.
enum class Kind : std::uint8_t {
  count,        // a whole number
  bytes,        // a whole number, or a text with a unit: "64mb"
  seconds,      // a whole number, or a text with a unit: "5m"
  permissions,  // octal digits: "700"
  rate,         // a number with a fraction
  text,
  choice,     // one of a few words
  addresses,  // blank or comma separated, or an array of texts
  seed,       // a whole number, or "auto"
};

using Seed = std::optional<std::uint64_t>;
using Value = std::variant<std::uint64_t, double, std::string, std::vector<std::string>, Seed>;

// The limits of a value, both included. They apply to a number itself, to the length of a text, and to the
// count of addresses.
struct Range {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};

// What CONFIG does with a setting: nothing, show it, or change it as well. Usual, in a row of the table: live
// in Settings::runtime, Settings::keyspace and Settings::tls, hidden elsewhere.
enum class InConfig : std::uint8_t { usual, hidden, shown, live };

// Immutable.
struct Setting {
  std::string_view key;      // in the file; the flag is the same with dashes
  std::string_view group{};  // heading in the help; empty in the table: that of the row before
  Kind kind = Kind::count;   // count: what follows from the type of the field
  Range range{};
  std::span<const std::string_view> choices{};
  std::string_view help{};
  InConfig config = InConfig::usual;
  std::string_view parameter{};   // its name in CONFIG, if that is not the key with dashes
  std::string_view redis_name{};  // what else redis.conf calls it; only to guess what was meant
  bool secret = false;
  bool is_path = false;    // of `text`
  bool of_memory = false;  // of `bytes`: may be a share of the memory there is, "50%"
  Value (*get)(const Settings&) = nullptr;
  void (*set)(Settings&, const Value&) = nullptr;

  [[nodiscard]] std::string flag() const;
  [[nodiscard]] std::string parameter_name() const;
};

// The number that a text stands for, of a setting whose kind is `bytes`.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes_of(const Setting& setting, std::string_view text);

// All settings, in the order of the sample file.
[[nodiscard]] std::span<const Setting> all_settings();

// Null if there is no setting of that name.
[[nodiscard]] const Setting* find_setting(std::string_view key);

// Errors: invalid_setting if the settings of new cuckoo filters contradict each other.
Result<void> check_cuckoo(const keyspace::KeyspaceOptions& options);

// Computes what follows from several settings. Errors: invalid_setting if they contradict each other.
Result<void> complete(Settings& settings);

}  // namespace sepal::settings
