// Kinds of changes as members, for tests that write many records: each makes the value and records it.
#pragma once

#include <sepal/keyspace/mutation.hpp>

#include <cstdint>
#include <string_view>

namespace sepal::test {

// `Log` derives from it, and has record(const keyspace::Mutation&).
template <class Log>
class Telling {
 public:
  void created(keyspace::DatabaseKey key, const bloom::FilterOptions& options,
               const bloom::LayerPlan& first_layer) {
    tell(keyspace::Created{.key = key, .options = options, .first_layer = first_layer});
  }
  void grown(keyspace::DatabaseKey key, const bloom::LayerPlan& layer) {
    tell(keyspace::Grown{.key = key, .layer = layer});
  }
  void removed(keyspace::DatabaseKey key) { tell(keyspace::Removed{.key = key}); }
  void expires(keyspace::DatabaseKey key, keyspace::Deadline deadline) {
    tell(keyspace::Expires{.key = key, .deadline = deadline});
  }
  void renamed(std::uint32_t database, std::string_view from, std::string_view to) {
    tell(keyspace::Renamed{.key = {.database = database, .key = from}, .target = to});
  }
  void adopted(keyspace::DatabaseKey key, const keyspace::AdoptedFilter& filter) {
    tell(keyspace::Adopted{.key = key, .filter = filter});
  }
  void moved(keyspace::DatabaseKey from, std::uint32_t to_database) {
    tell(keyspace::Moved{.key = from, .to_database = to_database});
  }
  void swapped(std::uint32_t database, std::uint32_t other) {
    tell(keyspace::Swapped{.database = database, .other = other});
  }
  void mirrored(const keyspace::Mirror& mirror) {
    tell(keyspace::Mirrored{.key = {.database = mirror.database, .key = mirror.source},
                            .target = mirror.target,
                            .state = mirror.state,
                            .items_before = mirror.items_before});
  }
  void flushed(std::uint32_t database) { tell(keyspace::Flushed{.database = database}); }
  void flushed_all() { tell(keyspace::FlushedAll{}); }

 private:
  friend Log;
  Telling() = default;
  void tell(const keyspace::Mutation& change) { static_cast<Log&>(*this).record(change); }
};

}  // namespace sepal::test
