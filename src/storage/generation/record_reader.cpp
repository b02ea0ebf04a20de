// A record is believed step by step. A file may lie, and its checksums may be right all the same: BF.IMPORT
// reads any file of its folder. So each step relies only on what the steps before it have shown.
//
//     check_lengths()   the lengths of the fixed head fit into the file and into the limits. Nothing was
//                       allocated or hashed before. No sum wraps from here on.
//     take_head()       the checksum over head, key and image header is right
//     row_of_image()    the head of the image is one of a kind that this build knows, within the limits, and
//                       the body is as long as it says
//     make_value()     the memory for the value is within the limits. Only now it is taken.
//     read_bits()       each chunk is verified before its bits are copied
//
// end_of_record_ is known once take_head() is done. If a later step fails, salvage goes on there.
#include "storage/generation/record_reader.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "storage/disk/damage.hpp"
#include "storage/generation/chunk_loader.hpp"

namespace sepal::storage {
namespace {

constexpr std::string_view chunk_name = "a bitmap";

Error refused(std::uint64_t start, const Error& error, const std::string& what) {
  return fail(error.code, "has a filter at offset " + std::to_string(start) + " that " + what);
}

// Several threads load a filter of at least this many bytes (chunk_loader.hpp says what they gain).
constexpr std::uint64_t shared_bytes_min = std::uint64_t{8} << 20;

std::size_t thread_count(std::size_t count_max) {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, count_max);
}

}  // namespace

Result<std::uint64_t> RecordReader::read_header() {
  const auto header = reader_.take_structure<format::FilterFileHeader>();
  if (!header) return header.error();
  if (header->magic != format::FilterFileHeader::expected_magic)
    return damaged_at(0, "it does not begin as a file of filters does");
  // The version is checked before the checksum, because another version may keep its checksum elsewhere.
  if (header->version != format::version || header->flags != 0)
    return unsupported(header->version, {format::version, format::version});
  const auto fields = format::bytes_of(*header).first(sizeof *header - format::checksum_bytes);
  if (auto right = reader_.accept(header->checksum, Checksum::of(fields), 0, "the header"); !right)
    return right.error();
  if (auto go_on = meter_.add(sizeof *header); !go_on) return go_on.error();
  return std::uint64_t{header->record_count};
}

Result<LoadedValue> RecordReader::read_record() {
  const std::uint64_t start = reader_.offset();
  // That of the record before it must not be taken for the end of this one.
  end_of_record_.reset();
  auto head = read_head();
  if (!head) return head.error();
  if (auto go_on = meter_.add(reader_.offset() - start); !go_on) return go_on.error();
  auto filter = read_value(start, *head);
  // The head is verified here, so its key can be named. Errors of the disk name their file, and need no key.
  if (!filter && (is_damage(filter.error()) || is_over_limit(filter.error())))
    return fail(filter.error().code,
                filter.error().detail + " (" + key_text(head->database, head->key) + ")");
  if (!filter) return filter.error();
  SEPAL_ASSERT(end_of_record_ == reader_.offset(), "a record was read to another place than its end");
  return LoadedValue{.database = head->database,
                     .key = std::move(head->key),
                     .value = std::move(*filter),
                     .journal_position = head->journal_position,
                     .offset = start,
                     .item_count = head->item_count,
                     .deadline = head->deadline};
}

Result<value::ValuePtr> RecordReader::read_value(std::uint64_t start, const Head& head) {
  auto filter = make_value(start, head);
  if (!filter) return filter;
  if (auto filled = read_bits(**filter, head); !filled) return filled.error();
  if (head.row->complete == nullptr) return filter;
  const auto whole = head.row->complete(**filter);
  if (whole) return filter;
  return is_damage(whole.error()) ? damaged_at(start, whole.error().detail)
                                  : refused(start, whole.error(), "the system has no memory for");
}

Result<format::RecordHead> RecordReader::peek_fixed_head() {
  const auto bytes = reader_.peek(sizeof(format::RecordHead));
  if (!bytes) return bytes.error();
  format::RecordHead head;
  std::memcpy(&head, bytes->data(), sizeof head);
  return head;
}

