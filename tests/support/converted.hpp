// RDB files that `sepal convert` reads on a simulated disk, and what becomes of them.
#pragma once

#include <sepal/rdb/dump.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/value/module_payload.hpp>

#include <map>
#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/rdb_text.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"
#include "tools/redis/convert.hpp"

namespace sepal::test {

inline constexpr value::Limits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

// A key and its value as sepal.so saves it.
inline void append_saved(RdbText& text, const std::string& key, const value::ValuePtr& value) {
  std::string payload;
  const value::Frozen frozen{value};
  const auto pieces = value::module_payload_of(frozen.view(), {});
  REQUIRE(pieces);
  for (const std::string& piece : *pieces) payload += piece;
  text.bytes += '\x07';
  text.length(key.size());
  text.bytes += key + payload.substr(1, payload.size() - 1 - rdb::footer_bytes);
}

// A file whose keys are in database 3.
inline RdbText begun() {
  RdbText text;
  text.bytes = "REDIS0012\xfe\x03";
  return text;
}

// The file is whole: it is put on the disk.
inline void put(SimulatedDisk& disk, RdbText text) {
  text.bytes += '\xff';
  const std::string whole = text.sealed();
  const auto bytes = bytes_of(whole);
  disk.put("in/dump.rdb", {bytes.begin(), bytes.end()});
}

inline Result<tools::ConvertReport> convert_file(SimulatedDisk& disk, tools::ConvertRequest::Output output) {
  tools::Progress progress(nullptr, tools::Progress::Style::none);
  return tools::convert(
      disk, {.input = "in/dump.rdb", .output = output, .folder = "out", .seed = 1, .now = some_time},
      progress);
}

struct Loaded {
  std::map<std::string, value::ValuePtr> values;
  std::map<std::string, keyspace::Deadline> deadlines;
};

inline Loaded load(SimulatedDisk& disk) {
  Loaded loaded;
  const auto directory = storage::DataDirectory::open(disk, "out", 1, std::nullopt);
  REQUIRE(directory);
  const auto report = (*directory)
                          ->load(plenty,
                                 [&](std::span<storage::LoadedValue> values) {
                                   for (auto& one : values) {
                                     CHECK(one.database == 3);
                                     loaded.deadlines[one.key] = one.deadline;
                                     loaded.values[one.key] = std::move(one.value);
                                   }
                                   return Result<void>();
                                 },
                                 {});
  REQUIRE(report);
  return loaded;
}

}  // namespace sepal::test
