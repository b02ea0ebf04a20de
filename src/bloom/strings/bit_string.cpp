// The bytes stand in the words of the layer in little-endian order. A bit is set by one atomic step on its
// word, so no lock is needed, and no set is lost. All else that writes has the gate closed; it stores whole
// words all the same, because a saver may read them at any time.
//
// A long string is sparse. Its pages have memory or have none (pages.hpp), and only write(), a load and a
// replay give them memory. None of these runs beside a request, so the account of memory is exact. A read of
// a page without memory answers zeros and does not touch it. A set of a bit there is refused, and comes again
// as a write().
//
// A set is recorded as an added item whose fingerprint is the position. Sets of any order give the same bits;
// other changes do not commute, and are recorded as bytes in the order of the journal (decisions/0027).
#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/bloom/strings/bit_string.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "bloom/filter/layer.hpp"

namespace sepal::bloom {
namespace {

using value::ValuePtr;

constexpr std::uint64_t bytes_a_word = sizeof(std::uint64_t);

// A rate that is one, and has no meaning.
constexpr double no_rate = 0.5;

std::uint64_t rounded_to_words(std::uint64_t bytes) {
  // An empty string has one word, too: a layer has at least one block.
  return std::max((bytes + bytes_a_word - 1) / bytes_a_word, std::uint64_t{1}) * bytes_a_word;
}

std::uint64_t mask_of(std::uint64_t position) {
  const std::uint64_t byte_in_word = position / 8 % bytes_a_word;
  return std::uint64_t{1} << (8 * byte_in_word + 7 - position % 8);
}

std::uint64_t load_word(std::uint64_t& word) {
  return std::atomic_ref<std::uint64_t>(word).load(std::memory_order_relaxed);
}
void store_word(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_relaxed);
}

struct StringShape {
  FilterOptions options;
  Filter::LayerState layer;
};

StringShape shape_of(std::uint64_t byte_count, std::uint64_t length) {
  const std::uint64_t capacity = rounded_to_words(byte_count);
  return {.options = {.error_rate = no_rate,
                      .capacity = capacity,
                      .expansion = 0,
                      .seed = 0,
                      .hash = ItemHash::none},
          .layer = {.plan = {.capacity = capacity,
                             .error_rate = no_rate,
                             .block_count = capacity / bytes_a_word,
                             .block_bits = 8 * bytes_a_word,
                             .probe_count = 0,
                             .layout = Layout::bytes},
                    .item_count = length}};
}

Result<ValuePtr> empty_string(std::uint64_t byte_count, const FilterLimits& limits) {
  if (byte_count > string_bytes_max) return fail(Errc::too_large, "a string is longer than 512 MB");
  const StringShape shape = shape_of(byte_count, 0);
  auto made = Filter::restore(shape.options, {&shape.layer, 1}, limits, FilledBy::requests);
  if (!made) return made.error();
  return ValuePtr(std::move(*made));
}

// The bits of eight bytes in the order of their positions: the first is the highest.
std::uint64_t in_bit_order(const std::byte* eight_bytes) {
  return __builtin_bswap64(load_little_endian<std::uint64_t>(eight_bytes));
}

// The bits [begin, end) of a word whose first bit is the highest.
std::uint64_t mask_between(std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t from_begin = ~std::uint64_t{0} >> begin;
  return end == 64 ? from_begin : from_begin & ~(~std::uint64_t{0} >> end);
}

}  // namespace

ImageHeader string_header(std::uint64_t byte_count) {
  SEPAL_ASSERT(byte_count <= string_bytes_max, "a header is made of a string that is too long");
  const StringShape shape = shape_of(byte_count, byte_count);
  return {.options = shape.options, .layers = {shape.layer}};
}

Result<ValuePtr> BitString::with_room(std::uint64_t byte_count, const FilterLimits& limits) {
  return empty_string(byte_count, limits);
}

