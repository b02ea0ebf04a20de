// The texts that a client sees when a BF command is refused, in every host of the commands. Clients match on
// these. The first three are those of all commands: they stand here because sepal.so answers them too, and it
// has nothing of `command`. No text has the leading '-'. Some have no code in front, in the reference as
// well.
#pragma once

#include <sepal/bloom/filter/filter.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace sepal::bloom {

// "ERR wrong number of arguments for 'bf.add' command"
[[nodiscard]] std::string wrong_arity(std::string_view command_name);

namespace text {

inline constexpr std::string_view syntax = "ERR syntax error";
inline constexpr std::string_view not_an_integer = "ERR value is not an integer or out of range";
inline constexpr std::string_view wrong_type =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

inline constexpr std::string_view filter_not_found = "ERR not found";
inline constexpr std::string_view filter_exists = "ERR item exists";
inline constexpr std::string_view filter_full = "ERR non scaling filter is full";
inline constexpr std::string_view cannot_grow = "ERR problem inserting into filter";
inline constexpr std::string_view cannot_create = "ERR could not create filter";
inline constexpr std::string_view no_memory_for_filter = "ERR Insufficient memory to create filter";
inline constexpr std::string_view dump_position = "Second argument must be numeric";
inline constexpr std::string_view load_position = "ERR Second argument must be numeric";
inline constexpr std::string_view load_bad_data = "ERR received bad data";
inline constexpr std::string_view load_no_such_offset = "ERR invalid offset - no link found";
inline constexpr std::string_view load_too_big = "ERR invalid chunk - Too big for current filter";
inline constexpr std::string_view bad_field = "Invalid information value";
inline constexpr std::string_view reserve_bad_rate = "ERR bad error rate";
inline constexpr std::string_view reserve_rate_range =
    "ERR error rate must be in the range (0.000000, 1.000000)";
inline constexpr std::string_view reserve_bad_capacity = "ERR bad capacity";
// The reference's text with Sepal's upper bound, that of the number.
inline constexpr std::string_view reserve_capacity_range =
    "ERR capacity must be in the range [1, 18446744073709551615], and the filter must fit into memory";
inline constexpr std::string_view reserve_bad_expansion = "ERR bad expansion";
inline constexpr std::string_view reserve_no_expansion = "ERR no expansion";
inline constexpr std::string_view reserve_expansion_range = "ERR expansion must be in the range [0, 32768]";
inline constexpr std::string_view reserve_contradiction = "Nonscaling filters cannot expand";
inline constexpr std::string_view reserve_unknown_word = "ERR unknown argument received";
inline constexpr std::string_view reserve_bad_expiry = "ERR invalid expire time in 'bf.reserve' command";
inline constexpr std::string_view insert_bad_rate = "Bad error rate";
inline constexpr std::string_view insert_bad_capacity = "Bad capacity";
inline constexpr std::string_view insert_bad_expansion = "Bad expansion";
inline constexpr std::string_view insert_bad_expiry = "ERR invalid expire time in 'bf.insert' command";
inline constexpr std::string_view insert_unknown_word = "Unknown argument received";
// Those below are Sepal's alone: the reference has no windows.
inline constexpr std::string_view bad_window = "ERR WINDOW takes a number of seconds above 0";
inline constexpr std::string_view window_too_short =
    "ERR WINDOW is too short: each of its generations takes at least 0.1 seconds";
inline constexpr std::string_view window_too_long = "ERR WINDOW is longer than ten thousand years";
inline constexpr std::string_view bad_generations = "ERR GENERATIONS takes a number from 1 to 16";
inline constexpr std::string_view window_missing = "ERR GENERATIONS and REFRESH need WINDOW or LAST";
inline constexpr std::string_view window_and_last = "ERR WINDOW and LAST exclude each other";
inline constexpr std::string_view last_and_expansion =
    "ERR LAST and EXPANSION exclude each other: a filter of the last items does not grow";
inline constexpr std::string_view last_too_few = "ERR with LAST the capacity is at least GENERATIONS";
inline constexpr std::string_view too_few_keys = "ERR numkeys should be greater than 0";
inline constexpr std::string_view find_many_keys = "ERR Number of keys can't be greater than number of args";
inline constexpr std::string_view find_keys_over_limit = "ERR BF.FIND takes at most 4096 keys";
inline constexpr std::string_view find_over_limit =
    "ERR BF.FIND takes at most 16777216 keys times items; send the items in parts";
inline constexpr std::string_view no_window = "ERR the filter has no window: it never forgets";
// A part of the BF commands is for filters without a window.
inline constexpr std::string_view wrong_type_of_window =
    "WRONGTYPE Operation against a filter with a window (WINDOW or LAST), which this command does not take";
inline constexpr std::string_view window_has_no_chunks =
    "ERR a filter with a window has no chunks: use DUMP and RESTORE";

// Those of Valkey's Bloom module, behind what the reference answers to a word that it does not know.
inline constexpr std::string_view insert_tightening =
    "Unknown argument received: Sepal has no TIGHTENING; all layers of a filter share its error rate";
inline constexpr std::string_view insert_seed =
    "Unknown argument received: Sepal has no SEED here; the setting of this name is for all new filters";
inline constexpr std::string_view insert_validate =
    "Unknown argument received: Sepal has no VALIDATESCALETO; CAPACITY reserves room for so many items";
inline constexpr std::string_view field_error =
    "Invalid information value: BF.STATS tells the error rate, as false_positive_rate_asked";
inline constexpr std::string_view field_tightening =
    "Invalid information value: Sepal has no TIGHTENING; all layers of a filter share its error rate";
inline constexpr std::string_view field_max_capacity =
    "Invalid information value: there is no MAXSCALEDCAPACITY; memory and layers_max bound how a filter "
    "grows";

}  // namespace text

// Why an item was not added to a filter of so many layers. Not for Refusal::none. Behind the text that
// clients know, it names the limit.
[[nodiscard]] std::string text_of(bloom::Filter::Refusal refusal, std::uint32_t layer_count);

}  // namespace sepal::bloom
