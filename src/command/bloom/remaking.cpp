#include "command/bloom/remaking.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/bloom/filter/unite.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace sepal::command {
namespace {

using keyspace::DatabaseKey;

// So many new items may wait for the job: it takes them after each piece of bits. 16 MiB, which are touched
// only if so many come.
constexpr std::size_t followed_max = std::size_t{1} << 20;

// A filter's own rate scatters around the one that it is planned for, and so does what a sample of its bits
// says.
constexpr double rate_tolerance = 1.05;

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

Error too_many_for_rate(double predicted, double allowed, double items, std::uint64_t capacity) {
  return fail(Errc::out_of_range, "the union would err at " + rate_text(predicted) + ", more than " +
                                      rate_text(allowed) + ": it has about " + about(items) +
                                      " different items, and room for " + std::to_string(capacity));
}

Error abandoned_remaking() {
  return fail(Errc::io, "given up before the end, as asked");
}

}  // namespace

Remaking::Remaking(RemakeRequest request) : request_(std::move(request)) {
  for (std::size_t i = 0; i < request_.parts.size(); ++i) {
    parts_.push_back(request_.parts[i].get());
    if (request_.part_keys[i] == request_.key) continued_ = parts_.back();
  }
  SEPAL_ASSERT(!parts_.empty() && parts_.size() == request_.part_keys.size(), "a filter is made of nothing");
}

// The union's counts are estimates, as far as its bits and the counts of the parts allow.
Result<void> Remaking::count() {
  counts_before_.clear();
  if (continued_ != nullptr)
    for (const bloom::LayerView& layer : continued_->layers()) counts_before_.push_back(layer.item_count());
  if (!request_.unites) return {};
  const bloom::FilterMeasure measured =
      bloom::measure_union(request_.shape, parts_, bloom::measured_bytes_max);
  if (measured.false_positive_rate > request_.error_rate_max * rate_tolerance) {
    std::uint64_t capacity = 0;
    for (const auto& layer : request_.shape.layers) capacity += layer.plan.capacity;
    return too_many_for_rate(measured.false_positive_rate, request_.error_rate_max, measured.item_estimate,
                             capacity);
  }
  bloom::count_union(request_.shape, parts_, measured);
  return {};
}

Result<value::ValuePtr> Remaking::make(const JobContext& job) {
  if (continued_ != nullptr) {
    {
      const MutexLock lock(mutex_);
      followed_.reserve(followed_max);
    }
    taken_.reserve(followed_max);
    Result<void> checked;
    job.alone([&](keyspace::Keyspace& keyspace) {
      checked = check(keyspace);
      if (checked && keyspace.mirrors().follower_of(*continued_) != nullptr)
        checked = fail(Errc::in_use, std::string(text::filter_is_remade));
      if (!checked) return;
      keyspace.follow(*continued_, *this);
      following_ = true;
    });
    if (!checked) return checked.error();
  }
  if (auto counted = count(); !counted) return counted.error();
  if (auto room = job.hold(request_.shape.bitmap_bytes()); !room) return room.error();
  auto made = bloom::Filter::restore(request_.shape.options, request_.shape.layers, job.limits,
                                     value::FilledBy::load);
  if (!made) return made.error();
  if (auto taken = take_bits(**made, job); !taken) return taken.error();
  return value::ValuePtr(std::move(*made));
}

// Between the reading of a piece and its writing, no bit is set in it: this thread does both, and takes what
// it has heard of only between two pieces. A worker tells of an item behind its bits, so each item is either
// read or taken.
Result<void> Remaking::take_bits(bloom::Filter& made, const JobContext& job) {
  const value::GoOn go_on = [&](std::uint64_t bytes_done) {
    take_followed(made);
    return !job.go_on || job.go_on(bytes_done);
  };
  for (std::uint32_t index = 0; index < made.layer_count(); ++index)
    if (!bloom::take_layer(made, index, parts_, go_on, bytes_done_)) return abandoned_remaking();
  return {};
}

void Remaking::added(std::string_view item) noexcept {
  const Fingerprint fingerprint = continued_->fingerprint(item);
  const MutexLock lock(mutex_);
  if (followed_.size() == followed_max) {
    overflowed_ = true;
    return;
  }
  followed_.push_back(fingerprint);
}

