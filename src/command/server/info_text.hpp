// The text of INFO: sections of "field:value" lines.
#pragma once

#include <sepal/command/run/context.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include "command/observe/number_text.hpp"

namespace sepal::command {

// Appends lines to a section.
class InfoLines {
 public:
  explicit InfoLines(std::string& text) : text_(text) {}

  InfoLines& line(std::string_view field, std::string_view value) {
    text_.append(field).append(":").append(value).append("\r\n");
    return *this;
  }
  InfoLines& count(std::string_view field, std::uint64_t value) { return line(field, std::to_string(value)); }
  InfoLines& number(std::string_view field, std::int64_t value) { return line(field, std::to_string(value)); }
  // With `digits` digits behind the point.
  InfoLines& real(std::string_view field, double value, int digits);
  // Fields that are always 0, because Sepal does not have what they count.
  InfoLines& zeros(std::initializer_list<std::string_view> fields) {
    for (const std::string_view field : fields) line(field, "0");
    return *this;
  }

 private:
  std::string& text_;
};

// The save and the journal, as all sections of one reply show them. Read once for a reply: a save that ends
// between two sections would otherwise run in one of them and have ended in the other.
struct Durability {
  SaveStatus save;  // read first, so that the journal's positions are no older than the save's
  JournalStatus journal;
};

struct InfoSection {
  std::string_view name;   // the word in the request, lower case
  std::string_view title;  // the word behind '#'
  void (*append)(const Context&, const Durability&, InfoLines&);
  bool by_default = true;
};
// In the order in which they are shown.
extern const InfoSection info_sections[];
extern const std::size_t info_section_count;

// info_statistics.cpp
void append_stats(const Context& context, const Durability&, InfoLines& lines);
void append_command_stats(const Context& context, const Durability&, InfoLines& lines);
void append_error_stats(const Context& context, const Durability&, InfoLines& lines);
void append_latency_stats(const Context& context, const Durability&, InfoLines& lines);

}  // namespace sepal::command
