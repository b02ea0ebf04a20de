#include <sepal/base/assert.hpp>
#include <sepal/bloom/window/unite.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "bloom/window/entries.hpp"
#include "bloom/window/window_layer.hpp"

namespace sepal::bloom {
namespace {

// So much of each part is read between two calls of GoOn.
constexpr std::uint64_t window_piece_bytes = std::uint64_t{64} << 10;
constexpr unsigned extent_number_shift = 16;
static_assert(entry_layer_bits == extent_number_shift &&
              united_window_layers_max < 1U << extent_number_shift);

using Part = WindowUnion::Part;

std::string difference_of(const char* what, std::uint64_t one, std::uint64_t other) {
  return std::string(what) + ": " + std::to_string(one) + " and " + std::to_string(other);
}

std::string difference_of_reals(const char* what, double one, double other) {
  std::array<char, 96> text;
  std::snprintf(text.data(), text.size(), "%s: %g and %g", what, one, other);
  return text.data();
}

// Empty: there is none.
std::string difference(const WindowOptions& a, const WindowOptions& b) {
  // The seeds themselves are secret (docs/security.md).
  if (a.seed != b.seed) return "seeds";
  if (a.milliseconds != b.milliseconds)
    return difference_of_reals("windows: seconds", static_cast<double>(a.milliseconds) / 1000,
                               static_cast<double>(b.milliseconds) / 1000);
  if (a.generations != b.generations)
    return difference_of("numbers of generations", a.generations, b.generations);
  if (a.refresh != b.refresh) return "answers to REFRESH";
  if (a.error_rate != b.error_rate) return difference_of_reals("error rates", a.error_rate, b.error_rate);
  if (a.capacity != b.capacity) return difference_of("capacities", a.capacity, b.capacity);
  if (a.expansion != b.expansion) return difference_of("expansions", a.expansion, b.expansion);
  return {};
}

std::string difference(const Part& a, const Part& b) {
  for (std::size_t index = 0; index < std::min(a.size(), b.size()); ++index) {
    const LanePlan& of_a = a[index]->plan();
    const LanePlan& of_b = b[index]->plan();
    if (of_a != of_b)
      return difference_of("layers, because they have grown: items of a generation", of_a.capacity,
                           of_b.capacity);
  }
  return {};
}

void add_count(CountBounds& bounds, std::uint64_t count) {
  count = std::min(count, items_of_lane_max);
  bounds.largest = std::max(bounds.largest, count);
  bounds.sum = std::min(bounds.sum + count, items_of_lane_max);
}

// Whether the filter counts in that lane the generation that the union has there. Else it counts one that is
// over, or none yet.
bool counts_in(const WindowFilter& filter, const LiveStamps& live, std::uint32_t lane) {
  const std::uint64_t newest = filter.newest_generation();
  const std::uint64_t generation = live.generation_of(lane);
  return generation <= newest && newest - generation < live.lanes;
}

// The layers of a filter, from the oldest one on that has items for the union. The newest one is always
// there.
Part part_of(const WindowFilter& filter, const LiveStamps& live) {
  const auto is_over = [&](const std::shared_ptr<WindowLayer>& layer) {
    for (std::uint32_t lane = 0; lane < live.lanes; ++lane)
      if (layer->taken(lane) != 0 && counts_in(filter, live, lane)) return false;
    return true;
  };
  Part part = filter.layers();
  part.erase(part.begin(), std::find_if_not(part.begin(), std::prev(part.end()), is_over));
  return part;
}

void bound_counts(WindowUnion& whole, const WindowFilter& filter, const Part& part) {
  const LiveStamps live(whole.shape.newest, whole.shape.options.lanes());
  for (std::uint32_t lane = 0; lane < live.lanes; ++lane) {
    if (!counts_in(filter, live, lane)) continue;
    add_count(whole.items[lane], filter.items_of(lane));
    for (std::size_t index = 0; index < part.size(); ++index)
      add_count(whole.taken[index][lane], part[index]->taken(lane));
  }
}

// The generation of a union. Each part's is the current one, unless its clock was ahead of this one.
Result<std::uint64_t> newest_of(std::span<const WindowFilter* const> filters, WallTime now) {
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t most = 0;
  for (const WindowFilter* const filter : filters) {
    const std::uint64_t newest = std::max(filter->newest_generation(), filter->generation_at(now));
    least = std::min(least, newest);
    most = std::max(most, newest);
  }
  // A clock that is set back a little may step over the begin of one generation.
  if (most - least <= 1) return most;
  return fail(Errc::out_of_range, "one of the filters is " + std::to_string(most - least) +
                                      " generations ahead of the clock: the union would forget the others' "
                                      "items too early");
}

// --- blocks -----------------------------------------------------------------------------------------------

// The bits of these lanes in a word.
std::uint64_t word_of(const LaneBlocks& blocks, std::uint32_t lanes) {
  std::uint64_t bits = 0;
  for (std::uint32_t group = 0; group < blocks.groups; ++group)
    bits |= std::uint64_t{lanes} << (group * blocks.lanes);
  return bits;
}

// ORs the live lanes of a block into the words. Returns these lanes, a bit for each. The stamps come first: a
// lane that is used again meanwhile is one whose time is over.
std::uint32_t take_live(const LaneBlocks& blocks, std::uint64_t block, const LiveStamps& live,
                        std::span<std::uint64_t> words) {
  const std::uint32_t* const stamps = blocks.stamps + block * blocks.lanes;
  std::uint32_t lanes = 0;
  for (std::uint32_t lane = 0; lane < blocks.lanes; ++lane)
    lanes |=
        static_cast<std::uint32_t>(read_word(stamps + lane, std::memory_order_acquire) == live.stamps[lane])
        << lane;
  if (lanes == 0) return 0;
  const std::uint64_t bits = word_of(blocks, lanes);
  const std::uint64_t* from = blocks.words + block * blocks.block_words();
  for (std::uint64_t& word : words) word |= read_word(from++, std::memory_order_relaxed) & bits;
  return lanes;
}

void put_block(const LaneBlocks& blocks, std::uint64_t block, const LiveStamps& live, std::uint32_t lanes,
               std::span<const std::uint64_t> words) {
  for (std::uint32_t lane = 0; lane < blocks.lanes; ++lane)
    blocks.stamps[block * blocks.lanes + lane] = (lanes >> lane & 1) != 0 ? live.stamps[lane] : 0;
  std::ranges::copy(words, blocks.words + block * blocks.block_words());
}

// The layers of this index, of the parts that have it.
std::vector<const WindowLayer*> layers_at(const WindowUnion& whole, std::size_t index) {
  std::vector<const WindowLayer*> layers;
  for (const Part& part : whole.parts)
    if (index < part.size() && part[index] != nullptr) layers.push_back(part[index].get());
  return layers;
}

// --- what the bits say ------------------------------------------------------------------------------------

struct LaneMeasure {
  double rate = 0;
  double items = 0;
};
using LaneMeasures = std::array<LaneMeasure, window_generations_max + 1>;

// What the bits of a lane say that are set in a line: how often the line errs, and the items that it has.
class LineTable {
 public:
  explicit LineTable(const LaneBlocks& blocks) {
    const std::uint32_t bits = blocks.groups * lane_line_words;
    for (std::uint32_t set = 0; set <= bits; ++set) {
      // As if a full line lacked half of a bit.
      const double empty = std::max<double>(bits - set, 0.5) / bits;
      lines_.push_back({.rate = std::pow(static_cast<double>(set) / bits, blocks.probes),
                        .items = -std::log(empty) * bits / blocks.probes});
    }
  }
  [[nodiscard]] const LaneMeasure& operator[](std::size_t set) const { return lines_[set]; }

