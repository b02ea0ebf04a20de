// Handlers of the commands on the bits of strings.
//
// SETBIT to 1 is what filters of clients do all day. It runs in the shared gate, as BF.ADD does, where the
// bit lies within the string and its page has memory. All else that changes a string closes the gate: such
// changes do not commute, and the closed gate gives them the order of the journal (decisions/0027).
//
// BITCOUNT and BITPOS of a long string run in parts of part_bits, and keep their place in a PartialRun. BITOP
// makes a new string: a short one at once, a long one by a job outside the workers.

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/command/run/adoptions.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command/bloom/mirror_state.hpp"
#include "command/keys/lookup.hpp"
#include "command/run/adopting.hpp"
#include "command/run/refuse.hpp"
#include "command/strings/string_access.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using bloom::BitRange;
using bloom::BitString;
using bloom::Filter;
using keyspace::FilterPtr;
using Words = std::span<const std::string_view>;

// The position of a bit, below 2^32.
std::optional<std::uint64_t> parse_position(std::string_view word) {
  const auto number = parse_unsigned(word);
  return number && *number < bloom::string_bits_max ? number : std::nullopt;
}

// The positions of requests that run together.
class Positions {
 public:
  // False if a word is no position.
  bool parse(Words words) {
    SEPAL_ASSERT(words.size() <= numbers_.size(), "more requests run together than there are places");
    return std::ranges::all_of(words, [this](std::string_view word) {
      const auto position = parse_position(word);
      if (position) numbers_[count_++] = *position;
      return position.has_value();
    });
  }
  [[nodiscard]] std::span<const std::uint64_t> all() const { return std::span(numbers_).first(count_); }

 private:
  std::array<std::uint64_t, Dispatcher::lone_requests_max> numbers_;
  std::size_t count_ = 0;
};

constexpr std::uint8_t mask_in_byte(std::uint64_t position) {
  return static_cast<std::uint8_t>(0x80U >> (position % 8));
}

// With the gate closed. Writes the byte of a bit; the string is made or grows if it has to.
Next write_bit(Context& context, const FoundString& found, std::uint64_t position, bool value) {
  const std::uint64_t at = position / 8;
  // The whole byte is written, so it is read first. No other worker sets a bit of it in between, because the
  // gate is closed.
  std::byte byte{0};
  if (at < found.length()) found.string().read(at, {&byte, 1});
  const std::byte mask{mask_in_byte(position)};
  const bool was_set = (byte & mask) != std::byte{0};
  byte = value ? byte | mask : byte & ~mask;
  if (write_string(context, context.words[1], at, {&byte, 1})) context.reply.integer(was_set ? 1 : 0);
  return Next::done;
}

// --- BITCOUNT, BITPOS -------------------------------------------------------------------------------------

// The words "start end [BYTE | BIT]" of a request.
struct AskedRange {
  std::int64_t first = 0;
  std::int64_t last = -1;
  bool in_bits = false;
  bool has_end = false;
};

// The error text; empty if there is none.
std::string_view parse(Words words, AskedRange& range) {
  constexpr std::size_t words_max = 3;
  if (words.size() > words_max) return text::syntax;
  // BITPOS takes a start without an end. BITCOUNT refuses that itself.
  range.has_end = words.size() >= 2;
  const auto first = words.empty() ? 0 : parse_integer(words[0]);
  const auto last = range.has_end ? parse_integer(words[1]) : -1;
  if (!first || !last) return text::not_an_integer;
  range.first = *first;
  range.last = *last;
  if (words.size() < words_max) return {};
  range.in_bits = equal_ignoring_case(words[2], "BIT");
  return range.in_bits || equal_ignoring_case(words[2], "BYTE") ? std::string_view() : text::syntax;
}

// The bits of a string of so many bytes. An empty range: `begin` is `end`.
BitRange bits_of(const AskedRange& range, std::uint64_t length) {
  const auto count = static_cast<std::int64_t>(range.in_bits ? 8 * length : length);
  const std::int64_t first = from_end(range.first, count);
  const std::int64_t last = std::min(from_end(range.last, count), count - 1);
  if (first > last) return {};
  const std::uint64_t bits = range.in_bits ? 1 : 8;
  return {.begin = static_cast<std::uint64_t>(first) * bits,
          .end = (static_cast<std::uint64_t>(last) + 1) * bits};
}

