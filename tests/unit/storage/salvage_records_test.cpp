// Salvage of a pack that was damaged where a client's value looks like a pack itself.
#include <sepal/storage/examine/examine.hpp>

#include "support/catch.hpp"
#include "support/generation_files.hpp"
#include "support/journal_files.hpp"
#include "support/storage_fixture.hpp"

namespace salvage_records_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;

namespace {

const std::string pack_path = "data/generation-000000000001/pack-0";
constexpr std::size_t key_length_at = 8;  // in a record's head

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

struct Record {
  std::string key;
  std::string bytes;
};

// A pack, taken apart so that a test can order and damage its records.
struct Pack {
  std::string header;
  std::vector<Record> records;

  [[nodiscard]] Record& operator[](const std::string& key) {
    return *std::ranges::find(records, key, &Record::key);
  }
  void order(const std::vector<std::string>& keys) {
    std::ranges::sort(records, {}, [&](const Record& record) { return std::ranges::find(keys, record.key); });
  }
  // Flips a bit in the head of this record.
  void damage_head(const std::string& key) { (*this)[key].bytes[key_length_at] ^= 0x20; }
  [[nodiscard]] std::string text() const {
    std::string text = header;
    for (const Record& record : records) text += record.bytes;
    return text;
  }
};

struct Directory {
  test::Filters filters;
  FileMap files;

  void put_string(const std::string& key, const std::string& bytes) {
    auto string = strings::String::of(bytes, test::roomy);
    REQUIRE(string);
    REQUIRE(filters.keyspace.put({.database = 0, .key = key}, std::move(*string)));
  }

  void save(std::uint64_t own_file_bytes_min = 1 << 30) {
    SimulatedDisk disk;
    const DataDirectoryOptions options{.own_file_bytes_min = own_file_bytes_min};
    auto directory = DataDirectory::open(disk, "data", 0x1f, std::nullopt, options);
    REQUIRE(directory);
    REQUIRE((*directory)->save(filters.snapshot(), {}));
    files = disk.files();
  }

  [[nodiscard]] Pack pack() const {
    SimulatedDisk disk;
    disk.put(pack_path, files.at(pack_path));
    const std::string whole = text_of(files.at(pack_path));
    std::vector<std::pair<std::size_t, std::string>> begins;
    REQUIRE(inspect_file(disk, pack_path, [&](const Fact& fact) {
      const std::string& line = fact.line();
      const std::size_t offset_at = line.find(" offset=");
      const std::size_t key_at = line.find(" key=\"");
      if (offset_at == std::string::npos || key_at == std::string::npos) return;
      const std::size_t key_from = key_at + std::strlen(" key=\"");
      begins.emplace_back(std::stoull(line.substr(offset_at + std::strlen(" offset="))),
                          line.substr(key_from, line.find('"', key_from) - key_from));
    }));
    REQUIRE_FALSE(begins.empty());
    Pack pack{.header = whole.substr(0, begins.front().first), .records = {}};
    begins.emplace_back(whole.size(), "");
    for (std::size_t i = 0; i + 1 < begins.size(); ++i)
      pack.records.push_back({.key = begins[i].second,
                              .bytes = whole.substr(begins[i].first, begins[i + 1].first - begins[i].first)});
    return pack;
  }
};

struct Salvaged {
  SalvageReport report;
  test::LoadOutcome loaded;
  std::size_t reads = 0;  // of the pack