 private:
  std::vector<LaneMeasure> lines_;
};

// Adds what a block says of one lane. Each item has one line of each zone.
void measure_lane(const LaneBlocks& blocks, const LineTable& table, std::span<const std::uint64_t> words,
                  std::uint32_t lane, LaneMeasure& to) {
  const std::uint64_t bits = word_of(blocks, std::uint32_t{1} << lane);
  double rate = 1;
  auto line = words.begin();
  for (std::uint32_t zone = 0; zone < blocks.zones; ++zone) {
    double of_zone = 0;
    for (std::uint32_t number = 0; number < blocks.zone_lines; ++number) {
      std::size_t set = 0;
      for (std::uint32_t word = 0; word < lane_line_words; ++word)
        set += static_cast<std::size_t>(std::popcount(*line++ & bits));
      of_zone += table[set].rate;
      to.items += table[set].items / blocks.zones;
    }
    rate *= of_zone / blocks.zone_lines;
  }
  to.rate += rate;
}

LaneMeasures measure_layer(const WindowUnion& whole, std::size_t index, const LiveStamps& live,
                           std::uint64_t bytes_max) {
  LaneMeasures measures{};
  const auto layers = layers_at(whole, index);
  if (layers.empty()) return measures;
  const LaneBlocks& blocks = layers[0]->blocks();
  const LineTable table(blocks);
  std::vector<std::uint64_t> words(blocks.block_words());
  const std::uint64_t sampled =
      std::clamp<std::uint64_t>(bytes_max / (words.size() * sizeof words[0]), 1, blocks.block_count);
  for (std::uint64_t number = 0; number < sampled; ++number) {
    const auto block = static_cast<std::uint64_t>(static_cast<double>(blocks.block_count) /
                                                  static_cast<double>(sampled) * static_cast<double>(number));
    std::ranges::fill(words, 0);
    std::uint32_t lanes = 0;
    for (const WindowLayer* const layer : layers) lanes |= take_live(layer->blocks(), block, live, words);
    for (std::uint32_t lane = 0; lane < live.lanes; ++lane)
      if ((lanes >> lane & 1) != 0) measure_lane(blocks, table, words, lane, measures[lane]);
  }
  const auto count = static_cast<double>(sampled);
  for (LaneMeasure& lane : measures) {
    lane.rate /= count;
    lane.items *= static_cast<double>(blocks.block_count) / count;
  }
  return measures;
}

std::uint64_t within(double estimate, const CountBounds& bounds) {
  // The doubles of numbers up to 2^53 are exact, and an estimate is no more exact than that.
  return std::clamp(static_cast<std::uint64_t>(std::llround(std::min(estimate, 0x1p56))), bounds.largest,
                    bounds.sum);
}

// `by_age`: the rates of the lanes, that of the current generation first. Another lane goes with each
// generation that comes, which errs at `planned` when it is full.
double highest_of(std::span<const double> by_age, double planned) {
  double highest = 0;
  for (std::size_t later = 0; later < by_age.size(); ++later) {
    double rate = planned * static_cast<double>(later);
    for (const double of_lane : by_age.first(by_age.size() - later)) rate += of_lane;
    highest = std::max(highest, rate);
  }
  return highest;
}

}  // namespace

std::uint64_t WindowUnion::layer_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& layer : shape.layers) bytes += layer.plan.byte_count(shape.options.lanes());
  return bytes;
}

