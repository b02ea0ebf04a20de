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
#include <sepal/writers/string_writer.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command/keys/lookup.hpp"
#include "command/run/adopting.hpp"
#include "command/run/refuse.hpp"
#include "command/strings/string_access.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using strings::BitRange;
using strings::String;
using strings::StringPtr;
using value::ValuePtr;
using Words = std::span<const std::string_view>;

// The position of a bit, below 2^32.
std::optional<std::uint64_t> parse_position(std::string_view word) {
  const auto number = parse_unsigned(word);
  return number && *number < strings::string_bits_max ? number : std::nullopt;
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

// With the gate closed. Writes the byte of a bit; the string is made or grows if it has to.
Next write_bit(Context& context, const FoundString& found, std::uint64_t position, bool value) {
  const std::uint64_t at = position / 8;
  // The whole byte is written, so it is read first. No other worker sets a bit of it in between, because the
  // gate is closed.
  std::byte byte{0};
  if (at < length_of(found)) found.value->read(at, {&byte, 1});
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
    case BitOperation::all: return one & other;
    case BitOperation::any: return one | other;
    case BitOperation::odd: return one ^ other;
    case BitOperation::inverse: break;
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
  std::vector<StringPtr> strings;

  [[nodiscard]] std::uint64_t length() const {
    std::uint64_t longest = 0;
    for (const StringPtr& string : strings)
      if (string != nullptr) longest = std::max(longest, string->length());
    return longest;
  }
  [[nodiscard]] std::uint64_t read_bytes() const { return length() * strings.size(); }
  // Bytes [offset, offset + to.size()) of the result. `other` is as long.
  void read(std::uint64_t offset, std::span<std::byte> to, std::span<std::byte> other) const {
    for (std::size_t at = 0; at < strings.size(); ++at) {
      // A source that ends earlier, or is missing, counts as zeros up to the longest one, as in Redis.
      const std::span<std::byte> bytes = at == 0 ? to : other;
      std::ranges::fill(bytes, std::byte{0});
      if (strings[at] != nullptr) {
        const String& string = *strings[at];
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
  [[nodiscard]] Result<StringPtr> result(const value::Limits& limits, const value::GoOn& go_on) const {
    // In the job, clients may write to the sources meanwhile: the result has what they write, or has it not.
    constexpr std::size_t piece_bytes = 65536;
    const std::uint64_t byte_count = length();
    auto made = String::with_room(byte_count, limits);
    std::vector<std::byte> piece(piece_bytes);
    std::vector<std::byte> other(piece_bytes);
    for (std::uint64_t offset = 0; made && offset < byte_count; offset += piece_bytes) {
      const auto part = std::span(piece).first(std::min<std::uint64_t>(piece_bytes, byte_count - offset));
      read(offset, part, std::span(other).first(part.size()));
      (*made)->write(offset, part);
      if (go_on && !go_on(offset)) return fail(Errc::io, "given up before the end, as asked");
    }
    return made;
  }
};

// Nothing: one of the keys names a value of another kind, and WRONGTYPE was answered.
std::optional<Sources> sources_of(Context& context, BitOperation operation, Words keys) {
  Sources sources{.operation = operation, .strings = {}};
  for (const std::string_view key : keys) {
    const FoundString found = find_string(context, key);
    if (found.refused) return std::nullopt;
    sources.strings.emplace_back(found.value);
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
  adoption.make = [held = std::move(sources), length](const JobContext& job) -> Result<ValuePtr> {
    if (auto room = job.hold(length); !room) return room.error();
    return held.result(job.limits, job.go_on);
  };
  context.services.adoptions.adopt(context.client, std::move(adoption));
  return Next::wait;
}

Next set_bit(Context& context) {
  const auto position = parse_position(context.words[2]);
  if (!position) return refuse(context, text::bit_position);
  const std::string_view word = context.words[3];
  if (word != "0" && word != "1") return refuse(context, text::bit_value);
  const bool value = word == "1";
  const FoundString found = find_string(context, context.words[1]);
  if (found.refused) return Next::done;
  if (found.value != nullptr) {
    // A bit that is clear already needs no change. Beyond the end the string must grow even for a 0, as in
    // Redis.
    const bool within = *position / 8 < length_of(found);
    if (!value && within && !found.value->bit(*position)) return answer_number(context, 0);
    const keyspace::DatabaseKey key{.database = context.client.database, .key = context.words[1]};
    const auto was_set =
        value ? writers::try_set_bit(context.changes, key, *found.value, *position) : std::nullopt;
    if (was_set) {
      // Another worker may have set it, and its record may still be on its way.
      if (*was_set) {
        context.record.answered_known = true;
      } else {
        context.stats.other_changes.add(1);
      }
      return answer_number(context, *was_set ? 1 : 0);
    }
  }
  return context.alone ? write_bit(context, found, *position, value) : Next::need_alone;
}

Next get_bit(Context& context) {
  const auto position = parse_position(context.words[2]);
  if (!position) return refuse(context, text::bit_position);
  const FoundString found = find_string_counted(context, context.words[1]);
  if (found.refused) return Next::done;
  return answer_number(context, found.value != nullptr && found.value->bit(*position) ? 1 : 0);
}

Next set_bit_together(Context& context, Words positions, std::span<bool> were_set) {
  const keyspace::DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  auto* const string = value::as<String>(find(context, key.key));
  Positions numbers;
  if (context.words[3] != "1" || string == nullptr || !numbers.parse(positions) ||
      !writers::try_set_bits(context.changes, key, *string, numbers.all(), were_set))
    return Next::need_alone;
  const auto known_count = std::ranges::count(were_set, true);
  if (known_count > 0) context.record.answered_known = true;
  context.stats.other_changes.add(were_set.size() - static_cast<std::size_t>(known_count));
  return Next::done;
}

// The hit is counted at the end: if the requests have to run one by one, each counts its own.
Next get_bit_together(Context& context, Words positions, std::span<bool> bits) {
  const value::Value* const value = find(context, context.words[1]);
  Positions numbers;
  const auto* const string = value::as<String>(value);
  if (string != value || !numbers.parse(positions)) return Next::need_alone;
  if (string == nullptr) {
    std::ranges::fill(bits, false);
  } else {
    // All words are asked for before the first one is looked at, so the waits for memory overlap.
    for (const std::uint64_t position : numbers.all()) string->prefetch(position);
    std::ranges::transform(numbers.all(), bits.begin(),
                           [&](std::uint64_t position) { return string->bit(position); });
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
  if (found.refused) return Next::done;
  // BITPOS takes such a range for the first byte, where the string is short.
  const bool is_backward = range.first < 0 && range.last < 0 && range.first > range.last;
  const BitRange bits = is_backward ? BitRange{} : bits_of(range, length_of(found));
  const BitRange part = next_part(context, bits);
  std::uint64_t count = part.begin == part.end ? 0 : found.value->count(part);
  if (context.partial != nullptr) count = context.partial->counted += count;
  if (part.end < bits.end) return Next::more;
  return answer_count(context, count);
}

Next find_bit(Context& context) {
  const std::string_view bit = context.words[2];
  if (!parse_integer(bit)) return refuse(context, text::not_an_integer);
  if (bit != "0" && bit != "1") return refuse(context, text::bit_sought);
  AskedRange range;
  if (const auto wrong = parse(context.words.subspan(3), range); !wrong.empty())
    return refuse(context, wrong);
  const FoundString found = find_string_part(context, context.words[1]);
  if (found.refused) return Next::done;
  const bool value = bit == "1";
  if (found.value == nullptr) return answer_number(context, value ? -1 : 0);
  const BitRange bits = bits_of(range, length_of(found));
  const BitRange part = next_part(context, bits);
  const auto position = part.begin == part.end ? std::nullopt : found.value->find(value, part);
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
  if (context.services.keyspace.is_target(target, context.now))
    return refuse(context, text::target_of_mirror);
  if (sources->length() != 0) return put_result(context, std::move(*sources), target.key);
  // As in Redis, an empty result removes the key.
  context.changes.remove(target);
  return answer_number(context, 0);
}

constexpr Family bitmap_row{.group = "bitmap", .categories = Category::bitmap};

constexpr CommandSpec bitmap_family[] = {
    bitmap_row("bitcount key [start end [BYTE | BIT]]", -2, "2.6.0",
               "Counts the bits of a string that are set", count_bits, Flag::read_only, one_key("RO access"),
               Cost{"O(N) where N is the length of the range"}),
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