void Remaking::take_followed(bloom::Filter& made) {
  {
    const MutexLock lock(mutex_);
    std::swap(followed_, taken_);
  }
  made.set_bits(taken_);
  taken_.clear();
}

// The filter may have grown since: its further layers are made as well. Clients add to the newest one
// meanwhile.
Result<void> Remaking::catch_up(const value::ValuePtr& made, const JobContext& job) {
  auto& filter = value::as<bloom::Filter>(*made);
  take_followed(filter);
  if (continued_ == nullptr || !request_.unites) return {};
  while (filter.layer_count() < continued_->layer_count()) {
    const std::uint32_t index = filter.layer_count();
    const bloom::LayerPlan plan = continued_->layer(index).plan();
    if (auto room = job.hold(plan.byte_count()); !room) return room;
    if (auto grown = filter.append_layer(plan, job.limits); !grown) return grown;
    request_.shape.layers.push_back({.plan = plan, .item_count = 0});
    counts_before_.push_back(0);
    const value::GoOn go_on = [&](std::uint64_t bytes_done) {
      take_followed(filter);
      return !job.go_on || job.go_on(bytes_done);
    };
    if (!bloom::take_layer(filter, index, parts_, go_on, bytes_done_)) return abandoned_remaking();
  }
  return {};
}

// Whether each part is still what its key names, and the key still free, or to be replaced.
Result<void> Remaking::check(const keyspace::Keyspace& keyspace) const {
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (keyspace.find({.database = request_.database, .key = request_.part_keys[i]}) != parts_[i])
      return fail(Errc::in_use, std::string(text::part_changed));
  const DatabaseKey key{.database = request_.database, .key = request_.key};
  if (continued_ == nullptr) return may_adopt(keyspace, key, request_.replaces);
  // The items of the other parts would be missing in the target.
  if (request_.unites && keyspace.mirrors().from(*continued_) != nullptr)
    return fail(Errc::in_use, std::string(text::union_of_mirrored));
  return {};
}

// False: a smaller filter has no room for what clients have added since.
bool Remaking::set_counts(bloom::Filter& made) {
  std::vector<bloom::Filter::LayerState> layers = request_.shape.layers;
  for (std::uint32_t index = 0; continued_ != nullptr && index < continued_->layer_count(); ++index) {
    const std::uint64_t now = continued_->layer(index).item_count();
    auto& [plan, item_count] = layers[index];
    if (!request_.unites && now > plan.capacity) return false;
    // Counts never fall.
    item_count = request_.unites ? std::min(plan.capacity, item_count + (now - counts_before_[index])) : now;
  }
  made.set_item_counts(layers);
  return true;
}

std::optional<Result<void>> Remaking::put(keyspace::Mutator& changes, const value::ValuePtr& made) {
  auto& filter = value::as<bloom::Filter>(*made);
  if (auto checked = check(changes.keyspace()); !checked) return checked;
  if (continued_ != nullptr && continued_->layer_count() > filter.layer_count()) {
    if (request_.unites) return std::nullopt;
    return fail(Errc::in_use, std::string(text::filled_meanwhile));
  }
  take_followed(filter);
  {
    const MutexLock lock(mutex_);
    if (overflowed_) return fail(Errc::in_use, std::string(text::filled_meanwhile));
  }
  if (!set_counts(filter)) return fail(Errc::in_use, std::string(text::filled_meanwhile));
  const std::vector<std::byte> head = bloom::encode(bloom::header_of(filter));
  const std::vector<std::string_view> part_keys(request_.part_keys.begin(), request_.part_keys.end());
  return changes.remake({.database = request_.database, .key = request_.key}, made, head, part_keys);
}

void Remaking::end(keyspace::Keyspace& keyspace) {
  if (std::exchange(following_, false)) keyspace.unfollow(*continued_);
}

Result<void> Remaking::make_now(keyspace::Mutator& changes) {
  if (auto checked = check(changes.keyspace()); !checked) return checked;
  if (auto counted = count(); !counted) return counted;
  const auto made = bloom::unite(request_.shape, parts_, changes.keyspace().value_limits(), {});
  if (!made) return made.error();
  auto done = put(changes, *made);
  SEPAL_ASSERT(done.has_value(), "a filter changes while the gate is closed");
  return *done;
}

}  // namespace sepal::command
