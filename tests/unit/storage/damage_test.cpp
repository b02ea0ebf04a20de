// Files that differ from the written ones: random damage, and wrong contents with right checksums.
#include <sepal/bloom/filter/image.hpp>
#include <sepal/storage/format/snapshot_format.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include "support/catch.hpp"
#include "support/generation_files.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"

namespace damage_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;

namespace {

const std::string folder = "data/generation-000000000001/";

// The files of a small generation with a pack and a file of its own.
FileMap small_generation() {
  SimulatedDisk disk;
  test::Filters filters;
  filters.add(0, "small", 5, {.error_rate = 0.1, .capacity = 10, .seed = 1});
  filters.add(3, "grown", 9, {.error_rate = 0.1, .capacity = 4, .seed = 2});
  filters.add(0, "large", 5, {.error_rate = 0.01, .capacity = 200, .seed = 3});
  auto directory = DataDirectory::open(disk, "data", 1, std::nullopt, {.own_file_bytes_min = 200});
  REQUIRE(directory);
  REQUIRE((*directory)->save(filters.snapshot(), {}));
  return disk.files();
}

test::LoadOutcome loaded(const FileMap& files) {
  SimulatedDisk disk;
  for (const auto& [path, contents] : files) disk.put(path, contents);
  return test::open_and_load(disk, "data");
}

// The error of a load that must fail. The error names `path`.
Error refused(const FileMap& files, const std::string& path) {
  const auto outcome = loaded(files);
  REQUIRE(outcome.error);
  CHECK(outcome.error->detail.find(path) != std::string::npos);
  return *outcome.error;
}

bool mentions(const Error& error, const std::string& what) {
  return error.detail.find(what) != std::string::npos;
}

// A generation with one small filter whose record was changed, with right checksums.
template <class Change>
Error refused_record(const Change& change) {
  FileMap files = small_generation();
  Bytes& pack = files[folder + "pack-0"];
  change(pack);
  test::reseal(files);
  return refused(files, folder + "pack-0");
}

constexpr std::size_t first_record = sizeof(format::FilterFileHeader);

template <class Change>
void change_head(Bytes& pack, const Change& change) {
  format::RecordHead head;
  REQUIRE(test::read_structure(pack, first_record, head));
  change(head);
  test::write_structure(pack, first_record, head);
}

// Where the image header of the first record begins.
std::size_t image_of(const Bytes& pack) {
  format::RecordHead head;
  REQUIRE(test::read_structure(pack, first_record, head));
  return first_record + sizeof head + head.key_bytes;
}

}  // namespace

TEST_CASE("a generation with any changed byte is refused, and the error names the file", "[exhaustive]") {
  const FileMap files = small_generation();
  REQUIRE_FALSE(loaded(files).error);
  REQUIRE(files.size() == 5);  // CURRENT, SEED, MANIFEST, pack-0, filter-1-0
  for (const auto& [path, contents] : files) {
    for (std::size_t at = 0; at < contents.size(); ++at) {
      for (const int mask : {0x01, 0x80, 0xff}) {
        FileMap flipped = files;
        flipped[path][at] ^= static_cast<std::byte>(mask);
        INFO(path << " offset " << at << " mask " << mask);
        const auto outcome = loaded(flipped);
        REQUIRE(outcome.error);
        CHECK((outcome.error->code == Errc::damaged || outcome.error->code == Errc::unsupported_version));
        CHECK(mentions(*outcome.error, path));
      }
    }
  }
}

TEST_CASE("a generation with a file that is cut or too long is refused, and the error names the file") {
  const FileMap files = small_generation();
  for (const auto& [path, contents] : files) {
    for (std::size_t length = 0; length <= contents.size() + 1; ++length) {
      if (length == contents.size()) continue;
      FileMap cut = files;
      cut[path].resize(length);
      INFO(path << " length " << length);
      const auto outcome = loaded(cut);
      REQUIRE(outcome.error);
      CHECK(outcome.error->code == Errc::damaged);
      CHECK(mentions(*outcome.error, path));
    }
  }
}

