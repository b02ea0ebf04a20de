// What replies say about a mirror.
#pragma once

#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mirrors.hpp>

#include <string>
#include <string_view>

namespace sepal::command {

// Why a mirror is broken; empty if it is not.
[[nodiscard]] constexpr std::string_view reason_of(keyspace::MirrorState state) {
  switch (state) {
    case keyspace::MirrorState::full:
      return "the target does not scale and is full";
    case keyspace::MirrorState::layer_limit:
      return "the target has as many layers as it may have";
    case keyspace::MirrorState::no_memory:
      return "there was no memory for the target to grow";
    default:
      return "";
  }
}

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
