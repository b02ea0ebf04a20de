// What ACL LOG shows: requests that a user's rules did not allow, failed logins, and certificates of no user.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/mutex.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace sepal::command {

enum class AclReason : std::uint8_t { authentication, command, key, channel, certificate };
inline constexpr std::size_t acl_reason_count = 5;
// Where a request was refused.
enum class AclPlace : std::uint8_t { toplevel, transaction, script };

// The log keeps no more memory than this, whatever acllog-max-len says.
inline constexpr std::size_t acl_log_bytes_max = std::size_t{8} << 20;

// Synchronised.
class AclLog {
 public:
  struct Event {
    AclReason reason = AclReason::command;
    AclPlace place = AclPlace::toplevel;
    std::string object;     // the command, the key, or how the client tried to log in
    std::string user_name;  // as the client gave it
    std::string client;     // its line of CLIENT LIST, without the end of the line
  };
  struct Entry {
    Event event;
    std::uint64_t id = 0;
    std::uint64_t count = 1;
    WallTime created{};
    WallTime updated{};

    // The memory that it takes.
    [[nodiscard]] std::size_t byte_count() const {
      return sizeof(Entry) + event.object.capacity() + event.user_name.capacity() + event.client.capacity();
    }
  };
  // The same event within a minute is counted, and not listed again.
  static constexpr std::chrono::seconds group_time_max{60};
  // So many entries are searched for the same event.
  static constexpr std::size_t searched_max = 10;

  // Keeps the newest `entries_max` entries, or as many of them as fit into acl_log_bytes_max.
  void note(Event event, WallTime now, std::size_t entries_max);
  // The newest ones first; `count_max` at most.
  [[nodiscard]] std::vector<Entry> newest(std::size_t count_max) const;
  void clear();

  // Events since the start, or since the last reset.
  [[nodiscard]] std::uint64_t count_of(AclReason reason) const;
  void reset_counts();

 private:
  mutable Mutex mutex_;  // Lock order: after the gate; nothing is locked inside.
  std::deque<Entry> entries_ SEPAL_GUARDED_BY(mutex_);
  std::size_t byte_count_ SEPAL_GUARDED_BY(mutex_) = 0;  // of them
  std::uint64_t next_id_ SEPAL_GUARDED_BY(mutex_) = 0;
  std::uint64_t counts_[acl_reason_count] SEPAL_GUARDED_BY(mutex_) = {};
};

}  // namespace sepal::command
