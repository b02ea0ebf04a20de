// What is read and what is told. A worker tells of an item behind its bits, and the job ORs what it reads
// into the new filter. So of each item that is added meanwhile, the job reads the bits or hears of it, and
// nothing that it has set is taken away again. The layer with this index of the new filter has all bits of
// that of the old one: so it also answers "known" for all items that the old one took for known.
//
// A filter that grows meanwhile has items in a layer that is not read. Then the job ends without a result.
#include "command/bloom/remaking.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace sepal::command {
namespace {

using keyspace::DatabaseKey;

// So many new items may wait for the job, which takes them after each piece of bits. 16 MiB, which are
// touched only if so many come.
constexpr std::size_t followed_max = std::size_t{1} << 18;
// So many may be left for the moment in which the gate is closed.
constexpr std::size_t followed_at_end_max = 4096;
constexpr int catch_up_rounds_max = 64;
static_assert(bloom::image_bytes(bloom::filter_layers_max) <= keyspace::remade_head_bytes_max);

// A filter's own rate scatters around the one that it is planned for, and so does what a sample of its bits
// says.
constexpr double rate_tolerance = 1.05;
// What the samples of all parts may read.
constexpr std::uint64_t sampled_bytes_max = std::uint64_t{64} << 20;

std::string rate_text(double rate) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", rate);
  return text;
}

// Three digits, and zeros behind them: an estimate is no more exact.
std::string about(double number) {
  double unit = 1;
  while (number / unit >= 1000) unit *= 10;
  char text[64];
  std::snprintf(text, sizeof text, "%.0f", std::round(number / unit) * unit);
  return text;
}

Error filled_up() {
  return fail(Errc::in_use, std::string(text::filled_meanwhile));
}

// What was asked for. The rate of a filter that came from RedisBloom is that of its first layer.
double asked_rate(const bloom::ImageHeader& shape) {
  double sum = 0;
  for (const auto& layer : shape.layers) sum += layer.plan.error_rate;
  return std::max(sum, shape.options.error_rate);
}

std::uint64_t capacity_of(const bloom::ImageHeader& shape) {
  std::uint64_t capacity = 0;
  for (const auto& layer : shape.layers) capacity += layer.plan.capacity;
  return capacity;
}

}  // namespace

Remaking::Remaking(RemakeRequest request) : request_(std::move(request)) {
  SEPAL_ASSERT(!request_.parts.empty() && request_.parts.size() == request_.part_keys.size(),
               "a filter is made of nothing");
  const auto own = std::ranges::find(request_.part_keys, request_.key);
  if (own != request_.part_keys.end())
    continued_ = static_cast<std::size_t>(own - request_.part_keys.begin());
}

Result<void> Remaking::begin(const keyspace::Keyspace& keyspace) {
  if (auto checked = check(keyspace); !checked) return checked;
  std::vector<const bloom::Filter*> filters;
  for (const bloom::FilterPtr& part : request_.parts) filters.push_back(part.get());
  if (request_.unites) {
    auto shape = bloom::shape_of_union(filters);
    if (!shape) return shape.error();
    shape_ = std::move(*shape);
  } else {
    auto shape = bloom::shape_shrunk(*filters[0], request_.capacity);
    if (!shape) return fail(Errc::in_use, std::string(text::not_shrunk));
    shape_ = std::move(*shape);
  }
  layers_.clear();
  for (const bloom::Filter* const filter : filters) layers_.push_back(filter->layers());
  return {};
}

// The union's counts are estimates, as far as its bits and the counts of the parts allow.
Result<void> Remaking::count() {
  if (!request_.unites) return {};
  const std::uint64_t bytes_max =
      std::min<std::uint64_t>(bloom::measured_bytes_max, sampled_bytes_max / layers_.size());
  const bloom::FilterMeasure measured = bloom::measure_union(shape_, layers_, bytes_max);
  const double allowed = request_.allowed.value_or(asked_rate(shape_));
  if (measured.false_positive_rate > allowed * rate_tolerance)
    return fail(Errc::out_of_range, "the union would err at " + rate_text(measured.false_positive_rate) +
                                        ", more than " + rate_text(allowed) + ": it has about " +
                                        about(measured.item_estimate) + " different items, and room for " +
                                        std::to_string(capacity_of(shape_)));
  bloom::count_union(shape_, layers_, measured);
  counts_then_.clear();
  if (continued_)
    for (const bloom::LayerView& layer : layers_[*continued_]) counts_then_.push_back(layer.item_count());
  return {};
}

Result<value::ValuePtr> Remaking::make(const JobContext& job) {
  takes_long_ = true;
  if (continued_) {
    const MutexLock lock(mutex_);
    followed_.reserve(followed_max);
    taken_.reserve(followed_max);
  }
  Result<void> begun;
  job.alone([&](keyspace::Keyspace& keyspace) {
    begun = begin(keyspace);
    if (!begun || !continued_) return;
    const bloom::Filter& filter = *request_.parts[*continued_];
    // Another job of this server would have ended: jobs run one after the other.
    SEPAL_ASSERT(keyspace.mirrors().follower_of(filter) == nullptr, "a filter is made anew twice at a time");
    keyspace.follow(filter, *this);
    following_ = true;
  });
  if (!begun) return begun.error();
  if (auto counted = count(); !counted) return counted.error();
  if (auto room = job.hold(shape_.bitmap_bytes()); !room) return room.error();
  auto made = bloom::Filter::restore(shape_.options, shape_.layers, job.limits, value::FilledBy::load);
  if (!made) return made.error();
  for (std::uint32_t index = 0; index < (*made)->layer_count(); ++index)
    if (auto taken = take_layer(**made, index, job); !taken) return taken.error();
  return value::ValuePtr(std::move(*made));
}

