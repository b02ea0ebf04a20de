// Values as people write them.
#pragma once

#include <sepal/base/result.hpp>

#include <string>
#include <string_view>

#include "settings/setting.hpp"

namespace sepal::settings {

// The value that `text` stands for. `text` comes from a flag, or is a quoted text of the file. Errors:
// invalid_setting, whose detail begins with "must be" and says what is allowed.
Result<Value> parse_value(const Setting& setting, std::string_view text);

// Checks a value against the range of its setting. Errors: as parse_value.
Result<Value> check_range(const Setting& setting, Value value);

// "must be ...": the kind and the range of the setting.
[[nodiscard]] std::string allowed_text(const Setting& setting);

// The range without a verb, for the sample file: "0 to 65535", "\"no\" or \"yes\"", "at most 16".
[[nodiscard]] std::string range_text(const Setting& setting);

// The value as the file writes it: 6379, "64mb", ["127.0.0.1"].
[[nodiscard]] std::string toml_text(const Setting& setting, const Value& value);

// Like toml_text, but hides a secret: for logs and reports.
[[nodiscard]] std::string shown_text(const Setting& setting, const Value& value);

}  // namespace sepal::settings
