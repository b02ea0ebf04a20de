// The mirrors of a keyspace: which keys may begin one, and how it ends.
#include <sepal/keyspace/keyspace.hpp>

namespace sepal::keyspace {

Result<void> Keyspace::begin_mirror(const Mirror& mirror) {
  if (mirror.database >= database_count || mirror.source == mirror.target || mirror.state == MirrorState::off)
    return fail(Errc::out_of_range);
  value::Value* const source = find({.database = mirror.database, .key = mirror.source});
  value::Value* const target = find({.database = mirror.database, .key = mirror.target});
  // Two codes for two texts: the client is told which of the keys is missing.
  if (source == nullptr) return fail(Errc::no_such_key);
  if (target == nullptr) return fail(Errc::not_found);
  if (!value::row_of(*source).mirrors || !value::row_of(*target).mirrors)
    return fail(Errc::out_of_range, "values of this kind have no mirrors");
  // One mirror for each filter: so there are no chains and no cycles, and an add reaches two filters at
  // most (decisions/0014).
  if (mirrors_.of(*source) != nullptr || mirrors_.of(*target) != nullptr) return fail(Errc::key_exists);
  if (mirrors_.size() >= mirrors_max) return fail(Errc::key_limit);
  // A mirror is in the MANIFEST of a generation, so it counts as a change that a save has to keep.
  mirrors_.add(mirror, *source, *target);
  changed();
  return {};
}

bool Keyspace::is_target(DatabaseKey key, WallTime now) const {
  const value::Value* const present = mirrors_.empty() ? nullptr : find(key, now);
  const Mirrors::Link* const link = present == nullptr ? nullptr : mirrors_.of(*present);
  return link != nullptr && link->target == present;
}

bool Keyspace::end_mirror(DatabaseKey source) {
  const value::Value* const value = find(source);
  if (value == nullptr || mirrors_.from(*value) == nullptr) return false;
  mirrors_.drop(*value);
  changed();
  return true;
}

bool Keyspace::set_mirror_state(DatabaseKey source, MirrorState state) {
  const value::Value* const value = find(source);
  if (value == nullptr || mirrors_.from(*value) == nullptr) return false;
  mirrors_.set_state(*value, state);
  changed();
  return true;
}

}  // namespace sepal::keyspace
