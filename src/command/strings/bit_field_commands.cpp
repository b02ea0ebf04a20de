// Handlers of BITFIELD and BITFIELD_RO: numbers of any width in the bits of a string.
#include <sepal/base/arguments.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "command/run/refuse.hpp"
#include "command/strings/string_access.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using Words = std::span<const std::string_view>;

enum class Overflow : std::uint8_t { wrap, saturate, fail };

struct BitField {
  enum class Kind : std::uint8_t { get, set, increment };
  Kind kind = Kind::get;
  bool is_signed = false;
  std::uint32_t bits = 0;  // 1 .. 64 where it is signed, else 1 .. 63
  std::uint64_t position = 0;
  std::int64_t operand = 0;
  Overflow overflow = Overflow::wrap;

  [[nodiscard]] std::uint64_t end() const { return position + bits; }
};

// An unsigned field ends at 63 bits, as in Redis: the reply is a signed integer of 64 bits.
bool parse_type(std::string_view word, BitField& field) {
  constexpr std::int64_t signed_bits_max = 64;
  if (word.empty() || (word[0] != 'i' && word[0] != 'u')) return false;
  field.is_signed = word[0] == 'i';
  const auto bits = parse_integer(word.substr(1));
  if (!bits || *bits < 1 || *bits > signed_bits_max - (field.is_signed ? 0 : 1)) return false;
  field.bits = static_cast<std::uint32_t>(*bits);
  return true;
}

// "#5" is the position of the sixth field of this width. A field that is only read may end behind the longest
// string.
bool parse_field_position(std::string_view word, BitField& field) {
  const bool counts_fields = word.starts_with('#');
  const auto number = parse_unsigned(word.substr(counts_fields ? 1 : 0));
  if (!number || *number >= strings::string_bits_max) return false;
  field.position = *number * (counts_fields ? field.bits : 1);
  const std::uint64_t last = field.kind == BitField::Kind::get ? field.position : field.end() - 1;
  return last < strings::string_bits_max;
}

// The operation at words[at], which it moves behind. The error text; empty if there is none.
std::string_view parse_field(Words words, std::size_t& at, BitField& field) {
  const Words rest = words.subspan(at);
  const bool get = equal_ignoring_case(rest[0], "GET") && rest.size() >= 3;
  const bool set = equal_ignoring_case(rest[0], "SET") && rest.size() >= 4;
  const bool increment = equal_ignoring_case(rest[0], "INCRBY") && rest.size() >= 4;
  if (!get && !set && !increment) return text::syntax;
  field.kind = get ? BitField::Kind::get : set ? BitField::Kind::set : BitField::Kind::increment;
  if (!parse_type(rest[1], field)) return text::bitfield_type;
  if (!parse_field_position(rest[2], field)) return text::bit_position;
  at += get ? 3 : 4;
  if (get) return {};
  const auto operand = parse_integer(rest[3]);
  if (!operand) return text::not_an_integer;
  field.operand = *operand;
  return {};
}

std::optional<Overflow> parse_overflow(std::string_view word) {
  if (equal_ignoring_case(word, "WRAP")) return Overflow::wrap;
  if (equal_ignoring_case(word, "SAT")) return Overflow::saturate;
  if (equal_ignoring_case(word, "FAIL")) return Overflow::fail;
  return std::nullopt;
}

// All operations are parsed before the first one runs, so a request with a wrong word changes nothing.
// OVERFLOW is for all operations behind it, until the next OVERFLOW.
std::string_view parse_fields(Words words, std::vector<BitField>& fields) {
  Overflow overflow = Overflow::wrap;
  for (std::size_t at = 0; at < words.size();) {
    if (equal_ignoring_case(words[at], "OVERFLOW") && at + 1 < words.size()) {
      const auto named = parse_overflow(words[at + 1]);
      if (!named) return text::bitfield_overflow;
      overflow = *named;
      at += 2;
      continue;
    }
    if (fields.size() == at_once_max) return text::too_many_fields;
    BitField field{.overflow = overflow};
    if (const auto wrong = parse_field(words, at, field); !wrong.empty()) return wrong;
    fields.push_back(field);
  }
  return {};
}

