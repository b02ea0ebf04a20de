#include "tools/redis/rdb_filters.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/strings/kind.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <utility>

#include "tools/build/plan.hpp"

namespace sepal::tools {

void RdbFilters::Bits::begin(std::span<const bloom::RdbBits> parts, rdb::Bytes& bytes) {
  parts_ = parts;
  bytes_ = &bytes;
  left_ = 0;
}

Result<void> RdbFilters::Bits::read(std::span<std::byte> into) {
  SEPAL_ASSERT(bytes_ != nullptr, "bits are read of no filter");
  while (!into.empty()) {
    if (left_ == 0) {
      if (auto opened = open_string(); !opened) return opened;
      continue;
    }
    const auto part = into.first(static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), left_)));
    if (zeros_) {
      std::ranges::fill(part, std::byte{0});
    } else if (auto done = reader_->read(part); !done) {
      return done;
    }
    left_ -= part.size();
    into = into.subspan(part.size());
  }
  return {};
}

// A string of the file may be empty: it stands for zeros, or for no bytes at all. In the latter case left_
// stays 0, and read() opens the next string.
Result<void> RdbFilters::Bits::open_string() {
  SEPAL_ASSERT(!parts_.empty(), "more bits are read than the value has");
  const bloom::RdbBits& bits = parts_.front();
  parts_ = parts_.subspan(1);
  left_ = bits.byte_count;
  zeros_ = bits.string.is_empty();
  if (bits.string.kind == rdb::String::Kind::number) return open_number(bits);
  reader_.emplace(bits.string, *bytes_);
  return {};
}

Result<void> RdbFilters::Bits::open_number(const bloom::RdbBits& bits) {
  auto digits = rdb::digits_of(bits.string, *bytes_);
  if (!digits) return digits.error();
  digits_ = std::move(*digits);
  // take() has counted them, but the file may have changed since.
  if (digits_.size() != bits.byte_count) return fail(Errc::damaged, "the file changes while it is read");
  digit_bytes_.emplace(std::as_bytes(std::span(digits_)));
  reader_.emplace(rdb::String{.byte_count = digits_.size(), .unpacked_bytes = digits_.size()}, *digit_bytes_);
  return {};
}

RdbFilters::RdbFilters(storage::File& file, std::uint64_t file_bytes, std::string name, WallTime now,
                       Taken taken, Progress& progress)
    : file_(file),
      file_bytes_(file_bytes),
      name_(std::move(name)),
      now_(now),
      taken_(taken),
      progress_(progress) {}

Result<void> RdbFilters::rewind() {
  // A checksum needs every byte, and without it the bytes of long strings are not read but skipped. So only
  // the first time through pays for it.
  rdb_.emplace(file_, file_bytes_, name_, checked_ ? RdbFile::Check::none : RdbFile::Check::checksum);
  keys_ = {};
  progress_.begin(checked_ ? "writing" : "checking", file_bytes_);
  return {};
}

Result<const storage::StreamedFilter*> RdbFilters::next() {
  SEPAL_ASSERT(rdb_.has_value(), "the filters of a file are read before its beginning");
  for (;;) {
    auto key = rdb_->next();
    if (!key) return key.error();
    progress_.update(rdb_->offset(), 0);
    if (!*key) break;
    // key_ and bits_ are members because the answer is made of views of them.
    key_ = std::move(*key);
    const auto taken = take(*key_);
    if (!taken) return taken.error();
    if (!*taken) continue;
    SEPAL_ASSERT(key_->key.has_value(), "a key is taken that has no name");
    filter_ = {.database = static_cast<std::uint32_t>(key_->database),
               .key = *key_->key,
               .deadline = key_->deadline,
               .bits = &bits_};
    if (key_->kind == RdbKey::Kind::string) {
      describe_string();
    } else {
      describe_filter(*key_->filter);
    }
    filter_.head = head_;
    return static_cast<const storage::StreamedFilter*>(&filter_);
  }
  checked_ = true;
  note_end();
  progress_.end();
  return static_cast<const storage::StreamedFilter*>(nullptr);
}

std::string RdbFilters::reason_against(const RdbKey& key) const {
  if (!key.refusal.empty()) return key.refusal;
  if (key.kind == RdbKey::Kind::cuckoo && taken_ == Taken::bloom_filters)
    return "a filter file holds a Bloom filter, and this is a cuckoo filter";
  if (key.kind == RdbKey::Kind::window && taken_ == Taken::bloom_filters)
    return "a filter file holds a Bloom filter without a window, and this one has a window";
  if (!key.key) return "the key is longer than " + std::to_string(keyspace::key_bytes_max) + " bytes";
  if (key.database >= keyspace::database_count)
    return "the database is above " + std::to_string(keyspace::database_count - 1);
  return "";
}

