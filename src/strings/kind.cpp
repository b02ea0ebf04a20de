// The head of a string's image is that of a filter with one layer, whose fields are fixed but for two. A
// freeze fixes the length alone: a string that grows is another one, so the capacity stays.
#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/rdb/dump.hpp>
#include <sepal/rdb/reader.hpp>
#include <sepal/strings/kind.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sepal::strings {
namespace {

using value::Figures;
using value::FrozenView;
using value::Value;
using value::ValuePtr;
using Bytes = std::span<const std::byte>;

String& in(Value& value) {
  return value::as<String>(value);
}
const String& in(const Value& value) {
  return value::as<String>(value);
}

std::string_view encoding(const Value& value) {
  // The bounds are the reference's: tools tell from the encoding how it keeps a short string.
  constexpr std::uint64_t embedded_bytes_max = 44;
  constexpr std::uint64_t digits_max = 20;
  const String& string = in(value);
  if (string.length() > embedded_bytes_max) return "raw";
  return string.length() <= digits_max && parse_integer(string.text()) ? "int" : "embstr";
}

// --- the image --------------------------------------------------------------------------------------------

constexpr std::string_view magic = "SPLF";
constexpr std::uint16_t version = 3;
constexpr std::size_t version_at = 4;
constexpr std::uint16_t hash_of_strings = 2;
constexpr std::size_t hash_at = 6;
constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);

struct Head {
  std::uint64_t capacity = 0;
  std::uint64_t length = 0;
};

void encode(const Head& head, std::span<std::byte> into) {
  constexpr double no_rate = 0.5;  // one that has no meaning, as all numbers here have none
  FieldWriter writer(into);
  writer.bytes(std::as_bytes(std::span(magic)));
  writer.integer(version);
  writer.integer(hash_of_strings);
  writer.integer(std::uint64_t{0});  // seed
  writer.real(no_rate);
  writer.integer(head.capacity);
  writer.integer(std::uint32_t{0});  // expansion
  writer.integer(std::uint32_t{1});  // layers
  writer.integer(head.capacity);
  writer.real(no_rate);
  writer.integer(head.capacity / word_bytes);
  writer.integer(static_cast<std::uint32_t>(8 * word_bytes));  // bits of a block
  writer.integer(std::uint32_t{0});                            // probes
  writer.integer(head.length);
  constexpr std::uint64_t layout_of_strings = 2;
  writer.integer(layout_of_strings);  // one byte, and seven that are 0
}

bool begins_image(Bytes bytes) {
  return bytes.size() >= hash_at + sizeof(std::uint16_t) && begins_with(bytes, magic) &&
         load_little_endian<std::uint16_t>(bytes.data() + hash_at) == hash_of_strings;
}

Result<Head> decode(Bytes bytes) {
  if (!begins_image(bytes)) return damaged("this is not a string");
  // The version comes before all else: another version may have other fields behind it.
  if (load_little_endian<std::uint16_t>(bytes.data() + version_at) != version)
    return fail(Errc::unsupported_version, "the string's head is of a version that this build does not know");
  if (bytes.size() < image_head_bytes) return damaged("a string's head is cut short");
  constexpr std::size_t capacity_at = 24;
  constexpr std::size_t length_at = 72;
  const Head head{.capacity = load_little_endian<std::uint64_t>(bytes.data() + capacity_at),
                  .length = load_little_endian<std::uint64_t>(bytes.data() + length_at)};
  // All other fields follow from these two.
  ImageHead expected;
  encode(head, expected);
  if (head.capacity == 0 || head.capacity > string_bytes_max || head.capacity % word_bytes != 0 ||
      head.length > head.capacity || !std::ranges::equal(expected, bytes.first(image_head_bytes)))
    return damaged("a string's head has values that no string has");
  return head;
}

Result<value::Shape> read_head(Bytes bytes, std::uint32_t /*layers_max*/) {
  const auto head = decode(bytes);
  if (!head) return head.error();
  return value::Shape{.head_bytes = image_head_bytes, .body_bytes = head->capacity};
}

Result<ValuePtr> make(Bytes bytes, const value::Limits& limits, value::FilledBy /*filled_by*/) {
  const auto head = decode(bytes);
  if (!head) return head.error();
  return String::of_shape(head->capacity, head->length, limits);
}

// Nothing is held: the replay writes a string again.
std::unique_ptr<value::Still> freeze(const Value& value, std::vector<std::uint64_t>& numbers) {
  numbers.push_back(in(value).length());
  return nullptr;
}

void encode_head(const FrozenView& frozen, std::span<std::byte> into) {
  encode({.capacity = in(frozen.value).capacity(), .length = frozen.numbers.front()}, into);
}

// --- records ----------------------------------------------------------------------------------------------

Result<ValuePtr> make_recorded(Bytes head, const value::Limits& limits) {
  if (!head.empty()) return damaged("a string is made of bytes, where it is made of none");
  return String::with_room(0, limits);
}

struct Written {
  std::uint64_t offset;
  Bytes bytes;
};

std::optional<Written> read_written(std::uint8_t what, Bytes bytes) {
  if (what != written_change || bytes.size() < written_head_bytes) return std::nullopt;
  FieldReader reader(bytes);
  const auto offset = reader.integer<std::uint64_t>();
  const Written written{.offset = offset, .bytes = bytes.subspan(written_head_bytes)};
  const bool counted = reader.integer<std::uint32_t>() == written.bytes.size();
  const bool reserved = reader.integer<std::uint32_t>() != 0;
  return counted && !reserved ? std::optional(written) : std::nullopt;
}

