// Figures and states of a mirror.
#pragma once

#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mirrors.hpp>

#include <string_view>

namespace sepal::command {

// Items that were new to the source since the mirror began. Made from the source's own count, so that adds
// pay nothing for it and a restart does not change it.
[[nodiscard]] inline std::uint64_t items_mirrored(const keyspace::Mirrors::Link& link) {
  const std::uint64_t now = value::row_of(*link.source).item_count(*link.source);
  return now - std::min(now, link.mirror.items_before);
}

// The mirror from `replaced` to `target`, if it is broken; else null. A target may take the place of its
// source only while the mirror is whole.
[[nodiscard]] inline const keyspace::Mirrors::Link* broken_between(const keyspace::Mirrors& mirrors,
                                                                   std::string_view target,
                                                                   const value::Value& replaced) {
  const keyspace::Mirrors::Link* const link = mirrors.from(replaced);
  const bool broken =
      link != nullptr && link->mirror.target == target && link->mirror.state != keyspace::MirrorState::whole;
  return broken ? link : nullptr;
}

}  // namespace sepal::command
