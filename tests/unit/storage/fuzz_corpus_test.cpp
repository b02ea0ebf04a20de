// The corpus of fuzz_snapshot_reader: real generations, in the container that the fuzz target reads.
#include <sepal/storage/generation/data_directory.hpp>

#include "support/catch.hpp"
#include "support/generation_files.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"

namespace fuzz_corpus_test {

using namespace sepal;
using namespace sepal::storage;

namespace {

struct Sample {
  std::string name;
  test::Container container;
};

// The files of a data directory that holds what `fill` adds.
template <class Fill>
test::FileMap files_with(const Fill& fill, const DataDirectoryOptions& options = {}) {
  test::SimulatedDisk disk;
  test::Filters filters;
  fill(filters);
  auto directory = DataDirectory::open(disk, "data", 1, std::nullopt, options);
  REQUIRE(directory);
  REQUIRE((*directory)->save(filters.snapshot(), {}));
  test::FileMap files;
  for (const auto& [path, contents] : disk.files())
    files[path.substr(std::string("data/").size())] = contents;
  return files;
}

std::vector<Sample> generations() {
  const auto one = [](test::Filters& filters) { filters.add(0, "key", 3, {.capacity = 10, .seed = 1}); };
  const auto grown = [](test::Filters& filters) {
    filters.add(2, "grown", 40, {.error_rate = 0.1, .capacity = 4, .expansion = 2, .seed = 2});
  };
  const auto fixed = [](test::Filters& filters) {
    filters.add(15, std::string("\0\xff", 2), 5,
                {.error_rate = 1e-4, .capacity = 5, .expansion = 0, .seed = 3});
  };
  const auto all = [&](test::Filters& filters) {
    one(filters);
    grown(filters);
    fixed(filters);
    filters.add(0, "", 0);
  };
  std::vector<Sample> samples;
  const auto sample = [&](const std::string& name, const test::FileMap& files) {
    samples.push_back({name, {.mode = 0, .files = files}});
    samples.push_back({name + "-reseal", {.mode = test::mode_reseal, .files = files}});
    samples.push_back(
        {name + "-relength", {.mode = test::mode_reseal | test::mode_relength, .files = files}});
  };
  sample("empty", files_with([](test::Filters&) {}));
  sample("one", files_with(one));
  sample("grown", files_with(grown));
  sample("fixed", files_with(fixed));
  sample("all", files_with(all));
  sample("all-own", files_with(all, {.own_file_bytes_min = 0}));
  return samples;
}

}  // namespace

TEST_CASE("a generation in a fuzzer's container is unpacked unchanged, and loads") {
  for (const Sample& sample : generations()) {
    INFO(sample.name);
    test::Container container = test::unpack(test::pack(sample.container));
    CHECK(container.mode == sample.container.mode);
    CHECK(container.files == sample.container.files);
    // Resealing right files changes nothing.
    test::reseal(container.files);
    CHECK(container.files == sample.container.files);
    test::SimulatedDisk disk;
    for (const auto& [path, contents] : container.files) disk.put("data/" + path, contents);
    CHECK_FALSE(test::open_and_load(disk, "data").error);
  }
}

TEST_CASE("write the corpus into the folder that SEPAL_CORPUS names", "[.corpus]") {
  const char* folder = std::getenv("SEPAL_CORPUS");
  REQUIRE(folder != nullptr);
  for (const Sample& sample : generations()) {
    std::ofstream file(std::filesystem::path(folder) / sample.name, std::ios::binary);
    const test::Bytes bytes = test::pack(sample.container);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    CHECK(file.good());
  }
}

}  // namespace fuzz_corpus_test
