// Kinds of changes as members, for tests that write many records: each makes the value and records it.
#pragma once

#include <sepal/bloom/kind/kind.hpp>
#include <sepal/keyspace/mutation.hpp>
#include <sepal/strings/kind.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace sepal::test {

// `Log` derives from it, and has record(const keyspace::Mutation&).
template <class Log>
class Telling {
 public:
  void created(keyspace::DatabaseKey key, const bloom::FilterOptions& options,
               const bloom::LayerPlan& first_layer) {
    const auto head = bloom::made_record({.options = options, .first_layer = first_layer});
    tell(keyspace::Made{.key = key, .kind = value::Kind::bloom, .head = head});
  }
  void grown(keyspace::DatabaseKey key, const bloom::LayerPlan& layer) {
    const auto head = bloom::grown_record(layer);
    tell(
        keyspace::Changed{.key = key, .kind = value::Kind::bloom, .what = bloom::grown_change, .head = head});
  }
  void written(keyspace::DatabaseKey key, std::uint64_t offset, std::string_view bytes) {
    const auto head = strings::written_head(offset, bytes.size());
    tell(keyspace::Changed{.key = key,
                           .kind = value::Kind::string,
                           .what = strings::written_change,
                           .head = head,
                           .bytes = std::as_bytes(std::span(bytes))});
  }
  void removed(keyspace::DatabaseKey key) { tell(keyspace::Removed{.key = key}); }
  void expires(keyspace::DatabaseKey key, keyspace::Deadline deadline) {
    tell(keyspace::Expires{.key = key, .deadline = deadline});
  }
  void renamed(std::uint32_t database, std::string_view from, std::string_view to) {
    tell(keyspace::Renamed{.key = {.database = database, .key = from}, .target = to});
  }
  void adopted(keyspace::DatabaseKey key, const keyspace::AdoptedValue& value) {
    tell(keyspace::Adopted{.key = key, .value = value});
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
