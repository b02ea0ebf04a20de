#include <sepal/base/hash.hpp>
#include <sepal/storage/journal_format.hpp>

#include "numbered_name.hpp"

namespace sepal::storage::format {
namespace {

constexpr std::string_view segment_prefix = "journal-";
constexpr std::string_view adopted_prefix = "adopted-";

static_assert(segment_number_max == name_number_max && generation_number_max == name_number_max);

}  // namespace

std::uint64_t segment_checksum(const SegmentHeader& header) {
  return Checksum::of(bytes_of(header).first(offsetof(SegmentHeader, checksum)));
}

std::uint64_t synced_checksum(const SyncedSlot& slot) {
  return Checksum::of(bytes_of(slot).first(offsetof(SyncedSlot, checksum)));
}

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
