// INFO [section ...].

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/context.hpp>

#include <algorithm>
#include <span>

#include "command/server/info_text.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

bool asked_for(const InfoSection& section, std::span<const std::string_view> names) {
  if (names.empty()) return section.by_default;
  return std::ranges::any_of(names, [&](std::string_view name) {
    if (equal_ignoring_case(name, "all") || equal_ignoring_case(name, "everything")) return true;
    if (equal_ignoring_case(name, "default")) return section.by_default;
    return equal_ignoring_case(name, section.name);
  });
}

Next info(Context& context) {
  std::string text;
  InfoLines lines(text);
  const Durability durability{.save = context.services.persistence.status(),
                              .journal = context.services.journal.status()};
  for (const InfoSection& section : std::span(info_sections, info_section_count)) {
    if (!asked_for(section, context.words.subspan(1))) continue;
    if (!text.empty()) text.append("\r\n");
    text.append("# ").append(section.title).append("\r\n");
    section.append(context, durability, lines);
  }
  context.reply.verbatim(text);
  return Next::done;
}

constexpr Family info_row{.group = "server", .flags = Flag::loading | Flag::stale};

constexpr CommandSpec info_family[] = {
    info_row("info [section [section ...]]", -1, "1.0.0", "Answers facts and statistics about the server",
             info, Category::dangerous, each_shard_alone),
};

}  // namespace

constinit const Rows info_rows = info_family;

}  // namespace sepal::command
