#include <sepal/base/arguments.hpp>
#include <sepal/command/users/acl_log.hpp>

#include <algorithm>
#include <utility>

namespace sepal::command {
namespace {

static_assert(static_cast<std::size_t>(AclReason::certificate) + 1 == acl_reason_count);

bool same_event(const AclLog::Event& one, const AclLog::Event& other) {
  return one.reason == other.reason && one.place == other.place && one.object == other.object &&
         one.user_name == other.user_name;
}

}  // namespace

// Keys and names of users may be long, and any client may send a long name with a failed login. So they are
// cut, and shrink_to_fit() gives back the memory behind the cut, which an entry could keep for days.
void AclLog::note(Event event, WallTime now, std::size_t entries_max) {
  event.object.resize(std::min(event.object.size(), echoed_bytes_max));
  event.user_name.resize(std::min(event.user_name.size(), echoed_bytes_max));
  event.object.shrink_to_fit();
  event.user_name.shrink_to_fit();
  const MutexLock lock(mutex_);
  // Counted even if no entry is kept (`acllog-max-len` is 0).
  ++counts_[static_cast<std::size_t>(event.reason)];
  // A client may fail with ever new names. The search is short all the same.
  const auto searched =
      entries_.begin() + static_cast<std::ptrdiff_t>(std::min(entries_.size(), searched_max));
  const auto same = std::find_if(entries_.begin(), searched, [&](const Entry& entry) {
    return same_event(entry.event, event) && now - entry.updated <= group_time_max;
  });
  if (same != searched) {
    // The entries are sorted by their last event, so this one moves to the front.
    byte_count_ -= same->byte_count();
    Entry entry = std::move(*same);
    entries_.erase(same);
    ++entry.count;
    entry.updated = now;
    entry.event.client = std::move(event.client);
    entries_.push_front(std::move(entry));
  } else {
    entries_.push_front({.event = std::move(event), .id = next_id_++, .created = now, .updated = now});
  }
  byte_count_ += entries_.front().byte_count();
  // More than one entry may go: CONFIG SET may have lowered the number since the last event.
  while (entries_.size() > entries_max || byte_count_ > acl_log_bytes_max) {
    byte_count_ -= entries_.back().byte_count();
    entries_.pop_back();
  }
}

std::vector<AclLog::Entry> AclLog::newest(std::size_t count_max) const {
  const MutexLock lock(mutex_);
  const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(std::min(entries_.size(), count_max));
  return {entries_.begin(), end};
}

void AclLog::clear() {
  const MutexLock lock(mutex_);
  entries_.clear();
  byte_count_ = 0;
}

std::uint64_t AclLog::count_of(AclReason reason) const {
  const MutexLock lock(mutex_);
  return counts_[static_cast<std::size_t>(reason)];
}

void AclLog::reset_counts() {
  const MutexLock lock(mutex_);
  std::ranges::fill(counts_, 0);
}

}  // namespace sepal::command
