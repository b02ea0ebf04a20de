#include "operation_encoder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sepal::storage {
namespace {

using format::Operation;
using keyspace::DatabaseKey;

static_assert(sizeof(Fingerprint) == 16 && offsetof(Fingerprint, low) == 0 &&
                  offsetof(Fingerprint, high) == 8,
              "fingerprints are copied as they stand");

format::FilterShape shape_of(const filter::FilterOptions& options) {
  format::FilterShape shape;
  shape.seed = options.seed;
  shape.error_rate = std::bit_cast<std::uint64_t>(options.error_rate);
  shape.capacity = options.capacity;
  shape.expansion = options.expansion;
  return shape;
}

format::LayerShape shape_of(const filter::LayerPlan& layer) {
  format::LayerShape shape;
  shape.capacity = layer.capacity;
  shape.error_rate = std::bit_cast<std::uint64_t>(layer.error_rate);
  shape.block_count = layer.block_count;
  shape.block_bits = layer.block_bits;
  shape.probe_count = layer.probe_count;
  return shape;
}

}  // namespace

void OperationEncoder::clear() {
  bytes_.clear();
  has_key_ = false;
  has_created_ = false;
}

bool OperationEncoder::names_last_key(DatabaseKey key) const {
  if (!has_key_ || last_.database != key.database) return false;
  return key.key == std::string_view(bytes_).substr(key_offset_, key_bytes_);
}

void OperationEncoder::begin(Operation operation, DatabaseKey key, std::size_t count, unsigned char flags) {
  const bool same_key = names_last_key(key);
  last_ = {};
  last_.operation = static_cast<std::uint8_t>(operation);
  last_.database = static_cast<std::uint8_t>(key.database);
  last_.flags[0] = same_key ? flags | format::operation_same_key : flags;
  last_.count = static_cast<std::uint32_t>(count);
  last_.key_bytes = same_key ? 0 : static_cast<std::uint32_t>(key.key.size());
  last_offset_ = bytes_.size();
  append(format::bytes_of(last_));
  if (same_key) return;
  key_offset_ = bytes_.size();
  key_bytes_ = key.key.size();
  has_key_ = true;
  append(format::bytes_of(key.key));
}

void OperationEncoder::begin_keyless(Operation operation, std::uint32_t database) {
  last_ = {};
  last_.operation = static_cast<std::uint8_t>(operation);
  last_.database = static_cast<std::uint8_t>(database);
  has_key_ = false;
  append(format::bytes_of(last_));
}

void OperationEncoder::append_target(std::string_view key) {
  format::TargetHead target;
  target.key_bytes = static_cast<std::uint32_t>(key.size());
  append(format::bytes_of(target));
  append(format::bytes_of(key));
}

void OperationEncoder::append(std::span<const Fingerprint> fingerprints) {
  if constexpr (std::endian::native == std::endian::little) {
    append(std::as_bytes(fingerprints));
  } else {
    for (const Fingerprint& fingerprint : fingerprints) {
      append(format::bytes_of(format::U64(fingerprint.low)));
      append(format::bytes_of(format::U64(fingerprint.high)));
    }
  }
}

void OperationEncoder::added(DatabaseKey key, std::span<const Fingerprint> fingerprints) {
  if (format::may_have_items(static_cast<Operation>(last_.operation)) && names_last_key(key)) {
    last_.count = last_.count + static_cast<std::uint32_t>(fingerprints.size());
    std::memcpy(bytes_.data() + last_offset_, &last_, sizeof last_);
  } else {
    begin(Operation::added, key, fingerprints.size());
  }
  append(fingerprints);
}

void OperationEncoder::created(DatabaseKey key, const filter::FilterOptions& options,
                               const filter::LayerPlan& first_layer) {
  const format::CreatedShape shape{.filter = shape_of(options), .first_layer = shape_of(first_layer)};
  if (has_created_ && std::memcmp(&shape, &created_, sizeof shape) == 0)
    return begin(Operation::created, key, 0, format::operation_same_shape);
  begin(Operation::created, key);
  append(format::bytes_of(shape));
  created_ = shape;
  has_created_ = true;
}

void OperationEncoder::grown(DatabaseKey key, const filter::LayerPlan& layer) {
  begin(Operation::grown, key);
  append(format::bytes_of(shape_of(layer)));
}

void OperationEncoder::removed(DatabaseKey key) {
  begin(Operation::removed, key);
}

void OperationEncoder::expires(DatabaseKey key, keyspace::Deadline deadline) {
  begin(Operation::expires, key);
  format::DeadlineShape shape;
  shape.deadline = static_cast<std::uint64_t>(deadline);
  append(format::bytes_of(shape));
}

void OperationEncoder::renamed(std::uint32_t database, std::string_view from, std::string_view to) {
  begin(Operation::renamed, {.database = database, .key = from});
  append_target(to);
  has_key_ = false;
}

void OperationEncoder::adopted(DatabaseKey key, const keyspace::AdoptedFilter& filter) {
  begin(Operation::adopted, key);
  format::AdoptedShape shape;
  shape.deadline = static_cast<std::uint64_t>(filter.deadline);
  shape.file_number = filter.file.number;
  shape.file_seal = filter.file.seal;
  shape.image_bytes = static_cast<std::uint32_t>(filter.image.size());
  append(format::bytes_of(shape));
  append(filter.image);
}

void OperationEncoder::moved(DatabaseKey from, std::uint32_t to_database) {
  begin(Operation::moved, from);
  append_other(to_database);
}

void OperationEncoder::swapped(std::uint32_t database, std::uint32_t other) {
  begin_keyless(Operation::swapped, database);
  append_other(other);
}

void OperationEncoder::append_other(std::uint32_t database) {
  format::OtherDatabase other;
  other.database = database;
  append(format::bytes_of(other));
}

void OperationEncoder::mirrored(const keyspace::Mirror& mirror) {
  begin(Operation::mirrored, {.database = mirror.database, .key = mirror.source});
  format::MirrorShape shape;
  shape.state = static_cast<std::uint32_t>(mirror.state);
  shape.items_before = mirror.items_before;
  append(format::bytes_of(shape));
  append_target(mirror.target);
}

void OperationEncoder::flushed(std::uint32_t database) {
  begin_keyless(Operation::flushed, database);
}

void OperationEncoder::flushed_all() {
  begin_keyless(Operation::flushed_all, 0);
}

void OperationEncoder::resumed() {
  begin_keyless(Operation::resumed, 0);
}

}  // namespace sepal::storage
