// Turns entries of a table into entries of a cut.
//
// Sharing a value writes to its reference count, which is in no cache. A cut spends its time with the gate
// closed on that, so each value is asked for some entries before it is shared.
#pragma once

#include <sepal/keyspace/keyspace.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "keyspace/segment.hpp"

namespace sepal::keyspace {

// Confined. The entries are complete when this object ends; the table's entries must not change before.
class Sharing {
 public:
  explicit Sharing(std::vector<CutEntry>& to) : to_(to), first_(to.size()) {}
  ~Sharing() {
    // The last entries still wait: no add() behind them has shared them.
    const std::size_t waiting = std::min(to_.size() - first_, ahead);
    for (std::size_t index = to_.size() - waiting; index < to_.size(); ++index) share(index);
  }
  Sharing(const Sharing&) = delete;
  Sharing& operator=(const Sharing&) = delete;

  void add(std::uint32_t database, const Entry& entry, value::Value& value, Deadline deadline) {
    // The place in the ring is free again before it is filled: the entry that held it has just been shared.
    const std::size_t index = to_.size();
    if (index - first_ >= ahead) share(index - ahead);
    __builtin_prefetch(&value, 1);
    waiting_[index % ahead] = &value;
    to_.push_back(
        {.database = database, .key = std::string(entry.key.view()), .value = nullptr, .deadline = deadline});
  }

 private:
  static constexpr std::size_t ahead = 16;
  void share(std::size_t index) { to_[index].value = waiting_[index % ahead]; }

  std::vector<CutEntry>& to_;
  std::size_t first_;
  std::array<value::Value*, ahead> waiting_{};
};

}  // namespace sepal::keyspace
