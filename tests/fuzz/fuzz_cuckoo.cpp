// Feeds arbitrary bytes to RESTORE, to the loader and to the replay as a filter that deletes. They are
// refused, or give a filter whose memory is bounded by their number, that counts each copy, and whose image
// gives it again.
//
//   1 byte   0: an image; 2: an image and records; else a payload, whose checksum the target puts right
//   1 byte   N steps
//   N bytes  the steps: the lowest two bits say what, the others which item
//   of records: 1 byte, their number, and 13 bytes for each: the hash, the change's number, and a byte for
//            the layer, whose highest bit says that it is a removal
//   the rest
#include <sepal/base/endian.hpp>
#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/rdb/dump.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuckoo/native/records.hpp"
#include "fuzz_target.hpp"

namespace sepal::fuzz_cuckoo_test {
namespace {

using cuckoo::Filter;
using Bytes = std::span<const std::byte>;

constexpr value::Limits limits{.bytes_max = 1 << 20, .layers_max = 64};
// A cell of an image has 64 bytes, and a place in memory with up to 64 entries of a directory.
constexpr std::uint64_t bytes_of_byte_max = 16;
constexpr std::uint64_t bytes_of_filter_max = 8192;
constexpr std::int64_t growth_max = 4 << 20;
// An add may double a cell's lines, and take an entry of its extras.
constexpr std::uint64_t bytes_of_record_max = 1 << 10;

constexpr std::uint8_t of_image = 0;
constexpr std::uint8_t of_image_and_records = 2;
constexpr std::size_t record_bytes = 13;

enum class Step : std::uint8_t { add, add_new, remove, compact };

void require(bool holds) {
  if (!holds) std::abort();
}

class SomeMemory final : public cuckoo::Memory {
 public:
  bool may_take(std::uint64_t bytes) override {
    return bytes <= static_cast<std::uint64_t>(growth_max - taken_);
  }
  void took(std::int64_t bytes) override { taken_ += bytes; }
  void retire(void* object, void (*end)(void*)) override { end(object); }

