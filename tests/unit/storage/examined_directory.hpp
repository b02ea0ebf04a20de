// A data directory that tests of verify, inspect and salvage damage, and what they look for in the findings.
#pragma once

#include <sepal/storage/examine/examine.hpp>

#include "support/catch.hpp"
#include "support/generation_files.hpp"
#include "support/journal_files.hpp"
#include "support/storage_fixture.hpp"

namespace examine_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;
using Grade = Finding::Grade;

inline constexpr keyspace::DatabaseKey recorded_key{.database = 1, .key = "recorded"};
inline constexpr bloom::FilterOptions some_options{.error_rate = 0.01, .capacity = 100, .seed = 7};
inline const std::string folder = "data/generation-000000000001/";

// A data directory with three filters in a generation, and one in the journal, with a torn tail.
struct Directory {
  FileMap files;
  std::uint64_t torn_from = 0;  // offset in the segment

  Directory() {
    SimulatedDisk disk;
    test::Filters filters;
    filters.add(0, "small", 5, {.error_rate = 0.1, .capacity = 10, .seed = 1});
    filters.add(3, "grown", 9, {.error_rate = 0.1, .capacity = 4, .seed = 2});
    REQUIRE(filters.keyspace.set_deadline({.database = 3, .key = "grown"}, 12345));
    filters.add(0, "large", 5, {.error_rate = 0.01, .capacity = 200, .seed = 3});
    auto directory = DataDirectory::open(disk, "data", 0x1f, std::nullopt, {.own_file_bytes_min = 200});
    REQUIRE(directory);
    REQUIRE((*directory)->save(filters.snapshot(), {}));
    test::JournalFiles journal(0, 4096);
    journal.created(recorded_key, some_options,
                    (*bloom::Filter::create(some_options, test::roomy))->newest_layer().plan());
    journal.end_frame();
    for (int item = 0; item < 4; ++item) {
      const Fingerprint fingerprint = fingerprint_of("item " + std::to_string(item), some_options.seed);
      torn_from = journal.used();
      journal.added(recorded_key, {&fingerprint, 1});
      journal.end_frame();
    }
    Bytes& segment = journal.files().begin()->second;
    segment[torn_from + 30] ^= std::byte{1};
    journal.put(disk, "data");
    files = disk.files();
  }

  void put(SimulatedDisk& disk) const {
    for (const auto& [path, contents] : files) disk.put(path, contents);
  }
  [[nodiscard]] std::vector<Finding> verify() const {
    SimulatedDisk disk;
    put(disk);
    const auto findings = verify_directory(disk, "data", {});
    REQUIRE(findings);
    CHECK(disk.files() == files);  // nothing was written
    return *findings;
  }
};

// The one finding of this grade.
inline std::string only(const std::vector<Finding>& findings, Grade grade) {
  std::string text;
  for (const Finding& finding : findings) {
    if (finding.grade != grade) continue;
    CHECK(text.empty());
    text = finding.text;
  }
  return text;
}

inline bool any(const std::vector<Finding>& findings, Grade grade) {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& finding) { return finding.grade == grade; });
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace examine_test
