// `sepal migrate`: copies the filters of a running server, of Redis with RedisBloom or sepald, to a sepald.
//
//     source: SCAN -> TYPE, BF.INFO or CF.INFO, deadline       of some hundred keys at once
//     target:         the same                                 what is there already is left as it is
//     filters and strings that differ                          filter_mover.hpp, string_mover.hpp
//
// There is no file of state. Each run compares the figures of filters and the deadlines, and copies what
// differs, so a run that was cut off goes on, and a later run takes what came since (docs/decisions/0028).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/tls/context.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/redis/moved_keys.hpp"
#include "tools/redis/redis_address.hpp"
#include "tools/shell/progress.hpp"

namespace sepal::tools {

// Strings whose keys match the pattern are bitmaps of a client's Bloom filter.
struct BitmapRule {
  std::string pattern;
  std::string scheme;  // the words of BF.IMPORTBITMAP from the name of the scheme on
};

// The passwords, in the environment.
inline constexpr const char* source_variable = "SEPAL_SOURCE_PASSWORD";
inline constexpr const char* target_variable = "SEPAL_TARGET_PASSWORD";

struct MigrateRequest {
  RedisAddress source;
  RedisAddress target;
  std::string source_password;  // empty: none
  std::string target_password;
  std::string match = "*";                // only keys of this pattern of SCAN
  std::optional<std::uint32_t> database;  // only this one of the source; empty: all, or that of the address
  bool only_report = false;               // copies nothing
  std::vector<BitmapRule> bitmaps{};      // the first that matches counts
  tls::Context::ClientOptions tls{};      // for addresses with TLS
};

struct MigrateReport {
  MovedKeys keys;                      // filters and strings: copied, or to be copied
  std::uint64_t same = 0;              // filters that were there already
  std::uint64_t deadlines = 0;         // of these, got another deadline
  std::uint64_t samples = 0;           // filters that were asked on both sides
  std::uint64_t questions = 0;         // items of each of them
  std::uint64_t hits = 0;              // answered 1 by both
  std::uint64_t same_strings = 0;      // strings that were there already
  std::uint64_t string_deadlines = 0;  // of these, got another deadline
  std::uint64_t string_samples = 0;    // strings of which a piece was read again on both sides
  std::uint64_t bitmaps = 0;           // strings that became filters, or are to become filters
  std::uint64_t bitmaps_before = 0;    // strings of the source that an earlier run has made filters of
  bool source_has_mirrors = false;     // links of BF.MIRROR, which are not moved
  bool source_in_cluster = false;      // the source has a part of the cluster's keys
  std::uint64_t changed = 0;           // samples of both that changed at the source since they were copied
  bool found_nothing = false;          // the source has no key of the pattern, or of the database
  std::vector<BitmapRule> unmatched_rules;  // those by which no string of the source goes
};

// Blocks. Memory: that of some hundred keys, or of some pieces. Errors: io where a connection fails,
// out_of_range for what the servers are; with a sentence. After an error the filters that were copied stay.
Result<MigrateReport> migrate(const MigrateRequest& request, Progress& progress);

}  // namespace sepal::tools
