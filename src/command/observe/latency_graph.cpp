#include "command/observe/latency_graph.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <vector>

namespace sepal::command {
namespace {

constexpr std::size_t graph_rows = 4;
constexpr std::size_t graph_columns = 80;
constexpr std::string_view step_letters = "_o#";  // how far a sample reaches into its highest row

std::string age_of(std::chrono::seconds age) {
  constexpr std::int64_t minute = 60;
  constexpr std::int64_t hour = 60 * minute;
  constexpr std::int64_t day = 24 * hour;
  // A sample may be later than the time of this request: a batch that began after this one may have added it.
  const std::int64_t elapsed = std::max<std::int64_t>(age.count(), 0);
  if (elapsed < minute) return std::to_string(elapsed) + "s";
  if (elapsed < hour) return std::to_string(elapsed / minute) + "m";
  if (elapsed < day) return std::to_string(elapsed / hour) + "h";
  return std::to_string(elapsed / day) + "d";
}

// The letter of a sample in a row. `level` is the sample's height in steps, from 0.
char letter_of(std::size_t level, std::size_t row) {
  SEPAL_ASSERT(level < graph_rows * step_letters.size(), "a sample is higher than the graph");
  if (level / step_letters.size() > row) return '|';
  return level / step_letters.size() == row ? step_letters[level % step_letters.size()] : ' ';
}

void append_row(std::string& text, std::string row) {
  row.erase(row.find_last_not_of(' ') + 1);
  text.append(row).append("\n");
}

}  // namespace

// Each of the newest samples gets a column. The scale is that of the samples shown: the shortest of them is
// on the floor, and the longest reaches the top. Below each column stands the age of its sample.
std::string latency_graph_of(const LatencyEvents::Summary& event, WallTime now) {
  SEPAL_ASSERT(!event.samples.empty(), "a graph of no samples");
  const std::size_t count = std::min(event.samples.size(), graph_columns);
  const std::span<const LatencyEvents::Sample> samples = std::span(event.samples).last(count);
  const auto [low, high] = std::ranges::minmax(samples, {}, &LatencyEvents::Sample::duration);
  const auto range = static_cast<std::size_t>((high.duration - low.duration).count());
  std::string text = event.event + " - high " + std::to_string(high.duration.count()) + " ms, low " +
                     std::to_string(low.duration.count()) + " ms (all time high " +
                     std::to_string(event.longest.count()) + " ms)\n" + std::string(graph_columns, '-') +
                     "\n";
  std::vector<std::size_t> levels;
  std::vector<std::string> ages;
  std::size_t age_rows = 0;
  const auto second = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch());
  for (const LatencyEvents::Sample& sample : samples) {
    const auto above = static_cast<std::size_t>((sample.duration - low.duration).count());
    // If all samples are equal, all of them are on the floor.
    levels.push_back(range == 0 ? 0 : above * (graph_rows * step_letters.size() - 1) / range);
    ages.push_back(age_of(second - sample.at));
    age_rows = std::max(age_rows, ages.back().size());
  }
  for (std::size_t row = graph_rows; row-- > 0;) {
    std::string line;
    for (const std::size_t level : levels) line.push_back(letter_of(level, row));
    append_row(text, line);
  }
  text.push_back('\n');
  for (std::size_t row = 0; row < age_rows; ++row) {
    std::string line;
    for (const std::string& age : ages) line.push_back(row < age.size() ? age[row] : ' ');
    append_row(text, line);
  }
  return text;
}

}  // namespace sepal::command
