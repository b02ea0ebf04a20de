// The payload of Bloom filters: what DUMP answers and RESTORE takes.
#include <sepal/bloom/filter/dump.hpp>
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/bloom/foreign/redisbloom.hpp>
#include <sepal/bloom/kind/kind.hpp>
#include <sepal/rdb/dump.hpp>
#include <sepal/value/module_payload.hpp>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

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
  return filter_of(*dump, limits);
}

// --- the type of sepal.so ---------------------------------------------------------------------------------

// The bits of a layer are one string in RedisBloom's files, so there is a second copy of them for a while.
Result<value::ValuePtr> read_redisbloom_fields(value::RdbFields& fields,
                                               const value::LimitsOfNew& limits_of) {
  const std::uint32_t layers_max = limits_of(0).layers_max;
  // The strings are kept until all layers are known: the filter is made in one step, with all of its layers.
  std::vector<std::unique_ptr<value::RdbFields::String>> bits;
  const auto found = read_redisbloom(fields, layers_max, [&] {
    bits.push_back(fields.string());
    return bits.back()->bytes().size();
  });
  if (fields.failed()) return fail(Errc::damaged, "the data of a filter is cut short");
  if (!found) return too_many_layers(layers_max);
  const auto header = image_of(*found);
  if (!header) return header.error();
  auto made = Filter::restore(header->options, header->layers, limits_of(header->bitmap_bytes()));
  if (!made) return made.error();
  for (std::uint32_t i = 0; i < bits.size(); ++i) {
    (*made)->fill_bits(i, 0, bits[i]->bytes());
    // Freed at once, so that the second copy shrinks while the filter fills.
    bits[i].reset();
  }
  return value::ValuePtr(std::move(*made));
}

Result<value::ValuePtr> read_foreign_filter(value::RdbFields& fields, int encoding_version,
                                            const value::LimitsOfNew& limits_of) {
  if (encoding_version == redisbloom_encoding) return read_redisbloom_fields(fields, limits_of);
  return fail(Errc::unsupported_version, "a filter is of encoding version " +
                                             std::to_string(encoding_version) +
                                             "; this module reads RedisBloom's version 4 and its own, 512");
}

// The AOF gets the pieces that BF.SCANDUMP answers, as requests of BF.LOADCHUNK.
void give_filter_pieces(const value::Value& value, const value::EmitPiece& emit) {
  constexpr const char* command = "BF.LOADCHUNK";
  // The AOF has the pieces of one filter in their order, so nothing has to tell them from those of another
  // process.
  constexpr std::uint64_t no_process = 0;
  const auto& filter = static_cast<const Filter&>(value);
  emit(command, 1, dump_header(filter, no_process));
  for (std::uint64_t offset = 0;;) {
    const auto data = dump_data(filter, offset, no_process);
    if (!data) return;
    emit(command, 1 + data->end, data->piece);
    offset = data->end;
  }
}

constexpr value::ModuleType filter_type{.name = "MBbloom--",
                                        .encoding_version = sepal_encoding,
                                        .read_foreign = read_foreign_filter,
                                        .give_pieces = give_filter_pieces};

}  // namespace

const value::Payload filter_payload{
    .begins = [](PayloadBytes payload) { return rdb::begins(payload, rdb::module_type); },
    .bytes_max = filter_bytes_max,
    .read = read_filter,
    .byte_count = value::module_payload_bytes,
    .memory_bytes = value::module_payload_bytes,
    .write = value::module_payload_of,
    .type = &filter_type};

}  // namespace sepal::bloom
