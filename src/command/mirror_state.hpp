// What clients are told of a mirror.
#pragma once

#include <sepal/keyspace/mirrors.hpp>

#include <string>
#include <string_view>

namespace sepal::command {

// Why a mirror is broken; empty when it is not.
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

// Items that were new to the source since the mirror began. A count of filters, so that it costs adds
// nothing, and is the same after a restart.
[[nodiscard]] inline std::uint64_t items_mirrored(const keyspace::Mirrors::Link& link) {
  const std::uint64_t now = link.source->item_count();
  return now - std::min(now, link.mirror.items_before);
}

// The mirror that keeps a filter from taking the place of `replaced`: to do that, the target of a mirror has
// to be whole. Null when there is none.
[[nodiscard]] inline const keyspace::Mirrors::Link* broken_between(const keyspace::Mirrors& mirrors,
                                                                   std::string_view target,
                                                                   const filter::Filter& replaced) {
  const keyspace::Mirrors::Link* const link = mirrors.from(replaced);
  const bool broken =
      link != nullptr && link->mirror.target == target && link->mirror.state != keyspace::MirrorState::whole;
  return broken ? link : nullptr;
}

}  // namespace sepal::command