TEST_CASE("damage is reported with file, offset and advice") {
  FileMap files = small_generation();
  files[folder + "filter-1-0"].back() ^= std::byte{1};
  const Error error = refused(files, folder + "filter-1-0");
  const std::size_t bits = image_of(files[folder + "filter-1-0"]) + bloom::image_header_bytes +
                           bloom::image_layer_bytes + format::checksum_bytes;
  CHECK(
      error.detail ==
      folder + "filter-1-0 is damaged at offset " + std::to_string(bits) +
          ": the checksum of a bitmap does not match (the filter database=0 key=\"large\"); restore the data "
          "directory from a backup, or save what is whole with sepal salvage");
}

TEST_CASE("a missing file is refused, and the error says which file names it") {
  for (const std::string name : {"MANIFEST", "pack-0", "filter-1-0"}) {
    FileMap files = small_generation();
    files.erase(folder + name);
    const Error error = refused(files, folder + name);
    CHECK(error.code == Errc::damaged);
    CHECK(mentions(error, name == "MANIFEST" ? "CURRENT names it" : "MANIFEST names it"));
    CHECK(mentions(error, "restore the data directory from a backup"));
  }
}

TEST_CASE("files that the manifest does not list are ignored") {
  FileMap files = small_generation();
  files[folder + "filter-1-99"] = Bytes(10);
  CHECK_FALSE(loaded(files).error);
}

TEST_CASE("a file that is whole but belongs elsewhere is refused") {
  FileMap files = small_generation();
  // The files of two filters that differ only in their bits have the same length.
  FileMap other = files;
  Bytes& file = other[folder + "filter-1-0"];
  file[file.size() - format::checksum_bytes - 1] ^= std::byte{1};
  test::reseal(other);
  REQUIRE_FALSE(loaded(other).error);
  files[folder + "filter-1-0"] = file;
  CHECK(mentions(refused(files, folder + "filter-1-0"), "sealed"));

  FileMap renamed;
  for (const auto& [path, contents] : small_generation()) {
    const bool inside = path.starts_with(folder);
    renamed[inside ? "data/generation-000000000002/" + path.substr(folder.size()) : path] = contents;
  }
  const std::string line = format::sealed_line("CURRENT", "generation-000000000002");
  const auto bytes = format::bytes_of(std::string_view(line));
  renamed["data/CURRENT"].assign(bytes.begin(), bytes.end());
  CHECK(mentions(refused(renamed, "data/generation-000000000002/MANIFEST"), "another generation"));
}

TEST_CASE("a file of another version is unsupported, whatever else it holds") {
  for (const std::string name : {"MANIFEST", "pack-0", "filter-1-0"}) {
    FileMap files = small_generation();
    const std::uint32_t known = name == "MANIFEST" ? format::manifest_version : format::version;
    files[folder + name][offsetof(format::FilterFileHeader, version)] = static_cast<std::byte>(known + 1);
    const Error error = refused(files, folder + name);
    CHECK(error.code == Errc::unsupported_version);
    CHECK(mentions(error, "was written by a newer version of Sepal (format " + std::to_string(known + 1) +
                              ", this version reads up to " + std::to_string(known) + ")"));
    CHECK(error.detail.ends_with("; use that version, or restore the data directory from a backup"));
    CHECK_FALSE(mentions(error, "damaged"));
    CHECK_FALSE(mentions(error, "salvage"));
  }
}

TEST_CASE("a version that no newer Sepal can have is damage") {
  FileMap files = small_generation();
  files[folder + "MANIFEST"][offsetof(format::ManifestHead, version) + 3] = std::byte{64};
  const Error error = refused(files, folder + "MANIFEST");
  CHECK(error.code == Errc::damaged);
  CHECK(mentions(error, "sepal salvage"));
}