Result<ValuePtr> BitString::of(std::string_view bytes, const FilterLimits& limits) {
  auto made = empty_string(bytes.size(), limits);
  if (made) BitString(**made).write(0, std::as_bytes(std::span(bytes)));
  return made;
}

BitString::BitString(const value::Value& string) : layer_(static_cast<const Filter&>(string).stack()[0]) {
  SEPAL_ASSERT(string.kind() == value::Kind::string, "another value is taken for a string");
}

std::uint64_t BitString::length() const {
  return layer_.item_count();
}

std::uint64_t BitString::capacity() const {
  return layer_.capacity();
}

std::uint64_t* BitString::word_of_byte(std::uint64_t byte) const {
  return layer_.blocks().words + byte / bytes_a_word;
}

bool BitString::has_memory(std::uint64_t byte) const {
  const Pages* const pages = layer_.pages();
  return pages == nullptr || pages->has(byte / Pages::page_bytes);
}

bool BitString::bit(std::uint64_t position) const {
  const std::uint64_t byte = position / 8;
  return byte < length() && has_memory(byte) && (load_word(*word_of_byte(byte)) & mask_of(position)) != 0;
}

void BitString::prefetch(std::uint64_t position) const {
  const std::uint64_t byte = position / 8;
  if (byte < length() && has_memory(byte)) __builtin_prefetch(word_of_byte(byte));
}

std::optional<bool> BitString::try_set(std::uint64_t position, AddRecorder* recorder) {
  const std::uint64_t byte = position / 8;
  if (byte >= length() || !has_memory(byte)) return std::nullopt;
  const std::uint64_t mask = mask_of(position);
  std::uint64_t& word = *word_of_byte(byte);
  if ((load_word(word) & mask) != 0) return true;
  if (recorder != nullptr) recorder->begin();
  // The bit may have been set since the look at the word, so the answer is that of fetch_or().
  const bool was_set =
      (std::atomic_ref<std::uint64_t>(word).fetch_or(mask, std::memory_order_relaxed) & mask) != 0;
  const Fingerprint told{.low = position, .high = 0};
  if (recorder != nullptr) recorder->end({&told, was_set ? std::size_t{0} : 1});
  return was_set;
}

bool BitString::try_set(std::span<const std::uint64_t> positions, std::span<bool> were_set,
                        AddRecorder* recorder) {
  SEPAL_ASSERT(positions.size() == were_set.size() && positions.size() <= bits_together_max,
               "there is an answer for each bit, and a record has room for all");
  // All positions are checked before the first bit is set, because a refusal leaves nothing done. The gate is
  // shared: no page loses its memory, and the string keeps its length, until the bits are set.
  const std::uint64_t byte_count = length();
  for (const std::uint64_t position : positions) {
    if (position / 8 >= byte_count || !has_memory(position / 8)) return false;
    __builtin_prefetch(word_of_byte(position / 8), 1);
  }
  std::array<Fingerprint, bits_together_max> clear;
  std::size_t clear_count = 0;
  if (recorder != nullptr) recorder->begin();
  for (std::size_t at = 0; at < positions.size(); ++at) {
    const std::uint64_t position = positions[at];
    const std::uint64_t mask = mask_of(position);
    std::uint64_t& word = *word_of_byte(position / 8);
    were_set[at] =
        (load_word(word) & mask) != 0 ||
        (std::atomic_ref<std::uint64_t>(word).fetch_or(mask, std::memory_order_relaxed) & mask) != 0;
    if (!were_set[at]) clear[clear_count++] = {.low = position, .high = 0};
  }
  if (recorder != nullptr) recorder->end(std::span(clear).first(clear_count));
  return true;
}

