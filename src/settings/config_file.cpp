// TOML's reader splits the text, and the table of settings judges the values, as it judges those of flags.
//
// The rest of this file makes errors that an operator understands. Most wrong files have a text without
// quotes, or a line of redis.conf. The reader stops there, and its own words speak of digits and dates. So
// the wrong line is judged once more, alone: not_toml_text() names the setting, and shows the line to write.
// These errors hide the value of a secret.
#include "settings/config_file.hpp"

#include <sepal/base/assert.hpp>

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>
#include <tuple>
#include <utility>

#include "settings/suggestion.hpp"
#include "settings/value_text.hpp"

namespace sepal::settings {
namespace {

constexpr std::size_t file_bytes_max = std::size_t{1} << 20;
constexpr std::size_t shown_length_max = 60;

Error refuse(const std::string& path, std::uint32_t line, const std::string& what) {
  return fail(Errc::invalid_setting, path + ":" + std::to_string(line) + ": " + what);
}

std::string shown(const std::string& text) {
  return text.size() <= shown_length_max ? '"' + text + '"'
                                         : '"' + text.substr(0, shown_length_max) + "...\"";
}

constexpr std::string_view in_quotes = "a text stands in double quotes";

// The values of these kinds are never numbers, so the advice about quotes fits whatever else the file has.
bool is_always_text(const Setting& setting) {
  return setting.kind == Kind::text || setting.kind == Kind::choice || setting.kind == Kind::addresses;
}

std::string in_quotes_as(const Setting& setting, const std::string& value) {
  const std::string advice(in_quotes);
  return setting.secret ? advice : advice + ", as in " + std::string(setting.key) + " = \"" + value + '"';
}

// What an error says last about a value that is neither a text nor an array. A boolean may stand for yes or
// no.
std::string quotes_advice(const Setting& setting, const toml::node& node) {
  if (!is_always_text(setting) || node.is_string() || node.is_array() || node.is_table()) return "";
  const auto* boolean = node.as_boolean();
  const std::string word = boolean != nullptr && boolean->get() ? "yes" : "no";
  const bool stands_for_word =
      boolean != nullptr && std::ranges::find(setting.choices, word) != setting.choices.end();
  return "; " + (stands_for_word ? in_quotes_as(setting, word) : std::string(in_quotes));
}

// Describes, for an error, what the file has at this place.
std::string found_text(const Setting& setting, const toml::node& node) {
  if (const auto* text = node.as_string()) {
    return "the text " + (setting.secret ? "given" : shown(text->get()));
  }
  if (setting.secret) return "not a text";
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) {
    std::ostringstream stream;
    stream << number->get();
    return stream.str();
  }
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  if (node.is_array()) return "an array";
  return node.is_table() ? "a table" : "a date or time";
}

Result<Value> convert_integer(const Setting& setting, const toml::value<std::int64_t>& node) {
  const std::int64_t number = node.get();
  const auto refused = [&] { return fail(Errc::invalid_setting, allowed_text(setting)); };
  const auto natural = static_cast<std::uint64_t>(number);
  switch (setting.kind) {
    case Kind::count:
      // A number below zero becomes a huge one here, and both are out of every range.
    case Kind::bytes:
    case Kind::seconds: return check_range(setting, natural);
    case Kind::permissions:
      // Without TOML's octal prefix, 700 would mean other permissions than the user wants.
      if ((node.flags() & toml::value_flags::format_as_octal) == toml::value_flags::none) return refused();
      return check_range(setting, natural);
    case Kind::rate: return check_range(setting, static_cast<double>(number));
    case Kind::seed:
      if (number < 0) return refused();
      return Value(Seed(natural));
    default: return refused();
  }
}

Result<Value> convert_array(const Setting& setting, const toml::array& array) {
  const auto refused = [&] { return fail(Errc::invalid_setting, allowed_text(setting)); };
  if (setting.kind != Kind::addresses) return refused();
  std::vector<std::string> texts;
  for (const toml::node& element : array) {
    const auto* text = element.as_string();
    if (text == nullptr) return refused();
    texts.push_back(text->get());
  }
  return check_range(setting, std::move(texts));
}

Result<Value> convert(const Setting& setting, const toml::node& node) {
  if (const auto* number = node.as_integer()) return convert_integer(setting, *number);
  if (const auto* array = node.as_array()) return convert_array(setting, *array);
  if (const auto* text = node.as_string();
      text != nullptr && setting.kind != Kind::count && setting.kind != Kind::rate) {
    return parse_value(setting, text->get());
  }
  if (const auto* number = node.as_floating_point(); number != nullptr && setting.kind == Kind::rate) {
    return check_range(setting, number->get());
  }
  return fail(Errc::invalid_setting, allowed_text(setting));
}

std::string unknown_text(std::string_view name, const toml::node& node) {
  const std::string text = "unknown setting " + ("'" + std::string(name) + "'");
  if (node.is_table()) return text + "; settings stand at the top of the file, without [sections]";
  const Setting* meant = nearest_setting(name);
  return meant == nullptr ? text : text + "; did you mean '" + std::string(meant->key) + "'?";
}

struct Entry {
  std::string name;
  std::uint32_t line = 0;
  const toml::node* node = nullptr;
};

// TOML's reader gives a table in the order of its names. An operator reads a file from its top, so the first
// error is that of the first wrong line.
std::vector<Entry> entries_by_line(const toml::table& table) {
  std::vector<Entry> entries;
  for (auto&& [key, node] : table) {
    entries.push_back({.name = std::string(key.str()), .line = key.source().begin.line, .node = &node});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.line, a.name) < std::tie(b.line, b.name);
  });
  return entries;
}

