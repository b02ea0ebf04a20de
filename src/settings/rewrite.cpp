// Edits the configuration file so that it says what the settings say.
//
// A value that is right already stays as it is written (1048576 or "1mb"). A value that is wrong is replaced
// in its place. Settings that the file does not mention, and that differ from their defaults, are added at
// the end. So comments, blank lines and the order of a person's file survive. The new text is parsed before
// it replaces the file: if it is not a valid configuration, the old file stays.
#include <sepal/settings/settings.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "settings/config_file.hpp"
#include "settings/replace_config.hpp"
#include "settings/value_text.hpp"

namespace sepal::settings {
namespace {

constexpr std::string_view added_heading = "# Added by CONFIG REWRITE:";

// TOML's reader counts characters, and UTF-8 has up to four bytes in one.
bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

// The byte offset of a place that TOML's reader names.
std::size_t offset_of(std::string_view text, Place place) {
  std::size_t at = 0;
  for (std::uint32_t line = 1; line < place.line; ++line) at = std::min(text.find('\n', at), text.size()) + 1;
  for (std::uint32_t column = 1; column < place.column && at < text.size(); ++column) {
    ++at;
    while (at < text.size() && continues_character(text[at])) ++at;
  }
  return std::min(at, text.size());
}

// A password that is kept elsewhere must not get into the file.
bool is_left_out(const Setting& setting, const Settings& settings) {
  return setting.secret && settings.password_is_elsewhere;
}

void replace_changed(const std::vector<FileSetting>& present, const Settings& settings, std::string& text) {
  // From the end to the beginning, so that the places of earlier settings stay right.
  for (auto entry = present.rbegin(); entry != present.rend(); ++entry) {
    const Value wanted = entry->setting->get(settings);
    if (entry->value == wanted || is_left_out(*entry->setting, settings)) continue;
    const std::size_t begin = offset_of(text, entry->begin);
    const std::size_t end = offset_of(text, entry->end);
    text.replace(begin, end - begin, toml_text(*entry->setting, wanted));
  }
}

void add_missing(const std::vector<FileSetting>& present, const Settings& settings, std::string& text) {
  // Keeps the line ends of an editor that writes CRLF.
  const std::string line_end = text.find("\r\n") == std::string::npos ? "\n" : "\r\n";
  const Settings defaults;
  std::string added;
  for (const Setting& setting : all_settings()) {
    const bool stands = std::any_of(present.begin(), present.end(),
                                    [&](const FileSetting& entry) { return entry.setting == &setting; });
    const Value wanted = setting.get(settings);
    if (stands || wanted == setting.get(defaults) || is_left_out(setting, settings)) continue;
    added += std::string(setting.key) + " = " + toml_text(setting, wanted) + line_end;
  }
  if (added.empty()) return;
  if (!text.empty() && text.back() != '\n') text += line_end;
  if (text.find(added_heading) == std::string::npos) text += line_end + std::string(added_heading) + line_end;
  text += added;
}

// Why the reader does not take the new text. It took the old one, so a value is wrong: TOML is UTF-8, and
// CONFIG SET takes any bytes. Empty: no value is.
std::string unwritable_text(const Settings& settings) {
  const Settings defaults;
  for (const Setting& setting : all_settings()) {
    const Value value = setting.get(settings);
    if (setting.kind != Kind::text || value == setting.get(defaults) || is_left_out(setting, settings))
      continue;
    const std::string line = std::string(setting.key) + " = " + toml_text(setting, value) + "\n";
    if (!parse_config(line, settings.config_file))
      return std::string(setting.key) + " cannot be written: the value is no UTF-8, which the file has to be";
  }
  return "";
}

// A text that is a valid configuration may still say something else. So the values are compared as well: a
// start with the new text must give these settings again.
Result<void> check_reads_back(const std::string& text, const Settings& wanted) {
  const auto parsed = parse_config(text, wanted.config_file);
  if (!parsed) {
    const std::string unwritable = unwritable_text(wanted);
    return fail(Errc::invalid_setting,
                wanted.config_file + ": " + (unwritable.empty() ? parsed.error().detail : unwritable));
  }
  Settings read;
  apply(*parsed, read);
  for (const Setting& setting : all_settings()) {
    if (setting.get(read) == setting.get(wanted) || is_left_out(setting, wanted)) continue;
    return fail(Errc::invalid_setting, wanted.config_file + ": " + std::string(setting.key) +
                                           " cannot be written so that it reads back the same");
  }
  return {};
}

}  // namespace

Result<void> rewrite_config_file(const Settings& settings) {
  if (settings.config_file.empty()) {
    return fail(Errc::not_found, "the server was started without a configuration file");
  }
  // The file is read anew, because the operator may have edited it since the start. A file that is no
  // configuration any more is left as it is.
  const auto old_text = read_config_text(settings.config_file);
  if (!old_text) return old_text.error();
  const auto present = parse_config(*old_text, settings.config_file);
  if (!present) return present.error();
  std::string text = *old_text;
  replace_changed(*present, settings, text);
  add_missing(*present, settings, text);
  if (text == *old_text) return {};
  if (auto checked = check_reads_back(text, settings); !checked) return checked;
  return replace_config(settings.config_file, text);
}

}  // namespace sepal::settings
