#include "remote_filter.hpp"

#include <chrono>
#include <string_view>

namespace sepal::tools {

FilterFigures figures_of(ReplyView info) {
  FilterFigures figures;
  for (std::size_t i = 0; i + 1 < info.size(); i += 2) {
    const std::string_view name = info[i].text();
    const std::int64_t value = info[i + 1].number();
    if (name == "Capacity") figures.capacity = value;
    if (name == "Size") figures.bytes = value;
    if (name == "Number of filters") figures.layers = value;
    if (name == "Number of items inserted") figures.items = value;
    if (name == "Expansion rate") figures.expansion = value;
  }
  return figures;
}

void add_questions(RedisConnection& server, const std::string& key, DeadlineQuestion how) {
  server.add({"TYPE", key});
  server.add({"BF.INFO", key});
  server.add({how == DeadlineQuestion::absolute ? "PEXPIRETIME" : "PTTL", key});
}

Result<RemoteFilter> receive_answers(RedisConnection& server, const std::string& key, DeadlineQuestion how) {
  const auto type = server.receive();
  if (!type) return type.error();
  const auto info = server.receive();
  if (!info) return info.error();
  const auto deadline = server.receive();
  if (!deadline) return deadline.error();
  RemoteFilter filter{
      .key = key, .type = std::string(type->view().text()), .figures = figures_of(info->view())};
  // -1: no deadline; -2: no key any more.
  const std::int64_t told = deadline->view().number();
  filter.there = filter.type == filter_type && info->view().size() != 0 && told != -2;
  if (told > 0) {
    const auto now = keyspace::deadline_at(std::chrono::system_clock::now());
    filter.deadline = how == DeadlineQuestion::absolute ? told : now + told;
  }
  return filter;
}

}  // namespace sepal::tools
