// A payload may come from any client. The order here is: the checksum, the head, the lengths of all pieces,
// and only then the memory for them. The pieces stay where they are until the value is there.
#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/rdb/dump.hpp>
#include <sepal/value/image.hpp>
#include <sepal/value/module_payload.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace sepal::value {
namespace {

using Bytes = std::span<const std::byte>;

// Above the head of any kind with as many layers as a setting can allow.
constexpr std::size_t head_bytes_max = std::size_t{1} << 20;
// The body is filled in by pieces of this length.
constexpr std::uint64_t fill_bytes = std::uint64_t{64} << 10;

std::uint64_t id_of(const KindRow& row) {
  const ModuleType& type = *row.payload->type;
  return module_id(type.name, type.encoding_version);
}

Error no_such_value(const KindRow& row) {
  return fail(Errc::out_of_range, "this is no " + std::string(row.word));
}

// The head of the image, behind the module's id. Nothing: the payload is of another kind.
std::optional<std::string> read_head(const KindRow& row, rdb::Reader& reader) {
  if (reader.byte() != rdb::module_type || reader.length() != id_of(row)) return std::nullopt;
  auto head = reader.text_field(head_bytes_max);
  if (!head || !row.begins_image(std::as_bytes(std::span(*head)))) return std::nullopt;
  return head;
}

// The strings of the body. Nothing where one is of another length.
std::optional<std::vector<ModuleImage::Piece>> read_pieces(rdb::Reader& reader, std::uint64_t body_bytes) {
  // A server writes no longer string as a number.
  constexpr std::uint64_t digits_max = 11;
  std::vector<ModuleImage::Piece> pieces;
  for (std::uint64_t offset = 0; offset < body_bytes && !reader.failed(); offset += module_piece_bytes) {
    const rdb::String string = reader.string_field();
    const std::uint64_t byte_count = module_piece_bytes_at(offset, body_bytes);
    if (string.is_empty()) {
      if (pieces.empty() || !pieces.back().string.is_empty()) pieces.push_back({.string = string});
      pieces.back().byte_count += byte_count;
      continue;
    }
    // The digits of a number are counted when they are read.
    const bool fits = string.kind == rdb::String::Kind::number ? byte_count <= digits_max
                                                               : string.unpacked_bytes == byte_count;
    if (!fits) return std::nullopt;
    pieces.push_back({.string = string, .byte_count = byte_count});
  }
  return pieces;
}

// read_module_image() without the end of the fields.
Result<ModuleImage> read_image(rdb::Reader& reader, const Limits& limits) {
  const Error no_value = fail(Errc::out_of_range, "this is no value of Sepal");
  auto head = reader.text_field(head_bytes_max);
  if (!head) return no_value;
  const auto head_bytes = std::as_bytes(std::span(*head));
  const KindRow* const row = row_of_image(head_bytes);
  if (row == nullptr) return no_value;
  const auto shape = row->read_head(head_bytes, limits.layers_max);
  if (!shape)
    return shape.error().code == Errc::layer_limit ? shape.error()
                                                   : fail(Errc::out_of_range, shape.error().detail);
  if (shape->head_bytes != head_bytes.size()) return no_such_value(*row);
  // Anyone may claim any length.
  if (shape->body_bytes > limits.bytes_max)
    return fail(Errc::too_large, "this " + std::string(row->word) + " is larger than any may be");
  auto pieces = read_pieces(reader, shape->body_bytes);
  if (!pieces) return no_such_value(*row);
  return ModuleImage{.row = row, .head = std::move(*head), .shape = *shape, .pieces = std::move(*pieces)};
}

Result<void> fill(const KindRow& row, Value& into, std::uint64_t offset, std::uint64_t byte_count,
                  const rdb::String& piece, rdb::Bytes& bytes) {
  if (piece.kind == rdb::String::Kind::number) {
    const auto digits = rdb::digits_of(piece, bytes);
    if (!digits) return digits.error();
    if (digits->size() != byte_count) return no_such_value(row);
    row.fill_body(into, offset, std::as_bytes(std::span(*digits)));
    return {};
  }
  rdb::StringReader reader(piece, bytes);
  std::vector<std::byte> copied(static_cast<std::size_t>(std::min(fill_bytes, piece.unpacked_bytes)));
  for (std::uint64_t at = 0; at < piece.unpacked_bytes;) {
    const auto part = std::span(copied).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(copied.size(), piece.unpacked_bytes - at)));
    // The input is in memory, so an error can only mean that the bytes do not unpack.
    if (!reader.read(part)) return no_such_value(row);
    row.fill_body(into, offset + at, part);
    at += part.size();
  }
  return {};
}

// --- writing ----------------------------------------------------------------------------------------------

constexpr char field_of_string = 5;
constexpr char end_of_fields = 0;

void append_field_head(std::string& to, std::uint64_t byte_count) {
  to += field_of_string;
  rdb::append_length(to, byte_count);
}

// The type, the id, and the head, which write_image() gives first.
std::string begin_of_payload(const KindRow& row, std::string_view head) {
  std::string begin(1, static_cast<char>(rdb::module_type));
  rdb::append_length(begin, id_of(row));
  append_field_head(begin, head.size());
  return begin.append(head);
}

