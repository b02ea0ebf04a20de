#include <sepal/base/hash.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/storage/format/journal_format.hpp>

#include "storage/disk/numbered_name.hpp"

namespace sepal::storage::format {
namespace {

constexpr std::string_view segment_prefix = "journal-";
constexpr std::string_view adopted_prefix = "adopted-";

static_assert(segment_number_max == name_number_max && generation_number_max == name_number_max);
static_assert(offsetof(SegmentHeader, checksum) + sizeof(U64) == sizeof(SegmentHeader) &&
                  offsetof(SyncedSlot, checksum) + sizeof(U64) == sizeof(SyncedSlot),
              "a checksum stands at the end, behind all that it covers");
static_assert(sizeof(SegmentHeader) % frame_alignment == 0 && sizeof(FrameHead) % frame_alignment == 0);
static_assert(synced_slot_offsets[0] + sizeof(SyncedSlot) <= synced_slot_offsets[1], "the slots lie apart");
// The longest operations: a rename has two keys, others have a key and bytes.
constexpr std::uint64_t keyed_bytes = sizeof(OperationHead) + keyspace::key_bytes_max;
static_assert(keyed_bytes + sizeof(TargetHead) + keyspace::key_bytes_max <= frame_body_bytes_max);
static_assert(keyed_bytes + sizeof(AdoptedShape) + keyspace::recorded_image_bytes_max <=
              frame_body_bytes_max);
static_assert(keyed_bytes + sizeof(BytesHead) + keyspace::recorded_head_bytes_max +
                  keyspace::written_bytes_max <=
              frame_body_bytes_max);
static_assert(keyed_bytes + sizeof(BytesHead) + keyspace::recorded_head_bytes_max + sizeof(OperationHead) +
                  sizeof(DeadlineShape) <=
              frame_body_bytes_max);

}  // namespace

std::uint64_t segment_checksum(const SegmentHeader& header) {
  return Checksum::of(bytes_of(header).first(offsetof(SegmentHeader, checksum)));
}

std::uint64_t synced_checksum(const SyncedSlot& slot) {
  return Checksum::of(bytes_of(slot).first(offsetof(SyncedSlot, checksum)));
}

// Covers all of the head but `checksum`. So once a frame verifies, a reader may rely on its
// `synced_position`.
std::uint64_t frame_checksum(const FrameHead& head, std::uint64_t position, std::uint64_t body_checksum) {
  FrameSum sum;
  sum.body_checksum = body_checksum;
  sum.position = position;
  sum.synced_position = head.synced_position;
  sum.body_bytes_and_flags = head.body_bytes | std::uint64_t{head.flags} << 32;
  return Checksum::of(bytes_of(sum));
}

std::string segment_name(std::uint64_t number) {
  return numbered_name(segment_prefix, number);
}

std::optional<std::uint64_t> segment_number(std::string_view name) {
  return number_in_name(segment_prefix, name);
}

std::string adopted_name(std::uint64_t number) {
  return numbered_name(adopted_prefix, number);
}

std::optional<std::uint64_t> adopted_number(std::string_view name) {
  return number_in_name(adopted_prefix, name);
}

}  // namespace sepal::storage::format
