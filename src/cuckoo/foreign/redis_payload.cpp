#include <sepal/cuckoo/foreign/redis_payload.hpp>
#include <sepal/rdb/dump.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace sepal::cuckoo {
namespace {

// Slots are copied by pieces of this length.
constexpr std::uint64_t copied_bytes = 64 << 10;
constexpr std::uint64_t piece_bytes = value::module_piece_bytes;
// The longest string that Redis writes as a number.
constexpr std::uint64_t number_bytes_max = 11;

Error no_filter_of_redis() {
  return fail(Errc::out_of_range, "this is no cuckoo filter of RedisBloom");
}

// The numbers before the layers (rdb::Reader or value::RdbFields). Nothing where no filter has them.
template <class Fields>
std::optional<RedisHeader> read_numbers(Fields& fields) {
  const std::uint64_t layer_count = fields.number();
  RedisHeader header;
  header.bucket_count = fields.number();
  header.item_count = fields.number();
  header.delete_count = fields.number();
  const std::uint64_t bucket_slots = fields.number();
  const std::uint64_t kicks_max = fields.number();
  const std::uint64_t expansion = fields.number();
  constexpr std::uint64_t two_bytes_max = 0xffff;
  if (std::max({layer_count, bucket_slots, kicks_max, expansion}) > two_bytes_max) return std::nullopt;
  header.layer_count = static_cast<std::uint32_t>(layer_count);
  header.bucket_slots = static_cast<std::uint16_t>(bucket_slots);
  header.kicks_max = static_cast<std::uint16_t>(kicks_max);
  header.expansion = static_cast<std::uint16_t>(expansion);
  return check_redis_header(header) ? std::optional(header) : std::nullopt;
}

// The filter. take_slots() reads the slots of a layer, and says how many they are, or 0 where it cannot say.
// Nothing at the first number or length that no filter has; then the fields behind it are not read.
template <class Fields, class TakeSlots>
std::optional<RedisHeader> read_layers(Fields& fields, const TakeSlots& take_slots) {
  const auto header = read_numbers(fields);
  if (!header) return std::nullopt;
  for (std::uint32_t layer = 0; layer < header->layer_count; ++layer) {
    const bool has_buckets = fields.number() == header->layer_buckets(layer);
    if (fields.failed() || !has_buckets) return std::nullopt;
    const std::uint64_t slot_count = header->layer_slots(layer);
    if (take_slots(slot_count) != slot_count) return std::nullopt;
  }
  return header;
}

RedisPiece whole_layer(const RedisHeader& header, std::uint32_t layer) {
  return {.layer = layer, .byte_count = header.layer_slots(layer)};
}

Result<void> fill(RedisTable& table, std::uint32_t layer, const rdb::String& string, rdb::Bytes& bytes) {
  const std::uint64_t slot_count = table.header().layer_slots(layer);
  if (string.kind == rdb::String::Kind::number) {
    const auto digits = rdb::digits_of(string, bytes);
    if (!digits) return digits.error();
    if (digits->size() != slot_count) return no_filter_of_redis();
    table.write(whole_layer(table.header(), layer), std::as_bytes(std::span(*digits)));
    return {};
  }
  rdb::StringReader reader(string, bytes);
  std::vector<std::byte> copied(static_cast<std::size_t>(std::min(copied_bytes, slot_count)));
  for (std::uint64_t offset = 0; offset < slot_count;) {
    const auto part =
        std::span(copied).first(static_cast<std::size_t>(std::min(copied_bytes, slot_count - offset)));
    if (auto read = reader.read(part); !read)
      return read.error().code == Errc::damaged ? no_filter_of_redis() : read.error();
    table.write({.layer = layer, .offset = offset, .byte_count = part.size()}, part);
    offset += part.size();
  }
  return {};
}

// --- writing ----------------------------------------------------------------------------------------------

constexpr char field_of_number = 2;
constexpr char field_of_string = 5;
constexpr char end_of_fields = 0;

void append_number(std::string& to, std::uint64_t number) {
  to += field_of_number;
  rdb::append_length(to, number);
}

// What stands before the first layer.
std::string begin_of_payload(const RedisHeader& header) {
  std::string begin(1, static_cast<char>(rdb::module_type));
  rdb::append_length(begin, redis_id);
  for (const std::uint64_t number :
       {std::uint64_t{header.layer_count}, header.bucket_count, header.item_count, header.delete_count,
        std::uint64_t{header.bucket_slots}, std::uint64_t{header.kicks_max}, std::uint64_t{header.expansion}})
    append_number(begin, number);
  return begin;
}

// What stands before the slots of a layer.
void append_layer_head(std::string& to, const RedisHeader& header, std::uint32_t layer) {
  append_number(to, header.layer_buckets(layer));
  to += field_of_string;
  rdb::append_length(to, header.layer_slots(layer));
}

// Collects the payload in pieces, and sums them.
class Pieces {
 public:
  explicit Pieces(std::string begin) : piece_(std::move(begin)) {}

  [[nodiscard]] std::string& piece() { return piece_; }
  void end_piece() {
    checksum_.update(std::as_bytes(std::span(piece_)));
    pieces_.push_back(std::exchange(piece_, {}));
  }
  std::vector<std::string> whole() && {
    piece_ += end_of_fields;
    rdb::append_footer(piece_, checksum_);
    pieces_.push_back(std::move(piece_));
    return std::move(pieces_);
  }