// The tests of read_head() that need no hash. A search may meet thousands of places that have the magic and
// are no head. They end here, and cost no read of a whole head.
Result<bool> RecordReader::sees_head() {
  if (reader_.remaining() < sizeof(format::RecordHead)) return false;
  const auto head = peek_fixed_head();
  if (!head) return head.error();
  const bool numbers = head->magic == format::RecordHead::expected_magic &&
                       head->database < keyspace::database_count && head->bitmap_bytes % 8 == 0 &&
                       static_cast<keyspace::Deadline>(std::uint64_t{head->deadline}) >= 0;
  return numbers && check_lengths(reader_.offset(), *head).ok();
}

Result<RecordReader::Head> RecordReader::read_head() {
  const std::uint64_t start = reader_.offset();
  const auto fixed = peek_fixed_head();
  if (!fixed) return fixed.error();
  if (fixed->magic != format::RecordHead::expected_magic) return damaged_at(start, "no record begins here");
  if (auto fits = check_lengths(start, *fixed); !fits) return fits.error();
  constexpr std::size_t fixed_bytes = sizeof(format::RecordHead);
  const std::size_t key_bytes = fixed->key_bytes;
  Head head;
  const auto bytes = take_head(fixed_bytes + key_bytes + fixed->image_bytes, head.long_head);
  if (!bytes) return bytes.error();
  // check_lengths() has made sure that there is a value, and that it ends within the file.
  end_of_record_ = reader_.offset() + format::stored_bitmap_bytes(fixed->bitmap_bytes).value_or(0);
  if (fixed->database >= keyspace::database_count) return damaged_at(start, "there is no such database");
  const auto deadline = static_cast<keyspace::Deadline>(std::uint64_t{fixed->deadline});
  if (deadline < 0) return damaged_at(start, "a deadline lies before all time");
  const auto image = bytes->subspan(fixed_bytes + key_bytes);
  head.database = fixed->database;
  head.key = std::string(reinterpret_cast<const char*>(bytes->data()) + fixed_bytes, key_bytes);
  head.bitmap_bytes = fixed->bitmap_bytes;
  head.journal_position = fixed->journal_position;
  head.deadline = deadline;
  head.image = image;
  if (auto read = read_image_head(start, image, head); !read) return read.error();
  return head;
}

// The verified bytes of a head. A head that is too long for the buffer is put into `long_head`.
Result<std::span<const std::byte>> RecordReader::take_head(std::uint64_t count, std::string& long_head) {
  constexpr std::string_view what = "a record's head";
  // Nearly all heads are verified where they stand in the buffer, and nothing is copied. Only a filter with
  // very many layers has a longer one.
  if (count <= LoadBuffer::capacity - format::checksum_bytes)
    return reader_.take_sealed(static_cast<std::size_t>(count), what);
  const std::uint64_t start = reader_.offset();
  auto text = reader_.take_text(static_cast<std::size_t>(count));
  if (!text) return text.error();
  long_head = std::move(*text);
  const std::span<const std::byte> bytes = format::bytes_of(std::string_view(long_head));
  if (auto right = reader_.take_checksum(Checksum::of(bytes), start, what); !right) return right.error();
  return bytes;
}

Result<void> RecordReader::check_lengths(std::uint64_t start, const format::RecordHead& head) const {
  // Both lengths have 32 bits, so their sum fits. A checksum stands behind the head.
  const std::uint64_t head_bytes =
      sizeof head + std::uint64_t{head.key_bytes} + std::uint64_t{head.image_bytes} + format::checksum_bytes;
  if (head_bytes > reader_.remaining())
    return damaged_at(start, "a record's key or image header is longer than the file");
  // Compared before anything is hashed: a damaged or false head must not cost more than a head can.
  if (head.key_bytes > keyspace::key_bytes_max) return damaged_at(start, "a key is longer than a key may be");
  if (head_bytes > head_bytes_max_) return damaged_at(start, "an image header is longer than one may be");
  const auto stored = format::stored_bitmap_bytes(head.bitmap_bytes);
  if (!stored || *stored > reader_.remaining() - head_bytes)
    return damaged_at(start, "a record's bitmap is longer than the file");
  return {};
}