Result<void> Remaking::take_layer(bloom::Filter& made, std::uint32_t index, const JobContext& job) {
  Result<void> followed;
  const value::GoOn go_on = [&](std::uint64_t bytes_done) {
    followed = take_followed(made);
    return followed.ok() && (!job.go_on || job.go_on(bytes_done));
  };
  auto taken = bloom::take_layer(made, index, layers_, go_on, bytes_done_);
  return followed ? taken : followed;
}

void Remaking::added(std::span<const std::string_view> items, std::span<const bool> is_new) noexcept {
  const bloom::Filter& filter = *request_.parts[*continued_];
  // Hashed without the lock.
  std::array<Fingerprint, 64> fingerprints;
  for (std::size_t at = 0; at < items.size();) {
    std::size_t count = 0;
    for (; at < items.size() && count < fingerprints.size(); ++at)
      if (is_new[at]) fingerprints[count++] = filter.fingerprint(items[at]);
    const MutexLock lock(mutex_);
    overflowed_ = overflowed_ || followed_.size() + count > followed_max;
    if (overflowed_) return;
    followed_.insert(followed_.end(), fingerprints.begin(),
                     fingerprints.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

Result<void> Remaking::take_followed(bloom::Filter& made) {
  if (!continued_) return {};
  {
    const MutexLock lock(mutex_);
    if (overflowed_) return filled_up();
    std::swap(followed_, taken_);
  }
  made.set_bits(static_cast<std::uint32_t>(layers_[*continued_].size() - 1), taken_);
  last_taken_ = taken_.size();
  taken_.clear();
  return {};
}

// Clients add meanwhile, so few items are left after a few rounds, and hardly ever none.
Result<void> Remaking::catch_up(const value::ValuePtr& made) {
  auto& filter = value::as<bloom::Filter>(*made);
  for (int round = 0; round < catch_up_rounds_max; ++round) {
    if (auto taken = take_followed(filter); !taken) return taken;
    if (last_taken_ < followed_at_end_max / 4) break;
  }
  return {};
}

// Whether each part is still what its key names, and the key still free, or to be replaced.
Result<void> Remaking::check(const keyspace::Keyspace& keyspace) const {
  for (std::size_t i = 0; i < request_.parts.size(); ++i)
    if (keyspace.find({.database = request_.database, .key = request_.part_keys[i]}) !=
        request_.parts[i].get())
      return fail(Errc::in_use, std::string(text::part_changed));
  const DatabaseKey key{.database = request_.database, .key = request_.key};
  if (!continued_) return may_adopt(keyspace, key, request_.replaces);
  // The items of the other parts would be missing in the target.
  if (request_.unites && keyspace.mirrors().from(*request_.parts[*continued_]) != nullptr)
    return fail(Errc::in_use, std::string(text::union_of_mirrored));
  return {};
}

// False: there is no room for what clients have added since.
bool Remaking::set_counts(bloom::Filter& made) const {
  std::vector<bloom::Filter::LayerState> layers = shape_.layers;
  if (continued_) {
    const bloom::Filter& filter = *request_.parts[*continued_];
    for (std::uint32_t index = 0; index < filter.layer_count(); ++index) {
      const std::uint64_t now = filter.layer(index).item_count();
      auto& [plan, item_count] = layers[index];
      if (!request_.unites) {
        item_count = now;
        if (now > plan.capacity) return false;
        continue;
      }
      // Counts never fall.
      const std::uint64_t more = now - counts_then_[index];
      const std::uint64_t room = plan.capacity - item_count;
      // A few more than planned do not matter. A client that has allowed any rate has allowed this.
      if (!request_.allowed && more > room + plan.capacity / 20) return false;
      item_count += std::min(more, room);
    }
  }
  made.set_item_counts(layers);
  return true;
}

std::optional<Result<void>> Remaking::put(keyspace::Mutator& changes, const value::ValuePtr& made) {
  auto& filter = value::as<bloom::Filter>(*made);
  if (auto checked = check(changes.keyspace()); !checked) return checked;
  if (continued_) {
    if (request_.parts[*continued_]->layer_count() != layers_[*continued_].size()) return filled_up();
    const MutexLock lock(mutex_);
    if (followed_.size() > followed_at_end_max && !overflowed_) return std::nullopt;
  }
  if (auto taken = take_followed(filter); !taken) return taken;
  if (!set_counts(filter)) return filled_up();
  const std::vector<std::byte> head = bloom::encode(bloom::header_of(filter));
  std::vector<keyspace::Part> parts;
  for (std::size_t i = 0; i < layers_.size(); ++i)
    parts.push_back({.key = request_.part_keys[i], .extent = static_cast<std::uint32_t>(layers_[i].size())});
  return changes.remake({.database = request_.database, .key = request_.key}, made, head, parts, takes_long_);
}

void Remaking::end(keyspace::Keyspace& keyspace) {
  if (std::exchange(following_, false)) keyspace.unfollow(*request_.parts[*continued_]);
}

Result<void> Remaking::make_now(keyspace::Mutator& changes) {
  if (auto begun = begin(changes.keyspace()); !begun) return begun;
  if (auto counted = count(); !counted) return counted;
  const auto made = bloom::unite(shape_, layers_, changes.keyspace().value_limits(), {});
  if (!made) return made.error();
  auto done = put(changes, *made);
  SEPAL_ASSERT(done.has_value(), "a filter changes while the gate is closed");
  return *done;
}

}  // namespace sepal::command
