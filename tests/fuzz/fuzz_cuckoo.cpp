// Feeds arbitrary bytes to RESTORE and to the loader as a filter that deletes. They are refused, or give a
// filter whose memory is bounded by their number, that counts each copy, and whose image gives it again.
//
//   1 byte   0: an image, else a payload, whose checksum the target puts right
//   1 byte   N steps
//   N bytes  the steps: the lowest two bits say what, the others which item
//   the rest
#include <sepal/base/endian.hpp>
#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/rdb/dump.hpp>
#include <sepal/value/image.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

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

void check_image(const Filter& filter) {
  const auto image = value::image_of(filter);
  const value::Limits roomy{.bytes_max = std::uint64_t{1} << 30, .layers_max = limits.layers_max};
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

}  // namespace

SEPAL_FUZZ_TARGET(fuzz_cuckoo) {
  const auto input = std::as_bytes(std::span(data, size));
  constexpr std::size_t begin = 2;
  if (input.size() < begin || input.size() - begin < data[1]) return 0;
  const std::span<const std::uint8_t> steps(data + begin, data[1]);
  const Bytes rest = input.subspan(begin + steps.size());
  const std::vector<std::byte> bytes(rest.begin(), rest.end());
  const auto made = data[0] == 0 ? value::value_of(bytes, limits) : of_payload(bytes);
  if (!made || (*made)->kind() != value::Kind::cuckoo) return 0;
  auto& filter = value::as<Filter>(**made);
  if (data[0] == 0) require(filter.byte_count() <= bytes_of_byte_max * bytes.size() + bytes_of_filter_max);
  check_image(filter);
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
