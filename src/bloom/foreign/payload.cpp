// The payloads of Bloom filters and of strings: what DUMP answers and RESTORE takes.
#include <sepal/bloom/filter/kind.hpp>
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/bloom/strings/bit_string.hpp>

#include <algorithm>
#include <utility>

namespace sepal::bloom {
namespace {

using PayloadBytes = std::span<const std::byte>;

Result<void> held(const value::Hold& hold, std::uint64_t byte_count) {
  return hold ? hold(byte_count) : Result<void>();
}

// A dump of few bytes can stand for a large filter, and a large dump takes long to check.
std::uint64_t filter_bytes_max(PayloadBytes payload, std::uint32_t layers_max) {
  return std::max<std::uint64_t>(rdb_bitmap_bytes_max(payload, layers_max), payload.size());
}

Result<value::ValuePtr> read_filter(PayloadBytes payload, const FilterLimits& limits,
                                    const value::Hold& hold) {
  const auto dump = decode_rdb_dump(payload, limits.layers_max);
  if (!dump) return dump.error();
  // The fields are read, and nothing of the filter is allocated yet: a client may claim any size.
  if (auto room = held(hold, dump->memory_bytes()); !room) return room.error();
  auto filter = filter_of(*dump, limits);
  if (!filter) return filter.error();
  return value::ValuePtr(std::move(*filter));
}

Result<std::vector<std::string>> write_filter(const value::FrozenView& filter, const value::GoOn& go_on) {
  return rdb_dump_of(filter, go_on);
}

std::uint64_t string_bytes_of(PayloadBytes payload, std::uint32_t /*layers_max*/) {
  return payload.size() * (is_packed_rdb_string(payload) ? rdb_growth_max : 1);
}

Result<value::ValuePtr> read_string(PayloadBytes payload, const FilterLimits& limits,
                                    const value::Hold& hold) {
  if (auto room = held(hold, payload.size()); !room) return room.error();
  return decode_rdb_string(payload, limits);
}

std::uint64_t string_bytes(const value::FrozenView& string) {
  return BitString(string.value).length();
}

// The text and its payload are in memory together.
std::uint64_t string_dump_bytes(const value::FrozenView& string) {
  return 2 * BitString(string.value).length();
}

Result<std::vector<std::string>> write_string(const value::FrozenView& string, const value::GoOn& /*go_on*/) {
  std::vector<std::string> pieces;
  pieces.push_back(rdb_dump_of(BitString(string.value).text()));
  return pieces;
}

}  // namespace

const value::Payload filter_payload{.begins = is_rdb_dump,
                                    .bytes_max = filter_bytes_max,
                                    .read = read_filter,
                                    .byte_count = rdb_dump_bytes,
                                    .memory_bytes = rdb_dump_bytes,
                                    .write = write_filter};

const value::Payload string_payload{.begins = is_rdb_string,
                                    .bytes_max = string_bytes_of,
                                    .read = read_string,
                                    .byte_count = string_bytes,
                                    .memory_bytes = string_dump_bytes,
                                    .write = write_string};

}  // namespace sepal::bloom
