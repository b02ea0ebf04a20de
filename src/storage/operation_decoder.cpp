#include "operation_decoder.hpp"

#include <sepal/keyspace/keyspace.hpp>

#include <bit>
#include <cstring>

namespace sepal::storage {
namespace {

using format::Operation;

constexpr const char* too_short = "an operation is longer than its frame";

Error damaged(const char* what) {
  return fail(Errc::damaged, what);
}

bool has_key(Operation operation) {
  switch (operation) {
    case Operation::added:
    case Operation::created:
    case Operation::grown:
    case Operation::removed:
    case Operation::renamed:
    case Operation::expires:
    case Operation::adopted:
    case Operation::moved:
    case Operation::mirrored:
      return true;
    default:
      return false;
  }
}

bool has_known_flags(const format::OperationHead& head) {
  const bool created = head.operation == static_cast<std::uint8_t>(Operation::created);
  const unsigned known = format::operation_same_key | (created ? format::operation_same_shape : 0U);
  return (head.flags[0] & ~known) == 0 && head.flags[1] == 0 && head.reserved == 0;
}

filter::FilterOptions options_of(const format::FilterShape& shape) {
  return {.error_rate = std::bit_cast<double>(std::uint64_t{shape.error_rate}),
          .capacity = shape.capacity,
          .expansion = shape.expansion,
          .seed = shape.seed};
}

filter::LayerPlan plan_of(const format::LayerShape& shape) {
  return {.capacity = shape.capacity,
          .error_rate = std::bit_cast<double>(std::uint64_t{shape.error_rate}),
          .block_count = shape.block_count,
          .block_bits = shape.block_bits,
          .probe_count = shape.probe_count};
}

}  // namespace

void append_fingerprints(std::span<const std::byte> bytes, std::vector<Fingerprint>& to) {
  const std::size_t before = to.size();
  to.resize(before + bytes.size() / sizeof(Fingerprint));
  if constexpr (std::endian::native == std::endian::little) {
    if (!bytes.empty()) std::memcpy(to.data() + before, bytes.data(), bytes.size());
  } else {
    const std::byte* from = bytes.data();
    for (std::size_t i = before; i < to.size(); ++i, from += sizeof(Fingerprint))
      to[i] = {.low = load_little_endian<std::uint64_t>(from),
               .high = load_little_endian<std::uint64_t>(from + sizeof(std::uint64_t))};
  }
}

template <class Structure>
bool OperationDecoder::take(Structure& into) {
  if (body_.size() - at_ < sizeof into) return false;
  std::memcpy(&into, body_.data() + at_, sizeof into);
  at_ += sizeof into;
  return true;
}

bool OperationDecoder::take(std::size_t count, std::string_view& into) {
  if (body_.size() - at_ < count) return false;
  into = {reinterpret_cast<const char*>(body_.data()) + at_, count};
  at_ += count;
  return true;
}

Result<const DecodedOperation*> OperationDecoder::next() {
  format::OperationHead head;
  if (!take(head)) return damaged(too_short);
  operation_.operation = static_cast<Operation>(head.operation);
  operation_.database = head.database;
  operation_.key = {};
  operation_.count = head.count;
  if (head.operation < static_cast<std::uint8_t>(Operation::added) ||
      head.operation > static_cast<std::uint8_t>(format::last_operation))
    return damaged("an operation is of a kind that this build does not know");
  if (head.database >= keyspace::database_count) return damaged("there is no such database");
  if (!has_known_flags(head)) return damaged("an operation has flags that this build does not know");
  if (operation_.count != 0 && !format::may_have_items(operation_.operation))
    return damaged("an operation has a count that it should not have");
  if (auto taken = take_key(head); !taken) return taken.error();
  if (auto taken = take_rest(head); !taken) return taken.error();
  has_key_ = has_key(operation_.operation) && operation_.operation != Operation::renamed;
  key_ = operation_.key;
  database_ = operation_.database;
  return &operation_;
}

Result<void> OperationDecoder::take_key(const format::OperationHead& head) {
  const bool same = (head.flags[0] & format::operation_same_key) != 0;
  if (!has_key(operation_.operation)) {
    if (same || head.key_bytes != 0) return damaged("an operation has a key that it should not have");
    return {};
  }
  if (!same) {
    if (!take(head.key_bytes, operation_.key)) return damaged(too_short);
    return {};
  }
  if (head.key_bytes != 0 || !has_key_ || database_ != operation_.database)
    return damaged("an operation names the key of none before it");
  operation_.key = key_;
  return {};
}

Result<void> OperationDecoder::take_rest(const format::OperationHead& head) {
  switch (operation_.operation) {
    case Operation::added:
      return take_items();
    case Operation::created:
      return take_created(head);
    case Operation::grown:
      return take_layer();
    case Operation::renamed:
      return take_target();
    case Operation::expires:
      return take_deadline();
    case Operation::adopted:
      return take_adopted();
    case Operation::moved:
    case Operation::swapped:
      return take_other();
    case Operation::mirrored:
      return take_mirror();
    default:
      return {};
  }
}

Result<void> OperationDecoder::take_created(const format::OperationHead& head) {
  if ((head.flags[0] & format::operation_same_shape) == 0) {
    has_created_ = take(created_);
    if (!has_created_) return damaged(too_short);
    if (created_.filter.reserved != 0) return damaged("a filter has flags that this build does not know");
  } else if (!has_created_) {
    return damaged("a filter has the shape of none before it");
  }
  operation_.options = options_of(created_.filter);
  operation_.layer = plan_of(created_.first_layer);
  return take_items();
}

Result<void> OperationDecoder::take_items() {
  // A count of 32 bits, so that the product fits.
  const std::uint64_t bytes = std::uint64_t{operation_.count} * sizeof(Fingerprint);
  if (body_.size() - at_ < bytes) return damaged(too_short);
  operation_.fingerprints = body_.subspan(at_, static_cast<std::size_t>(bytes));
  at_ += operation_.fingerprints.size();
  return {};
}

Result<void> OperationDecoder::take_layer() {
  format::LayerShape shape;
  if (!take(shape)) return damaged(too_short);
  operation_.layer = plan_of(shape);
  return {};
}

Result<void> OperationDecoder::take_deadline() {
  format::DeadlineShape shape;
  if (!take(shape)) return damaged(too_short);
  operation_.deadline = static_cast<keyspace::Deadline>(std::uint64_t{shape.deadline});
  if (operation_.deadline < 0) return damaged("a deadline lies before all time");
  return {};
}

Result<void> OperationDecoder::take_adopted() {
  format::AdoptedShape shape;
  if (!take(shape) || body_.size() - at_ < shape.image_bytes) return damaged(too_short);
  if (shape.reserved != 0) return damaged("a filter that came whole has flags that this build does not know");
  operation_.deadline = static_cast<keyspace::Deadline>(std::uint64_t{shape.deadline});
  if (operation_.deadline < 0) return damaged("a deadline lies before all time");
  if ((shape.file_number == 0) != (shape.image_bytes != 0) || shape.file_number > format::adopted_number_max)
    return damaged("a filter that came whole is not in the record, and in no file");
  operation_.file = {.number = shape.file_number, .seal = shape.file_seal};
  operation_.image = body_.subspan(at_, shape.image_bytes);
  at_ += operation_.image.size();
  return {};
}

Result<void> OperationDecoder::take_other() {
  format::OtherDatabase other;
  if (!take(other)) return damaged(too_short);
  if (other.database >= keyspace::database_count) return damaged("there is no such database");
  if (other.reserved != 0) return damaged("a database has flags that this build does not know");
  operation_.other = other.database;
  return {};
}

Result<void> OperationDecoder::take_mirror() {
  format::MirrorShape shape;
  if (!take(shape)) return damaged(too_short);
  if (shape.reserved != 0 || shape.state > static_cast<std::uint32_t>(keyspace::last_mirror_state))
    return damaged("a mirror has a state that this build does not know");
  operation_.mirror_state = static_cast<keyspace::MirrorState>(std::uint32_t{shape.state});
  operation_.items_before = shape.items_before;
  return take_target();
}

Result<void> OperationDecoder::take_target() {
  format::TargetHead target;
  if (!take(target)) return damaged(too_short);
  if (target.reserved != 0) return damaged("a new name has flags that this build does not know");
  if (!take(target.key_bytes, operation_.target)) return damaged(too_short);
  return {};
}

}  // namespace sepal::storage