// Bytes of the body from `offset` on, in fields. `bytes` begins where a field begins.
std::string fields_of(std::string_view bytes, std::uint64_t offset, std::uint64_t body_bytes) {
  SEPAL_ASSERT(offset % module_piece_bytes == 0, "a field of a payload begins elsewhere");
  std::string fields;
  fields.reserve(bytes.size() + bytes.size() / module_piece_bytes * 6 + 6);
  for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(module_piece_bytes, bytes.size()))) {
    append_field_head(fields, module_piece_bytes_at(offset, body_bytes));
    fields.append(bytes.substr(0, module_piece_bytes));
    offset += module_piece_bytes;
  }
  return fields;
}
static_assert(mapped_allocation_min % module_piece_bytes == 0, "write_image() gives whole fields");

}  // namespace

Result<ModuleImage> read_module_image(rdb::Reader& reader, const Limits& limits) {
  auto image = read_image(reader, limits);
  // The fields of a value that is refused are read to their end: in a file, the next key comes behind them.
  image ? reader.end() : reader.skip_fields();
  if (reader.failed()) return fail(Errc::damaged, "these are not the fields of a value of Sepal");
  return image;
}

bool begins_module_payload(const KindRow& row, Bytes payload) {
  rdb::Reader reader(payload);
  return read_head(row, reader).has_value();
}

// The pieces are not looked at: an empty string stands for a megabyte of zeros, so a small payload may be a
// large value.
std::uint64_t module_payload_bytes_max(const KindRow& row, Bytes payload, std::uint32_t layers_max) {
  rdb::Reader reader(payload);
  const auto head = read_head(row, reader);
  if (!head) return payload.size();
  const auto shape = row.read_head(std::as_bytes(std::span(*head)), layers_max);
  return std::max<std::uint64_t>(payload.size(), shape ? shape->body_bytes : 0);
}

Result<ValuePtr> read_module_payload(const KindRow& row, Bytes payload, const Limits& limits,
                                     const Hold& hold) {
  const auto value = rdb::value_of(payload);
  if (!value) return value.error();
  // The checksum is right, so the payload is as it was made. It is not damaged: it is no such value.
  rdb::Reader reader(*value);
  if (reader.byte() != rdb::module_type || reader.length() != id_of(row)) return no_such_value(row);
  const auto image = read_module_image(reader, limits);
  if (!image)
    return image.error().code == Errc::damaged ? fail(Errc::out_of_range, image.error().detail)
                                               : image.error();
  if (image->row != &row || !reader.at_end()) return no_such_value(row);
  const std::uint64_t body_bytes = image->shape.body_bytes;
  if (auto room = hold ? hold(body_bytes) : Result<void>(); !room) return room.error();
  auto made = row.make(std::as_bytes(std::span(image->head)), limits, FilledBy::load);
  if (!made) return made;
  rdb::BytesInMemory bytes(payload);
  std::uint64_t offset = 0;
  for (const auto& [string, byte_count] : image->pieces) {
    if (auto filled = fill(row, **made, offset, byte_count, string, bytes); !filled) return filled.error();
    offset += byte_count;
  }
  if (row.complete == nullptr) return made;
  if (auto whole = row.complete(**made); !whole)
    return whole.error().code == Errc::damaged ? fail(Errc::out_of_range, whole.error().detail)
                                               : whole.error();
  return made;
}

std::uint64_t module_payload_bytes(const FrozenView& frozen) {
  constexpr std::uint64_t field_head_bytes_max = 1 + 5;  // the opcode, and a length of 4 bytes
  const KindRow& row = row_of(frozen.value);
  const std::uint64_t body_bytes = row.body_bytes(frozen);
  const std::uint64_t full_pieces = body_bytes / module_piece_bytes;
  // Must be what module_payload_of() makes, to the byte.
  std::string rest = begin_of_payload(row, std::string(row.head_bytes(frozen), '\0'));
  if (body_bytes % module_piece_bytes != 0) append_field_head(rest, body_bytes % module_piece_bytes);
  return rest.size() + body_bytes + full_pieces * field_head_bytes_max + 1 + rdb::footer_bytes;
}

Result<std::vector<std::string>> module_payload_of(const FrozenView& frozen, const GoOn& go_on) {
  const KindRow& row = row_of(frozen.value);
  std::vector<std::string> pieces;
  rdb::Checksum checksum;
  std::uint64_t offset = 0;
  const std::uint64_t body_bytes = row.body_bytes(frozen);
  const auto take = [&](std::string piece) {
    const bool is_head = pieces.empty();
    pieces.push_back(is_head ? begin_of_payload(row, piece) : fields_of(piece, offset, body_bytes));
    if (!is_head) offset += piece.size();
    checksum.update(std::as_bytes(std::span(pieces.back())));
  };
  if (auto copied = write_image(frozen, take, go_on); !copied) return copied.error();
  std::string footer(1, end_of_fields);
  rdb::append_footer(footer, checksum);
  pieces.push_back(std::move(footer));
  return pieces;
}

void give_module_payload(const Value& value, const EmitPiece& emit) {
  constexpr std::uint64_t no_deadline = 0;
  const KindRow& row = row_of(value);
  std::vector<std::uint64_t> numbers;
  const auto still = row.freeze(value, numbers);
  const FrozenView frozen{.value = value, .numbers = numbers, .still = still.get()};
  std::string whole;
  whole.reserve(module_payload_bytes(frozen));
  auto pieces = module_payload_of(frozen, {});
  SEPAL_ASSERT(pieces, "a payload is given up, and nothing has asked for that");
  for (std::string& piece : *pieces) {
    whole += piece;
    // Freed at once, so that the pieces shrink while the copy grows.
    std::string().swap(piece);
  }
  emit("RESTORE", no_deadline, std::as_bytes(std::span(whole)));
}

}  // namespace sepal::value