// Whether the key is one of the stream's.
Result<bool> RdbFilters::take(RdbKey& key) {
  // The order decides what the report says: a hash that is past its deadline counts as past, and a filter in
  // a database that sepald lacks as refused.
  if (keyspace::is_past(key.deadline, now_)) {
    ++keys_.others["past their deadline"];
    return false;
  }
  const bool is_string = key.kind == RdbKey::Kind::string;
  const std::string name = key.key.value_or("(too long to be shown)");
  if (key.kind == RdbKey::Kind::other || (is_string && taken_ == Taken::bloom_filters)) {
    keys_.leave(key.type, key.database, name);
    return false;
  }
  auto looked = is_string ? take_string(key) : check_numbers(key);
  if (looked && reason_against(key).empty() && !is_string) looked = check_body(key);
  if (!looked) return looked.error();
  if (const std::string reason = reason_against(key); !reason.empty()) {
    keys_.refuse(reason, key.database, name);
    return false;
  }
  if (is_string) {
    ++keys_.strings;
    keys_.string_bytes += string_parts_[0].byte_count;
    return true;
  }
  note_filter(key);
  return true;
}

void RdbFilters::note_filter(const RdbKey& key) {
  ++keys_.filters;
  keys_.bytes += key.filter->body_bytes;
  keys_.items += key.filter->item_count;
  keys_.layers_most = std::max(keys_.layers_most, key.filter->layer_count);
  const bool loses_deadline = taken_ == Taken::bloom_filters && key.deadline != keyspace::no_deadline;
  if (loses_deadline) ++keys_.others["deadlines: a filter file has none"];
}

// What no key is, or what a key has beside its value.
void RdbFilters::note_end() {
  const RdbBeside& beside = rdb_->beside();
  if (beside.function_libraries != 0) keys_.others["libraries of functions"] = beside.function_libraries;
  if (beside.metadata != 0) keys_.others["metadata that modules put on keys"] = beside.metadata;
}

// Finds the bytes of the key's string, or the reason why it is refused.
Result<void> RdbFilters::take_string(RdbKey& key) {
  std::uint64_t byte_count = key.string.unpacked_bytes;
  if (key.string.kind == rdb::String::Kind::number) {
    const auto digits = rdb::digits_of(key.string, rdb_->bytes());
    if (!digits) return digits.error();
    byte_count = digits->size();
  }
  if (byte_count > strings::string_bytes_max) key.refusal = "the string is longer than 512 MB";
  // Zeros come behind the string, up to a whole word.
  string_parts_ = {{{.string = key.string, .byte_count = byte_count},
                    {.string = {}, .byte_count = strings::image_body_bytes(byte_count) - byte_count}}};
  return {};
}

// Redis writes the slots of a small layer as a number if they look like one. Only its digits tell how many
// slots there are.
Result<void> RdbFilters::check_numbers(RdbKey& key) {
  if (!key.filter) return {};
  for (const bloom::RdbBits& bits : key.filter->body) {
    if (bits.string.kind != rdb::String::Kind::number) continue;
    const auto digits = rdb::digits_of(bits.string, rdb_->bytes());
    if (!digits) return digits.error();
    if (digits->size() != bits.byte_count)
      key.refusal = "a layer of the filter has another length than it says";
  }
  return {};
}

// A start refuses a whole data directory for one filter that contradicts itself. So such a filter is made
// here once, and left out. A filter with a window takes any bits.
Result<void> RdbFilters::check_body(RdbKey& key) {
  if (key.kind == RdbKey::Kind::window) return {};
  const std::uint64_t behind = rdb_->offset();
  if (!checked_) {
    auto tried = try_body(*key.filter);
    if (!tried && tried.error().code == Errc::io) return tried;
    if (!tried)
      wrong_bodies_[behind] = tried.error().code == Errc::out_of_memory
                                  ? "the system has no memory to check it"
                                  : "it contradicts itself: " + tried.error().detail;
  }
  if (const auto wrong = wrong_bodies_.find(behind); wrong != wrong_bodies_.end())
    key.refusal = wrong->second;
  return {};
}

Result<void> RdbFilters::try_body(const RdbImage& image) {
  constexpr std::uint64_t piece_bytes = 256 << 10;
  const value::KindRow* const row = value::row_of_image(image.head);
  SEPAL_ASSERT(row != nullptr, "a filter is taken that is of no kind");
  if (row->complete == nullptr) return {};
  const auto made = row->make(image.head, moved_limits, value::FilledBy::load);
  if (!made) return made.error();
  std::vector<std::byte> piece;
  std::uint64_t offset = 0;
  for (const bloom::RdbBits& part : image.body) {
    const std::uint64_t end = offset + part.byte_count;
    // The value begins as zeros. Their number is only claimed, so they must take no memory.
    if (part.string.is_empty()) offset = end;
    bits_.begin({&part, 1}, rdb_->bytes());
    while (offset < end) {
      piece.resize(static_cast<std::size_t>(std::min(piece_bytes, end - offset)));
      if (auto done = bits_.read(piece); !done) return done;
      row->fill_body(**made, offset, piece);
      offset += piece.size();
    }
  }
  return row->complete(**made);
}

void RdbFilters::describe_string() {
  const std::uint64_t byte_count = string_parts_[0].byte_count;
  const strings::ImageHead head = strings::image_head(byte_count);
  head_.assign(head.begin(), head.end());
  filter_.body_bytes = strings::image_body_bytes(byte_count);
  bits_.begin(string_parts_, rdb_->bytes());
}

void RdbFilters::describe_filter(RdbImage& filter) {
  head_ = std::move(filter.head);
  filter_.body_bytes = filter.body_bytes;
  filter_.item_count = filter.item_count;
  bits_.begin(filter.body, rdb_->bytes());
}

}  // namespace sepal::tools
