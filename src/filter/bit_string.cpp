// The bytes stand in the words of the layer in little-endian order. A bit is set by one atomic step on its
// word, so no lock is needed, and no set is lost. All else that writes has the gate closed; it stores whole
// words all the same, because a saver may read them at any time.
#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/filter/bit_string.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "layer.hpp"

namespace sepal::filter {
namespace {

constexpr std::uint64_t bytes_a_word = sizeof(std::uint64_t);

// A rate that is one, and has no meaning.
constexpr double no_rate = 0.5;

std::uint64_t rounded_to_words(std::uint64_t bytes) {
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

Result<FilterPtr> empty_string(std::uint64_t byte_count, const FilterLimits& limits) {
  if (byte_count > string_bytes_max) return fail(Errc::too_large, "a string is longer than 512 MB");
  const std::uint64_t capacity = rounded_to_words(byte_count);
  const FilterOptions options{
      .error_rate = no_rate, .capacity = capacity, .expansion = 0, .seed = 0, .hash = ItemHash::none};
  const Filter::LayerState layer{.plan = {.capacity = capacity,
                                          .error_rate = no_rate,
                                          .block_count = capacity / bytes_a_word,
                                          .block_bits = 8 * bytes_a_word,
                                          .probe_count = 0,
                                          .layout = Layout::bytes},
                                 .item_count = 0};
  return Filter::restore(options, {&layer, 1}, limits, FilledBy::requests);
}

// The bits of eight bytes in the order of their positions: the first is the highest.
std::uint64_t in_bit_order(const std::byte* eight_bytes) {
  std::uint64_t bits = 0;
  for (std::size_t at = 0; at < bytes_a_word; ++at)
    bits = bits << 8 | std::to_integer<std::uint64_t>(eight_bytes[at]);
  return bits;
}

// The bits [begin, end) of a word whose first bit is the highest.
std::uint64_t mask_between(std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t from_begin = ~std::uint64_t{0} >> begin;
  return end == 64 ? from_begin : from_begin & ~(~std::uint64_t{0} >> end);
}

}  // namespace

Result<FilterPtr> BitString::with_room(std::uint64_t byte_count, const FilterLimits& limits) {
  return empty_string(byte_count, limits);
}

Result<FilterPtr> BitString::of(std::string_view bytes, const FilterLimits& limits) {
  auto made = empty_string(bytes.size(), limits);
  if (made) BitString(**made).write(0, std::as_bytes(std::span(bytes)));
  return made;
}

BitString::BitString(const Filter& string) : layer_(string.stack()[0]) {
  SEPAL_ASSERT(string.is_string(), "a filter is taken for a string");
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

std::optional<bool> BitString::try_set(std::uint64_t position, AddRecorder* recorder) {
  const std::uint64_t byte = position / 8;
  if (byte >= length() || !has_memory(byte)) return std::nullopt;
  const std::uint64_t mask = mask_of(position);
  std::uint64_t& word = *word_of_byte(byte);
  if ((load_word(word) & mask) != 0) return true;
  if (recorder != nullptr) recorder->begin();
  const bool was_set =
      (std::atomic_ref<std::uint64_t>(word).fetch_or(mask, std::memory_order_relaxed) & mask) != 0;
  const Fingerprint told{.low = position, .high = 0};
  if (recorder != nullptr) recorder->end({&told, was_set ? std::size_t{0} : 1});
  return was_set;
}

void BitString::read(std::uint64_t offset, std::span<std::byte> to) const {
  SEPAL_ASSERT(offset <= capacity() && to.size() <= capacity() - offset, "bytes are read behind a string");
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

// Calls visit(first_bit, bits, mask) for the words of a range, until it returns false. Words that have no
// memory are visited as zeros.
template <class Visit>
static void each_word_of(const BitString& string, const BitRange& range, const Visit& visit) {
  constexpr std::uint64_t word_width = 8 * bytes_a_word;
  std::array<std::byte, Pages::page_bytes> bytes;
  for (std::uint64_t at = range.begin / word_width * word_width; at < range.end;) {
    const std::uint64_t first_byte = at / 8;
    const std::uint64_t left = string.capacity() - first_byte;
    const auto part = std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), left));
    string.read(first_byte, part);
    for (std::size_t word = 0; word < part.size() && at < range.end; word += bytes_a_word, at += word_width) {
      const std::uint64_t begin = range.begin > at ? range.begin - at : 0;
      const std::uint64_t end = std::min(range.end - at, word_width);
      if (!visit(at, in_bit_order(part.data() + word), mask_between(begin, end))) return;
    }
  }
}

std::uint64_t BitString::count(BitRange range) const {
  std::uint64_t count = 0;
  each_word_of(*this, range, [&](std::uint64_t, std::uint64_t bits, std::uint64_t mask) {
    count += static_cast<std::uint64_t>(std::popcount(bits & mask));
    return true;
  });
  return count;
}

std::optional<std::uint64_t> BitString::find(bool value, BitRange range) const {
  std::optional<std::uint64_t> found;
  each_word_of(*this, range, [&](std::uint64_t first_bit, std::uint64_t bits, std::uint64_t mask) {
    const std::uint64_t wanted = (value ? bits : ~bits) & mask;
    if (wanted != 0) found = first_bit + static_cast<std::uint64_t>(std::countl_zero(wanted));
    return wanted == 0;
  });
  return found;
}

std::uint64_t BitString::bytes_to_touch(std::uint64_t offset, std::uint64_t byte_count) const {
  const Pages* const pages = layer_.pages();
  if (pages == nullptr) return 0;
  std::uint64_t bytes = 0;
  Pages::each(offset, byte_count, [&](std::uint64_t page, std::uint64_t, std::size_t) {
    if (!pages->has(page)) bytes += Pages::page_bytes;
  });
  return bytes;
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
    if (pages != nullptr && (done == 0 || at % Pages::page_bytes == 0)) pages->add(at / Pages::page_bytes);
    std::array<std::byte, bytes_a_word> eight{};
    std::uint64_t& word = *word_of_byte(at);
    store_little_endian(eight.data(), load_word(word));
    std::memcpy(eight.data() + in_word, bytes.data() + done, count);
    store_word(word, load_little_endian<std::uint64_t>(eight.data()));
    done += count;
  }
}

// Behind the end there may be bytes that a save has read too late (storage/snapshot.hpp).
void BitString::clear(std::uint64_t begin, std::uint64_t end) {
  static constexpr std::array<std::byte, Pages::page_bytes> zeros{};
  Pages::each(begin, end - begin, [&](std::uint64_t, std::uint64_t offset, std::size_t count) {
    if (has_memory(offset)) write_part(offset, std::span(zeros).first(count));
  });
}

Result<FilterPtr> BitString::grown(std::uint64_t byte_count, const FilterLimits& limits) const {
  const std::uint64_t twice = std::min(2 * capacity(), string_bytes_max);
  auto made = empty_string(std::max(byte_count, twice), limits);
  if (!made && made.error().code == Errc::too_large) made = empty_string(byte_count, limits);
  if (!made) return made;
  BitString copy(**made);
  std::array<std::byte, Pages::page_bytes> page;
  Pages::each(0, length(), [&](std::uint64_t, std::uint64_t offset, std::size_t count) {
    if (!has_memory(offset)) return;
    const auto part = std::span(page).first(count);
    read(offset, part);
    copy.write_part(offset, part);
  });
  copy.layer_.set_length(length());
  return made;
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

}  // namespace sepal::filter