 private:
  std::string piece_;
  std::vector<std::string> pieces_;
  rdb::Checksum checksum_;
};

}  // namespace

Result<RedisFields> read_redis_fields(rdb::Reader& reader) {
  RedisFields found;
  const auto header = read_layers(reader, [&](std::uint64_t slot_count) {
    const rdb::String string = reader.string_field();
    found.slots.push_back(string);
    // The digits of a number are counted when they are read.
    const bool is_number = string.kind == rdb::String::Kind::number && slot_count <= number_bytes_max;
    return is_number ? slot_count : string.unpacked_bytes;
  });
  // The fields of a filter that is refused are read to their end: in a file, the next key comes behind them.
  header ? reader.end() : reader.skip_fields();
  if (reader.failed())
    return fail(Errc::damaged, "these are not the fields of a cuckoo filter of RedisBloom");
  if (!header) return no_filter_of_redis();
  found.header = *header;
  return found;
}

Result<RedisTable> table_of(const RedisFields& fields, rdb::Bytes& bytes, const value::Limits& limits) {
  auto table = RedisTable::make(fields.header, limits);
  if (!table) return table;
  for (std::uint32_t layer = 0; layer < fields.header.layer_count; ++layer)
    if (auto filled = fill(*table, layer, fields.slots[layer], bytes); !filled) return filled.error();
  return table;
}

Result<RedisTable> read_redis_table(value::RdbFields& fields, const value::LimitsOfNew& limits_of) {
  // The strings are kept until all layers are known, so that no claim of a size is believed.
  std::vector<std::unique_ptr<value::RdbFields::String>> strings;
  const auto header = read_layers(fields, [&](std::uint64_t /*slot_count*/) {
    strings.push_back(fields.string());
    return strings.back()->bytes().size();
  });
  if (fields.failed()) return fail(Errc::damaged, "the data of a cuckoo filter is cut short");
  if (!header) return no_filter_of_redis();
  auto table = RedisTable::make(*header, limits_of(header->slot_count()));
  if (!table) return table;
  for (std::uint32_t layer = 0; layer < header->layer_count; ++layer) {
    table->write(whole_layer(*header, layer), strings[layer]->bytes());
    // Freed at once, so that the second copy shrinks while the filter fills.
    strings[layer].reset();
  }
  return table;
}

bool begins_redis_payload(std::span<const std::byte> payload) {
  constexpr std::uint64_t encodings = 1 << 10;
  rdb::Reader reader(payload);
  return reader.byte() == rdb::module_type && reader.length() / encodings == redis_type_id / encodings;
}

std::uint64_t redis_payload_bytes_max(std::span<const std::byte> payload) {
  rdb::Reader reader(payload);
  reader.byte();
  reader.length();
  const auto header = read_numbers(reader);
  return std::max<std::uint64_t>(payload.size(), header ? RedisTable::memory_bytes(*header) : 0);
}

Result<RedisFields> decode_redis_payload(std::span<const std::byte> payload) {
  const auto value = rdb::value_of(payload);
  if (!value) return value.error();
  rdb::Reader reader(*value);
  if (reader.byte() != rdb::module_type || reader.length() != redis_id) return no_filter_of_redis();
  auto fields = read_redis_fields(reader);
  // The checksum was right, so the payload is as it was made. It is not damaged: it is no filter.
  if (!fields) return fail(Errc::out_of_range, fields.error().detail);
  return reader.at_end() ? std::move(fields) : no_filter_of_redis();
}

std::uint64_t redis_payload_bytes(const RedisHeader& header) {
  std::string heads = begin_of_payload(header);
  std::uint64_t bytes = heads.size() + 1 + rdb::footer_bytes;
  for (std::uint32_t layer = 0; layer < header.layer_count; ++layer) {
    heads.clear();
    append_layer_head(heads, header, layer);
    bytes += heads.size() + header.layer_slots(layer);
  }
  return bytes;
}

Result<std::vector<std::string>> redis_payload_of(const RedisHeader& header, const ReadSlots& read,
                                                  const value::GoOn& go_on) {
  Pieces pieces(begin_of_payload(header));
  std::uint64_t bytes_done = 0;
  for (std::uint32_t layer = 0; layer < header.layer_count; ++layer) {
    append_layer_head(pieces.piece(), header, layer);
    const std::uint64_t slot_count = header.layer_slots(layer);
    for (std::uint64_t offset = 0; offset < slot_count;) {
      std::string& piece = pieces.piece();
      const std::size_t at = piece.size();
      const std::uint64_t room = at < piece_bytes ? piece_bytes - at : 1;
      const std::uint64_t count = std::min(room, slot_count - offset);
      piece.resize(at + static_cast<std::size_t>(count));
      read(layer, offset, std::as_writable_bytes(std::span(piece)).subspan(at));
      offset += count;
      bytes_done += count;
      if (piece.size() < piece_bytes) continue;
      pieces.end_piece();
      if (go_on && !go_on(bytes_done)) return fail(Errc::io, "given up");
    }
  }
  return std::move(pieces).whole();
}

}  // namespace sepal::cuckoo
