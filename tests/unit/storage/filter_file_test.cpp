// A filter in a file of its own.
#include <sepal/bloom/filter/image.hpp>
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/format/named_lines.hpp>
#include <sepal/storage/generation/filter_file.hpp>
#include <sepal/value/image.hpp>

#include "support/catch.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"
#include "support/values.hpp"

namespace filter_file_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;

namespace {

const Path target = "out/users.sepal";

// A filter with two layers, some items, and a bitmap larger than a chunk.
bloom::FilterPtr sample() {
  test::Filters filters;
  filters.add(0, "sample", 5000, {.error_rate = 0.001, .capacity = 4900, .expansion = 250, .seed = 9});
  return test::held_filter(filters.snapshot().entries[0].value);
}

Result<WrittenFile> write(SimulatedDisk& disk, const bloom::FilterPtr& filter,
                          const ProgressSink& progress = {}) {
  return write_filter_file(disk, target, "users", value::Frozen(filter).view(), progress);
}

// The bits of a filter.
class Bits final : public BitStream {
 public:
  explicit Bits(const bloom::Filter& filter) : layers_(filter.layers()) {}
  Result<void> read(std::span<std::byte> into) override {
    bloom::copy_bits(layers_, offset_, into);
    offset_ += into.size();
    return {};
  }

 private:
  std::vector<bloom::LayerView> layers_;
  std::uint64_t offset_ = 0;
};

std::unique_ptr<SimulatedDisk> disk_with(const Path& path, Bytes contents) {
  auto disk = std::make_unique<SimulatedDisk>();
  disk->put(path, std::move(contents));
  return disk;
}

Bytes written_sample() {
  const auto disk = disk_with("out/other", {});
  REQUIRE(write(*disk, sample()));
  return disk->files()[target];
}

}  // namespace

TEST_CASE("a filter file restores the filter and its key") {
  const auto disk = disk_with(target, written_sample());
  const auto read = read_filter_file(*disk, target, test::roomy, {});
  REQUIRE(read);
  CHECK(read->key == "users");
  CHECK(test::same(*test::held_filter(read->value), *sample()));
  CHECK(disk->files().size() == 1);  // no temporary file is left
}

TEST_CASE("writing a filter file overwrites only the target") {
  const auto disk = disk_with(target.string() + ".tmp", Bytes(3));
  REQUIRE(write(*disk, sample()));
  CHECK(disk->files().at(target.string() + ".tmp") == Bytes(3));
}

TEST_CASE("a filter file has the counts that were passed to the writer") {
  const auto disk = disk_with("out/other", {});
  const bloom::FilterPtr filter = sample();
  bloom::ImageHeader header = bloom::header_of(*filter);
  header.layers[1].item_count = 4711;
  const std::vector<std::byte> head = bloom::encode(header);
  Bits bits(*filter);
  const StreamedFilter streamed{
      .key = "users", .head = head, .body_bytes = header.bitmap_bytes(), .item_count = 1, .bits = &bits};
  REQUIRE(write_filter_file(*disk, target, streamed, {}));
  const auto read = read_filter_file(*disk, target, test::roomy, {});
  REQUIRE(read);
  CHECK(test::held_filter(read->value)->layer(1).item_count() == 4711);
}

