// The payload (DUMP, RESTORE) of a value whose kind is a type of sepal.so: the value as that module saves it
// (module_type.hpp), and the footer of every dump.
//
//     1 byte type: 7, a module's value
//     module id (length): nine letters of six bits, and ten bits of encoding version
//     the head of the image (string)
//     the body in strings of module_piece_bytes, of which the last has what is left, and an empty one stands
//             for zeros; end
//     the footer (rdb/dump.hpp)
//
// rdb/reader.hpp describes strings. A server may have packed them, or written a short one as a number.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/rdb/reader.hpp>
#include <sepal/value/kind_row.hpp>
#include <sepal/value/module_type.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::value {

// `name` has nine letters of A to Z, a to z, 0 to 9, '-' and '_'.
[[nodiscard]] constexpr std::uint64_t module_id(std::string_view name, int encoding_version) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::uint64_t id = 0;
  for (const char letter : name) id = id << 6 | letters.find(letter);
  return id << 10 | static_cast<std::uint64_t>(encoding_version);
}

// A value as it stands in a server's file or in a payload: the head of its image, and where the body is.
struct ModuleImage {
  struct Piece {
    rdb::String string;  // an empty one, which is no number: zeros
    std::uint64_t byte_count = 0;
  };
  const KindRow* row = nullptr;
  std::string head;
  Shape shape;
  // They make up the whole body. Empty strings one behind the other are one piece: so pieces take less memory
  // than the bytes that they come from.
  std::vector<Piece> pieces;
};
[[nodiscard]] constexpr std::uint64_t module_piece_bytes_at(std::uint64_t offset, std::uint64_t body_bytes) {
  return std::min(module_piece_bytes, body_bytes - offset);
}

// Reads the fields behind a module's id, and their end. Believes nothing, but does not look at the body: a
// number among the pieces may have another length. Errors: damaged where these are other fields: then
// reader.failed(); out_of_range where no value can be like that, layer_limit, too_large: then all of its
// fields are read.
Result<ModuleImage> read_module_image(rdb::Reader& reader, const Limits& limits);

// The functions of value::Payload for such a kind, whose row has a type.
[[nodiscard]] bool begins_module_payload(const KindRow& row, std::span<const std::byte> payload);
[[nodiscard]] std::uint64_t module_payload_bytes_max(const KindRow& row, std::span<const std::byte> payload,
                                                     std::uint32_t layers_max);
Result<ValuePtr> read_module_payload(const KindRow& row, std::span<const std::byte> payload,
                                     const Limits& limits, const Hold& hold);
[[nodiscard]] std::uint64_t module_payload_bytes(const FrozenView& frozen);
Result<std::vector<std::string>> module_payload_of(const FrozenView& frozen, const GoOn& go_on);

// ModuleType::give_pieces for a kind whose values are of no use while a part is missing: the AOF gets the
// payload, in a RESTORE. It is one string, so there is a second copy of the value for a while.
void give_module_payload(const Value& value, const EmitPiece& emit);

}  // namespace sepal::value