void BitString::read(std::uint64_t offset, std::span<std::byte> to) const {
  SEPAL_ASSERT(offset <= capacity() && to.size() <= capacity() - offset, "bytes are read behind a string");
  // Bits are copied by whole words, and `offset` may be within one. So the bytes go through a buffer whose
  // first word begins at or before them.
  std::array<std::byte, Pages::page_bytes> words;
  while (!to.empty()) {
    const std::uint64_t begin = offset / bytes_a_word * bytes_a_word;
    const std::uint64_t skipped = offset - begin;
    const std::size_t count = std::min<std::size_t>(words.size() - skipped, to.size());
    layer_.copy_bits(begin, std::span(words).first(rounded_to_words(skipped + count)));
    std::memcpy(to.data(), words.data() + skipped, count);
    to = to.subspan(count);
    offset += count;
  }
}

std::string BitString::text(std::uint64_t offset, std::uint64_t byte_count) const {
  const std::uint64_t end = length();
  if (offset >= end) return {};
  std::string bytes(static_cast<std::size_t>(std::min(byte_count, end - offset)), '\0');
  read(offset, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// Calls visit(first_bit, bits, mask) for the words of a range, until it returns false. All words of a page
// that has no memory are zero, so only the first of them is visited.
template <class Visit>
void BitString::each_word_of(const BitRange& range, const Visit& visit) const {
  constexpr std::uint64_t word_width = 8 * bytes_a_word;
  std::array<std::byte, Pages::page_bytes> bytes;
  for (std::uint64_t at = range.begin / word_width * word_width; at < range.end;) {
    const std::uint64_t first_byte = at / 8;
    const std::uint64_t page_end = (first_byte / Pages::page_bytes + 1) * Pages::page_bytes;
    const bool is_zero = !has_memory(first_byte);
    // The first word is visited even in a page of zeros, so that find(false) can end in it.
    const std::uint64_t byte_count = is_zero ? bytes_a_word : std::min(page_end, capacity()) - first_byte;
    const auto part = std::span(bytes).first(static_cast<std::size_t>(byte_count));
    read(first_byte, part);
    for (std::size_t word = 0; word < part.size() && at < range.end; word += bytes_a_word, at += word_width) {
      const std::uint64_t begin = range.begin > at ? range.begin - at : 0;
      const std::uint64_t end = std::min(range.end - at, word_width);
      if (!visit(at, in_bit_order(part.data() + word), mask_between(begin, end))) return;
    }
    if (is_zero) at = 8 * page_end;
  }
}

std::uint64_t BitString::count(BitRange range) const {
  std::uint64_t count = 0;
  each_word_of(range, [&](std::uint64_t, std::uint64_t bits, std::uint64_t mask) {
    count += static_cast<std::uint64_t>(std::popcount(bits & mask));
    return true;
  });
  return count;
}

std::optional<std::uint64_t> BitString::find(bool value, BitRange range) const {
  std::optional<std::uint64_t> found;
  each_word_of(range, [&](std::uint64_t first_bit, std::uint64_t bits, std::uint64_t mask) {
    const std::uint64_t wanted = (value ? bits : ~bits) & mask;
    if (wanted != 0) found = first_bit + static_cast<std::uint64_t>(std::countl_zero(wanted));
    return wanted == 0;
  });
  return found;
}

std::uint64_t BitString::bytes_to_touch(std::uint64_t offset, std::uint64_t byte_count) const {
  const Pages* const pages = layer_.pages();
  return pages == nullptr ? 0 : pages->bytes_to_touch(offset, byte_count);
}

void BitString::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  SEPAL_ASSERT(offset <= capacity() && bytes.size() <= capacity() - offset,
               "bytes are written behind a string");
  if (offset > length()) clear(length(), offset);
  write_part(offset, bytes);
  if (offset + bytes.size() > length()) layer_.set_length(offset + bytes.size());
}

// Writes word by word. The pages get their memory here.
void BitString::write_part(std::uint64_t offset, std::span<const std::byte> bytes) {
  Pages* const pages = layer_.pages();
  for (std::size_t done = 0; done < bytes.size();) {
    const std::uint64_t at = offset + done;
    const std::uint64_t in_word = at % bytes_a_word;
    const auto count = std::min<std::size_t>(bytes_a_word - in_word, bytes.size() - done);
    // Once a page: at the first byte, and at each begin of a page.
    if (pages != nullptr && (done == 0 || at % Pages::page_bytes == 0)) pages->add(at / Pages::page_bytes);
    std::array<std::byte, bytes_a_word> eight{};
    std::uint64_t& word = *word_of_byte(at);
    store_little_endian(eight.data(), load_word(word));
    std::memcpy(eight.data() + in_word, bytes.data() + done, count);
    store_word(word, load_little_endian<std::uint64_t>(eight.data()));
    done += count;
  }
}

// Bytes behind the end need not be zero: a save reads the bits later than the length (storage/snapshot.hpp),
// so a string that is loaded may have bytes of a longer one. Pages without memory are zeros already.
void BitString::clear(std::uint64_t begin, std::uint64_t end) {
  static constexpr std::array<std::byte, Pages::page_bytes> zeros{};
  Pages::each(begin, end - begin, [&](std::uint64_t, std::uint64_t offset, std::size_t count) {
    if (has_memory(offset)) write_part(offset, std::span(zeros).first(count));
  });
}

Result<ValuePtr> BitString::grown(std::uint64_t byte_count, const FilterLimits& limits) const {
  if (byte_count > string_bytes_max) return fail(Errc::too_large, "a string is longer than 512 MB");
  // Twice the capacity, so that a string that grows byte by byte is copied seldom.
  const std::uint64_t wanted = std::max(byte_count, std::min(2 * capacity(), string_bytes_max));
  if (auto memory = layer_.memory()) {
    // Nothing is copied, and no page is touched. write_or_grow() checks the memory of what it writes
    // (bytes_to_touch()), so the limits are not needed here.
    const StringShape shape = shape_of(wanted, length());
    auto made = Filter::string_in(shape.options, shape.layer, std::move(memory));
    if (!made) return made.error();
    return ValuePtr(std::move(*made));
  }
  auto made = empty_string(wanted, limits);
  // Twice as much may be above the limit where just enough is not.
  if (!made && made.error().code == Errc::too_large) made = empty_string(byte_count, limits);
  if (!made) return made;
  const std::string bytes = text();
  BitString(**made).write(0, std::as_bytes(std::span(bytes)));
  return made;
}

Result<ValuePtr> BitString::write_or_grow(std::uint64_t offset, std::span<const std::byte> bytes,
                                          std::uint64_t bytes_max) {
  // The offset is the client's, or a file's, and the sum may wrap.
  const auto end = checked_add(offset, bytes.size());
  if (!end || *end > string_bytes_max) return fail(Errc::too_large, "a string is longer than 512 MB");
  ValuePtr larger;
  if (*end > capacity()) {
    auto made = grown(*end, {.bytes_max = bytes_max, .layers_max = 1});
    // The length was compared with the longest string above. So too_large can only mean that the memory is
    // not there.
    if (!made) return made.error().code == Errc::too_large ? fail(Errc::memory_limit) : made.error();
    larger = std::move(*made);
  }
  BitString target = larger != nullptr ? BitString(*larger) : *this;
  if (target.bytes_to_touch(offset, bytes.size()) > bytes_max) return fail(Errc::memory_limit);
  target.write(offset, bytes);
  return larger;
}

bool BitString::set_recorded(std::span<const Fingerprint> positions) {
  Pages* const pages = layer_.pages();
  for (const Fingerprint& position : positions) {
    const std::uint64_t byte = position.low / 8;
    if (byte >= length()) return false;
    if (pages != nullptr) pages->add(byte / Pages::page_bytes);
    std::uint64_t& word = *word_of_byte(byte);
    store_word(word, load_word(word) | mask_of(position.low));
  }
  return true;
}

}  // namespace sepal::bloom