  [[nodiscard]] std::uint64_t items(const std::string& key) const {
    const auto found = loaded.filters.find({0, key});
    return found == loaded.filters.end() ? 0 : found->second->item_count();
  }
  // The lines of what was lost that have this text.
  [[nodiscard]] std::ptrdiff_t told(const std::string& part) const {
    return std::ranges::count_if(
        report.lost, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }
};

Salvaged salvage(const Directory& directory, const std::string& pack) {
  SimulatedDisk disk;
  for (const auto& [path, contents] : directory.files) disk.put(path, contents);
  disk.put(pack_path, bytes_of(pack));
  Salvaged salvaged;
  disk.set_observer([&](const char* operation, const Path& path) {
    if (operation == std::string("read") && path == pack_path) ++salvaged.reads;
  });
  const auto report = salvage_directory(disk, "data", "saved", 5, {});
  INFO((report ? "" : report.error().detail));
  REQUIRE(report);
  salvaged.report = *report;
  salvaged.loaded = test::open_and_load(disk, "saved");
  REQUIRE_FALSE(salvaged.loaded.error);
  return salvaged;
}

std::string repeated(const std::string& piece, std::size_t byte_count) {
  std::string text;
  while (text.size() < byte_count) text += piece;
  return text;
}

// A head as it may be, with a key of so many bytes, and no checksum.
std::string head_without_checksum(std::uint32_t key_bytes, std::uint64_t bitmap_bytes) {
  format::RecordHead head;
  head.key_bytes = key_bytes;
  head.image_bytes = static_cast<std::uint32_t>(bloom::image_bytes(1));
  head.bitmap_bytes = bitmap_bytes;
  return text_of({format::bytes_of(head).begin(), format::bytes_of(head).end()});
}

// A record of `key` without items: what a client gets that saves an empty filter of its own.
std::string empty_record(const std::string& key) {
  Directory directory;
  directory.filters.add(0, key, 0);
  directory.save();
  return directory.pack()[key].bytes;
}

}  // namespace

TEST_CASE("salvage reads a damaged value that is full of heads once") {
  const auto [piece, byte_count] =
      GENERATE(table<std::string, std::size_t>({{"SPLR", 200'000},
                                                {"SPLR", 5'000'000},
                                                {head_without_checksum(1, 64), 200'000},
                                                {head_without_checksum(60'000, 64), 200'000},
                                                {head_without_checksum(60'000, 1'000'000), 5'000'000}}));
  Directory directory;
  directory.put_string("s", repeated(piece, byte_count));
  directory.filters.add(0, "f", 5);
  directory.filters.add(0, "g", 5);
  directory.save();
  Pack pack = directory.pack();
  pack.order({"f", "s", "g"});
  pack.damage_head("s");
  const Salvaged salvaged = salvage(directory, pack.text());
  CHECK(salvaged.items("f") == 5);
  CHECK(salvaged.items("g") == 5);
  CHECK(salvaged.report.lost.size() == 1);
  CHECK(salvaged.reads <= 4 + byte_count / (1 << 19));
}

TEST_CASE("salvage prefers a filter to what a client made to look like it") {
  Directory directory;
  directory.filters.add(0, "victim", 50, {.capacity = 5000, .seed = 7});
  const std::string planted = empty_record("victim");
  directory.put_string("zzz", planted + std::string(8, '\0') + planted + "end");
  directory.filters.add(0, "other", 5);
  directory.save(GENERATE(std::uint64_t{1} << 30, std::uint64_t{4000}));
  Pack pack = directory.pack();
  SECTION("the filter stands before it") {
    pack.order({"victim", "zzz", "other"});
  }
  SECTION("the filter stands behind it") {
    pack.order({"zzz", "other", "victim"});
  }
  pack.damage_head("zzz");
  const Salvaged salvaged = salvage(directory, pack.text());
  CHECK(salvaged.items("victim") == 50);
  CHECK(salvaged.items("other") == 5);
  CHECK(salvaged.loaded.filters.size() == 2);
  CHECK(salvaged.told("key=\"victim\" a second time") == 2);
}

TEST_CASE("salvage looks behind a planted head that claims the rest of the file") {
  // The head of a larger filter verifies; its bitmap is what stands behind it.
  Directory larger;
  larger.filters.add(0, "planted", 0, {.capacity = 1000, .seed = 7});
  larger.save();
  const std::string claims = larger.pack()["planted"].bytes.substr(0, 200);
  Directory directory;
  directory.put_string("zzz", claims);
  directory.filters.add(0, "kept", 5, {.capacity = 5000, .seed = 7});
  directory.save();
  Pack pack = directory.pack();
  pack.order({"zzz", "kept"});
  pack.damage_head("zzz");
  const Salvaged salvaged = salvage(directory, pack.text());
  CHECK(salvaged.items("kept") == 5);
}

TEST_CASE("salvage counts the filters that a cut file lacks") {
  Directory directory;
  directory.put_string("s", repeated("SPLR", 64));
  std::vector<std::string> keys{"f0", "f1", "s", "f2", "f3", "f4", "f5"};
  for (const std::string& key : keys)
    if (key != "s") directory.filters.add(0, key, 5);
  directory.save();
  Pack pack = directory.pack();
  pack.order(keys);
  const bool damaged = GENERATE(false, true);
  if (damaged) pack.damage_head("s");
  for (std::size_t kept = 0; kept < keys.size(); ++kept) {
    INFO("kept " << kept << (damaged ? ", damaged" : ""));
    Pack cut = pack;
    cut.records.resize(kept);
    const Salvaged salvaged = salvage(directory, cut.text());
    CHECK(salvaged.told(std::to_string(keys.size() - kept) + " of its 7 keys are missing") == 1);
    CHECK(salvaged.loaded.filters.size() + salvaged.loaded.strings.size() ==
          kept - (damaged && kept > 2 ? 1 : 0));
  }
}

TEST_CASE("salvage uses the journal, whatever position a planted head names") {
  constexpr bloom::FilterOptions options{.error_rate = 0.01, .capacity = 100, .seed = 7};
  Directory directory;
  std::string planted = empty_record("planted");
  const std::size_t head_bytes = sizeof(format::RecordHead) + 7 + bloom::image_bytes(1);
  planted.replace(offsetof(format::RecordHead, journal_position), 2, "\x7f\x7f");
  const format::U64 checksum(Checksum::of(format::bytes_of(std::string_view(planted).substr(0, head_bytes))));
  std::memcpy(planted.data() + head_bytes, &checksum, sizeof checksum);
  directory.put_string("zzz", planted + "end");
  directory.filters.add(0, "kept", 5, options);
  directory.save();
  test::JournalFiles journal(0, 4096);
  const Fingerprint fingerprint = fingerprint_of("new", options.seed);
  journal.added({.database = 0, .key = "kept"}, {&fingerprint, 1});
  journal.end_frame();
  SimulatedDisk disk;
  journal.put(disk, "data");
  for (const auto& [path, contents] : disk.files()) directory.files[path] = contents;
  Pack pack = directory.pack();
  pack.damage_head("zzz");
  const Salvaged salvaged = salvage(directory, pack.text());
  CHECK(salvaged.items("kept") == 6);
  CHECK(salvaged.told("journal") == 0);
}

}  // namespace salvage_records_test
