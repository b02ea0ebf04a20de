#include "command/keys/dump_payload.hpp"

#include <sepal/base/endian.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/value/image.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sepal::command {
namespace {

constexpr std::uint16_t payload_version = 1;
constexpr std::size_t version_bytes = sizeof payload_version;
constexpr std::size_t checksum_bytes = sizeof(std::uint64_t);
constexpr std::size_t footer_bytes = version_bytes + checksum_bytes;

std::uint64_t byte_count(const value::FrozenView& frozen) {
  const value::KindRow& row = value::row_of(frozen.value);
  return row.head_bytes(frozen) + row.body_bytes(frozen) + footer_bytes;
}

Result<std::vector<std::string>> write(const value::FrozenView& frozen, const value::GoOn& go_on) {
  std::vector<std::string> pieces;
  Checksum sum;
  const auto take = [&](std::string piece) {
    sum.update(std::as_bytes(std::span(piece)));
    pieces.push_back(std::move(piece));
  };
  if (auto written = value::write_image(frozen, take, go_on); !written) return written.error();
  std::string version(version_bytes, '\0');
  store_little_endian(reinterpret_cast<unsigned char*>(version.data()), payload_version);
  take(std::move(version));
  std::string checksum(checksum_bytes, '\0');
  store_little_endian(reinterpret_cast<unsigned char*>(checksum.data()), sum.value());
  pieces.push_back(std::move(checksum));
  return pieces;
}

constexpr value::Payload image_payload{.begins = nullptr,
                                       .bytes_max = nullptr,
                                       .read = nullptr,
                                       .byte_count = byte_count,
                                       .memory_bytes = byte_count,
                                       .write = write};

}  // namespace

const value::Payload& payload_of(const value::Value& value) {
  const value::Payload* const own = value::row_of(value).payload;
  return own == nullptr ? image_payload : *own;
}

std::uint64_t restored_bytes_max(std::string_view payload, std::uint32_t layers_max) {
  const auto bytes = std::as_bytes(std::span(payload));
  const value::KindRow* const row = value::row_of_payload(bytes);
  return row == nullptr ? payload.size() : row->payload->bytes_max(bytes, layers_max);
}

Result<value::ValuePtr> value_of_payload(std::string_view payload, const value::Limits& limits,
                                         const value::Hold& hold) {
  const auto bytes = std::as_bytes(std::span(payload));
  if (const value::KindRow* const row = value::row_of_payload(bytes))
    return row->payload->read(bytes, limits, hold);
  if (bytes.size() < footer_bytes) return fail(Errc::damaged);
  const auto sealed = bytes.first(bytes.size() - checksum_bytes);
  const auto image = bytes.first(bytes.size() - footer_bytes);
  // The checksum comes first: without it, nothing that follows in the payload can be believed.
  if (load_little_endian<std::uint64_t>(bytes.data() + sealed.size()) != Checksum::of(sealed))
    return fail(Errc::damaged);
  if (load_little_endian<std::uint16_t>(bytes.data() + image.size()) != payload_version)
    return fail(Errc::damaged);
  if (auto room = hold ? hold(image.size()) : Result<void>(); !room) return room.error();
  auto made = value::value_of(image, limits);
  if (made) return made;
  // The checksum is right, so these bytes are as they were written: the payload is not damaged, but holds no
  // possible filter. RESTORE has different texts for the two.
  const Errc code = made.error().code;
  const bool absurd = code == Errc::damaged || code == Errc::unsupported_version;
  return absurd ? fail(Errc::out_of_range, made.error().detail) : made.error();
}

}  // namespace sepal::command