// --- the shape --------------------------------------------------------------------------------------------

Result<WindowUnion> union_of(std::span<const WindowFilter* const> filters,
                             std::optional<std::size_t> continued, WallTime now) {
  SEPAL_ASSERT(!filters.empty(), "a union of no filters");
  WindowUnion whole;
  whole.shape.options = filters[0]->options();
  if (whole.shape.options.of_last())
    return fail(Errc::out_of_range, "filters of the last items have no clock that they share");
  for (const WindowFilter* const filter : filters)
    if (const auto differing = difference(whole.shape.options, filter->options()); !differing.empty())
      return fail(Errc::out_of_range, "filters have different " + differing);
  const auto newest = newest_of(filters, now);
  if (!newest) return newest.error();
  whole.shape.newest = *newest;
  const LiveStamps live(*newest, whole.shape.options.lanes());
  for (const WindowFilter* const filter : filters) whole.parts.push_back(part_of(*filter, live));
  const Part& longest = *std::ranges::max_element(whole.parts, {}, &Part::size);
  const std::uint64_t first = continued ? whole.parts[*continued].front()->number() : 0;
  whole.followed = (continued ? whole.parts[*continued] : longest).size() - 1;
  for (const Part& part : whole.parts) {
    if (const auto differing = difference(longest, part); !differing.empty())
      return fail(Errc::out_of_range, "filters have different " + differing);
    // Only an image from elsewhere could have such layers.
    if (part.size() > united_window_layers_max ||
        part.back()->number() - part.front()->number() != part.size() - 1 ||
        first + longest.size() > window_layer_number_max)
      return fail(Errc::out_of_range, "filters have layers with numbers that do not follow each other");
  }
  for (std::size_t index = 0; index < longest.size(); ++index)
    whole.shape.layers.push_back({.number = first + index, .plan = longest[index]->plan()});
  whole.taken.resize(longest.size());
  for (std::size_t number = 0; number < filters.size(); ++number)
    bound_counts(whole, *filters[number], whole.parts[number]);
  return whole;
}

