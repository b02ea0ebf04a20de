// A cuckoo filter of RedisBloom as Redis has it in a dump (DUMP, RESTORE) and in an RDB file.
//
//     1 byte type: 7, a module's value
//     module id (length): "MBbloomCF", six bits a letter, and ten bits of encoding version
//     fields of version 4: layers, buckets of the oldest layer, items, items deleted, slots of a bucket,
//             kicks at most, expansion; for each layer, oldest first: buckets, slots (string); end
//     the footer of every dump (rdb/dump.hpp)
//
// rdb/reader.hpp describes fields and strings. Redis writes a string of up to eleven bytes as a number if it
// is a decimal number, and the slots of a small layer can be one. RedisBloom checks no length here. All of
// them are checked here, before any slot is allocated.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/cuckoo/foreign/redis_header.hpp>
#include <sepal/cuckoo/foreign/redis_table.hpp>
#include <sepal/rdb/reader.hpp>
#include <sepal/value/kind_row.hpp>
#include <sepal/value/module_type.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sepal::cuckoo {

inline constexpr const char* redis_type_name = "MBbloomCF";
inline constexpr std::uint32_t redis_encoding = 4;
// The name, without and with the version of the encoding.
inline constexpr std::uint64_t redis_type_id = 0x3016e5a289821400;
inline constexpr std::uint64_t redis_id = redis_type_id | redis_encoding;

// A filter as it stands in an RDB file or a dump.
struct RedisFields {
  RedisHeader header;
  std::vector<rdb::String> slots;  // of each layer, oldest first
};

// Reads the fields behind a module's id, which is redis_id, and their end. Errors: damaged where these are
// other fields than a filter has: then reader.failed(); out_of_range where no filter can be like that: then
// all of its fields are read. Believes nothing; allocates a place for each string that is there.
Result<RedisFields> read_redis_fields(rdb::Reader& reader);
// `bytes` has the strings. Errors: out_of_range (a string cannot be unpacked, or is too short), those of
// `bytes` and of RedisTable::make.
Result<RedisTable> table_of(const RedisFields& fields, rdb::Bytes& bytes, const value::Limits& limits);
// The same from the server that has loaded sepal.so. Takes a second copy of the slots for a while. Errors:
// damaged (cut short), out_of_range, layer_limit, too_large, out_of_memory.
Result<RedisTable> read_redis_table(value::RdbFields& fields, const value::LimitsOfNew& limits_of);

// Whether the first bytes of a payload are those of a cuckoo filter of RedisBloom, in any encoding.
[[nodiscard]] bool begins_redis_payload(std::span<const std::byte> payload);
// The most bytes that the payload and its filter take. Looks at the payload's begin only.
[[nodiscard]] std::uint64_t redis_payload_bytes_max(std::span<const std::byte> payload);
// A payload of DUMP. Errors: damaged where the checksum does not match; out_of_range where it does, but this
// is no cuckoo filter of RedisBloom. Believes nothing, allocates as read_redis_fields().
Result<RedisFields> decode_redis_payload(std::span<const std::byte> payload);

// Copies slots [offset, offset + to.size()) of a layer as they were at the instant of the header.
using ReadSlots = std::function<void(std::uint32_t layer, std::uint64_t offset, std::span<std::byte> to)>;

// The payload of a filter in pieces of about a megabyte, and how many bytes they have. Slots are not packed.
// Errors: io (`go_on` returned false).
[[nodiscard]] std::uint64_t redis_payload_bytes(const RedisHeader& header);
Result<std::vector<std::string>> redis_payload_of(const RedisHeader& header, const ReadSlots& read,
                                                  const value::GoOn& go_on);

}  // namespace sepal::cuckoo
