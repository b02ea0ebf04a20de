// Helpers for tests of storage: filters with items, snapshots, and loaded keyspaces.
#pragma once

#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/generation/snapshot.hpp>
#include <sepal/value/image.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "freeing_housekeeper.hpp"
#include "values.hpp"

namespace sepal::test {

inline const bool log_silenced = (spdlog::set_level(spdlog::level::off), true);

inline constexpr bloom::FilterLimits roomy{.bytes_max = std::uint64_t{1} << 32, .layers_max = 64};
inline const WallTime some_time{std::chrono::milliseconds(1'700'000'000'123)};

// A keyspace that only the test uses.
struct Filters {
  FreeingHousekeeper housekeeper;
  static constexpr keyspace::KeyspaceOptions limits{.memory_max = std::uint64_t{1} << 33};
  keyspace::Keyspace keyspace{limits, housekeeper};

  // Adds a filter with `items` items, named "<key>/0" and so on. Returns the filter.
  bloom::Filter& add(std::uint32_t database, const std::string& key, std::uint64_t items,
                     const bloom::FilterOptions& options = {.seed = 7}) {
    auto created = sepal::writers::create(keyspace, {.database = database, .key = key}, options);
    for (std::uint64_t i = 0; i < items; ++i)
      static_cast<void>(
          sepal::writers::add_alone(keyspace, database, **created, key + "/" + std::to_string(i)));
    return **created;
  }
  [[nodiscard]] storage::Snapshot snapshot() const { return storage::snapshot_of(keyspace, some_time); }
};

using FilterMap = std::map<std::pair<std::uint32_t, std::string>, sepal::bloom::FilterPtr>;

struct LoadOutcome {
  std::optional<Error> error;
  storage::GenerationReport report;
  FilterMap filters;
  std::map<std::pair<std::uint32_t, std::string>, std::string> strings;
};

inline LoadOutcome load(storage::DataDirectory& directory, const bloom::FilterLimits& limits = roomy) {
  LoadOutcome outcome;
  const auto sink = [&](std::span<storage::LoadedValue> filters) {
    for (auto& loaded : filters) {
      const std::pair key(loaded.database, std::move(loaded.key));
      const auto value = std::exchange(loaded.value, nullptr);
      if (const auto* const string = value::as<strings::String>(value.get())) {
        outcome.strings[key] = string->text();
      } else {
        outcome.filters[key] = held_filter(value);
      }
    }
    return Result<void>();
  };
  auto report = directory.load(limits, sink, {});
  if (report) {
    outcome.report = *report;
  } else {
    outcome.error = report.error();
  }
  return outcome;
}

inline LoadOutcome open_and_load(storage::Disk& disk, const storage::Path& path) {
  auto directory = storage::DataDirectory::open(disk, path, 1, std::nullopt);
  if (!directory) return {.error = directory.error(), .report = {}, .filters = {}, .strings = {}};
  return load(**directory);
}

inline std::vector<std::byte> bits_of(const bloom::LayerView& layer) {
  std::vector<std::byte> bits(static_cast<std::size_t>(layer.plan().byte_count()));
  layer.copy_bits(0, bits);
  return bits;
}

// Whether both values have equal options, layers, counts and bits.
inline bool same(const value::Value& a, const value::Value& b) {
  return value::image_of(a) == value::image_of(b);
}

template <class Map>
bool same(const std::vector<keyspace::CutEntry>& cut, const Map& loaded) {
  return cut.size() == loaded.size() && std::all_of(cut.begin(), cut.end(), [&](const auto& entry) {
           const auto found = loaded.find({entry.database, entry.key});
           return found != loaded.end() && same(*entry.value, *found->second);
         });
}

inline bool contains(const bloom::Filter& filter, std::string_view item) {
  bool present = false;
  filter.contains({&item, 1}, {&present, 1});
  return present;
}

// A temporary folder, removed with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("sepal-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const storage::Path& path() const { return path_; }

 private:
  storage::Path path_;
};

}  // namespace sepal::test
