#include "storage/format/operation_encoder.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/keyspace/mutation_log.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <variant>

namespace sepal::storage {
namespace {

using format::Operation;
using keyspace::DatabaseKey;

static_assert(sizeof(Fingerprint) == 16 && offsetof(Fingerprint, low) == 0 &&
                  offsetof(Fingerprint, high) == 8,
              "fingerprints are copied as they stand");

static_assert(keyspace::database_count <= std::numeric_limits<std::uint8_t>::max() + 1,
              "the number of a database is a byte");

// The worst case is an operation that is alone in its frame. An admission counts record_bytes_max for each,
// beside its key and its bytes.
template <class... Changes>
constexpr std::uint64_t longest_record(const std::variant<Changes...>* /*changes*/) {
  return std::max({format::frame_bytes(format::fixed_bytes<Changes>())...});
}
static_assert(longest_record(static_cast<const keyspace::Mutation*>(nullptr)) <= keyspace::record_bytes_max);
static_assert(format::frame_bytes(format::fixed_bytes<keyspace::Made>() +
                                  keyspace::recorded_head_bytes_max) <= keyspace::record_bytes_max);
static_assert(format::fixed_bytes<keyspace::Changed>() == format::fixed_bytes<keyspace::Made>());

// Each shape() fills the structure of a field, and tail() is what follows that.

void shape(keyspace::Deadline deadline, format::DeadlineShape& into) {
  into.deadline = static_cast<std::uint64_t>(deadline);
}

void shape(const keyspace::AdoptedValue& adopted, format::AdoptedShape& into) {
  into.deadline = static_cast<std::uint64_t>(adopted.deadline);
  into.file_number = adopted.file.number;
  into.file_seal = adopted.file.seal;
  into.image_bytes = static_cast<std::uint32_t>(adopted.image.size());
}

void shape(keyspace::MirrorState state, format::StateShape& into) {
  into.state = static_cast<std::uint32_t>(state);
}

void shape(std::uint64_t number, format::NumberShape& into) {
  into.number = number;
}

void shape(std::span<const std::byte> bytes, format::BytesHead& into) {
  into.byte_count = static_cast<std::uint32_t>(bytes.size());
}

void shape(std::string_view target, format::TargetHead& into) {
  into.key_bytes = static_cast<std::uint32_t>(target.size());
}

void shape(std::uint32_t database, format::OtherDatabase& into) {
  into.database = database;
}

template <class Value>
std::span<const std::byte> tail(const Value& value) {
  if constexpr (std::is_same_v<Value, std::string_view>) {
    return format::bytes_of(value);
  } else if constexpr (std::is_same_v<Value, std::span<const std::byte>>) {
    return value;
  } else if constexpr (std::is_same_v<Value, keyspace::AdoptedValue>) {
    return value.image;
  } else {
    return {};
  }
}

}  // namespace

std::uint64_t operation_bytes_max(const keyspace::Mutation& change) {
  return std::visit(
      []<class Change>(const Change& made) {
        std::uint64_t bytes = format::fixed_bytes<Change>();
        if constexpr (format::HasKey<Change>) bytes += made.key.key.size();
        format::each_field<Change>([&](const auto& field) { bytes += tail(made.*field.member).size(); });
        if constexpr (std::is_same_v<Change, keyspace::Changed>) bytes += made.head.size();
        if constexpr (std::is_same_v<Change, keyspace::Made>) {
          // It names no key: that of the operation before it is the same.
          if (made.deadline != keyspace::no_deadline) bytes += format::fixed_bytes<keyspace::Expires>();
        }
        return bytes;
      },
      change);
}

bool begins_frame(const keyspace::Mutation& change) {
  if (const auto* const remade = std::get_if<keyspace::Remade>(&change)) return remade->takes_long;
  const auto* const adopted = std::get_if<keyspace::Adopted>(&change);
  return adopted != nullptr && adopted->value.file.number != 0;
}

// last_ may stay as it is. No key matches while has_key_ is false, so nothing joins it.
void OperationEncoder::clear() {
  bytes_.clear();
  has_key_ = false;
  made_kind_.reset();
}

// Compares with the key's bytes in the frame. The caller's view of that key was valid during its call only.
bool OperationEncoder::names_last_key(DatabaseKey key) const {
  return has_key_ && last_.database == key.database &&
         key.key == std::string_view(bytes_.data() + key_offset_, key_bytes_);
}

void OperationEncoder::begin(Operation operation, DatabaseKey key, const Told& told) {
  SEPAL_ASSERT(key.database < keyspace::database_count, "an operation on a key of no database");
  const bool same_key = names_last_key(key);
  last_ = {};
  last_.operation = static_cast<std::uint8_t>(operation);
  last_.database = static_cast<std::uint8_t>(key.database);
  last_.flags = static_cast<std::uint8_t>(told.flags | (same_key ? format::operation_same_key : 0U));
  last_.kind = told.kind;
  last_.what = told.what;
  // A frame has a limit, so its counts and lengths fit into 32 bits.
  last_.count = static_cast<std::uint32_t>(told.count);
  last_.key_bytes = same_key ? 0 : static_cast<std::uint32_t>(key.key.size());
  last_offset_ = bytes_.size();
  append(format::bytes_of(last_));
  if (same_key) return;
  key_offset_ = bytes_.size();
  key_bytes_ = key.key.size();
  has_key_ = true;
  append(format::bytes_of(key.key));
}

// last_offset_ stays behind: only the head of an operation with a key is stored again.
void OperationEncoder::begin_keyless(Operation operation, std::uint32_t database) {
  SEPAL_ASSERT(database < keyspace::database_count, "an operation on no database");
  last_ = {};
  last_.operation = static_cast<std::uint8_t>(operation);
  last_.database = static_cast<std::uint8_t>(database);
  append(format::bytes_of(last_));
}

void OperationEncoder::store_last_head() {
  SEPAL_ASSERT(last_offset_ + sizeof last_ <= bytes_.size(),
               "the head of the last operation lies behind the end of the frame");
  std::memcpy(bytes_.data() + last_offset_, &last_, sizeof last_);
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

// A value that an add makes is recorded together with its first entries: `made` takes them as `added` does.
bool OperationEncoder::joins(DatabaseKey key) const {
  const auto last = static_cast<Operation>(last_.operation);
  return (last == Operation::added || last == Operation::made) && names_last_key(key);
}

void OperationEncoder::added(DatabaseKey key, std::span<const Fingerprint> fingerprints) {
  if (joins(key)) {
    last_.count = last_.count + static_cast<std::uint32_t>(fingerprints.size());
    store_last_head();
  } else {
    begin(Operation::added, key, {.count = fingerprints.size()});
  }
  append(fingerprints);
}

void OperationEncoder::record(const keyspace::Mutation& change) {
  const std::size_t before = bytes_.size();
  std::visit([this](const auto& made) { this->put(made); }, change);
  const auto* const made = std::get_if<keyspace::Made>(&change);
  if (made != nullptr && made->deadline != keyspace::no_deadline)
    put(keyspace::Expires{.key = made->key, .deadline = made->deadline});
  SEPAL_ASSERT(bytes_.size() - before <= operation_bytes_max(change),
               "an operation takes more bytes than were reserved for it");
}

void OperationEncoder::resumed() {
  put(format::Resumed());
}

template <class Change>
void OperationEncoder::put(const Change& change) {
  constexpr Operation kind = format::layout<Change>.kind;
  if constexpr (std::is_same_v<Change, keyspace::Made>) {
    put_made(change);
  } else if constexpr (std::is_same_v<Change, keyspace::Changed>) {
    put_changed(change);
  } else if constexpr (format::HasKey<Change>) {
    begin(kind, change.key, {});
  } else if constexpr (format::HasDatabase<Change>) {
    begin_keyless(kind, change.database);
  } else {
    begin_keyless(kind, 0);
  }
  // Set behind begin(), which compares with the key of the operation before. The decoder does the same.
  has_key_ = format::lends_key<Change>;
  if constexpr (!std::is_same_v<Change, keyspace::Made> && !std::is_same_v<Change, keyspace::Changed>) {
    format::each_field<Change>([&](const auto& field) {
      typename std::decay_t<decltype(field)>::Shape bytes;
      shape(change.*field.member, bytes);
      append(format::bytes_of(bytes));
      append(tail(change.*field.member));
    });
  }
}

// The head is left out if the one before it in this frame is the same. Many values are made with the same
// options, and the head is about half of such a record.
void OperationEncoder::put_made(const keyspace::Made& made) {
  SEPAL_ASSERT(made.head.size() <= keyspace::recorded_head_bytes_max, "a value is made of too long a head");
  const std::string_view head(reinterpret_cast<const char*>(made.head.data()), made.head.size());
  const bool same =
      made_kind_ == made.kind && head == std::string_view(bytes_.data() + made_offset_, made_bytes_);
  begin(Operation::made, made.key,
        {.kind = static_cast<std::uint8_t>(made.kind),
         .flags = same ? format::operation_same_head : std::uint8_t{0}});
  if (same) return;
  append_bytes_head(made.head.size());
  made_kind_ = made.kind;
  made_offset_ = bytes_.size();
  made_bytes_ = made.head.size();
  append(made.head);
}

void OperationEncoder::put_changed(const keyspace::Changed& changed) {
  begin(Operation::changed, changed.key,
        {.kind = static_cast<std::uint8_t>(changed.kind), .what = changed.what});
  append_bytes_head(changed.head.size() + changed.bytes.size());
  append(changed.head);
  append(changed.bytes);
}

void OperationEncoder::append_bytes_head(std::size_t byte_count) {
  format::BytesHead bytes;
  bytes.byte_count = static_cast<std::uint32_t>(byte_count);
  append(format::bytes_of(bytes));
}

}  // namespace sepal::storage