WindowUnionMeasure count_union(WindowUnion& whole, std::uint64_t bytes_max) {
  WindowFilter::Restored& shape = whole.shape;
  const LiveStamps live(shape.newest, shape.options.lanes());
  LaneMeasures sums{};
  const double planned = shape.layers.back().plan.error_rate;
  std::vector<double> by_age(live.lanes);
  WindowUnionMeasure measured;
  for (std::size_t index = 0; index < shape.layers.size(); ++index) {
    const LaneMeasures lanes = measure_layer(whole, index, live, bytes_max / shape.layers.size());
    for (std::uint32_t lane = 0; lane < live.lanes; ++lane) {
      shape.layers[index].taken[lane] = within(lanes[lane].items, whole.taken[index][lane]);
      sums[lane].items += static_cast<double>(shape.layers[index].taken[lane]);
      measured.error_rate += lanes[lane].rate;
      // The current generation may still get its share: meanwhile, and in the newest layer.
      const bool goes_on =
          lane == live.current && (index == whole.followed || index + 1 == shape.layers.size());
      by_age[live.generation - live.generation_of(lane)] +=
          goes_on ? std::max(lanes[lane].rate, shape.layers[index].plan.error_rate) : lanes[lane].rate;
    }
  }
  for (std::uint32_t lane = 0; lane < live.lanes; ++lane) {
    const std::uint64_t items = within(sums[lane].items, whole.items[lane]);
    shape.items[lane] = static_cast<std::int64_t>(items);
    measured.items = std::max(measured.items, items);
  }
  measured.highest_rate = highest_of(by_age, planned);
  return measured;
}

// --- the bits ---------------------------------------------------------------------------------------------

Result<void> take_parts(WindowFilter& into, const WindowUnion& whole, const value::GoOn& go_on,
                        std::uint64_t& bytes_done) {
  for (std::uint32_t index = 0; index < into.layer_count(); ++index) {
    const auto layers = layers_at(whole, index);
    const LaneBlocks& blocks = into.layer(index).blocks();
    std::vector<std::uint64_t> words(blocks.block_words());
    const std::uint64_t block_bytes = words.size() * sizeof words[0];
    const std::uint64_t blocks_of_piece = std::max<std::uint64_t>(window_piece_bytes / block_bytes, 1);
    for (std::uint64_t block = 0; block < blocks.block_count && !layers.empty();) {
      // An add that go_on() has repeated may have begun a generation.
      const LiveStamps live(into.newest_generation(), blocks.lanes);
      const std::uint64_t end = std::min(block + blocks_of_piece, blocks.block_count);
      for (; block < end; ++block) {
        std::ranges::fill(words, 0);
        std::uint32_t lanes = take_live(blocks, block, live, words);
        for (const WindowLayer* const layer : layers) lanes |= take_live(layer->blocks(), block, live, words);
        // Memory that nothing is put into is not touched.
        if (lanes != 0) put_block(blocks, block, live, lanes, words);
        bytes_done += block_bytes * layers.size();
      }
      if (go_on && !go_on(bytes_done)) return fail(Errc::io, "given up before the end, as asked");
    }
  }
  return {};
}

bool keeps_shares(const WindowFilter& made, const WindowUnion& whole) {
  for (std::uint32_t index = 0; index < made.layer_count(); ++index) {
    const auto& [number, plan, taken_then] = whole.shape.layers[index];
    for (std::uint32_t lane = 0; lane < made.options().lanes(); ++lane)
      if (made.layer(index).taken(lane) > std::max(taken_then[lane], plan.capacity + plan.capacity / 20))
        return false;
  }
  return true;
}

// --- records ----------------------------------------------------------------------------------------------

std::uint32_t extent_of(const Part& part) {
  return static_cast<std::uint32_t>(part.size() | layer_number_of(part.front()->number())
                                                      << extent_number_shift);
}

Result<WindowUnion> recorded_union(WindowFilter::Restored shape,
                                   std::span<const value::KindRow::Part> parts) {
  WindowUnion whole;
  for (const auto& [value, extent] : parts) {
    const auto& filter = value::as<WindowFilter>(*value);
    if (filter.options() != shape.options)
      return fail(Errc::damaged, "a filter that forgets is made of one that forgets otherwise");
    const std::uint64_t taken = layer_number_of(extent);
    Part& part = whole.parts.emplace_back(std::min<std::size_t>(taken, shape.layers.size()));
    for (const auto& layer : filter.layers()) {
      const std::uint64_t index = layer_number_of(layer->number() - (extent >> extent_number_shift));
      if (index >= part.size()) continue;
      if (layer->plan() != shape.layers[index].plan)
        return fail(Errc::damaged, "a filter that forgets is made of layers of another shape");
      part[index] = layer;
    }
  }
  whole.shape = std::move(shape);
  return whole;
}

}  // namespace sepal::bloom
