#include "tools/redis/rdb_filters.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/strings/kind.hpp>

#include <algorithm>
#include <utility>

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
      open_string();
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
void RdbFilters::Bits::open_string() {
  SEPAL_ASSERT(!parts_.empty(), "more bits are read than the value has");
  const bloom::RdbBits& bits = parts_.front();
  parts_ = parts_.subspan(1);
  reader_.emplace(bits.string, *bytes_);
  left_ = bits.byte_count;
  zeros_ = bits.string.unpacked_bytes == 0;
}

static std::uint64_t items_of(const bloom::ImageHeader& image) {
  std::uint64_t items = 0;
  for (const auto& layer : image.layers) items += layer.item_count;
  return items;
}

RdbFilters::RdbFilters(storage::File& file, std::uint64_t file_bytes, std::string name, WallTime now,
                       Strings strings, Progress& progress)
    : file_(file),
      file_bytes_(file_bytes),
      name_(std::move(name)),
      now_(now),
      strings_(strings),
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
      describe_string(key_->string);
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

std::string RdbFilters::reason_against(const RdbKey& key) {
  if (!key.refusal.empty()) return key.refusal;
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
  if (key.kind == RdbKey::Kind::other || (is_string && strings_ == Strings::left_out)) {
    keys_.leave(key.type, key.database, name);
    return false;
  }
  if (is_string) {
    if (auto done = take_string(key); !done) return done.error();
  }
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
  const bloom::ImageHeader& image = key.filter->image;
  ++keys_.filters;
  keys_.bytes += image.bitmap_bytes();
  keys_.items += items_of(image);
  keys_.layers_most = std::max(keys_.layers_most, image.layers.size());
  const bool loses_deadline = strings_ == Strings::left_out && key.deadline != keyspace::no_deadline;
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
  rdb::String string = key.string;
  if (string.kind == rdb::String::Kind::number) {
    auto digits = rdb::digits_of(string, rdb_->bytes());
    if (!digits) return digits.error();
    // The file has the number and not its digits, so the digits are put where bits_ can read them later.
    digits_ = std::move(*digits);
    digit_bytes_.emplace(std::as_bytes(std::span(digits_)));
    string = {.kind = rdb::String::Kind::plain,
              .offset = 0,
              .byte_count = digits_.size(),
              .unpacked_bytes = digits_.size()};
  }
  const std::uint64_t byte_count = string.unpacked_bytes;
  if (byte_count > strings::string_bytes_max) key.refusal = "the string is longer than 512 MB";
  // Zeros come behind the string, up to a whole word.
  string_parts_ = {{{.string = string, .byte_count = byte_count},
                    {.string = {}, .byte_count = strings::image_body_bytes(byte_count) - byte_count}}};
  return {};
}

void RdbFilters::describe_string(const rdb::String& string) {
  const std::uint64_t byte_count = string_parts_[0].byte_count;
  const strings::ImageHead head = strings::image_head(byte_count);
  head_.assign(head.begin(), head.end());
  filter_.body_bytes = strings::image_body_bytes(byte_count);
  bits_.begin(string_parts_, string.kind == rdb::String::Kind::number ? *digit_bytes_ : rdb_->bytes());
}

void RdbFilters::describe_filter(const bloom::RdbFilter& filter) {
  head_ = bloom::encode(filter.image);
  filter_.body_bytes = filter.image.bitmap_bytes();
  filter_.item_count = items_of(filter.image);
  bits_.begin(filter.bits, rdb_->bytes());
}

}  // namespace sepal::tools