// Wide enough for every sum of two numbers of 64 bits.
__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): the other form draws a warning

// The bytes that have bits of one field: 64 bits may begin within a byte.
constexpr std::size_t field_bytes_max = 9;
using FieldBytes = std::array<std::byte, field_bytes_max>;

// The bytes of a string from `first` on; those behind the end are 0.
FieldBytes bytes_at(const FoundString& found, std::uint64_t first) {
  FieldBytes bytes{};
  const std::uint64_t left = length_of(found) - std::min(length_of(found), first);
  if (left > 0) found.value->read(first, std::span(bytes).first(std::min(left, bytes.size())));
  return bytes;
}

// The number in a field of a string. Bits go from the highest to the lowest, in the number and in the string.
Wide value_of(const FoundString& found, const BitField& field) {
  std::uint64_t high = 0;
  const FieldBytes bytes = bytes_at(found, field.position / 8);
  for (std::size_t at = 0; at < sizeof high; ++at)
    high = high << 8 | std::to_integer<std::uint64_t>(bytes[at]);
  const std::uint64_t skipped = field.position % 8;
  // The highest bits are those of the field.
  high = high << skipped | std::to_integer<std::uint64_t>(bytes.back()) >> (8 - skipped);
  const std::uint64_t bits = high >> (64 - field.bits);
  if (!field.is_signed) return static_cast<Wide>(bits);
  // The shift to the right copies the sign into the unused bits.
  const std::uint32_t unused = 64 - field.bits;
  return static_cast<Wide>(static_cast<std::int64_t>(bits << unused) >> unused);
}

// The number that an operation asks for. A negative number that is set in an unsigned field is the large one
// of the same 64 bits, as in Redis.
Wide wanted_of(const BitField& field, Wide before) {
  if (field.kind == BitField::Kind::increment) return before + Wide{field.operand};
  return field.is_signed ? Wide{field.operand} : Wide{static_cast<std::uint64_t>(field.operand)};
}

// The number that a field has after an operation. Nothing: it overflows, and OVERFLOW FAIL says to leave it.
std::optional<Wide> value_after(const BitField& field, Wide before) {
  const Wide wanted = wanted_of(field, before);
  const Wide one = 1;
  const Wide least = field.is_signed ? -(one << (field.bits - 1)) : 0;
  const Wide most = field.is_signed ? (one << (field.bits - 1)) - 1 : (one << field.bits) - 1;
  if (wanted >= least && wanted <= most) return wanted;
  switch (field.overflow) {
    case Overflow::fail: return std::nullopt;
    case Overflow::saturate: return wanted < least ? least : most;
    case Overflow::wrap: break;
  }
  const Wide wrapped = wanted & ((one << field.bits) - 1);
  return field.is_signed && wrapped > most ? wrapped - (one << field.bits) : wrapped;
}

// Writes a number into a field. False: an error was answered.
bool write_field(Context& context, const FoundString& found, const BitField& field, Wide value) {
  // The first and the last byte may have bits of other fields, so they are read before they are written.
  const std::uint64_t first = field.position / 8;
  const std::uint64_t count = (field.end() + 7) / 8 - first;
  FieldBytes bytes = bytes_at(found, first);
  const auto touched = std::span(bytes).first(static_cast<std::size_t>(count));
  const auto number = static_cast<std::uint64_t>(value);
  for (std::uint32_t bit = 0; bit < field.bits; ++bit) {
    const std::uint64_t position = field.position + bit - 8 * first;
    const std::byte mask{mask_in_byte(position)};
    const bool is_set = (number >> (field.bits - 1 - bit) & 1) != 0;
    std::byte& byte = touched[static_cast<std::size_t>(position / 8)];
    byte = is_set ? byte | mask : byte & ~mask;
  }
  return write_string(context, context.words[1], first, touched);
}