// So many bits are looked at in one part of a request: in about a millisecond.
constexpr std::uint64_t part_bits = std::uint64_t{8} << 20;

// The next part of a range, behind what the parts before it have looked at. Between two parts other clients
// may change the string's length, and so the range: each part gets it anew, and the part may be empty.
// `cursor` is a position in the string, and parts end at its multiples of part_bits.
BitRange next_part(Context& context, const BitRange& whole) {
  if (context.partial == nullptr && whole.end - whole.begin <= part_bits) return whole;
  if (context.partial == nullptr) context.partial = std::make_unique<PartialRun>();
  const std::uint64_t begin = std::max(whole.begin, context.partial->cursor);
  const BitRange part{.begin = std::min(begin, whole.end),
                      .end = std::min(whole.end, begin / part_bits * part_bits + part_bits)};
  context.partial->cursor = part.end;
  return part;
}

// --- BITOP ------------------------------------------------------------------------------------------------

enum class BitOperation : std::uint8_t { all, any, odd, inverse };

std::optional<BitOperation> parse_operation(std::string_view word) {
  if (equal_ignoring_case(word, "AND")) return BitOperation::all;
  if (equal_ignoring_case(word, "OR")) return BitOperation::any;
  if (equal_ignoring_case(word, "XOR")) return BitOperation::odd;
  if (equal_ignoring_case(word, "NOT")) return BitOperation::inverse;
  return std::nullopt;
}

std::byte combined(BitOperation operation, std::byte one, std::byte other) {
  switch (operation) {
    case BitOperation::all:
      return one & other;
    case BitOperation::any:
      return one | other;
    case BitOperation::odd:
      return one ^ other;
    case BitOperation::inverse:
      break;
  }
  return ~one;
}

// All other clients wait while the sources are looked up, so there may not be more of them.
constexpr std::size_t sources_max = 1024;
// What is read with the gate closed: for less than a millisecond.
constexpr std::uint64_t read_at_once_max = std::uint64_t{1} << 20;

// The sources of a BITOP. They stay as long as this does; a missing key is a null.
struct Sources {
  BitOperation operation = BitOperation::all;
  std::vector<FilterPtr> strings;

  [[nodiscard]] std::uint64_t length() const {
    std::uint64_t longest = 0;
    for (const FilterPtr& string : strings)
      if (string != nullptr) longest = std::max(longest, BitString(*string).length());
    return longest;
  }
  // How many bytes are read for the result.
  [[nodiscard]] std::uint64_t read_bytes() const { return length() * strings.size(); }
  // Bytes [offset, offset + to.size()) of the result. `other` is as long.
  void read(std::uint64_t offset, std::span<std::byte> to, std::span<std::byte> other) const {
    for (std::size_t at = 0; at < strings.size(); ++at) {
      // A source that ends earlier, or is missing, counts as zeros up to the longest one, as in Redis.
      const std::span<std::byte> bytes = at == 0 ? to : other;
      std::ranges::fill(bytes, std::byte{0});
      if (strings[at] != nullptr) {
        const BitString string(*strings[at]);
        const std::uint64_t left = string.length() - std::min(string.length(), offset);
        if (left > 0) string.read(offset, bytes.first(std::min<std::uint64_t>(left, bytes.size())));
      }
      // NOT changes its only source. The other operations begin with the second one.
      if (at == 0 && operation != BitOperation::inverse) continue;
      for (std::size_t byte = 0; byte < to.size(); ++byte)
        to[byte] = combined(operation, to[byte], other[byte]);
    }
  }
  // The result as a string. Outside the gate as well.
  [[nodiscard]] Result<FilterPtr> result(const bloom::FilterLimits& limits, const bloom::GoOn& go_on) const {
    // In the job, clients may write to the sources meanwhile: the result has what they write, or has it not.
    constexpr std::size_t piece_bytes = 65536;
    const std::uint64_t byte_count = length();
    auto made = BitString::with_room(byte_count, limits);
    std::vector<std::byte> piece(piece_bytes);
    std::vector<std::byte> other(piece_bytes);
    for (std::uint64_t offset = 0; made && offset < byte_count; offset += piece_bytes) {
      const auto part = std::span(piece).first(std::min<std::uint64_t>(piece_bytes, byte_count - offset));
      read(offset, part, std::span(other).first(part.size()));
      BitString(**made).write(offset, part);
      if (go_on && !go_on(offset)) return fail(Errc::io, "given up before the end, as asked");
    }
    return made;
  }
};