Result<std::vector<FileSetting>> convert_all(const toml::table& table, const std::string& path) {
  std::vector<FileSetting> settings;
  for (const Entry& entry : entries_by_line(table)) {
    const Setting* setting = find_setting(entry.name);
    if (setting == nullptr) return refuse(path, entry.line, unknown_text(entry.name, *entry.node));
    auto value = convert(*setting, *entry.node);
    if (!value) {
      return refuse(path, entry.line,
                    entry.name + " is " + found_text(*setting, *entry.node) + ": " + value.error().detail +
                        quotes_advice(*setting, *entry.node));
    }
    const toml::source_region& region = entry.node->source();
    settings.push_back({.setting = setting,
                        .value = std::move(*value),
                        .begin = {.line = region.begin.line, .column = region.begin.column},
                        .end = {.line = region.end.line, .column = region.end.column}});
  }
  return settings;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

// Lines count from 1. Empty if there is no such line.
std::string_view line_of(std::string_view text, std::uint32_t line) {
  for (; line > 1; --line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

bool is_toml(std::string_view text) {
  try {
    static_cast<void>(toml::parse(text));
    return true;
  } catch (const toml::parse_error&) {
    return false;
  }
}

// The error for a value that is not TOML, and has no quotes or brackets.
std::string bare_value_text(const Setting& setting, const std::string& value,
                            const std::string& description) {
  const std::string found = std::string(setting.key) + " is " +
                            (setting.secret ? "not a text" : value.substr(0, shown_length_max)) + ": ";
  const auto parsed = parse_value(setting, value);
  if (!parsed)
    return found + parsed.error().detail + (is_always_text(setting) ? "; " + std::string(in_quotes) : "");
  const bool is_number = setting.kind == Kind::count || setting.kind == Kind::rate;
  return found + (is_number ? description : in_quotes_as(setting, value));
}

// The error for a line that is not TOML. The parser's own description speaks of numbers and dates, but most
// such lines have a text without quotes.
std::string not_toml_text(std::string_view line, const std::string& description) {
  const std::size_t equals = line.find('=');
  // A line of redis.conf, for example, has a name and no equals sign.
  const std::string_view name_first = trimmed(line);
  if (equals == std::string_view::npos && !name_first.empty() &&
      std::isalpha(static_cast<unsigned char>(name_first.front())) != 0)
    return description + "; a line is NAME = VALUE, as in port = 6379";
  // The line alone is fine if a setting stands twice, for example.
  if (equals == std::string_view::npos || is_toml(line)) return description;
  const Setting* setting = find_setting(trimmed(line.substr(0, equals)));
  if (setting == nullptr) return description;
  const std::string name(setting->key);
  const std::string_view behind = line.substr(equals + 1);
  const std::string value(trimmed(behind.substr(0, behind.find('#'))));
  if (value.empty()) return name + " has no value: it " + allowed_text(*setting);
  if (value.find_first_of("\"'[]{}\\=") == std::string::npos)
    return bare_value_text(*setting, value, description);
  return name + ": " + (setting->secret ? std::string(in_quotes) : description);
}

}  // namespace

Result<std::string> read_config_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int reason = errno;
    return fail(reason == ENOENT ? Errc::not_found : Errc::io,
                path + ": cannot be opened: " + std::generic_category().message(reason));
  }
  // One byte more than a file may have, to tell one that is too long.
  std::string text(file_bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return fail(Errc::io, path + ": cannot be read: " + std::generic_category().message(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > file_bytes_max) {
    return fail(Errc::too_large, path + ": is longer than " + std::to_string(file_bytes_max) +
                                     " bytes, so it cannot be a configuration");
  }
  return text;
}

Result<std::vector<FileSetting>> parse_config(std::string_view text, const std::string& path) {
  try {
    return convert_all(toml::parse(text, std::string_view(path)), path);
  } catch (const toml::parse_error& problem) {
    const std::uint32_t line = problem.source().begin.line;
    return refuse(path, line, not_toml_text(line_of(text, line), std::string(problem.description())));
  }
}

void apply(const std::vector<FileSetting>& from, Settings& to) {
  for (const FileSetting& entry : from) {
    SEPAL_ASSERT(entry.setting != nullptr, "a line of the file is of no setting");
    entry.setting->set(to, entry.value);
  }
}

}  // namespace sepal::settings