// False: an error was answered, and ends the request.
bool run_field(Context& context, const BitField& field) {
  const FoundString found = find_string(context, context.words[1]);
  const Wide before = value_of(found, field);
  if (field.kind == BitField::Kind::get) {
    context.reply.integer(static_cast<std::int64_t>(before));
    return true;
  }
  const auto after = value_after(field, before);
  if (!after) {
    context.reply.null();
    return true;
  }
  if (!write_field(context, found, field, *after)) return false;
  context.reply.integer(static_cast<std::int64_t>(field.kind == BitField::Kind::set ? before : *after));
  return true;
}

// Makes the string as long as its fields need, before any field is written. So a string that may not grow
// fails the request as a whole. False: an error was answered.
bool make_room(Context& context, const FoundString& found, std::span<const BitField> fields) {
  std::uint64_t length = 0;
  for (const BitField& field : fields)
    if (field.kind != BitField::Kind::get) length = std::max(length, (field.end() + 7) / 8);
  if (length <= length_of(found)) return true;
  constexpr std::byte zero{0};
  return write_string(context, context.words[1], length - 1, {&zero, 1});
}

Next run_fields(Context& context, std::span<const BitField> fields) {
  const bool writes =
      std::ranges::any_of(fields, [](const BitField& field) { return field.kind != BitField::Kind::get; });
  // BITFIELD_RO shares this handler. Its row says that it only reads, so it is not admitted to the journal.
  if (writes && context.spec.flags.has(Flag::read_only)) return refuse(context, text::bitfield_read_only);
  const FoundString found = find_string(context, context.words[1]);
  if (found.refused) return Next::done;
  if (writes && !context.alone) return Next::need_alone;
  // After a crash, the fields of one request are written together or not at all.
  std::optional<StringGroup> group;
  if (writes) group.emplace(context);
  if (writes && !make_room(context, found, fields)) return Next::done;
  const std::size_t reply_bytes = context.reply.size();
  context.reply.array(fields.size());
  const bool all =
      std::ranges::all_of(fields, [&](const BitField& field) { return run_field(context, field); });
  if (!all) {
    // A page had no memory. The client has been promised an array: it gets the error in place of it. What the
    // fields before have written stays.
    const std::string error(context.reply.last_error());
    context.reply.truncate(reply_bytes);
    context.reply.error(error);
  }
  return Next::done;
}

Next bit_field(Context& context) {
  std::vector<BitField> fields;
  if (const auto wrong = parse_fields(context.words.subspan(2), fields); !wrong.empty())
    return refuse(context, wrong);
  return run_fields(context, fields);
}

// The words may be wrong: what a function does not know counts as a change.

// All operations are GET type offset, and OVERFLOW type may stand anywhere.
bool asks_bit_field(Words words) {
  constexpr std::size_t operations_at = 2;
  for (std::size_t at = operations_at; at < words.size(); ++at) {
    const bool gets = equal_ignoring_case(words[at], "GET");
    if (!gets && !equal_ignoring_case(words[at], "OVERFLOW")) return false;
    at += gets ? 2 : 1;
    if (at >= words.size()) return false;
  }
  return words.size() > operations_at;
}

KeyUse key_use_of_bit_field(Words words) {
  return {.access = asks_bit_field(words) ? "RO access" : "RW access update"};
}

constexpr Family field_row{.group = "bitmap", .categories = Category::bitmap};

constexpr CommandSpec bit_field_family[] = {
    field_row("bitfield key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] SET type offset value | INCRBY "
              "type offset increment ...]",
              -2, "3.2.0", "Reads and changes numbers of any width in a string", bit_field,
              Flag::write | Flag::deny_oom, records_string,
              one_key("RW access update variable_flags",
                      "This command allows both access and modification of the key"),
              Cost{"O(N) where N is the number of operations"}, key_use_of_bit_field, asks_bit_field),
    field_row("bitfield_ro key [GET type offset [GET type offset ...]]", -2, "6.0.0",
              "Reads numbers of any width in a string", bit_field, Flag::read_only | Flag::fast,
              one_key("RO access"), Cost{"O(N) where N is the number of operations"}),
};

}  // namespace

constinit const Rows bit_field_rows = bit_field_family;

}  // namespace sepal::command
