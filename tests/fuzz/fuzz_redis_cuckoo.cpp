// Feeds arbitrary bytes to a cuckoo filter of RedisBloom, as a header, chunks and payloads, with adds and
// removals between them. What is refused changes nothing. What is accepted answers, and can be dumped and
// restored.
//
//   steps, one behind the other: 1 byte says which, and what follows depends on it
//     0 header     38 bytes
//     1 chunk      2 bytes iterator, 1 byte length N, N bytes
//     2 payload    2 bytes length N, N bytes; the target puts the checksum right
//     3 add, 4 add as new, 5 remove    1 byte item
//     6 compact
#include <sepal/base/endian.hpp>
#include <sepal/cuckoo/foreign/redis_payload.hpp>
#include <sepal/cuckoo/foreign/redis_table.hpp>
#include <sepal/rdb/dump.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "fuzz_target.hpp"

namespace sepal::fuzz_redis_cuckoo_test {
namespace {

using cuckoo::RedisTable;
using Bytes = std::span<const std::byte>;

constexpr value::Limits limits{.bytes_max = 16 << 10, .layers_max = 300};
constexpr int steps_max = 200;
// A filter may kick 65535 times for one item. Adds beyond so many kicks are left out, or few inputs would
// run.
constexpr std::uint64_t kicks_in_all_max = 70'000;

enum class Step : std::uint8_t { header, chunk, payload, add, add_new, remove, compact };

void require(bool holds) {
  if (!holds) std::abort();
}

// Takes up to so many bytes off the input, into an allocation of their own: a read behind them is seen.
std::vector<std::byte> take(Bytes& input, std::size_t count) {
  const auto bytes = input.first(std::min(count, input.size()));
  input = input.subspan(bytes.size());
  return {bytes.begin(), bytes.end()};
}

std::uint64_t take_number(Bytes& input, std::size_t byte_count) {
  std::uint64_t number = 0;
  const auto bytes = take(input, byte_count);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    number |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return number;
}

std::optional<RedisTable> restored(Bytes payload) {
  const auto fields = cuckoo::decode_redis_payload(payload);
  if (!fields) return std::nullopt;
  rdb::BytesInMemory bytes(payload);
  auto table = cuckoo::table_of(*fields, bytes, limits);
  return table ? std::optional(std::move(*table)) : std::nullopt;
}

std::optional<RedisTable> of_payload(std::vector<std::byte> payload) {
  constexpr std::size_t checksum_bytes = 8;
  if (payload.size() < checksum_bytes) return std::nullopt;
  const auto sealed = std::span(payload).first(payload.size() - checksum_bytes);
  store_little_endian(payload.data() + sealed.size(), rdb::checksum(sealed));
  return restored(payload);
}

std::optional<RedisTable> of_header(Bytes header) {
  const auto decoded = cuckoo::decode_redis_header(header);
  if (!decoded) return std::nullopt;
  auto table = RedisTable::make(*decoded, limits);
  return table ? std::optional(std::move(*table)) : std::nullopt;
}

void load(RedisTable& table, std::int64_t iterator, Bytes bytes) {
  if (const auto place = cuckoo::redis_place_of(table.header(), iterator, bytes.size()))
    table.write(*place, bytes);
}

bool same(const RedisTable& one, const RedisTable& other) {
  bool same = one.header() == other.header();
  for (std::uint32_t layer = 0; same && layer < one.header().layer_count; ++layer)
    same = std::ranges::equal(one.slots(layer), other.slots(layer));
  return same;
}

// A copy by chunks and a copy by payload are the filter again.
void check_dumps(const RedisTable& table) {
  auto loaded = of_header(cuckoo::encode_redis_header(table.header()));
  require(loaded.has_value());
  std::int64_t iterator = 1;
  while (const auto piece = cuckoo::redis_piece_at(table.header(), iterator)) {
    load(*loaded, piece->iterator, table.slots(piece->layer).subspan(piece->offset, piece->byte_count));
    iterator = piece->iterator;
  }
  require(same(*loaded, table));
  const auto pieces =
      cuckoo::redis_payload_of(table.header(),
                               [&](std::uint32_t layer, std::uint64_t offset, std::span<std::byte> to) {
                                 std::ranges::copy(table.slots(layer).subspan(offset, to.size()), to.begin());
                               },
                               {});
  require(pieces.ok());
  std::string payload;
  for (const std::string& piece : *pieces) payload += piece;
  require(payload.size() == cuckoo::redis_payload_bytes(table.header()));
  const auto copy = restored(std::as_bytes(std::span(payload)));
  require(copy && same(*copy, table));
}

void change(RedisTable& table, Step step, const std::string& item) {
  const std::uint64_t copies = table.count(item);
  require(table.contains(item) == (copies > 0));
  if (step == Step::remove) {
    require(table.remove(item) == (copies > 0));
    return;
  }
  const auto added = step == Step::add ? table.add(item, limits) : table.add_new(item, limits);
  if (added == RedisTable::Added::exists) require(copies > 0);
  if (added == RedisTable::Added::added) require(table.contains(item));
}

}  // namespace

SEPAL_FUZZ_TARGET(fuzz_redis_cuckoo) {
  auto input = std::as_bytes(std::span(data, size));
  std::optional<RedisTable> table;
  std::uint64_t kicks_left = kicks_in_all_max;
  for (int i = 0; i < steps_max && !input.empty(); ++i) {
    const auto step = static_cast<Step>(take_number(input, 1));
    std::optional<RedisTable> made;
    if (step == Step::header) made = of_header(take(input, cuckoo::redis_header_bytes));
    if (step == Step::payload) made = of_payload(take(input, take_number(input, 2)));
    if (made) table = std::move(made);
    if (step == Step::chunk) {
      const auto iterator = static_cast<std::int16_t>(take_number(input, 2));
      const auto bytes = take(input, take_number(input, 1));
      if (table) load(*table, iterator, bytes);
    }
    if (step >= Step::add && step <= Step::remove) {
      const std::string item = std::to_string(take_number(input, 1));
      if (!table || table->header().kicks_max > kicks_left) continue;
      kicks_left -= table->header().kicks_max;
      change(*table, step, item);
    }
    if (step == Step::compact && table) table->compact();
  }
  if (table) check_dumps(*table);
  return 0;
}

}  // namespace sepal::fuzz_redis_cuckoo_test
