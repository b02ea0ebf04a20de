// Feeds arbitrary bytes to the loader as a filter that forgets, and to a replay as its records. They are
// refused, or give a filter whose memory is bounded by their number, that has what is added to it, and whose
// image gives it again.
//
//   1 byte   N steps
//   N bytes  the steps: the lowest two bits say what, the others which item, or how long
//   1 byte   R records
//   16 R     the records
//   the rest an image
#include <sepal/base/endian.hpp>
#include <sepal/bloom/kind/window_kind.hpp>
#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "fuzz_target.hpp"

namespace sepal::fuzz_window_test {
namespace {

using bloom::WindowFilter;
using Bytes = std::span<const std::byte>;

constexpr value::Limits limits{.bytes_max = 1 << 20, .layers_max = 8};
constexpr std::uint64_t bytes_of_layer_max = 1024;
constexpr std::uint64_t begin_ms = 1'700'000'000'000;
constexpr std::size_t record_bytes = 16;

enum class Step : std::uint8_t { add, ask, pass, grow };

void require(bool holds) {
  if (!holds) std::abort();
}

// A load leaves out lanes that are over.
void check_image(const WindowFilter& filter) {
  constexpr value::Limits roomy{.bytes_max = std::uint64_t{1} << 30, .layers_max = 64};
  const auto again = value::value_of(value::image_of(filter), roomy);
  require(again.ok());
  // Counts end at their limit there.
  const std::uint64_t items = filter.item_count();
  if (items < bloom::items_of_lane_max) require(value::as<WindowFilter>(**again).item_count() == items);
  const auto image = value::image_of(**again);
  const auto once_more = value::value_of(image, roomy);
  require(once_more.ok());
  require(value::image_of(**once_more) == image);
}

// The last time that a clock of nanoseconds can tell is a little behind this one.
constexpr std::uint64_t latest_ms = 9'000'000'000'000;

WallTime at(std::uint64_t milliseconds) {
  return WallTime(std::chrono::milliseconds(std::min(milliseconds, latest_ms)));
}

void change(WindowFilter& filter, Step step, std::uint8_t number, std::uint64_t& now) {
  const std::string item = std::to_string(number);
  const std::string_view view = item;
  bool present = false;
  filter.contains({&view, 1}, at(now), {&present, 1});
  switch (step) {
    case Step::pass: now = std::min(now + filter.options().milliseconds / 8 * number, latest_ms); return;
    case Step::grow: static_cast<void>(filter.grow(at(now), limits, {})); return;
    case Step::ask: static_cast<void>(filter.drop_old_layers()); return;
    case Step::add: break;
  }
  std::vector<WindowFilter::AddOutcome> outcomes;
  require(filter.add_each({&view, 1}, at(now), WindowFilter::Refusal::full, outcomes, nullptr));
  require(outcomes.size() == 1);
  if (present) require(!outcomes.front().added);
  if (outcomes.front().refusal != WindowFilter::Refusal::none) return;
  filter.contains({&view, 1}, at(now), {&present, 1});
  require(present);
}

// Takes the records from the front of the input. Empty as well where it is too short.
std::vector<Fingerprint> take_records(Bytes& input) {
  std::vector<Fingerprint> records;
  if (input.empty()) return records;
  auto count = std::to_integer<std::size_t>(input.front());
  input = input.subspan(1);
  for (; count > 0 && input.size() >= record_bytes; --count, input = input.subspan(record_bytes))
    records.push_back({.low = load_little_endian<std::uint64_t>(input.data()),
                       .high = load_little_endian<std::uint64_t>(input.data() + 8)});
  return records;
}

}  // namespace

SEPAL_FUZZ_TARGET(fuzz_window) {
  const auto input = std::as_bytes(std::span(data, size));
  if (input.empty() || input.size() - 1 < data[0]) return 0;
  const std::span<const std::uint8_t> steps(data + 1, data[0]);
  Bytes rest = input.subspan(1 + steps.size());
  const std::vector<Fingerprint> records = take_records(rest);
  const auto made = value::value_of(rest, limits);
  if (!made || (*made)->kind() != value::Kind::window) return 0;
  auto& filter = value::as<WindowFilter>(**made);
  require(filter.byte_count() <= 2 * rest.size() + (1 + filter.layer_count()) * bytes_of_layer_max + 8192);
  check_image(filter);
  if (!filter.repeat(records)) return 0;
  std::uint64_t now = begin_ms;
  for (const std::uint8_t step : steps) change(filter, static_cast<Step>(step & 3), step >> 2, now);
  check_image(filter);
  return 0;
}

}  // namespace sepal::fuzz_window_test
