// Which filters are mirrored: what is added to a source is added to its target as well.
//
//     source ----> target        two keys of one database; a filter is an end of one mirror at most, so there
//                                are no chains and no cycles
//
// Names lead to filters, and a mirror is between filters: it stays when an end is renamed, and ends when an
// end is removed or replaced. An add first asks whether there is any mirror at all, so adds pay almost
// nothing while there is none.
//
// A filter that is made anew of its own bits is followed meanwhile: the thread that makes it hears of each
// item that is added to it. For an add this is one more kind of mirror.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/value/value.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sepal::keyspace {

// For all databases together. It bounds what a save keeps of mirrors, because a name may be long.
inline constexpr std::size_t mirrors_max = 256;

// The numbers stand in files (docs/formats.md).
enum class MirrorState : std::uint8_t {
  off = 0,          // there is no mirror; only in a record
  whole = 1,        // the target has all that was added to the source since the mirror began
  full = 2,         // broken: the target does not scale and holds its capacity,
  layer_limit = 3,  // or it may not grow another layer,
  no_memory = 4,    // or there was no memory for it
};
inline constexpr MirrorState last_mirror_state = MirrorState::no_memory;

// A mirror as records and replies name it.
struct Mirror {
  std::uint32_t database = 0;
  std::string source;
  std::string target;
  MirrorState state = MirrorState::whole;
  std::uint64_t items_before = 0;  // the items that the source had when the mirror began

  friend bool operator==(const Mirror&, const Mirror&) = default;
};

// Hears of the items that are added to a filter, inside the gate, from any number of workers at once.
class Follower {
 public:
  virtual ~Follower() = default;
  // What a record has of new items (KindRow::add). Their bits are set.
  virtual void added(std::span<const Fingerprint> entries) noexcept = 0;
};

// Guarded by the gate: const members are shared, the others exclusive.
class Mirrors {
 public:
  struct Link {
    Mirror mirror;
    value::Value* source = nullptr;
    value::Value* target = nullptr;
  };

  [[nodiscard]] bool empty() const { return links_.empty(); }
  // There is no mirror, and no filter is followed: an add concerns its own filter alone.
  [[nodiscard]] bool adds_stay_alone() const { return links_.empty() && followed_.empty(); }
  [[nodiscard]] std::size_t size() const { return links_.size(); }
  [[nodiscard]] std::size_t broken_count() const;
  // The mirror of this source; null when it has none. Valid until a mirror begins or ends.
  [[nodiscard]] const Link* from(const value::Value& source) const {
    const Link* const found = of(source);
    return found != nullptr && found->source == &source ? found : nullptr;
  }
  // The same, but null unless the target gets what the source gets.
  [[nodiscard]] const Link* whole_from(const value::Value& source) const {
    if (links_.empty()) return nullptr;
    const Link* const found = from(source);
    return found != nullptr && found->mirror.state == MirrorState::whole ? found : nullptr;
  }
  // The mirror of which this filter is an end; null when there is none.
  [[nodiscard]] const Link* of(const value::Value& end) const {
    const auto found = ends_.find(&end);
    return found == ends_.end() ? nullptr : found->second;
  }
  // Null: the filter is not followed.
  [[nodiscard]] Follower* follower_of(const value::Value& filter) const;
  [[nodiscard]] std::vector<Mirror> all() const;
  void for_each(const auto& visit) const {
    for (const auto& link : links_) visit(std::as_const(*link));
  }
  // The length of the longest name of an end.
  [[nodiscard]] std::size_t key_bytes_max() const { return key_bytes_max_; }

  // Neither filter may be an end of a mirror, and there must be fewer than mirrors_max.
  void add(const Mirror& mirror, value::Value& source, value::Value& target);
  // The source must have a mirror.
  void set_state(const value::Value& source, MirrorState state);
  // Notes the new name of a filter, if it is an end.
  void rename(const value::Value& end, std::string_view key);
  // Ends the mirror of which this filter is an end. False when there is none.
  bool drop(const value::Value& end);
  // Another filter takes the place of this one, under its key.
  void replace(const value::Value& end, value::Value& by);
  // The caller holds the filter, which has no follower, until unfollow().
  void follow(const value::Value& filter, Follower& follower);
  void unfollow(const value::Value& filter);
  void drop_database(std::uint32_t database);
  void swap_databases(std::uint32_t database, std::uint32_t other);

 private:
  void measure_keys();

  std::vector<std::unique_ptr<Link>> links_;
  std::unordered_map<const value::Value*, Link*> ends_;
  std::vector<std::pair<const value::Value*, Follower*>> followed_;  // hardly ever more than one
  std::size_t key_bytes_max_ = 0;
};

// Items that were new to the source since the mirror began. Made from the source's own count, so that adds
// pay nothing for it and a restart does not change it.
[[nodiscard]] std::uint64_t items_mirrored(const Mirrors::Link& link);

}  // namespace sepal::keyspace