Result<ValuePtr> apply(Value& value, std::uint8_t what, Bytes bytes, const value::Limits& limits) {
  const auto written = read_written(what, bytes);
  if (!written) return damaged("a string changes in a way that no string does");
  return in(value).write_or_grow(written->offset, written->bytes, limits.bytes_max);
}

// --- what is told -----------------------------------------------------------------------------------------

void tell_head(Bytes bytes, Figures& to) {
  const auto head = decode(bytes);
  if (!head) return;
  to.number("length", head->length);
  to.number("capacity", head->capacity);
}

std::string_view tell_changed(std::uint8_t what, Bytes bytes, Figures& to) {
  if (const auto written = read_written(what, bytes)) {
    to.number("offset", written->offset);
    to.number("bytes", written->bytes.size());
  }
  return "written";
}

// --- the payload: 1 byte type, the string, and the footer of every dump -----------------------------------

std::uint64_t payload_bytes_max(Bytes payload, std::uint32_t /*layers_max*/) {
  rdb::Reader reader(payload);
  reader.byte();
  const bool is_packed = reader.string().kind == rdb::String::Kind::packed;
  return payload.size() * (is_packed ? rdb::growth_max : 1);
}

Result<ValuePtr> read_payload(Bytes payload, const value::Limits& limits, const value::Hold& hold) {
  if (auto room = hold ? hold(payload.size()) : Result<void>(); !room) return room.error();
  const auto found = rdb::value_of(payload);
  if (!found) return found.error();
  rdb::Reader reader(*found);
  reader.byte();
  const auto text = reader.text(string_bytes_max);
  if (!text || reader.failed() || !reader.at_end())
    return fail(Errc::out_of_range, "this is no string of Redis");
  return String::of(*text, limits);
}

Result<std::vector<std::string>> write_payload(const FrozenView& string, const value::GoOn& /*go_on*/) {
  const std::string text = in(string.value).text();
  std::vector<std::string> pieces(1, std::string(1, static_cast<char>(rdb::string_type)));
  rdb::append_length(pieces[0], text.size());
  pieces[0] += text;
  rdb::append_footer(pieces[0], {});
  return pieces;
}

constexpr value::Payload payload{
    .begins = [](Bytes bytes) { return rdb::begins(bytes, rdb::string_type); },
    .bytes_max = payload_bytes_max,
    .read = read_payload,
    .byte_count = [](const FrozenView& string) { return in(string.value).length(); },
    // The text and its payload are in memory together.
    .memory_bytes = [](const FrozenView& string) { return 2 * in(string.value).length(); },
    .write = write_payload,
};

}  // namespace

std::uint64_t image_body_bytes(std::uint64_t byte_count) {
  return std::max((byte_count + word_bytes - 1) / word_bytes, std::uint64_t{1}) * word_bytes;
}

ImageHead image_head(std::uint64_t byte_count) {
  SEPAL_ASSERT(byte_count <= string_bytes_max, "a head is made of a string that is too long");
  ImageHead bytes;
  encode({.capacity = image_body_bytes(byte_count), .length = byte_count}, bytes);
  return bytes;
}

std::array<std::byte, written_head_bytes> written_head(std::uint64_t offset, std::size_t byte_count) {
  std::array<std::byte, written_head_bytes> bytes;
  FieldWriter writer(bytes);
  writer.integer(offset);
  writer.integer(static_cast<std::uint32_t>(byte_count));
  writer.integer(std::uint32_t{0});
  return bytes;
}

const value::KindRow string_row{
    .kind = value::Kind::string,
    .type_name = "string",
    .word = "string",
    .destroy = [](Value* value) { delete static_cast<String*>(value); },
    .byte_count = [](const Value& value) { return in(value).byte_count(); },
    .item_count = [](const Value&) { return std::uint64_t{0}; },
    .changes = [](const Value& value) { return in(value).length(); },
    // A string changes in ways that its length does not show, so no save may link its file again.
    .identity = [](const Value&) { return std::uint64_t{0}; },
    .prepare = nullptr,
    .encoding = encoding,
    .limit_mappings = limit_mappings,
    .make_state = nullptr,
    .begins_image = begins_image,
    .read_head = read_head,
    .make = make,
    .fill_body = [](Value& value, std::uint64_t offset, Bytes from) { in(value).fill(offset, from); },
    .complete = nullptr,
    .freeze = freeze,
    .head_bytes = [](const FrozenView&) { return image_head_bytes; },
    .body_bytes = [](const FrozenView& frozen) { return in(frozen.value).capacity(); },
    .encode_head = encode_head,
    .copy_body = [](const FrozenView& frozen, std::uint64_t offset,
                    std::span<std::byte> to) { in(frozen.value).read_words(offset, to); },
    .repeat = value::Repeat::again,
    .made_by_change = true,
    .make_recorded = make_recorded,
    .apply = apply,
    .add = [](Value& value,
              std::span<const Fingerprint> positions) { return in(value).set_recorded(positions); },
    .add_refused = "from here on a bit is set behind the end of a string",
    .tell =
        [](const Value& value, Figures& to) {
          to.number("length", in(value).length());
          to.number("capacity", in(value).capacity());
        },
    .sentence =
        [](const Value& value) { return "a string of " + std::to_string(in(value).length()) + " bytes"; },
    .tell_head = tell_head,
    .tell_made = [](Bytes, Figures&) { return std::string_view("created"); },
    .tell_changed = tell_changed,
    .payload = &payload,
    .mirrors = false,
};

}  // namespace sepal::strings
