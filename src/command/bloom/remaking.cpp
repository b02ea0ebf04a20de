// What is read and what is told. A worker tells of an item behind its bits, and the job ORs what it reads
// into the new filter. So of each item that is added meanwhile, the job reads the bits or hears of it, and
// nothing that it has set is taken away again.
//
// A filter that grows meanwhile has items in a layer that is not read. Then the job ends without a result.
#include "command/bloom/remaking.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <utility>

namespace sepal::command {
namespace {

using keyspace::DatabaseKey;

// So many new items may wait for the job, which takes them after each piece of bits. Twice 4 MiB,
// which are touched only if so many come.
constexpr std::size_t followed_max = std::size_t{1} << 18;
// So many may be left for the moment in which the gate is closed.
constexpr std::size_t followed_at_end_max = 4096;
constexpr int catch_up_rounds_max = 64;

Error filled_up() {
  return fail(Errc::in_use, std::string(text::filled_meanwhile));
}

}  // namespace

Remaking::Remaking(RemakeRequest request) : request_(std::move(request)) {
  SEPAL_ASSERT(!request_.parts.empty() && request_.parts.size() == request_.part_keys.size(),
               "a filter is made of nothing");
  const auto own = std::ranges::find(request_.part_keys, request_.key);
  if (own != request_.part_keys.end())
    request_.continued = static_cast<std::size_t>(own - request_.part_keys.begin());
  uniting_ = Uniting::of(request_);
}

Result<void> Remaking::begin(const keyspace::Keyspace& keyspace) {
  if (auto checked = check(keyspace); !checked) return checked;
  return uniting_->begin();
}

Result<value::ValuePtr> Remaking::make(const JobContext& job) {
  takes_long_ = true;
  if (request_.continued) {
    const MutexLock lock(mutex_);
    followed_.reserve(followed_max);
    taken_.reserve(followed_max);
  }
  Result<void> begun;
  job.alone([&](keyspace::Keyspace& keyspace) {
    begun = begin(keyspace);
    if (!begun || !request_.continued) return;
    // Another job of this server would have ended: jobs run one after the other.
    SEPAL_ASSERT(keyspace.mirrors().follower_of(continued()) == nullptr,
                 "a filter is made anew twice at a time");
    keyspace.follow(continued(), *this);
    following_ = true;
  });
  if (!begun) return begun.error();
  if (auto counted = uniting_->count(); !counted) return counted.error();
  if (auto room = job.hold(uniting_->byte_count()); !room) return room.error();
  auto made = uniting_->make(job.limits);
  if (!made) return made;
  Result<void> followed;
  const auto taken = uniting_->take_parts(**made, [&](std::uint64_t bytes_done) {
    followed = take_followed(**made);
    return followed.ok() && (!job.go_on || job.go_on(bytes_done));
  });
  if (!followed) return followed.error();
  if (!taken) return taken.error();
  return made;
}

void Remaking::added(std::span<const Fingerprint> entries) noexcept {
  if (entries.empty()) return;
  const MutexLock lock(mutex_);
  overflowed_ = overflowed_ || followed_.size() + entries.size() > followed_max;
  if (!overflowed_) followed_.insert(followed_.end(), entries.begin(), entries.end());
}

Result<void> Remaking::take_followed(value::Value& made) {
  if (!request_.continued) return {};
  {
    const MutexLock lock(mutex_);
    if (overflowed_) return filled_up();
    std::swap(followed_, taken_);
  }
  if (!uniting_->take_entries(made, taken_)) return filled_up();
  last_taken_ = taken_.size();
  taken_.clear();
  return {};
}

// Clients add meanwhile, so few items are left after a few rounds, and hardly ever none.
Result<void> Remaking::catch_up(const value::ValuePtr& made) {
  for (int round = 0; round < catch_up_rounds_max; ++round) {
    if (auto taken = take_followed(*made); !taken) return taken;
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
  // The items of the other parts would be missing in the mirror's target. The same holds where OVERRIDE
  // replaces the source: a client that has set up the mirror must not lose it without a word.
  const value::Value* const present = request_.unites ? keyspace.find(key) : nullptr;
  if (present != nullptr && keyspace.mirrors().from(*present) != nullptr)
    return fail(Errc::in_use, std::string(text::union_of_mirrored));
  return request_.continued ? Result<void>() : may_adopt(keyspace, key, request_.replaces);
}

std::optional<Result<void>> Remaking::put(keyspace::Mutator& changes, const value::ValuePtr& made) {
  if (auto checked = check(changes.keyspace()); !checked) return checked;
  if (request_.continued) {
    const MutexLock lock(mutex_);
    if (followed_.size() > followed_at_end_max && !overflowed_) return std::nullopt;
  }
  if (auto taken = take_followed(*made); !taken) return taken;
  if (!uniting_->finish(*made)) return filled_up();
  const std::vector<std::byte> head = value::Frozen(made).head();
  std::vector<keyspace::Part> parts;
  for (std::size_t i = 0; i < request_.parts.size(); ++i)
    parts.push_back({.key = request_.part_keys[i], .extent = uniting_->extent(i)});
  return changes.remake({.database = request_.database, .key = request_.key}, made, head, parts, takes_long_);
}

void Remaking::end(keyspace::Keyspace& keyspace) {
  if (std::exchange(following_, false)) keyspace.unfollow(continued());
}

Result<void> Remaking::make_now(keyspace::Mutator& changes) {
  if (auto begun = begin(changes.keyspace()); !begun) return begun;
  if (auto counted = uniting_->count(); !counted) return counted;
  const auto made = uniting_->make(changes.keyspace().value_limits());
  if (!made) return made.error();
  if (auto taken = uniting_->take_parts(**made, {}); !taken) return taken;
  auto done = put(changes, *made);
  SEPAL_ASSERT(done.has_value(), "a filter changes while the gate is closed");
  return *done;
}

}  // namespace sepal::command
