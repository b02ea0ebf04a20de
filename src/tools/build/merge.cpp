#include "tools/build/merge.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/filter/measure.hpp>
#include <sepal/bloom/filter/unite.hpp>
#include <sepal/storage/generation/filter_file.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "tools/build/filter_output.hpp"
#include "tools/build/plan.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

using bloom::ImageHeader;
using bloom::LayerPlan;

// An estimate from the set bits is nearly always within this many square roots of the count.
constexpr double estimate_tolerance = 4;

// The difference that keeps two filters from being merged; empty: they can be merged.
std::string difference(const bloom::Filter& a, const bloom::Filter& b) {
  const std::array<const bloom::Filter*, 2> both{&a, &b};
  if (const auto shape = bloom::shape_of_union(both); !shape) return shape.error().detail;
  if (a.options() != b.options()) return "the filters were made with different options";
  if (a.layer_count() == b.layer_count()) return {};
  return format("filters have different numbers of layers: %u and %u", a.layer_count(), b.layer_count());
}

// Sets the bits of `from` in `into` as well. No third bitmap is in memory.
Result<void> take_bits(bloom::Filter& into, const bloom::Filter& from) {
  const std::array<bloom::PartLayers, 1> parts{from.layers()};
  std::uint64_t bytes_done = 0;
  for (std::uint32_t layer = 0; layer < into.layer_count(); ++layer)
    if (auto taken = bloom::take_layer(into, layer, parts, {}, bytes_done); !taken) return taken;
  return {};
}

// The item counts of one layer over all inputs.
struct Counts {
  std::uint64_t largest = 0;
  std::uint64_t sum = 0;
};

constexpr std::uint64_t count_max = std::numeric_limits<std::uint64_t>::max();

// A client may have given any number of items for its bitmap, so a sum of counts need not fit. Released
// versions have written such files, so reading does not refuse them.
std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) {
  return checked_add(a, b).value_or(count_max);
}

// `estimate` may be infinite; it is not negative.
std::uint64_t whole_number(double estimate) {
  constexpr double rounded_max = 0x1p63;  // std::llround() takes less than that
  return estimate < rounded_max ? static_cast<std::uint64_t>(std::llround(estimate)) : count_max;
}

class Merger {
 public:
  Merger(storage::Disk& disk, const MergeRequest& request, Progress& progress)
      : disk_(disk), request_(request), progress_(progress) {
    SEPAL_ASSERT(!request.inputs.empty(), "there are no filters to merge");
  }

  Result<MergeReport> run() {
    for (const storage::Path& path : request_.inputs) {
      if (auto done = take(path); !done) return done.error();
    }
    if (auto done = count_items(); !done) return done.error();
    if (request_.key) merged_.key = *request_.key;
    const auto bytes = write_output(disk_, request_.output, merged_, progress_);
    if (!bytes) return bytes.error();
    report_.file_bytes = *bytes;
    report_.capacity = merged_.filter->capacity();
    return report_;
  }

 private:
  Result<void> take(const storage::Path& path) {
    std::error_code unknown;
    const auto byte_count = std::filesystem::file_size(path, unknown);
    progress_.begin("reading", unknown ? 0 : byte_count);
    auto file = storage::read_filter_file(disk_, path, moved_limits, [this](const storage::Progress& state) {
      progress_.update(state.bytes_done, 0);
      return true;
    });
    progress_.end();
    if (!file) return file.error();
    auto* const filter = value::as<bloom::Filter>(file->value.get());
    if (filter == nullptr)
      return fail(Errc::out_of_range, path.string() + " holds a " +
                                          std::string(value::row_of(*file->value).word) +
                                          "; only filters can be merged");
    const ImageHeader header = bloom::header_of(*filter);
    if (merged_.filter == nullptr) {
      merged_ = {.key = std::move(file->key), .filter = bloom::FilterPtr(filter), .header = header};
      // The first filter takes in the bits of all further ones. Each of those is freed when its bits are
      // taken, so two filters are in memory at most.
      counts_.resize(merged_.header.layers.size());
      note_counts(merged_.header);
      return {};
    }
    const std::string differing = difference(*merged_.filter, *filter);
    if (!differing.empty())
      return fail(Errc::out_of_range,
                  path.string() + " cannot be merged with " + request_.inputs[0].string() + ": " + differing +
                      "; only filters of the same seed, error rate, capacity and expansion can be "
                      "merged");
    if (auto taken = take_bits(*merged_.filter, *filter); !taken) return taken;
    note_counts(header);
    return {};
  }

  void note_counts(const ImageHeader& header) {
    SEPAL_ASSERT(counts_.size() == header.layers.size(), "filters of different layers are counted");
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      counts_[i].largest = std::max(counts_[i].largest, header.layers[i].item_count);
      counts_[i].sum = saturating_sum(counts_[i].sum, header.layers[i].item_count);
    }
  }

  // The number of different items cannot be known, because nothing tells which items the inputs share
  // (decisions/0012). The share of set bits gives an estimate. It is held between the largest count and the
  // sum, and within the layer's capacity. If the sum exceeds the capacity, and the estimate too by more than
  // chance explains, the merge is refused.
  Result<void> count_items() {
    const auto layers = merged_.filter->layers();
    SEPAL_ASSERT(layers.size() == counts_.size(), "a layer has no count of its items");
    const bloom::FilterMeasure measured = bloom::measure(layers, std::numeric_limits<std::uint64_t>::max());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const LayerPlan& plan = merged_.header.layers[i].plan;
      const double estimate = measured.layers[i].item_estimate;
      const auto capacity = static_cast<double>(plan.capacity);
      if (counts_[i].sum > plan.capacity && estimate > capacity + estimate_tolerance * std::sqrt(capacity))
        return overfull(estimate, plan.capacity);
      const std::uint64_t most = std::min(counts_[i].sum, plan.capacity);
      SEPAL_ASSERT(counts_[i].largest <= most,
                   "one filter has more items than all of them, or than its room");
      const std::uint64_t items = std::clamp(whole_number(estimate), counts_[i].largest, most);
      merged_.header.layers[i].item_count = items;
      report_.item_estimate = saturating_sum(report_.item_estimate, items);
      report_.item_sum = saturating_sum(report_.item_sum, counts_[i].sum);
    }
    return {};
  }

  static Error overfull(double estimate, std::uint64_t capacity) {
    return fail(Errc::out_of_range,
                "together the filters hold about " + amount_text(estimate) +
                    " different items in a layer for " + std::to_string(capacity) +
                    ", and would not keep their error rate; build each with the capacity of all");
  }

  storage::Disk& disk_;
  const MergeRequest& request_;
  Progress& progress_;
  OutputFilter merged_;
  std::vector<Counts> counts_;  // one for each layer
  MergeReport report_;
};

}  // namespace

Result<MergeReport> merge(storage::Disk& disk, const MergeRequest& request, Progress& progress) {
  return Merger(disk, request, progress).run();
}

}  // namespace sepal::tools