// Nothing: one of the keys names a filter, and WRONGTYPE was answered.
std::optional<Sources> sources_of(Context& context, BitOperation operation, Words keys) {
  Sources sources{.operation = operation, .strings = {}};
  for (const std::string_view key : keys) {
    const FoundString found = find_string(context, key);
    if (found.is_filter) return std::nullopt;
    // A reference is counted in the filter itself. The bits are only read.
    sources.strings.emplace_back(const_cast<Filter*>(found.value));
  }
  return sources;
}

// The sources are references, so the job works on these strings even if their keys are removed meanwhile.
Next put_result(Context& context, Sources sources, std::string_view target) {
  const std::uint64_t length = sources.length();
  Adoption adoption{.what = "bitop",
                    .database = context.client.database,
                    .key = std::string(target),
                    .replace = true,
                    .make = {},
                    .still_wanted = contents_stay(context, context.client.database),
                    .answer = [length](resp::Reply& reply, const Result<void>& outcome) {
                      if (outcome) return reply.integer_unsigned(length);
                      answer_adoption(reply, outcome);
                    }};
  // The image has a header, and a string may have more room than its length: with half of the bound the image
  // fits into a record, and adopt() needs no job. Many sources are read by a job all the same, because the
  // gate is closed here.
  const bool is_quick = sources.read_bytes() <= read_at_once_max;
  if (length <= keyspace::recorded_image_bytes_max / 2 && is_quick) {
    auto made = sources.result(context.services.keyspace.machine_limits(), {});
    if (made) return adopt(context, std::move(*made), std::move(adoption));
    adoption.answer(context.reply, made.error());
    return Next::done;
  }
  if (context.mode.in_transaction)
    return refuse(context, is_quick ? text::long_string_in_transaction : text::many_sources_in_transaction);
  adoption.make = [held = std::move(sources), length](const JobContext& job) -> Result<FilterPtr> {
    if (auto room = job.hold(length); !room) return room.error();
    return held.result(job.limits, job.go_on);
  };
  context.services.adoptions.adopt(context.client, std::move(adoption));
  return Next::wait;
}

// --- BITFIELD ---------------------------------------------------------------------------------------------

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
  if (!number || *number >= bloom::string_bits_max) return false;
  field.position = *number * (counts_fields ? field.bits : 1);
  const std::uint64_t last = field.kind == BitField::Kind::get ? field.position : field.end() - 1;
  return last < bloom::string_bits_max;
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
  const std::uint64_t left = found.length() - std::min(found.length(), first);
  if (left > 0) found.string().read(first, std::span(bytes).first(std::min(left, bytes.size())));
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
    case Overflow::fail:
      return std::nullopt;
    case Overflow::saturate:
      return wanted < least ? least : most;
    case Overflow::wrap:
      break;
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
  if (length <= found.length()) return true;
  constexpr std::byte zero{0};
  return write_string(context, context.words[1], length - 1, {&zero, 1});
}

