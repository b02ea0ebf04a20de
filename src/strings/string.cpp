// A bit is set by one atomic step on its word, so no lock is needed, and no set is lost. All else that writes
// has the gate closed; it stores whole words all the same, because a saver may read them at any time.
//
// The pages of a long string have memory or have none (pages.hpp), and only write(), a load and a replay give
// them memory. None of these runs beside a request, so the account of memory is exact. A read of a page
// without memory answers zeros and does not touch it. A set of a bit there is refused, and comes again as a
// write().
//
// A set is recorded as an added entry whose low half is the position. Sets of any order give the same bits;
// other changes do not commute, and are recorded as bytes in the order of the journal (decisions/0027).
#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/strings/string.hpp>
#include <sepal/value/heap.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "strings/string_memory.hpp"

namespace sepal::strings {

static_assert(sizeof(String) == 32, "millions of strings may be short");
static_assert(string_bytes_max <= std::numeric_limits<std::uint32_t>::max(), "the header has 32 bits for it");

namespace {

constexpr std::uint64_t bytes_a_word = sizeof(std::uint64_t);

// A string of at least so many bytes is long.
constexpr std::uint64_t sparse_bytes_min = 256 << 10;

std::uint64_t rounded_to_words(std::uint64_t bytes) {
  // An empty string has one word, too: so has its image.
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
// Whether the bit was set before.
bool set_in(std::uint64_t& word, std::uint64_t mask) {
  return (std::atomic_ref<std::uint64_t>(word).fetch_or(mask, std::memory_order_relaxed) & mask) != 0;
}

// The memory of a string, without the pages of a long one.
std::uint64_t footprint(std::uint64_t capacity) {
  return capacity < sparse_bytes_min ? value::heap_footprint(sizeof(String) + capacity)
                                     : value::heap_footprint(sizeof(String)) + StringMemory::footprint();
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

Error too_long() {
  return fail(Errc::too_large, "a string is longer than 512 MB");
}

Error refused_memory() {
  return fail(Errc::out_of_memory, "the system refused the memory of a string");
}

}  // namespace

Result<StringPtr> String::with_room(std::uint64_t byte_count, const value::Limits& limits) {
  if (byte_count > string_bytes_max) return too_long();
  return of_shape(rounded_to_words(byte_count), 0, limits);
}

Result<StringPtr> String::of(std::string_view bytes, const value::Limits& limits) {
  auto made = with_room(bytes.size(), limits);
  if (made) (*made)->write(0, std::as_bytes(std::span(bytes)));
  return made;
}

Result<StringPtr> String::of_shape(std::uint64_t capacity, std::uint64_t length,
                                   const value::Limits& limits) {
  SEPAL_ASSERT(
      capacity % bytes_a_word == 0 && capacity > 0 && capacity <= string_bytes_max && length <= capacity,
      "a string is made of a shape that no string has");
  if (footprint(capacity) > limits.bytes_max)
    return fail(Errc::too_large, "the string would exceed the memory it may take");
  if (capacity < sparse_bytes_min) return allocate(capacity, length, nullptr);
  if (!StringMemory::has_room())
    return fail(Errc::mapping_limit, "sparse strings have as many mappings of the process as they may");
  auto memory = StringMemory::reserve(capacity);
  return memory == nullptr ? refused_memory() : allocate(capacity, length, std::move(memory));
}

Result<StringPtr> String::allocate(std::uint64_t capacity, std::uint64_t length, StringMemoryPtr memory) {
  void* const place = value::heap_allocate(sizeof(String) + (memory == nullptr ? capacity : 0));
  if (place == nullptr) return refused_memory();
  return StringPtr(::new (place) String(capacity, length, std::move(memory)));
}

String::String(std::uint64_t capacity, std::uint64_t length, StringMemoryPtr memory)
    : Value(own_kind),
      length_(static_cast<std::uint32_t>(length)),
      capacity_(static_cast<std::uint32_t>(capacity)),
      words_(memory == nullptr ? reinterpret_cast<std::uint64_t*>(this + 1) : memory->words()),
      memory_(std::move(memory)) {}

String::~String() = default;

void String::operator delete(void* allocated) {
  value::heap_release(allocated);
}

std::uint64_t String::byte_count() const {
  return footprint(capacity_) + (memory_ == nullptr ? 0 : memory_->pages().byte_count());
}

std::uint64_t& String::word_of_byte(std::uint64_t byte) const {
  return words_[byte / bytes_a_word];
}

bool String::has_memory(std::uint64_t byte) const {
  return memory_ == nullptr || memory_->pages().has(byte / Pages::part_bytes);
}

bool String::bit(std::uint64_t position) const {
  const std::uint64_t byte = position / 8;
  return byte < length() && has_memory(byte) && (load_word(word_of_byte(byte)) & mask_of(position)) != 0;
}

void String::prefetch(std::uint64_t position) const {
  const std::uint64_t byte = position / 8;
  if (byte < length() && has_memory(byte)) __builtin_prefetch(&word_of_byte(byte));
}

std::optional<bool> String::try_set(std::uint64_t position, value::AddRecorder* recorder) {
  const std::uint64_t byte = position / 8;
  if (byte >= length() || !has_memory(byte)) return std::nullopt;
  const std::uint64_t mask = mask_of(position);
  std::uint64_t& word = word_of_byte(byte);
  if ((load_word(word) & mask) != 0) return true;
  if (recorder != nullptr && !recorder->begin()) return std::nullopt;
  // The bit may have been set since the look at the word, so the answer is that of the step that sets it.
  const bool was_set = set_in(word, mask);
  const Fingerprint told{.low = position, .high = 0};
  if (recorder != nullptr) recorder->end({&told, was_set ? std::size_t{0} : 1});
  return was_set;
}

bool String::try_set(std::span<const std::uint64_t> positions, std::span<bool> were_set,
                     value::AddRecorder* recorder) {
  SEPAL_ASSERT(positions.size() == were_set.size() && positions.size() <= bits_together_max,
               "there is an answer for each bit, and a record has room for all");
  // All positions are checked before the first bit is set, because a refusal leaves nothing done. The gate is
  // shared: no page loses its memory, and the string keeps its length, until the bits are set.
  const std::uint64_t byte_count = length();
  for (const std::uint64_t position : positions) {
    if (position / 8 >= byte_count || !has_memory(position / 8)) return false;
    __builtin_prefetch(&word_of_byte(position / 8), 1);
  }
  std::array<Fingerprint, bits_together_max> clear;
  std::size_t clear_count = 0;
  if (recorder != nullptr && !recorder->begin()) return false;
  for (std::size_t at = 0; at < positions.size(); ++at) {
    const std::uint64_t position = positions[at];
    const std::uint64_t mask = mask_of(position);
    std::uint64_t& word = word_of_byte(position / 8);
    were_set[at] = (load_word(word) & mask) != 0 || set_in(word, mask);
    if (!were_set[at]) clear[clear_count++] = {.low = position, .high = 0};
  }
  if (recorder != nullptr) recorder->end(std::span(clear).first(clear_count));
  return true;
}

void String::copy_words(std::uint64_t offset, std::span<std::byte> to) const {
  std::uint64_t* word = &word_of_byte(offset);
  for (std::size_t at = 0; at < to.size(); at += bytes_a_word)
    store_little_endian(to.data() + at, load_word(*word++));
}

void String::read_words(std::uint64_t offset, std::span<std::byte> to) const {
  SEPAL_ASSERT(offset % bytes_a_word == 0 && to.size() % bytes_a_word == 0, "whole words are read");
  SEPAL_ASSERT(offset <= capacity_ && to.size() <= capacity_ - offset, "bytes are read behind a string");
  if (memory_ == nullptr) return copy_words(offset, to);
  // A page that was never touched stays untouched: to read it would cost page tables, and it holds zeros.
  Pages::each(offset, to.size(), [&](std::uint64_t index, std::uint64_t at, std::size_t count) {
    const auto part = to.subspan(static_cast<std::size_t>(at - offset), count);
    if (memory_->pages().has(index)) return copy_words(at, part);
    std::ranges::fill(part, std::byte{0});
  });
}

void String::read(std::uint64_t offset, std::span<std::byte> to) const {
  SEPAL_ASSERT(offset <= capacity_ && to.size() <= capacity_ - offset, "bytes are read behind a string");
  // Bytes are copied by whole words, and `offset` may be within one. So the bytes go through a buffer whose
  // first word begins at or before them.
  std::array<std::byte, Pages::part_bytes> words;
  while (!to.empty()) {
    const std::uint64_t begin = offset / bytes_a_word * bytes_a_word;
    const std::uint64_t skipped = offset - begin;
    const std::size_t count = std::min<std::size_t>(words.size() - skipped, to.size());
    read_words(begin, std::span(words).first(rounded_to_words(skipped + count)));
    std::memcpy(to.data(), words.data() + skipped, count);
    to = to.subspan(count);
    offset += count;
  }
}

std::string String::text(std::uint64_t offset, std::uint64_t byte_count) const {
  const std::uint64_t end = length();
  if (offset >= end) return {};
  std::string bytes(static_cast<std::size_t>(std::min(byte_count, end - offset)), '\0');
  read(offset, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// Calls visit(first_bit, bits, mask) for the words of a range, until it returns false. All words of a part
// that was never touched are zero, so only the first of them is visited.
template <class Visit>
void String::each_word_of(const BitRange& range, const Visit& visit) const {
  constexpr std::uint64_t word_width = 8 * bytes_a_word;
  std::array<std::byte, Pages::part_bytes> bytes;
  for (std::uint64_t at = range.begin / word_width * word_width; at < range.end;) {
    const std::uint64_t first_byte = at / 8;
    const std::uint64_t part_end = (first_byte / Pages::part_bytes + 1) * Pages::part_bytes;
    const bool is_zero = !has_memory(first_byte);
    // The first word is visited even in a part of zeros, so that find(false) can end in it.
    const std::uint64_t byte_count = is_zero ? bytes_a_word : std::min(part_end, capacity()) - first_byte;
    const auto part = std::span(bytes).first(static_cast<std::size_t>(byte_count));
    read_words(first_byte, part);
    for (std::size_t word = 0; word < part.size() && at < range.end; word += bytes_a_word, at += word_width) {
      const std::uint64_t begin = range.begin > at ? range.begin - at : 0;
      const std::uint64_t end = std::min(range.end - at, word_width);
      if (!visit(at, in_bit_order(part.data() + word), mask_between(begin, end))) return;
    }
    if (is_zero) at = 8 * part_end;
  }
}

std::uint64_t String::count(BitRange range) const {
  std::uint64_t count = 0;
  each_word_of(range, [&](std::uint64_t, std::uint64_t bits, std::uint64_t mask) {
    count += static_cast<std::uint64_t>(std::popcount(bits & mask));
    return true;
  });
  return count;
}

std::optional<std::uint64_t> String::find(bool value, BitRange range) const {
  std::optional<std::uint64_t> found;
  each_word_of(range, [&](std::uint64_t first_bit, std::uint64_t bits, std::uint64_t mask) {
    const std::uint64_t wanted = (value ? bits : ~bits) & mask;
    if (wanted != 0) found = first_bit + static_cast<std::uint64_t>(std::countl_zero(wanted));
    return wanted == 0;
  });
  return found;
}

std::uint64_t String::bytes_to_touch(std::uint64_t offset, std::uint64_t byte_count) const {
  return memory_ == nullptr ? 0 : memory_->pages().bytes_to_touch(offset, byte_count);
}

void String::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  SEPAL_ASSERT(offset <= capacity_ && bytes.size() <= capacity_ - offset,
               "bytes are written behind a string");
  if (offset > length()) clear(length(), offset);
  write_part(offset, bytes);
  const std::uint64_t end = offset + bytes.size();
  if (end > length()) length_.store(static_cast<std::uint32_t>(end), std::memory_order_relaxed);
}

// Writes word by word. The pages get their memory here.
void String::write_part(std::uint64_t offset, std::span<const std::byte> bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const std::uint64_t at = offset + done;
    const std::uint64_t in_word = at % bytes_a_word;
    const auto count = std::min<std::size_t>(bytes_a_word - in_word, bytes.size() - done);
    // Once a part: at the first byte, and at each begin of a part.
    if (memory_ != nullptr && (done == 0 || at % Pages::part_bytes == 0))
      memory_->pages().add(at / Pages::part_bytes);
    std::array<std::byte, bytes_a_word> eight{};
    std::uint64_t& word = word_of_byte(at);
    store_little_endian(eight.data(), load_word(word));
    std::memcpy(eight.data() + in_word, bytes.data() + done, count);
    store_word(word, load_little_endian<std::uint64_t>(eight.data()));
    done += count;
  }
}

// Bytes behind the end need not be zero: a save reads the bytes later than the length, so a string that is
// loaded may have bytes of a longer one. Pages without memory are zeros already.
void String::clear(std::uint64_t begin, std::uint64_t end) {
  static constexpr std::array<std::byte, Pages::part_bytes> zeros{};
  Pages::each(begin, end - begin, [&](std::uint64_t, std::uint64_t offset, std::size_t count) {
    if (has_memory(offset)) write_part(offset, std::span(zeros).first(count));
  });
}

Result<StringPtr> String::grown(std::uint64_t byte_count, const value::Limits& limits) const {
  if (byte_count > string_bytes_max) return too_long();
  // Twice the capacity, so that a string that grows byte by byte is copied seldom.
  const std::uint64_t wanted = std::max(byte_count, std::min(2 * capacity(), string_bytes_max));
  if (memory_ != nullptr) {
    // Nothing is copied, and no page is touched. write_or_grow() checks the memory of what it writes
    // (bytes_to_touch()), so the limits are not needed here.
    const std::uint64_t larger = rounded_to_words(wanted);
    return memory_->grow(larger) ? allocate(larger, length(), memory_) : refused_memory();
  }
  auto made = with_room(wanted, limits);
  // Twice as much may be above the limit where just enough is not.
  if (!made && made.error().code == Errc::too_large) made = with_room(byte_count, limits);
  if (!made) return made;
  const std::string bytes = text();
  (*made)->write(0, std::as_bytes(std::span(bytes)));
  return made;
}

Result<StringPtr> String::write_or_grow(std::uint64_t offset, std::span<const std::byte> bytes,
                                        std::uint64_t bytes_max) {
  // The offset is the client's, or a file's, and the sum may wrap.
  const auto end = checked_add(offset, bytes.size());
  if (!end || *end > string_bytes_max) return too_long();
  StringPtr larger;
  if (*end > capacity()) {
    auto made = grown(*end, {.bytes_max = bytes_max, .layers_max = 1});
    // The length was compared with the longest string above. So too_large can only mean that the memory is
    // not there.
    if (!made) return made.error().code == Errc::too_large ? fail(Errc::memory_limit) : made.error();
    larger = std::move(*made);
  }
  String& target = larger != nullptr ? *larger : *this;
  if (target.bytes_to_touch(offset, bytes.size()) > bytes_max) return fail(Errc::memory_limit);
  target.write(offset, bytes);
  return larger;
}

bool String::set_recorded(std::span<const Fingerprint> positions) {
  for (const Fingerprint& position : positions) {
    const std::uint64_t byte = position.low / 8;
    if (byte >= length()) return false;
    if (memory_ != nullptr) memory_->pages().add(byte / Pages::part_bytes);
    std::uint64_t& word = word_of_byte(byte);
    store_word(word, load_word(word) | mask_of(position.low));
  }
  return true;
}

void String::fill(std::uint64_t offset, std::span<const std::byte> from) {
  SEPAL_ASSERT(offset % bytes_a_word == 0 && from.size() % bytes_a_word == 0, "whole words are filled");
  SEPAL_ASSERT(offset <= capacity_ && from.size() <= capacity_ - offset, "bytes are filled behind a string");
  // No other thread knows the string yet, so this is the one place where words need no atomic.
  const auto fill_words = [this](std::uint64_t to, std::span<const std::byte> words) {
    for (std::size_t at = 0; at < words.size(); at += bytes_a_word)
      word_of_byte(to + at) = load_little_endian<std::uint64_t>(words.data() + at);
  };
  if (memory_ == nullptr) return fill_words(offset, from);
  Pages::each(offset, from.size(), [&](std::uint64_t index, std::uint64_t at, std::size_t count) {
    const auto part = from.subspan(static_cast<std::size_t>(at - offset), count);
    // Zeros for an untouched page need no memory. So a sparse string stays sparse when it is loaded.
    if (!memory_->pages().has(index) && value::all_zero(part)) return;
    memory_->pages().add(index);
    fill_words(at, part);
  });
}

}  // namespace sepal::strings