TEST_CASE("every changed byte of a filter file is noticed", "[exhaustive]") {
  const Bytes written = written_sample();
  REQUIRE(written.size() > 2 << 20);
  // Changes every byte of the heads, and some of the others.
  for (std::size_t at = 0; at < written.size(); at += at < 300 ? 1 : 9973) {
    Bytes changed = written;
    changed[at] ^= std::byte{1};
    const auto read = read_filter_file(*disk_with(target, std::move(changed)), target, test::roomy, {});
    REQUIRE_FALSE(read);
    CHECK(read.error().detail.find(target.string()) == 0);
  }
  for (const std::size_t length : {std::size_t{0}, std::size_t{31}, written.size() - 1}) {
    Bytes cut(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK_FALSE(read_filter_file(*disk_with(target, std::move(cut)), target, test::roomy, {}));
  }
  Bytes longer = written;
  longer.push_back(std::byte{0});
  CHECK_FALSE(read_filter_file(*disk_with(target, std::move(longer)), target, test::roomy, {}));
}

TEST_CASE("a failed write of a filter file leaves the old file, and nothing beside it") {
  const Bytes old(100, std::byte{42});
  const auto trial = disk_with(target, old);
  trial->restart_count();
  REQUIRE(write(*trial, sample()));
  // The last step makes the new name survive a power loss. The new file is in place by then.
  for (std::uint64_t step = 1; step < trial->operation_count(); ++step) {
    const auto disk = disk_with(target, old);
    disk->restart_count();
    disk->fail_at(step, Errc::disk_full);
    const auto written = write(*disk, sample());
    REQUIRE_FALSE(written);
    CHECK(written.error().code == Errc::disk_full);
    CHECK(disk->files().size() == 1);
    CHECK(disk->files()[target] == old);
  }
}

TEST_CASE("a cancelled write of a filter file ends, and leaves nothing") {
  const auto disk = disk_with("out/other", {});
  const auto written = write(*disk, sample(), [](const Progress&) { return false; });
  REQUIRE_FALSE(written);
  CHECK(written.error().code == Errc::io);
  CHECK(disk->files().size() == 1);
}

TEST_CASE("verify reports every flipped bit of a filter file", "[exhaustive]") {
  test::Filters filters;
  filters.add(0, "small", 12, {.error_rate = 0.1, .capacity = 10, .expansion = 2, .seed = 3});
  SimulatedDisk disk;
  disk.put("out/other", {});
  REQUIRE(write(disk, test::held_filter(filters.snapshot().entries[0].value)));
  const Bytes whole = disk.files()[target];
  const auto fine = verify_filter_file(disk, target, {});
  REQUIRE(fine);
  CHECK(fine->grade == Finding::Grade::fine);
  CHECK(fine->text == "out/users.sepal has a filter with 12 items in 2 layers");
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    Bytes flipped = whole;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    disk.put(target, std::move(flipped));
    const auto finding = verify_filter_file(disk, target, {});
    if (bit / 8 < sizeof format::FilterFileHeader::magic) {
      REQUIRE_FALSE(finding);
      CHECK(finding.error().detail == "out/users.sepal is no file of Sepal: it begins as none does");
      CHECK(inspect_file(disk, target, [](const Fact&) {}).error().detail == finding.error().detail);
      continue;
    }
    REQUIRE(finding);
    // A version that is a little too high may be that of a newer Sepal.
    const bool may_be_newer = bit / 8 == offsetof(format::FilterFileHeader, version);
    CHECK((finding->grade == Finding::Grade::damaged ||
           (may_be_newer && finding->grade == Finding::Grade::newer)));
    CHECK(finding->text.starts_with("out/users.sepal "));
    CHECK_FALSE(inspect_file(disk, target, [](const Fact&) {}));
  }
  for (std::size_t length = 0; length < whole.size(); ++length) {
    disk.put(target, Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
    const auto finding = verify_filter_file(disk, target, {});
    if (length < sizeof format::FilterFileHeader::magic) {
      REQUIRE_FALSE(finding);
      CHECK(inspect_file(disk, target, [](const Fact&) {}).error().detail == finding.error().detail);
    } else {
      CHECK(finding->grade == Finding::Grade::damaged);
    }
  }
}

TEST_CASE("verify and inspect agree about what is no file of Sepal") {
  SimulatedDisk disk;
  const auto both = [&](std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    disk.put("other", Bytes(bytes.begin(), bytes.end()));
    const auto verified = verify_filter_file(disk, "other", {});
    const auto inspected = inspect_file(disk, "other", [](const Fact&) {});
    REQUIRE_FALSE(verified);
    REQUIRE_FALSE(inspected);
    CHECK(verified.error().detail == inspected.error().detail);
    return verified.error().detail;
  };
  CHECK(both("") == "other is no file of Sepal: it is empty");
  for (const char* text : {"x", "hello world", "REDIS0011 and so on"})
    CHECK(both(text) == "other is no file of Sepal: it begins as none does");
  // Other files of a data directory are Sepal's, and no filter files.
  disk.put("zeros", Bytes(100));
  CHECK(verify_filter_file(disk, "zeros", {}).error().detail ==
        "zeros is no filter file: sepal inspect prints it, and sepal verify takes its data directory");
}

TEST_CASE("a file of several filters is refused, and not called damaged") {
  SimulatedDisk disk;
  test::Filters filters;
  filters.add(0, "one", 5, {.error_rate = 0.1, .capacity = 10, .seed = 1});
  filters.add(0, "other", 5, {.error_rate = 0.1, .capacity = 10, .seed = 1});
  auto directory = DataDirectory::open(disk, "data", 1, std::nullopt);
  REQUIRE(directory);
  REQUIRE((*directory)->save(filters.snapshot(), {}));
  const auto refused = verify_filter_file(disk, "data/generation-000000000001/pack-0", {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::out_of_range);
  CHECK(refused.error().detail == "data/generation-000000000001/pack-0 holds 2 keys instead of one");
}

TEST_CASE("the seed of a data directory is read without opening it") {
  SimulatedDisk disk;
  CHECK(read_seed(disk, "data")->has_value() == false);
  // While a daemon holds the lock.
  const auto directory = DataDirectory::open(disk, "data", 0x1234567890abcdef, std::nullopt);
  REQUIRE(directory);
  const auto seed = read_seed(disk, "data");
  REQUIRE(seed);
  CHECK(*seed == std::optional<std::uint64_t>(0x1234567890abcdef));
  disk.put("data/SEED", Bytes(40, std::byte{'x'}));
  const auto damaged = read_seed(disk, "data");
  REQUIRE_FALSE(damaged);
  CHECK(damaged.error().code == Errc::damaged);
}

}  // namespace filter_file_test