 private:
  std::int64_t taken_ = 0;
};

Result<value::ValuePtr> of_payload(std::vector<std::byte> payload) {
  constexpr std::size_t checksum_bytes = 8;
  if (payload.size() < checksum_bytes) return fail(Errc::damaged);
  const auto sealed = std::span(payload).first(payload.size() - checksum_bytes);
  store_little_endian(payload.data() + sealed.size(), rdb::checksum(sealed));
  if (!cuckoo::cuckoo_row.payload->begins(payload)) return fail(Errc::damaged);
  return cuckoo::cuckoo_row.payload->read(payload, limits, {});
}

constexpr value::Limits roomy{.bytes_max = std::uint64_t{1} << 30, .layers_max = limits.layers_max};

void check_image(const Filter& filter) {
  const auto image = value::image_of(filter);
  const auto again = value::value_of(image, roomy);
  require(again.ok());
  require(value::image_of(**again) == image);
  require(value::as<Filter>(**again).item_count() == filter.item_count());
}

void change(Filter& filter, SomeMemory& memory, Step step, std::uint8_t number) {
  const std::string item = std::to_string(number);
  const std::string_view view = item;
  const std::uint64_t copies = filter.count(item);
  bool present = false;
  filter.contains({&view, 1}, {&present, 1});
  require(present == (copies > 0));
  if (step == Step::remove) {
    bool removed = false;
    require(filter.remove({&view, 1}, memory, {&removed, 1}, nullptr));
    require(removed == (copies > 0) && filter.count(item) == copies - (removed ? 1 : 0));
    return;
  }
  std::vector<Filter::AddOutcome> outcomes;
  const auto condition = step == Step::add ? Filter::AddIf::always : Filter::AddIf::absent;
  require(filter.add({&view, 1}, condition, memory, outcomes, nullptr));
  if (condition == Filter::AddIf::absent && copies > 0) require(!outcomes.front().added);
  require(filter.count(item) == copies + (outcomes.front().added ? 1 : 0));
}

Fingerprint record_in(Bytes bytes) {
  constexpr std::size_t number_at = 8;
  constexpr std::size_t layer_at = 12;
  constexpr std::uint8_t removal = 0x80;
  const auto layer = std::to_integer<std::uint8_t>(bytes[layer_at]);
  return cuckoo::record_of(load_little_endian<std::uint64_t>(bytes.data()),
                           load_little_endian<std::uint32_t>(bytes.subspan(number_at).data()),
                           layer & ~removal, (layer & removal) != 0);
}

// Takes the records from the front of the input. Nothing: it is too short.
std::optional<std::vector<Fingerprint>> take_records(Bytes& input) {
  if (input.empty()) return std::nullopt;
  const auto count = std::to_integer<std::size_t>(input.front());
  input = input.subspan(1);
  if (input.size() < count * record_bytes) return std::nullopt;
  std::vector<Fingerprint> records;
  for (std::size_t i = 0; i < count; ++i, input = input.subspan(record_bytes))
    records.push_back(record_in(input));
  return records;
}

// False: the filter could not have made them.
bool repeat(Filter& filter, std::span<const Fingerprint> records, std::size_t image_bytes) {
  // The half of a number that a record has is the one next to the last, so a second replay of very high ones
  // may take them for others.
  constexpr std::uint64_t high = std::uint64_t{1} << 30;
  const auto is_high = [](const Fingerprint& record) { return (record.high & 0xffffffff) >= high; };
  const bool same_again = filter.change_count() < high && std::ranges::none_of(records, is_high);
  const bool possible = filter.repeat(records);
  // A record may make the layers behind those of the image.
  require(filter.byte_count() <=
          cuckoo::layer_count_max * (bytes_of_byte_max * image_bytes + bytes_of_filter_max) +
              bytes_of_record_max * records.size());
  if (!possible) return false;
  check_image(filter);
  if (!same_again) return true;
  // What a save has, a replay leaves out.
  const auto image = value::image_of(filter);
  const auto again = value::value_of(image, roomy);
  require(again.ok());
  require(value::as<Filter>(**again).repeat(records));
  require(value::image_of(**again) == image);
  return true;
}

}  // namespace

SEPAL_FUZZ_TARGET(fuzz_cuckoo) {
  const auto input = std::as_bytes(std::span(data, size));
  constexpr std::size_t begin = 2;
  if (input.size() < begin || input.size() - begin < data[1]) return 0;
  const std::span<const std::uint8_t> steps(data + begin, data[1]);
  Bytes rest = input.subspan(begin + steps.size());
  std::vector<Fingerprint> records;
  if (data[0] == of_image_and_records) {
    auto taken = take_records(rest);
    if (!taken) return 0;
    records = std::move(*taken);
  }
  const bool is_image = data[0] == of_image || data[0] == of_image_and_records;
  const std::vector<std::byte> bytes(rest.begin(), rest.end());
  const auto made = is_image ? value::value_of(bytes, limits) : of_payload(bytes);
  if (!made || (*made)->kind() != value::Kind::cuckoo) return 0;
  auto& filter = value::as<Filter>(**made);
  if (is_image) require(filter.byte_count() <= bytes_of_byte_max * bytes.size() + bytes_of_filter_max);
  check_image(filter);
  if (!records.empty() && !repeat(filter, records, bytes.size())) return 0;
  // A cell with very high counts takes no more changes.
  constexpr std::uint64_t very_high = std::uint64_t{1} << 47;
  const std::uint64_t removed = filter.removed_count() + filter.forgotten();
  if (filter.change_count() >= very_high || filter.item_count() >= very_high || removed >= very_high)
    return 0;
  SomeMemory memory;
  for (const std::uint8_t step : steps) {
    if (static_cast<Step>(step & 3) == Step::compact) {
      static_cast<void>(filter.compact());
    } else {
      change(filter, memory, static_cast<Step>(step & 3), step >> 2);
    }
  }
  check_image(filter);
  return 0;
}

}  // namespace sepal::fuzz_cuckoo_test