// No release wrote a version below 4.
TEST_CASE("a file of a version older than the first release is refused, with the versions that are read") {
  for (const std::string name : {"MANIFEST", "pack-0", "filter-1-0"}) {
    for (const std::uint8_t version : {0, 1, 3}) {
      FileMap files = small_generation();
      files[folder + name][offsetof(format::FilterFileHeader, version)] = std::byte{version};
      const Error error = refused(files, folder + name);
      CHECK(error.code == Errc::damaged);
      CHECK(mentions(error, "has format version " + std::to_string(version) + " or flags that are unknown"));
      CHECK(mentions(error, name == "MANIFEST" ? "this version reads format 4 to 5 without flags"
                                               : "this version reads format 4 without flags"));
    }
  }
}

TEST_CASE("a CURRENT that names no generation is refused with advice") {
  FileMap files = small_generation();
  const std::string line = format::sealed_line("CURRENT", "../other");
  const auto bytes = format::bytes_of(std::string_view(line));
  files["data/CURRENT"].assign(bytes.begin(), bytes.end());
  CHECK(mentions(refused(files, "data/CURRENT"), "restore it from a backup"));
}

TEST_CASE("absurd lengths with right checksums are refused") {
  for (const std::uint32_t length : {std::uint32_t{100'000}, std::uint32_t{0xffffffff}}) {
    const Error key = refused_record(
        [&](Bytes& pack) { change_head(pack, [&](format::RecordHead& head) { head.key_bytes = length; }); });
    CHECK(mentions(key, "longer than the file"));
    const Error image = refused_record([&](Bytes& pack) {
      change_head(pack, [&](format::RecordHead& head) { head.image_bytes = length; });
    });
    CHECK(mentions(image, "longer than the file"));
  }
  for (const std::uint64_t length : {std::uint64_t{100'000}, ~std::uint64_t{0}, ~std::uint64_t{0} << 20}) {
    const Error bitmap = refused_record([&](Bytes& pack) {
      change_head(pack, [&](format::RecordHead& head) { head.bitmap_bytes = length; });
    });
    CHECK(mentions(bitmap, "longer than the file"));
  }
}

TEST_CASE("a wrong image header with right checksums is refused before it allocates") {
  const auto lie = [](std::size_t offset, std::uint64_t value, std::size_t length) {
    return refused_record([&](Bytes& pack) { std::memcpy(&pack[image_of(pack) + offset], &value, length); });
  };
  constexpr std::size_t layer = bloom::image_header_bytes;
  CHECK(lie(0, 0, 4).code == Errc::damaged);              // magic
  CHECK(lie(4, 9, 2).code == Errc::unsupported_version);  // version
  CHECK(mentions(lie(4, 9, 2), "that a newer version of Sepal wrote"));
  CHECK(lie(36, 0, 4).code == Errc::damaged);  // no layers
  CHECK(lie(36, 5, 4).code == Errc::damaged);  // more layers than the header is long
  CHECK(lie(layer + 16, std::uint64_t{1} << 40, 8).code == Errc::damaged);  // block count
  CHECK(lie(layer + 16, ~std::uint64_t{0} / 64, 8).code == Errc::damaged);
  CHECK(lie(layer + 32, ~std::uint64_t{0}, 8).code == Errc::damaged);  // item count
}

TEST_CASE("a wrong database number, a wrong magic and wrong counts are refused") {
  const Error database = refused_record([](Bytes& pack) {
    change_head(pack, [](format::RecordHead& head) { head.database = keyspace::database_count; });
  });
  CHECK(mentions(database, "no such database"));
  const Error magic = refused_record([](Bytes& pack) { pack[first_record] = std::byte{'x'}; });
  CHECK(mentions(magic, "is damaged at offset 32: no record begins here"));
  const Error count = refused_record(
      [](Bytes& pack) { pack[offsetof(format::FilterFileHeader, record_count)] = std::byte{1}; });
  CHECK(mentions(count, "count of keys"));
  const Error behind = refused_record([](Bytes& pack) { pack.push_back(std::byte{0}); });
  CHECK(mentions(behind, "something stands behind its last filter"));
}

}  // namespace damage_test
