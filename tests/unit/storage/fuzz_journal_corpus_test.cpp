// The corpus of fuzz_journal_reader: real journals, in the container that the fuzz target reads.
#include <sepal/bloom/filter/unite.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/writers/bloom_writer.hpp>
#include <sepal/writers/window_writer.hpp>

#include "support/catch.hpp"
#include "support/generation_files.hpp"
#include "support/journal_files.hpp"
#include "support/storage_fixture.hpp"
#include "support/united_windows.hpp"
#include "support/values.hpp"

namespace fuzz_journal_corpus_test {

using namespace sepal;
using namespace sepal::storage;

namespace {

constexpr std::uint64_t segment_bytes = 1024;

struct Sample {
  std::string name;
  test::FileMap files;
};

// The journal that `fill` records, and a generation with one filter that was cut at the journal's beginning.
template <class Fill>
test::FileMap files_with(const Fill& fill, bool with_generation) {
  test::SimulatedDisk disk;
  test::Filters filters;
  test::JournalFiles journal(with_generation ? 512 : 0, segment_bytes);
  keyspace::Mutator mutator(filters.keyspace, &journal);
  if (with_generation) {
    filters.add(0, "key", 3, {.error_rate = 0.1, .capacity = 4, .seed = 1});
    REQUIRE(filters.keyspace.set_deadline({.database = 0, .key = "key"}, 1000));
    auto directory = DataDirectory::open(disk, "data", 1, std::nullopt);
    REQUIRE(directory);
    REQUIRE((*directory)->save(snapshot_of(filters.keyspace, test::some_time, journal.position()), {}));
  }
  fill(journal, mutator, filters.keyspace);
  journal.end_frame();
  test::FileMap files = journal.files();
  for (const auto& [path, contents] : disk.files())
    if (!path.ends_with("LOCK")) files[path.substr(std::string("data/").size())] = contents;
  return files;
}

void add(keyspace::Mutator& mutator, keyspace::Keyspace& keyspace, keyspace::DatabaseKey key, int items) {
  if (sepal::test::filter_at(keyspace, key) == nullptr)
    REQUIRE(sepal::writers::create(mutator, key, {.error_rate = 0.1, .capacity = 4, .seed = 1}));
  std::vector<bloom::Filter::AddOutcome> outcomes;
  for (int i = 0; i < items; ++i) {
    const std::string item = "new " + std::to_string(i);
    const std::string_view view = item;
    sepal::writers::add_alone(mutator, key, *sepal::test::filter_at(keyspace, key), {&view, 1}, outcomes);
  }
}

std::vector<Sample> samples() {
  constexpr keyspace::DatabaseKey key{.database = 0, .key = "key"};
  const auto adds = [&](test::JournalFiles& journal, keyspace::Mutator& mutator,
                        keyspace::Keyspace& keyspace) {
    add(mutator, keyspace, key, 5);
    journal.end_frame();
    journal.filler(64);
    journal.sync();
    add(mutator, keyspace, {.database = 3, .key = "other"}, 20);
  };
  const auto all = [&](test::JournalFiles& journal, keyspace::Mutator& mutator,
                       keyspace::Keyspace& keyspace) {
    adds(journal, mutator, keyspace);
    journal.begin_segment();
    static_cast<void>(mutator.rename(0, "key", "renamed"));
    journal.end_frame();
    journal.sync();
    mutator.flush(3);
    add(mutator, keyspace, key, 1);
    static_cast<void>(mutator.remove(key));
    journal.end_frame();
    journal.prepare_segment();
  };
  const auto flushed = [&](test::JournalFiles& journal, keyspace::Mutator& mutator,
                           keyspace::Keyspace& keyspace) {
    adds(journal, mutator, keyspace);
    journal.end_frame();
    journal.begin_segment();
    mutator.flush_all();
    journal.end_frame();
    journal.resumed();
    journal.end_frame();
  };
  const auto deadlines = [&](test::JournalFiles& journal, keyspace::Mutator& mutator,
                             keyspace::Keyspace& keyspace) {
    add(mutator, keyspace, key, 1);
    static_cast<void>(mutator.set_deadline(key, 2000));
    static_cast<void>(mutator.rename(0, "key", "renamed"));
    journal.end_frame();
    static_cast<void>(mutator.set_deadline({.database = 0, .key = "renamed"}, sepal::keyspace::no_deadline));
  };
  // A group in one segment, one in two segments, and one whose end is missing.
  const auto groups = [&](test::JournalFiles& journal, keyspace::Mutator& mutator,
                          keyspace::Keyspace& keyspace) {
    for (const bool divided : {false, true}) {
      add(mutator, keyspace, key, 5);
      journal.continue_group();
      static_cast<void>(mutator.rename(0, "key", "renamed"));
      journal.continue_group();
      if (divided) journal.begin_segment();
      add(mutator, keyspace, key, 1);
      journal.end_frame();
      journal.sync();
    }
    mutator.flush_all();
    journal.continue_group();
    journal.prepare_segment();
  };
  // A union, and then the same filter of itself.
  const auto remade = [&](test::JournalFiles& journal, keyspace::Mutator& mutator,
                          keyspace::Keyspace& keyspace) {
    adds(journal, mutator, keyspace);
    journal.end_frame();
    for (const std::string_view part : {"key", "united"}) {
      const bloom::Filter& filter = *test::filter_at(keyspace, {.database = 0, .key = part});
      const auto made = bloom::unite(bloom::header_of(filter),
                                     std::vector<bloom::PartLayers>{filter.layers()}, test::roomy, {});
      const std::vector<keyspace::Part> parts{{.key = part, .extent = filter.layer_count()}};
      static_cast<void>(mutator.remake({.database = 0, .key = "united"}, *made,
                                       bloom::encode(bloom::header_of(filter)), parts));
      journal.end_frame();
    }
  };
  // Unions of filters that forget, of which one goes on.
  const auto windows = [&](test::JournalFiles& journal, keyspace::Mutator& mutator,
                           keyspace::Keyspace& /*keyspace*/) {
    const std::vector<std::string_view> names{"one", "two"};
    const WallTime now{std::chrono::seconds(1'800'000'000)};
    std::vector<const bloom::WindowFilter*> filters;
    std::vector<bloom::Filter::AddOutcome> outcomes;
    for (const std::string_view& name : names) {
      const auto made = sepal::writers::create(
          mutator, {.database = 0, .key = name},
          {.options = {.error_rate = 0.1, .capacity = 4, .milliseconds = 4000, .seed = 1},
           .items = {&name, 1},
           .now = now},
          outcomes);
      REQUIRE(made);
      filters.push_back(*made);
    }
    journal.end_frame();
    for (const std::string_view name : {"union", "two"}) {
      journal.begin_segment();
      const auto continued = name == "two" ? std::optional<std::size_t>(1) : std::nullopt;
      const auto united = test::unite_windows(filters, names, continued, now);
      static_cast<void>(
          mutator.remake({.database = 0, .key = name}, united->made, united->head, united->parts));
      journal.end_frame();
    }
  };
  std::vector<Sample> samples;
  for (const bool generation : {false, true}) {
    const std::string behind = generation ? "-generation" : "";
    samples.push_back({"adds" + behind, files_with(adds, generation)});
    samples.push_back({"all" + behind, files_with(all, generation)});
    samples.push_back({"flushed" + behind, files_with(flushed, generation)});
    samples.push_back({"deadlines" + behind, files_with(deadlines, generation)});
    samples.push_back({"groups" + behind, files_with(groups, generation)});
    samples.push_back({"remade" + behind, files_with(remade, generation)});
    samples.push_back({"windows" + behind, files_with(windows, generation)});
  }
  return samples;
}

}  // namespace

TEST_CASE("resealing a right journal changes nothing") {
  for (const Sample& sample : samples()) {
    for (auto [path, contents] : sample.files) {
      INFO(sample.name << " " << path);
      const test::Bytes before = contents;
      test::reseal_segment(path, contents);
      CHECK((contents == before));
    }
  }
}

TEST_CASE("write the corpus of journals into the folder that SEPAL_CORPUS names", "[.corpus-journal]") {
  const char* folder = std::getenv("SEPAL_CORPUS");
  REQUIRE(folder != nullptr);
  for (const Sample& sample : samples()) {
    for (const std::uint8_t mode : {std::uint8_t{0}, test::mode_reseal}) {
      std::ofstream file(std::filesystem::path(folder) / (sample.name + (mode == 0 ? "" : "-reseal")),
                         std::ios::binary);
      const test::Bytes bytes = test::pack({.mode = mode, .files = sample.files});
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      CHECK(file.good());
    }
  }
}

}  // namespace fuzz_journal_corpus_test