Result<void> RecordReader::read_image_head(std::uint64_t start, std::span<const std::byte> bytes,
                                           Head& into) const {
  const value::KindRow* const row = value::row_of_image(bytes);
  if (row == nullptr) return damaged_at(start, "an image header contradicts itself");
  const auto shape = row->read_head(bytes, limits_.layers_max);
  // A value with more layers than the setting allows is not called damaged.
  if (!shape && shape.error().code == Errc::layer_limit)
    return fail(Errc::layer_limit, "has a filter at offset " + std::to_string(start) + " with more than " +
                                       std::to_string(limits_.layers_max) +
                                       " layers, the limit; raise layers_max");
  if (!shape && shape.error().code == Errc::unsupported_version)
    return refused(start, shape.error(), "a newer version of Sepal wrote");
  if (!shape) return damaged_at(start, "an image header contradicts itself");
  if (bytes.size() != shape->head_bytes) return damaged_at(start, "something stands behind an image header");
  // check_lengths() has made sure that the file holds these bytes. So a lie about a size allocates nothing.
  if (into.bitmap_bytes != shape->body_bytes)
    return damaged_at(start, "a bitmap is not as long as its layers");
  into.row = row;
  into.item_count = shape->item_count;
  return {};
}

Result<value::ValuePtr> RecordReader::make_value(std::uint64_t start, const Head& head) const {
  if (head.bitmap_bytes > limits_.bytes_max)
    return fail(Errc::too_large, "has a filter at offset " + std::to_string(start) + " of " +
                                     std::to_string(head.bitmap_bytes) + " bytes, more than the limit of " +
                                     std::to_string(limits_.bytes_max) + "; raise maxmemory");
  auto filter = head.row->make(head.image, limits_, value::FilledBy::load);
  if (filter) return filter;
  // The error is turned into what the operator can do about it: a damaged file, too little memory, or a
  // limit.
  if (filter.error().code == Errc::out_of_range) return damaged_at(start, "a filter's layers contradict it");
  if (filter.error().code == Errc::out_of_memory)
    return refused(start, filter.error(), "the system has no memory for");
  return refused(start, filter.error(), "exceeds the memory limit; raise maxmemory");
}

Result<void> RecordReader::read_bits(value::Value& value, const Head& head) {
  if (head.bitmap_bytes >= shared_bytes_min && thread_count(thread_count_max_) > 1)
    return read_bits_together(value, head);
  for (std::uint64_t done = 0; done < head.bitmap_bytes;) {
    const std::uint64_t left = head.bitmap_bytes - done;
    const auto count = left < format::chunk_bytes ? static_cast<std::size_t>(left) : format::chunk_bytes;
    const auto chunk = reader_.take_sealed(count, chunk_name);
    if (!chunk) return chunk.error();
    if (fills(*head.row)) head.row->fill_body(value, done, *chunk);
    if (auto go_on = meter_.add(count + format::checksum_bytes); !go_on) return go_on;
    done += count;
  }
  return {};
}

Result<void> RecordReader::read_bits_together(value::Value& value, const Head& head) {
  ChunkLoader loader(reader_.file(), {.offset = reader_.offset(), .bitmap_bytes = head.bitmap_bytes},
                     [&](std::uint64_t offset, std::span<const std::byte> bytes) {
                       if (fills(*head.row)) head.row->fill_body(value, offset, bytes);
                     });
  const auto checksums = loader.run(thread_count(thread_count_max_), meter_);
  if (!checksums) return checksums.error();
  // The threads have read the file at their own places, and have ended in any order. The seal needs the
  // checksums in the order of the file, so they are compared here, afterwards. This also makes the first
  // damaged chunk the one that the error names. The reader then stands behind the bitmaps, as if it had read
  // them.
  for (std::uint64_t left = head.bitmap_bytes; const ChunkChecksums& each : *checksums) {
    const std::uint64_t count = std::min<std::uint64_t>(left, format::chunk_bytes);
    if (auto right = reader_.accept(each.stored, each.computed, reader_.offset(), chunk_name); !right)
      return right;
    reader_.skip(count + format::checksum_bytes);
    left -= count;
  }
  return {};
}

}  // namespace sepal::storage
