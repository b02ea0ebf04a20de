// The configuration file: TOML, one setting a line, no sections.
#pragma once

#include <sepal/base/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "settings/setting.hpp"

namespace sepal::settings {

// A place in a text as people count: from 1, in characters, not bytes.
struct Place {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

// A setting that a file sets, and where its value stands (`end` is behind its last character).
struct FileSetting {
  const Setting* setting = nullptr;
  Value value;
  Place begin;
  Place end;
};

// Reads the whole file. Blocks. Errors: not_found if there is no file; io; too_large for a file that cannot
// be a configuration.
Result<std::string> read_config_text(const std::string& path);

// The settings in the order of the text. `path` is used in errors: invalid_setting, "path:line: what is
// wrong".
Result<std::vector<FileSetting>> parse_config(std::string_view text, const std::string& path);

void apply(const std::vector<FileSetting>& from, Settings& to);

}  // namespace sepal::settings
