#include <sepal/storage/format/snapshot_format.hpp>

#include "support/catch.hpp"

namespace snapshot_format_test {

using namespace sepal;
using namespace sepal::storage::format;

namespace {

Manifest some_manifest() {
  return {.generation = 7,
          .taken_at = 1'700'000'000'123,
          .filter_count = 12,
          .item_count = 99,
          .byte_count = 3000,
          .journal_position = 12'345'678'901,
          .writer = "0.1.0",
          .files = {{.name = "pack-0", .byte_count = 1000, .record_count = 11, .seal = 5},
                    {.name = "filter-0", .byte_count = 2000, .record_count = 1, .seal = 6}},
          .mirrors = {{.database = 3,
                       .source = "users",
                       .target = "users:next",
                       .state = keyspace::MirrorState::full,
                       .items_before = 17}}};
}

Errc code_of(const std::vector<std::byte>& bytes) {
  const auto decoded = decode_manifest(bytes);
  REQUIRE(!decoded);
  return decoded.error().code;
}

}  // namespace

TEST_CASE("a decoded manifest equals the encoded one") {
  const auto decoded = decode_manifest(encode(some_manifest()));
  REQUIRE(decoded);
  CHECK(decoded->generation == 7);
  CHECK(decoded->taken_at == 1'700'000'000'123);
  CHECK(decoded->item_count == 99);
  CHECK(decoded->journal_position == 12'345'678'901);
  CHECK(decoded->writer == "0.1.0");
  REQUIRE(decoded->files.size() == 2);
  CHECK(decoded->files[1].name == "filter-0");
  CHECK(decoded->files[1].byte_count == 2000);
  CHECK(decoded->files[1].seal == 6);
  CHECK(decoded->mirrors == some_manifest().mirrors);
}

TEST_CASE("a manifest of any other length, or with any bit flipped, is refused") {
  const std::vector<std::byte> bytes = encode(some_manifest());
  for (std::size_t length = 0; length < bytes.size(); ++length)
    CHECK(code_of({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)}) == Errc::damaged);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::vector<std::byte> flipped = bytes;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    const Errc code = code_of(flipped);
    CHECK((code == Errc::damaged || code == Errc::unsupported_version));
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(code_of(longer) == Errc::damaged);
}

TEST_CASE("a manifest of another version is unsupported, not damaged") {
  std::vector<std::byte> bytes = encode(some_manifest());
  bytes[offsetof(ManifestHead, version)] = std::byte{manifest_version + 1};
  CHECK(code_of(bytes) == Errc::unsupported_version);
}

TEST_CASE("a manifest with the largest number and length of names is read") {
  Manifest manifest = some_manifest();
  manifest.writer = std::string(writer_bytes_max, 'v');
  manifest.files.assign(
      manifest_files_max,
      {.name = std::string(file_name_bytes_max, 'n'), .byte_count = 1, .record_count = 1, .seal = 0});
  const std::string longest(keyspace::key_bytes_max, 'k');
  manifest.mirrors.assign(keyspace::mirrors_max, {.database = 0, .source = longest, .target = longest});
  manifest.filter_count = manifest_files_max;
  manifest.byte_count = manifest_files_max;
  const std::vector<std::byte> bytes = encode(manifest);
  CHECK(bytes.size() == manifest_bytes_max);
  CHECK(decode_manifest(bytes));

  manifest.files[5].name += 'n';
  CHECK(code_of(encode(manifest)) == Errc::damaged);
}

TEST_CASE("a manifest whose names lead to another folder, or whose sums are wrong or overflow, is refused") {
  for (const char* name : {"", "../pack-0", "a/b", ".", "PACK", "pack_0"}) {
    Manifest manifest = some_manifest();
    manifest.files[0].name = name;
    CHECK(code_of(encode(manifest)) == Errc::damaged);
  }
  Manifest manifest = some_manifest();
  manifest.byte_count += 1;
  CHECK(code_of(encode(manifest)) == Errc::damaged);
  manifest = some_manifest();
  manifest.filter_count += 1;
  CHECK(code_of(encode(manifest)) == Errc::damaged);
  manifest = some_manifest();
  manifest.files[0].byte_count = ~std::uint64_t{0};
  manifest.byte_count = 1999;  // the sum after its overflow
  CHECK(code_of(encode(manifest)) == Errc::damaged);
}

TEST_CASE("a manifest with a mirror of an unknown state is refused") {
  for (const int state : {0, static_cast<int>(keyspace::last_mirror_state) + 1}) {
    Manifest manifest = some_manifest();
    manifest.mirrors[0].state = static_cast<keyspace::MirrorState>(state);
    CHECK(code_of(encode(manifest)) == Errc::damaged);
  }
}

TEST_CASE("a sealed line gives its value back, and a changed line is refused") {
  const std::string line = sealed_line("SEED", "1f");
  const auto value = decode_sealed_line("SEED", line);
  REQUIRE(value);
  CHECK(*value == "1f");
  CHECK(!decode_sealed_line("CURRENT", line));
  CHECK(!decode_sealed_line("SEED", line + "\n"));
  for (std::size_t i = 0; i < line.size(); ++i) {
    INFO("byte " << i);
    CHECK(!decode_sealed_line("SEED", line.substr(0, i)));
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = line;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      CHECK(!decode_sealed_line("SEED", changed));
    }
  }
  CHECK(decode_sealed_line("SEED", "SEPAL-SEED 2 x y\n").error().code == Errc::unsupported_version);
}

TEST_CASE("a generation's name and number convert into each other, and other names have no number") {
  CHECK(generation_name(7) == "generation-000000000007");
  CHECK(generation_number("generation-000000000007") == 7);
  CHECK(generation_number(generation_name(generation_number_max)) == generation_number_max);
  for (const char* name : {"", "generation-", "generation-7", "generation-0000000000007",
                           "generation-00000000000x", "Generation-000000000007", "generation-000000000007 "})
    CHECK_FALSE(generation_number(name));
}

TEST_CASE("the stored length of a bitmap includes a checksum for each chunk, and cannot overflow") {
  CHECK(stored_bitmap_bytes(0) == 0);
  CHECK(stored_bitmap_bytes(1) == 1 + checksum_bytes);
  CHECK(stored_bitmap_bytes(chunk_bytes) == chunk_bytes + checksum_bytes);
  CHECK(stored_bitmap_bytes(chunk_bytes + 1) == chunk_bytes + 1 + 2 * checksum_bytes);
  CHECK_FALSE(stored_bitmap_bytes(~std::uint64_t{0}));
}

}  // namespace snapshot_format_test
