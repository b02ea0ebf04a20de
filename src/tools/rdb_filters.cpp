#include "rdb_filters.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <algorithm>
#include <utility>

namespace sepal::tools {

void RdbFilters::Bits::begin(const filter::RdbFilter& filter, filter::RdbBytes& bytes) {
  filter_ = &filter;
  bytes_ = &bytes;
  layer_ = 0;
  layer_left_ = 0;
}

Result<void> RdbFilters::Bits::read(std::span<std::byte> into) {
  while (!into.empty()) {
    if (layer_left_ == 0) {
      SEPAL_ASSERT(layer_ < filter_->bits.size(), "more bits are read than the filter has");
      reader_.emplace(filter_->bits[layer_], *bytes_);
      layer_left_ = filter_->bits[layer_++].unpacked_bytes;
    }
    const auto part = into.first(static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), layer_left_)));
    if (auto done = reader_->read(part); !done) return done;
    layer_left_ -= part.size();
    into = into.subspan(part.size());
  }
  return {};
}

RdbFilters::RdbFilters(storage::File& file, std::uint64_t file_bytes, std::string name, WallTime now,
                       Progress& progress)
    : file_(file), file_bytes_(file_bytes), name_(std::move(name)), now_(now), progress_(progress) {}

Result<void> RdbFilters::rewind() {
  rdb_.emplace(file_, file_bytes_, name_, checked_ ? RdbFile::Check::none : RdbFile::Check::checksum);
  keys_ = {};
  progress_.begin(checked_ ? "writing" : "checking", file_bytes_);
  return {};
}

Result<const storage::StreamedFilter*> RdbFilters::next() {
  for (;;) {
    auto key = rdb_->next();
    if (!key) return key.error();
    progress_.update(rdb_->offset(), 0);
    if (!*key) break;
    key_ = std::move(*key);
    if (!take(*key_)) continue;
    bits_.begin(*key_->filter, rdb_->bytes());
    filter_ = {.database = static_cast<std::uint32_t>(key_->database),
               .key = *key_->key,
               .deadline = key_->deadline,
               .header = &key_->filter->image,
               .bits = &bits_};
    return static_cast<const storage::StreamedFilter*>(&filter_);
  }
  checked_ = true;
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
bool RdbFilters::take(const RdbKey& key) {
  if (keyspace::is_past(key.deadline, now_)) {
    ++keys_.others["past their deadline"];
    return false;
  }
  if (key.kind != RdbKey::Kind::filter) {
    // A rule that says how a program hashes could make a filter of a string, whose bits are at key.string.
    ++keys_.others["of type " + key.type];
    return false;
  }
  if (const std::string reason = reason_against(key); !reason.empty()) {
    keys_.refuse(reason, key.database, key.key.value_or("(too long to be shown)"));
    return false;
  }
  ++keys_.filters;
  keys_.bytes += key.filter->image.bitmap_bytes();
  for (const auto& layer : key.filter->image.layers) keys_.items += layer.item_count;
  return true;
}

}  // namespace sepal::tools
