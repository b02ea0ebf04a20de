// States of a mirror.
#pragma once

#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mirrors.hpp>

#include <string_view>

namespace sepal::command {

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
