// Feeds arbitrary bytes to the reader of RDB files. The bytes are refused or accepted, without reads outside
// of them. An accepted filter or string is written as a filter file and read back, and answers look-ups.
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/storage/generation/filter_file.hpp>
#include <sepal/strings/string.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "../support/simulated_disk.hpp"
#include "fuzz_target.hpp"
#include "tools/redis/rdb_filters.hpp"

namespace sepal::fuzz_rdb_file_test {
namespace {

constexpr std::uint64_t bits_max = 1 << 20;

class FileOfBytes final : public storage::File {
 public:
  explicit FileOfBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
    if (offset >= bytes_.size()) return std::size_t{0};
    const auto from = bytes_.subspan(static_cast<std::size_t>(offset));
    const std::size_t count = std::min(into.size(), from.size());
    std::copy_n(from.begin(), count, into.begin());
    return count;
  }
  Result<std::uint64_t> size() override { return std::uint64_t{bytes_.size()}; }
  Result<void> write_at(std::uint64_t, std::span<const std::byte>) override { return fail(Errc::read_only); }
  Result<std::vector<storage::DataRange>> data_ranges() override { return fail(Errc::io); }
  Result<void> write_back(std::uint64_t, std::uint64_t) override { return fail(Errc::read_only); }
  Result<void> sync() override { return fail(Errc::read_only); }

 private:
  std::span<const std::byte> bytes_;
};

void convert(const storage::StreamedFilter& streamed) {
  sepal::test::SimulatedDisk disk;
  if (!disk.make_directory("d") || !disk.sync_directory("")) std::abort();
  if (!storage::write_filter_file(disk, "d/f", streamed, {})) return;
  const bloom::FilterLimits limits{.bytes_max = 2 * bits_max, .layers_max = bloom::filter_layers_max};
  const auto read = storage::read_filter_file(disk, "d/f", limits, {});
  // The cells of a filter that deletes are looked at only here.
  if (!read && value::row_of_image(streamed.head)->complete != nullptr) return;
  if (!read) std::abort();
  if (read->key != streamed.key ||
      sepal::value::image_bytes(*read->value) != streamed.head.size() + streamed.body_bytes)
    std::abort();
  if (const auto* const string = value::as<strings::String>(read->value.get())) {
    if (string->text().size() != string->length()) std::abort();
    return;
  }
  const std::string_view item = "an item";
  if (const auto* const filter = value::as<cuckoo::RedisFilter>(read->value.get())) {
    static_cast<void>(filter->table().contains(item));
    return;
  }
  if (read->value->kind() == value::Kind::cuckoo) return;
  bool present = false;
  if (const auto* const filter = value::as<bloom::WindowFilter>(read->value.get())) {
    filter->contains({&item, 1}, WallTime(), {&present, 1});
    return;
  }
  value::as<bloom::Filter>(*read->value).contains({&item, 1}, {&present, 1});
}

}  // namespace

SEPAL_FUZZ_TARGET(fuzz_rdb_file) {
  FileOfBytes file(std::as_bytes(std::span(data, size)));
  tools::Progress progress(stderr, tools::Progress::Style::none);
  tools::RdbFilters filters(file, size, "f", WallTime(), tools::RdbFilters::Taken::all, progress);
  // The second time through the file skips what the first one reads.
  std::uint64_t first_count = 0;
  for (const bool second : {false, true}) {
    if (!filters.rewind()) std::abort();
    for (;;) {
      const auto next = filters.next();
      if (!next) {
        if (second) std::abort();
        return 0;
      }
      if (*next == nullptr) break;
      if (second && (*next)->body_bytes <= bits_max) convert(**next);
    }
    if (second && filters.keys().filters + filters.keys().strings != first_count) std::abort();
    first_count = filters.keys().filters + filters.keys().strings;
  }
  return 0;
}

}  // namespace sepal::fuzz_rdb_file_test
