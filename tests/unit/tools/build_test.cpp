#include "tools/build/build.hpp"

#include <sepal/storage/generation/filter_file.hpp>

#include <zlib.h>

#include "support/catch.hpp"
#include "support/memory_source.hpp"
#include "support/storage_fixture.hpp"

namespace build_test {

using namespace sepal;
using namespace sepal::tools;

namespace {

constexpr std::uint64_t item_count = 30000;
constexpr std::uint64_t seed = 77;

std::vector<std::string> sample_items() {
  std::vector<std::string> items;
  for (std::uint64_t i = 0; i < item_count; ++i) items.push_back("item " + std::to_string(i % 29000));
  return items;
}

// A folder with lists of items, and the files built from them.
struct Workshop {
  test::TemporaryFolder folder;
  std::unique_ptr<storage::Disk> disk = storage::make_posix_disk();
  Progress progress{nullptr, Progress::Style::none};

  std::string list(const std::string& name, const std::string& bytes) {
    std::ofstream(folder.path() / name) << bytes;
    return folder.path() / name;
  }
  std::string gzip_list(const std::string& name, const std::string& bytes) {
    const std::string path = folder.path() / name;
    gzFile file = gzopen(path.c_str(), "wb1");
    REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) > 0);
    gzclose(file);
    return path;
  }
  // Small blocks, so that there are many.
  BuildRequest request(std::vector<std::string> inputs) {
    return {.inputs = std::move(inputs),
            .output = folder.path() / "out.sepal",
            .key = "users",
            .items = {.block_bytes = 3000},
            .capacity = {},
            .seed = seed,
            .thread_count = 1};
  }
  storage::FilterFile built(const BuildRequest& request) {
    const auto report = build(*disk, request, progress);
    REQUIRE(report);
    CHECK(report->items_read == item_count);
    auto file = storage::read_filter_file(*disk, request.output, test::roomy, {});
    REQUIRE(file);
    CHECK(report->items_added == test::held_filter(file->value)->item_count());
    return std::move(*file);
  }
  std::string refusal(const BuildRequest& request) {
    const auto report = build(*disk, request, progress);
    REQUIRE_FALSE(report);
    CHECK_FALSE(std::filesystem::exists(request.output));
    return report.error().detail;
  }
};

bloom::FilterPtr added_one_by_one(const bloom::FilterOptions& options) {
  auto filter = bloom::Filter::create(options, test::roomy);
  REQUIRE(filter);
  for (const std::string& item : sample_items()) static_cast<void>((*filter)->add_alone(item, test::roomy));
  return *filter;
}

}  // namespace

TEST_CASE("a built filter equals one made by single adds, for any input and threads") {
  Workshop shop;
  const std::string text = test::joined(ItemFormat::lines, sample_items());
  const auto expected = added_one_by_one({.error_rate = 0.01, .capacity = item_count, .seed = seed});
  const std::string inputs[] = {shop.list("lines", text), shop.gzip_list("lines.gz", text)};
  for (const std::string& input : inputs) {
    for (const std::size_t threads : {1, 3}) {
      BuildRequest request = shop.request({input});
      request.thread_count = threads;
      const auto file = shop.built(request);
      CHECK(file.key == "users");
      CHECK(test::same(*test::held_filter(file.value), *expected));
    }
  }
}

TEST_CASE("a filter that is built for too few items grows like one in a server") {
  Workshop shop;
  BuildRequest request = shop.request({shop.list("lines", test::joined(ItemFormat::lines, sample_items()))});
  request.capacity = 1000;
  request.thread_count = 3;
  const auto file = shop.built(request);
  CHECK(test::same(*test::held_filter(file.value),
                   *added_one_by_one({.error_rate = 0.01, .capacity = 1000, .seed = seed})));
}

TEST_CASE("several lists of any format are built as one") {
  Workshop shop;
  const auto items = sample_items();
  const std::vector<std::string> first(items.begin(), items.begin() + 10000);
  const std::vector<std::string> second(items.begin() + 10000, items.end());
  const auto expected = added_one_by_one({.error_rate = 0.01, .capacity = item_count, .seed = seed});
  for (const ItemFormat format : {ItemFormat::lines, ItemFormat::nul, ItemFormat::length_prefixed}) {
    BuildRequest request =
        shop.request({shop.list("first", test::joined(format, first)), shop.list("none", ""),
                      shop.list("second", test::joined(format, second))});
    request.items.format = format;
    request.thread_count = 2;
    CHECK(test::same(*test::held_filter(shop.built(request).value), *expected));
  }
}

TEST_CASE("a build without growth fails at the first item too many, and names its line") {
  Workshop shop;
  std::vector<std::string> lists(2);
  // Every item is new. The filter takes items up to its capacity, and a few false positives.
  for (int i = 0; i < 20000; ++i) lists[i / 10000] += "number " + std::to_string(i) + "\n";
  BuildRequest request = shop.request({shop.list("a", lists[0]), shop.list("b", lists[1])});
  request.capacity = 12000;
  request.expansion = 0;
  std::string detail;
  for (const std::size_t threads : {1, 4}) {
    request.thread_count = threads;
    const std::string refused = shop.refusal(request);
    CHECK(refused.find(request.inputs[1] + ":20") == 0);  // beyond its line 2000
    CHECK(refused.find("holds its capacity of 12000 items") != std::string::npos);
    if (!detail.empty()) CHECK(refused == detail);
    detail = refused;
  }
}

TEST_CASE("the error for an input names the place") {
  Workshop shop;
  const std::string good = shop.list("good", "one\ntwo\n");
  CHECK(shop.refusal(shop.request({good, "absent"})).find("absent: cannot be opened: No such file") == 0);
  const std::string folder = shop.folder.path();
  CHECK(shop.refusal(shop.request({folder})).find(folder + ": is a directory") == 0);
  CHECK(shop.refusal(shop.request({shop.list("empty", "")})).find("there are no items") == 0);

  BuildRequest request = shop.request({good, shop.list("long", "1\n2\n3\n" + std::string(5000, 'x') + "\n")});
  request.items.item_bytes_max = 4000;
  CHECK(shop.refusal(request) == request.inputs[1] + ":4: is longer than 4000 bytes");

  const std::string text = test::joined(ItemFormat::lines, sample_items());
  std::ifstream packed(shop.gzip_list("whole.gz", text), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(packed), {}};
  const std::string cut = shop.list("cut.gz", bytes.substr(0, bytes.size() / 2));
  const std::string refused = shop.refusal(shop.request({cut}));
  CHECK(refused.find(cut + ":1") == 0);
  CHECK(refused.find("the gzip data ends too early") != std::string::npos);

  request =
      shop.request({shop.list("prefixed", test::joined(ItemFormat::length_prefixed, {"a", "b"}) + "\1")});
  request.items.format = ItemFormat::length_prefixed;
  CHECK(shop.refusal(request) == request.inputs[0] + ": item 3: is not whole: the input ends within it");
}

}  // namespace build_test