Next run_fields(Context& context, std::span<const BitField> fields) {
  const bool writes =
      std::ranges::any_of(fields, [](const BitField& field) { return field.kind != BitField::Kind::get; });
  // BITFIELD_RO shares this handler. Its row says that it only reads, so it is not admitted to the journal.
  if (writes && context.spec.flags.has(Flag::read_only)) return refuse(context, text::bitfield_read_only);
  const FoundString found = find_string(context, context.words[1]);
  if (found.is_filter) return Next::done;
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

Next set_bit(Context& context) {
  const auto position = parse_position(context.words[2]);
  if (!position) return refuse(context, text::bit_position);
  const std::string_view word = context.words[3];
  if (word != "0" && word != "1") return refuse(context, text::bit_value);
  const bool value = word == "1";
  const FoundString found = find_string(context, context.words[1]);
  if (found.is_filter) return Next::done;
  if (found.value != nullptr) {
    // A bit that is clear already needs no change. Beyond the end the string must grow even for a 0, as in
    // Redis.
    const bool within = *position / 8 < found.length();
    if (!value && within && !found.string().bit(*position)) {
      context.reply.integer(0);
      return Next::done;
    }
    const keyspace::DatabaseKey key{.database = context.client.database, .key = context.words[1]};
    const auto was_set = value ? context.changes.try_set_bit(key, *found.value, *position) : std::nullopt;
    if (was_set) {
      // Another worker may have set it, and its record may still be on its way.
      if (*was_set) {
        context.record.answered_known = true;
      } else {
        context.stats.bits_set.add(1);
      }
      context.reply.integer(*was_set ? 1 : 0);
      return Next::done;
    }
  }
  return context.alone ? write_bit(context, found, *position, value) : Next::need_alone;
}

Next get_bit(Context& context) {
  const auto position = parse_position(context.words[2]);
  if (!position) return refuse(context, text::bit_position);
  const FoundString found = find_string_counted(context, context.words[1]);
  if (found.is_filter) return Next::done;
  context.reply.integer(found.value != nullptr && found.string().bit(*position) ? 1 : 0);
  return Next::done;
}

Next set_bit_together(Context& context, Words positions, std::span<bool> were_set) {
  const keyspace::DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  const Filter* const value = find(context, key.key);
  Positions numbers;
  if (context.words[3] != "1" || value == nullptr || !value->is_string() || !numbers.parse(positions) ||
      !context.changes.try_set_bits(key, *value, numbers.all(), were_set))
    return Next::need_alone;
  const auto known_count = std::ranges::count(were_set, true);
  if (known_count > 0) context.record.answered_known = true;
  context.stats.bits_set.add(were_set.size() - static_cast<std::size_t>(known_count));
  return Next::done;
}

// The hit is counted at the end: if the requests have to run one by one, each counts its own.
Next get_bit_together(Context& context, Words positions, std::span<bool> bits) {
  const Filter* const value = find(context, context.words[1]);
  Positions numbers;
  if ((value != nullptr && !value->is_string()) || !numbers.parse(positions)) return Next::need_alone;
  if (value == nullptr) {
    std::ranges::fill(bits, false);
  } else {
    const BitString string(*value);
    // All words are asked for before the first one is looked at, so the waits for memory overlap.
    for (const std::uint64_t position : numbers.all()) string.prefetch(position);
    std::ranges::transform(numbers.all(), bits.begin(),
                           [&](std::uint64_t position) { return string.bit(position); });
  }
  static_cast<void>(find_counted(context, context.words[1], positions.size()));
  return Next::done;
}

Next count_bits(Context& context) {
  AskedRange range;
  const Words words = context.words.subspan(2);
  if (words.size() == 1) return refuse(context, text::syntax);
  if (const auto wrong = parse(words, range); !wrong.empty()) return refuse(context, wrong);
  const FoundString found = find_string_part(context, context.words[1]);
  if (found.is_filter) return Next::done;
  // BITPOS takes such a range for the first byte, where the string is short.
  const bool is_backward = range.first < 0 && range.last < 0 && range.first > range.last;
  const BitRange bits = is_backward ? BitRange{} : bits_of(range, found.length());
  const BitRange part = next_part(context, bits);
  std::uint64_t count = part.begin == part.end ? 0 : found.string().count(part);
  if (context.partial != nullptr) count = context.partial->counted += count;
  if (part.end < bits.end) return Next::more;
  context.reply.integer_unsigned(count);
  return Next::done;
}

Next find_bit(Context& context) {
  const std::string_view bit = context.words[2];
  if (!parse_integer(bit)) return refuse(context, text::not_an_integer);
  if (bit != "0" && bit != "1") return refuse(context, text::bit_sought);
  AskedRange range;
  if (const auto wrong = parse(context.words.subspan(3), range); !wrong.empty())
    return refuse(context, wrong);
  const FoundString found = find_string_part(context, context.words[1]);
  if (found.is_filter) return Next::done;
  const bool value = bit == "1";
  if (found.value == nullptr) {
    context.reply.integer(value ? -1 : 0);
    return Next::done;
  }
  const BitRange bits = bits_of(range, found.length());
  const BitRange part = next_part(context, bits);
  const auto position = part.begin == part.end ? std::nullopt : found.string().find(value, part);
  if (!position && part.end < bits.end) return Next::more;
  if (position) {
    context.reply.integer_unsigned(*position);
  } else if (!value && !range.has_end && bits.begin != bits.end) {
    // Behind a string there are only zeros, where the request names no end.
    context.reply.integer_unsigned(bits.end);
  } else {
    context.reply.integer(-1);
  }
  return Next::done;
}

Next combine_bits(Context& context) {
  const auto operation = parse_operation(context.words[1]);
  if (!operation) return refuse(context, text::syntax);
  const Words keys = context.words.subspan(3);
  if (*operation == BitOperation::inverse && keys.size() != 1) return refuse(context, text::bitop_not);
  if (keys.size() > sources_max) return refuse(context, text::too_many_sources);
  // With the gate closed all sources are found at one instant. For a short result, the bits are of that
  // instant, too.
  if (!context.alone) return Next::need_alone;
  auto sources = sources_of(context, *operation, keys);
  if (!sources) return Next::done;
  const keyspace::DatabaseKey target{.database = context.client.database, .key = context.words[2]};
  if (is_target(context.services.keyspace, target, context.now))
    return refuse(context, text::target_of_mirror);
  if (sources->length() != 0) return put_result(context, std::move(*sources), target.key);
  // As in Redis, an empty result removes the key.
  context.changes.remove(target);
  context.reply.integer(0);
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

constexpr Family bitmap_row{.group = "bitmap", .categories = Category::bitmap};

constexpr CommandSpec bitmap_family[] = {
    bitmap_row("bitcount key [start end [BYTE | BIT]]", -2, "2.6.0",
               "Counts the bits of a string that are set", count_bits, Flag::read_only, one_key("RO access"),
               Cost{"O(N) where N is the length of the range"}),
    bitmap_row("bitfield key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] SET type offset value | INCRBY "
               "type offset increment ...]",
               -2, "3.2.0", "Reads and changes numbers of any width in a string", bit_field,
               Flag::write | Flag::deny_oom, records_string,
               one_key("RW access update variable_flags",
                       "This command allows both access and modification of the key"),
               Cost{"O(N) where N is the number of operations"}, key_use_of_bit_field, asks_bit_field),
    bitmap_row("bitfield_ro key [GET type offset [GET type offset ...]]", -2, "6.0.0",
               "Reads numbers of any width in a string", bit_field, Flag::read_only | Flag::fast,
               one_key("RO access"), Cost{"O(N) where N is the number of operations"}),
    bitmap_row("bitop AND | OR | XOR | NOT destkey key [key ...]", -4, "2.6.0",
               "Puts the bits of several strings, combined, under a key", combine_bits,
               Flag::write | Flag::deny_oom, records_adoption,
               KeyRange{.first = 2, .last = -1, .step = 1, .access = "OW update/RO access"},
               Cost{"O(N) where N is the length of the longest string"}),
    bitmap_row("bitpos key bit [start [end [BYTE | BIT]]]", -3, "2.8.7",
               "Finds the first bit of a string that is set, or clear", find_bit, Flag::read_only,
               one_key("RO access"), Cost{"O(N) where N is the length of the range"}),
    bitmap_row("getbit key offset", 3, "2.2.0", "Answers a bit of a string", get_bit,
               Flag::read_only | Flag::fast | Flag::integers, one_key("RO access"), get_bit_together),
    bitmap_row("setbit key offset value", 4, "2.2.0",
               "Sets or clears a bit of a string, and answers what it was", set_bit,
               Flag::write | Flag::deny_oom | Flag::integers, one_key("RW access update"), set_bit_together,
               TogetherTail{1}, records_items),
};

}  // namespace

constinit const Rows bitmap_rows = bitmap_family;

}  // namespace sepal::command
