#include <sepal/storage/format/journal_format.hpp>

#include "support/catch.hpp"
#include "support/journal_files.hpp"

namespace journal_format_test {

using namespace sepal;
using namespace sepal::storage;
using namespace sepal::storage::format;

namespace {

constexpr keyspace::DatabaseKey some_key{.database = 3, .key = "key"};
constexpr bloom::LayerPlan some_layer{
    .capacity = 100, .error_rate = 0.5, .block_count = 2, .block_bits = 512, .probe_count = 6};
constexpr bloom::FilterOptions some_options{
    .error_rate = 0.25, .capacity = 100, .expansion = 2, .seed = 0x0102};

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

std::string zeros(std::size_t byte_count) {
  return std::string(2 * byte_count, '0');
}

// The head of an operation with a key of three bytes in database 3.
std::string head(const std::string& operation, const std::string& count = "00000000",
                 const std::string& kind = "00") {
  return operation + "03" + "00" + kind + count + "03000000" + zeros(4) + "6b6579";
}

std::string head_of_same_key(const std::string& operation, const std::string& count = "00000000") {
  return operation + "03" + "0100" + count + zeros(8);
}

// The head of so many bytes, fewer than 256.
std::string bytes_head(std::size_t count) {
  const auto byte = static_cast<std::byte>(count);
  return hexadecimal({&byte, 1}) + zeros(7);
}

const std::string some_layer_bytes =
    "6400000000000000"
    "000000000000e03f"
    "0200000000000000"
    "00020000"
    "06000000";
const std::string some_filter_bytes =
    "0201000000000000"
    "000000000000d03f"
    "6400000000000000"
    "02000000"
    "00000000";
const std::string one =
    "0807060504030201"
    "1817161514131211";
const std::string two =
    "ff00000000000000"
    "ee00000000000000";
constexpr Fingerprint fingerprint_one{.low = 0x0102030405060708, .high = 0x1112131415161718};
constexpr Fingerprint fingerprint_two{.low = 0xff, .high = 0xee};

}  // namespace

TEST_CASE("a segment's name has twelve digits, and only such a name has a number") {
  CHECK(segment_name(7) == "journal-000000000007");
  CHECK(segment_name(segment_number_max) == "journal-999999999999");
  CHECK(segment_number("journal-000000000007") == 7);
  CHECK(segment_number("journal-999999999999") == segment_number_max);
  for (const char* other : {"", "journal-", "journal-7", "journal-0000000000007", "journal-00000000000x",
                            "journal-00000000000 ", "generation-000000000007", "Journal-000000000007"})
    CHECK_FALSE(segment_number(other));
}

TEST_CASE("the checksum of a segment's header covers every field") {
  SegmentHeader header;
  header.segment_number = 7;
  header.first_position = 1000;
  header.segment_bytes = 1 << 20;
  CHECK(hexadecimal(bytes_of(header)) ==
        "534550414c4a524e"
        "09000000"
        "00000000"
        "0700000000000000"
        "e803000000000000"
        "0000100000000000" +
            zeros(16 + 8));
  const std::uint64_t checksum = segment_checksum(header);
  CHECK(checksum == 0xb210a7c6fd9508c7U);
  std::array<std::byte, sizeof header> bytes{};
  for (std::size_t at = 0; at < offsetof(SegmentHeader, checksum); ++at) {
    std::memcpy(bytes.data(), &header, sizeof header);
    bytes[at] ^= std::byte{1};
    SegmentHeader changed;
    std::memcpy(&changed, bytes.data(), sizeof changed);
    CHECK(segment_checksum(changed) != checksum);
  }
  header.checksum = checksum;
  CHECK(segment_checksum(header) == checksum);
}

TEST_CASE("a frame's checksum covers its body, its length, its place, its flags and the last sync") {
  FrameHead frame;
  frame.body_bytes = 16;
  frame.synced_position = 64;
  const std::uint64_t body = Checksum::of(bytes_of(std::string_view("0123456789abcdef")));
  const std::uint64_t checksum = frame_checksum(frame, 128, body);
  CHECK(checksum == 0xc436cf333e771ffeU);

  CHECK(frame_checksum(frame, 136, body) != checksum);
  CHECK(frame_checksum(frame, 128, body + 1) != checksum);
  FrameHead longer = frame;
  longer.body_bytes = 17;
  CHECK(frame_checksum(longer, 128, body) != checksum);
  FrameHead later = frame;
  later.synced_position = 72;
  CHECK(frame_checksum(later, 128, body) != checksum);
  FrameHead filler = frame;
  filler.flags = frame_filler;
  CHECK(frame_checksum(filler, 128, body) != checksum);
  frame.checksum = checksum;
  CHECK(frame_checksum(frame, 128, body) == checksum);
}

TEST_CASE("a frame takes its head and its body, rounded up to eight") {
  CHECK(frame_bytes(1) == 32);
  CHECK(frame_bytes(8) == 32);
  CHECK(frame_bytes(9) == 40);
}

TEST_CASE("each operation has the bytes of the format") {
  test::TellingEncoder encoder;
  const std::vector<Fingerprint> fingerprints{fingerprint_one, fingerprint_two};
  SECTION("added") {
    encoder.added(some_key, fingerprints);
    CHECK(hexadecimal(encoder.bytes()) == head("01", "02000000") + one + two);
    CHECK(encoder.bytes().size() == added_bytes_max(3, 2));
  }
  SECTION("made") {
    encoder.created(some_key, some_options, some_layer);
    CHECK(hexadecimal(encoder.bytes()) == head("0f") + bytes_head(64) + some_filter_bytes + some_layer_bytes);
    CHECK(encoder.bytes().size() == operation_bytes_max(keyspace::Made{.key = some_key}) + 64);
  }
  SECTION("made with a deadline") {
    const keyspace::Made made{.key = some_key, .kind = value::Kind::string, .deadline = 5};
    encoder.record(made);
    const std::string alone = hexadecimal(encoder.bytes());
    CHECK(encoder.bytes().size() <= operation_bytes_max(made));
    encoder.clear();
    encoder.record(keyspace::Made{.key = some_key, .kind = value::Kind::string});
    encoder.expires(some_key, 5);
    CHECK(alone == hexadecimal(encoder.bytes()));
    CHECK(operation_bytes_max(made) == encoder.bytes().size());
  }
  SECTION("made of another kind") {
    const std::array<std::byte, 1> made_of{std::byte{0x11}};
    encoder.record(keyspace::Made{.key = some_key, .kind = value::Kind::string, .head = made_of});
    CHECK(hexadecimal(encoder.bytes()) == head("0f", "00000000", "01") + bytes_head(1) + "11");
  }
  SECTION("made with its first items") {
    encoder.created(some_key, some_options, some_layer);
    encoder.added(some_key, {&fingerprint_one, 1});
    encoder.added(some_key, {&fingerprint_two, 1});
    CHECK(hexadecimal(encoder.bytes()) ==
          head("0f", "02000000") + bytes_head(64) + some_filter_bytes + some_layer_bytes + one + two);
  }
  SECTION("changed") {
    encoder.grown(some_key, some_layer);
    CHECK(hexadecimal(encoder.bytes()) == head("10") + bytes_head(32) + some_layer_bytes);
    CHECK(encoder.bytes().size() == operation_bytes_max(keyspace::Changed{.key = some_key}) + 32);
  }
  SECTION("removed") {
    encoder.removed(some_key);
    CHECK(hexadecimal(encoder.bytes()) == head("04"));
    CHECK(encoder.bytes().size() == operation_bytes_max(keyspace::Removed{some_key}));
  }
  SECTION("renamed") {
    encoder.renamed(3, "key", "to");
    CHECK(hexadecimal(encoder.bytes()) == head("05") + "02000000" + "00000000" + "746f");
    CHECK(encoder.bytes().size() == operation_bytes_max(keyspace::Renamed{.key = some_key, .target = "to"}));
  }
  SECTION("moved") {
    encoder.moved(some_key, 5);
    CHECK(hexadecimal(encoder.bytes()) == head("0d") + "05000000" + "00000000");
    CHECK(encoder.bytes().size() == operation_bytes_max(keyspace::Moved{.key = some_key}));
  }
  SECTION("swapped") {
    encoder.swapped(3, 5);
    CHECK(hexadecimal(encoder.bytes()) == "0c03" + zeros(14) + "05000000" + "00000000");
    CHECK(encoder.bytes().size() == operation_bytes_max(keyspace::Swapped{}));
  }
  SECTION("mirrored") {
    const keyspace::Mirror mirror{.database = 3,
                                  .source = "key",
                                  .target = "to",
                                  .state = keyspace::MirrorState::layer_limit,
                                  .items_before = 5};
    encoder.mirrored(mirror);
    CHECK(hexadecimal(encoder.bytes()) ==
          head("0b") + "03000000" + "00000000" + "0500000000000000" + "02000000" + "00000000" + "746f");
    CHECK(encoder.bytes().size() == operation_bytes_max(keyspace::Mirrored{.key = some_key, .target = "to"}));
  }
  SECTION("changed, with a head and bytes") {
    const std::array<std::byte, 1> first{std::byte{0x11}};
    const keyspace::Changed changed{.key = some_key,
                                    .kind = value::Kind::string,
                                    .what = 7,
                                    .head = first,
                                    .bytes = std::as_bytes(std::span("ab", 2))};
    encoder.record(changed);
    CHECK(hexadecimal(encoder.bytes()) ==
          "1003"
          "0001"
          "00000000"
          "03000000"
          "07000000"
          "6b6579" +
              bytes_head(3) + "11" + "6162");
    CHECK(encoder.bytes().size() == operation_bytes_max(changed));
  }
  SECTION("without a key") {
    encoder.flushed(3);
    encoder.flushed_all();
    encoder.resumed();
    CHECK(hexadecimal(encoder.bytes()) == "0603" + zeros(14) + "07" + zeros(15) + "08" + zeros(15));
    CHECK(encoder.bytes().size() == 3 * operation_bytes_max(keyspace::Flushed{}));
    CHECK(operation_bytes_max(keyspace::FlushedAll{}) == operation_bytes_max(keyspace::Flushed{}));
  }
}

TEST_CASE("an operation on the same key as the one before does not repeat the key") {
  test::TellingEncoder encoder;
  encoder.created(some_key, some_options, some_layer);
  encoder.grown(some_key, some_layer);
  encoder.added(some_key, {&fingerprint_one, 1});
  encoder.renamed(3, "key", "to");
  CHECK(hexadecimal(encoder.bytes()) == head("0f") + bytes_head(64) + some_filter_bytes + some_layer_bytes +
                                            head_of_same_key("10") + bytes_head(32) + some_layer_bytes +
                                            head_of_same_key("01", "01000000") + one +
                                            head_of_same_key("05") + "0200000000000000" + "746f");
}

TEST_CASE("a key is repeated in another database, after another key, and in a new frame") {
  test::TellingEncoder encoder;
  const auto removed_bytes = [&](keyspace::DatabaseKey key) {
    const std::size_t before = encoder.bytes().size();
    encoder.removed(key);
    return encoder.bytes().size() - before;
  };
  const std::uint64_t named = operation_bytes_max(keyspace::Removed{some_key});
  const std::uint64_t unnamed = operation_bytes_max(keyspace::Removed{});
  CHECK(removed_bytes(some_key) == named);
  CHECK(removed_bytes(some_key) == unnamed);
  CHECK(removed_bytes({.database = 4, .key = "key"}) == named);
  CHECK(removed_bytes({.database = 4, .key = "kez"}) == named);
  CHECK(removed_bytes({.database = 4, .key = "kez"}) == unnamed);
  encoder.renamed(4, "kez", "to");
  CHECK(removed_bytes({.database = 4, .key = "kez"}) == named);
  encoder.flushed(4);
  CHECK(removed_bytes({.database = 4, .key = "kez"}) == named);
  encoder.clear();
  CHECK(encoder.empty());
  CHECK(removed_bytes({.database = 4, .key = "kez"}) == named);
}

TEST_CASE("the record of an adopted filter has its image, or the number of its file") {
  const std::array<std::byte, 3> image{std::byte{0x11}, std::byte{0x22}, std::byte{0x33}};
  test::TellingEncoder encoder;
  encoder.adopted(some_key, {.image = image, .deadline = 5});
  CHECK(hexadecimal(encoder.bytes()) ==
        head("0a") + "0500000000000000" + zeros(8 + 8) + "03000000" + "00000000" + "112233");
  CHECK(encoder.bytes().size() ==
        operation_bytes_max(keyspace::Adopted{.key = some_key, .value = {.image = image}}));
  encoder.clear();
  encoder.adopted(some_key, {.file = {.number = 7, .seal = 9}});
  CHECK(hexadecimal(encoder.bytes()) ==
        head("0a") + zeros(8) + "0700000000000000" + "0900000000000000" + zeros(4 + 4));
  CHECK(format::adopted_name(7) == "adopted-000000000007");
  CHECK(format::adopted_number("adopted-000000000007") == 7);
  CHECK_FALSE(format::adopted_number("adopted-7"));
}

TEST_CASE("the empty key is a key") {
  test::TellingEncoder encoder;
  encoder.removed({.database = 3, .key = ""});
  encoder.removed({.database = 3, .key = ""});
  CHECK(hexadecimal(encoder.bytes()) == "0403" + zeros(14) + head_of_same_key("04"));
}

TEST_CASE("adds to one key in a row are one operation") {
  test::TellingEncoder encoder;
  encoder.added(some_key, {&fingerprint_one, 1});
  encoder.added(some_key, {&fingerprint_two, 1});
  CHECK(hexadecimal(encoder.bytes()) == head("01", "02000000") + one + two);
  encoder.grown(some_key, some_layer);
  encoder.added(some_key, {&fingerprint_one, 1});
  encoder.added(some_key, {&fingerprint_one, 1});
  CHECK(hexadecimal(encoder.bytes()) == head("01", "02000000") + one + two + head_of_same_key("10") +
                                            bytes_head(32) + some_layer_bytes +
                                            head_of_same_key("01", "02000000") + one + one);
  encoder.clear();
  encoder.added(some_key, {&fingerprint_two, 1});
  CHECK(hexadecimal(encoder.bytes()) == head("01", "01000000") + two);
}

}  // namespace journal_format_test
