// The options of CF.RESERVE, CF.INSERT and CF.INSERTNX.
//
// Options are read by position, as whole words in any case, as those of BF.INSERT (decisions/0004). The
// reference looks for option words anywhere, even in the key, and ignores words that it does not know.
#pragma once

#include <sepal/base/parsed.hpp>
#include <sepal/cuckoo/native/plan.hpp>

#include <span>
#include <string_view>
#include <variant>

namespace sepal::cuckoo {

namespace text {

inline constexpr std::string_view bad_capacity = "Bad capacity";
inline constexpr std::string_view reserve_capacity_range =
    "Capacity must be in the range [2 * BUCKETSIZE, 1073741824]";
inline constexpr std::string_view insert_capacity_range =
    "Capacity must be in the range [cf-bucket-size * 2, 1073741824]";
inline constexpr std::string_view bad_iterations = "Couldn't parse MAXITERATIONS";
inline constexpr std::string_view iterations_range = "MAXITERATIONS: value must be in the range [1, 65535]";
inline constexpr std::string_view bad_bucket_size = "Couldn't parse BUCKETSIZE";
inline constexpr std::string_view bucket_size_range = "BUCKETSIZE: value must be in the range [1, 255]";
inline constexpr std::string_view bad_expansion = "Couldn't parse EXPANSION";
inline constexpr std::string_view expansion_range = "EXPANSION: value must be in the range [0, 32768]";
// Sepal's own option, with the answers of BF.RESERVE.
inline constexpr std::string_view bad_rate = "ERR bad error rate";
inline constexpr std::string_view rate_range = "ERR error rate must be in the range (0.000000, 1.000000)";
inline constexpr std::string_view rate_too_low = "ERR error rate of a cuckoo filter must be at least 1.1e-13";
inline constexpr std::string_view unknown_word = "Unknown argument received";

inline constexpr std::string_view not_found = "ERR not found";
inline constexpr std::string_view nothing_to_delete_from = "Not found";
inline constexpr std::string_view nothing_to_compact = "Cuckoo filter was not found";
inline constexpr std::string_view full = "Filter is full";
inline constexpr std::string_view layer_limit = "Maximum expansions reached";
inline constexpr std::string_view position = "Invalid position";
inline constexpr std::string_view bad_header = "Invalid header";
inline constexpr std::string_view no_such_filter = "Couldn't create filter!";
inline constexpr std::string_view bad_chunk = "Couldn't load chunk!";
inline constexpr std::string_view chunk_there =
    "ERR the filter has items of this chunk already: delete the key and begin anew";
inline constexpr std::string_view too_many_copies =
    "ERR an item has too many copies for CF.LOADCHUNK: use DUMP and RESTORE";
inline constexpr std::string_view no_memory = "ERR Insufficient memory";

}  // namespace text

// The most that the options and the settings take. Those of the reference.
inline constexpr std::uint32_t iterations_max = 65535;
inline constexpr std::uint32_t layers_setting_max = 65536;

// As the reference rounds an expansion: to the next power of two, and 0 stays.
[[nodiscard]] std::uint32_t rounded_expansion(std::uint32_t expansion);

struct TooFewWords {};

// `words` follow the key: capacity [BUCKETSIZE n] [MAXITERATIONS n] [EXPANSION n] [ERROR rate], in any order.
// The first error of the reference's order is answered: the capacity's word, MAXITERATIONS, BUCKETSIZE,
// EXPANSION, ERROR, the capacity's range. An option without a value gives TooFewWords.
[[nodiscard]] std::variant<Options, sepal::Refusal, TooFewWords> parse_reserve(
    std::span<const std::string_view> words, const Options& defaults);

struct InsertRequest {
  Options options;
  bool create = true;
  std::span<const std::string_view> items;  // at least one
};
// `words` follow the key: [CAPACITY n] [ERROR rate] [NOCREATE] ITEMS item ... Reports the first bad word from
// the left.
[[nodiscard]] std::variant<InsertRequest, sepal::Refusal, TooFewWords> parse_insert(
    std::span<const std::string_view> words, const Options& defaults);

// What RedisBloom would answer as the number of buckets of a new filter.
[[nodiscard]] std::uint64_t bucket_count(const Options& options);

}  // namespace sepal::cuckoo
