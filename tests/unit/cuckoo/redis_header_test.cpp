#include <sepal/cuckoo/foreign/redis_header.hpp>

#include "support/catch.hpp"

namespace redis_header_test {

namespace {

using namespace sepal;
using namespace sepal::cuckoo;

const RedisHeader grown{.item_count = 600,
                        .bucket_count = 32,
                        .delete_count = 36,
                        .layer_count = 4,
                        .bucket_slots = 2,
                        .kicks_max = 20,
                        .expansion = 2};

// A sound header with one field changed.
template <class Change>
bool sound_with(const Change& change) {
  RedisHeader header = grown;
  change(header);
  const bool sound = check_redis_header(header).ok();
  // What a dump says is held to the same.
  const auto decoded = decode_redis_header(encode_redis_header(header));
  CHECK(decoded.ok() == sound);
  if (!sound) CHECK(decoded.error().code == Errc::out_of_range);
  return sound;
}

std::string described(const std::optional<RedisPiece>& piece) {
  if (!piece) return "nothing";
  return std::to_string(piece->byte_count) + " at " + std::to_string(piece->offset) + " of layer " +
         std::to_string(piece->layer) + ", then " + std::to_string(piece->iterator);
}

}  // namespace

TEST_CASE("a filter has as many buckets as RedisBloom gives it") {
  const auto buckets = [](std::uint64_t capacity, std::uint16_t bucket_slots) {
    return redis_header_of({.capacity = capacity, .bucket_slots = bucket_slots}).bucket_count;
  };
  CHECK(buckets(1000, 2) == 512);
  CHECK(buckets(1024, 2) == 512);
  CHECK(buckets(10'000, 2) == 8192);
  CHECK(buckets(5, 2) == 2);
  CHECK(buckets(4, 1) == 4);
  CHECK(buckets(2, 2) == 1);
  CHECK(buckets(510, 255) == 2);
  CHECK(buckets(std::uint64_t{1} << 30, 1) == std::uint64_t{1} << 30);
}

TEST_CASE("an expansion is rounded up to a power of two, and 0 stays 0") {
  const auto expansion = [](std::uint16_t asked) { return redis_header_of({.expansion = asked}).expansion; };
  CHECK(expansion(0) == 0);
  CHECK(expansion(1) == 1);
  CHECK(expansion(2) == 2);
  CHECK(expansion(3) == 4);
  CHECK(expansion(32768) == 32768);
}

TEST_CASE("layers grow by the expansion, and the size is the one that CF.INFO says") {
  CHECK(grown.layer_slots(0) == 64);
  CHECK(grown.layer_slots(3) == 512);
  CHECK(grown.slot_count() == 64 + 128 + 256 + 512);
  CHECK(redis_header_of({}).told_bytes() == 1080);
  CHECK(grown.told_bytes() == 40 + 4 * 16 + 960);
}

TEST_CASE("the header of a dump has its fields in RedisBloom's order") {
  const RedisHeader header{.item_count = 0x0102030405060708,
                           .bucket_count = 512,
                           .delete_count = 0x1112131415161718,
                           .layer_count = 3,
                           .bucket_slots = 4,
                           .kicks_max = 0x2122,
                           .expansion = 2};
  const auto bytes = encode_redis_header(header);
  std::string text;
  for (const std::byte byte : bytes) text += static_cast<char>(byte);
  CHECK(text == std::string("\x08\x07\x06\x05\x04\x03\x02\x01"
                            "\x00\x02\x00\x00\x00\x00\x00\x00"
                            "\x18\x17\x16\x15\x14\x13\x12\x11"
                            "\x03\x00\x00\x00\x00\x00\x00\x00"
                            "\x04\x00\x22\x21\x02\x00",
                            redis_header_bytes));
  const auto decoded = decode_redis_header(bytes);
  REQUIRE(decoded);
  CHECK(*decoded == header);
}

TEST_CASE("a header of another length is none") {
  const auto bytes = encode_redis_header(grown);
  const auto decoded = decode_redis_header(std::span(bytes).first(bytes.size() - 1));
  REQUIRE(!decoded);
  CHECK(decoded.error().code == Errc::damaged);
}

TEST_CASE("a header with a value that no filter has is refused") {
  CHECK(sound_with([](RedisHeader&) {}));
  CHECK(!sound_with([](RedisHeader& header) { header.layer_count = 0; }));
  CHECK(!sound_with([](RedisHeader& header) { header.bucket_slots = 0; }));
  CHECK(sound_with([](RedisHeader& header) { header.bucket_slots = redis_bucket_slots_max; }));
  CHECK(!sound_with([](RedisHeader& header) { header.bucket_slots = redis_bucket_slots_max + 1; }));
  CHECK(!sound_with([](RedisHeader& header) { header.kicks_max = 0; }));
  CHECK(!sound_with([](RedisHeader& header) { header.bucket_count = 0; }));
  CHECK(!sound_with([](RedisHeader& header) { header.bucket_count = 500; }));
  CHECK(!sound_with([](RedisHeader& header) { header.expansion = 3; }));
  CHECK(!sound_with([](RedisHeader& header) { header.expansion = 0; }));
  CHECK(sound_with([](RedisHeader& header) {
    header.expansion = 0;
    header.layer_count = 1;
  }));
  const auto alone = [](std::uint16_t expansion) {
    return [expansion](RedisHeader& header) {
      header.expansion = expansion;
      header.layer_count = 1;
    };
  };
  CHECK(sound_with(alone(redis_expansion_max)));
  CHECK(!sound_with(alone(redis_expansion_max + 1)));
  const auto layers = [](std::uint32_t count) {
    return [count](RedisHeader& header) {
      header.expansion = 1;
      header.layer_count = count;
    };
  };
  CHECK(sound_with(layers(33)));
  CHECK(sound_with(layers(redis_layers_max)));
  CHECK(!sound_with(layers(redis_layers_max + 1)));
}

TEST_CASE("a header whose slots cannot be counted is refused") {
  const auto shape = [](std::uint32_t bits, std::uint32_t layers, std::uint16_t expansion) {
    return [bits, layers, expansion](RedisHeader& header) {
      header.bucket_count = std::uint64_t{1} << bits;
      header.layer_count = layers;
      header.expansion = expansion;
    };
  };
  CHECK(sound_with(shape(55, 1, 1)));
  CHECK(!sound_with(shape(56, 1, 1)));
  CHECK(!sound_with(shape(63, 1, 1)));
  // The last layer would have 2^56 buckets.
  CHECK(sound_with(shape(52, 4, 2)));
  CHECK(!sound_with(shape(53, 4, 2)));
  // A shift by more than a word has no meaning.
  CHECK(!sound_with(shape(0, 100, 32768)));
  // 2^56 slots in each layer.
  CHECK(!sound_with(shape(55, 65535, 1)));
}

TEST_CASE("CF.SCANDUMP gives the slots of one layer after the other") {
  CHECK(described(redis_piece_at(grown, 1)) == "64 at 0 of layer 0, then 65");
  CHECK(described(redis_piece_at(grown, 65)) == "128 at 0 of layer 1, then 193");
  CHECK(described(redis_piece_at(grown, 449)) == "512 at 0 of layer 3, then 961");
  CHECK(described(redis_piece_at(grown, 961)) == "nothing");
  CHECK(described(redis_piece_at(grown, std::numeric_limits<std::int64_t>::max())) == "nothing");
  // Within a layer.
  CHECK(described(redis_piece_at(grown, 66)) == "127 at 1 of layer 1, then 193");
}

TEST_CASE("a piece of a large layer has at most 16 MiB") {
  const RedisHeader large{.bucket_count = std::uint64_t{1} << 24, .layer_count = 2, .bucket_slots = 2};
  CHECK(described(redis_piece_at(large, 1)) == "16777216 at 0 of layer 0, then 16777217");
  CHECK(described(redis_piece_at(large, 16777217)) == "16777216 at 16777216 of layer 0, then 33554433");
  CHECK(described(redis_piece_at(large, 33554433)) == "16777216 at 0 of layer 1, then 50331649");
}

TEST_CASE("CF.LOADCHUNK puts a piece before the iterator that it comes with") {
  CHECK(described(redis_place_of(grown, 65, 64)) == "64 at 0 of layer 0, then 65");
  CHECK(described(redis_place_of(grown, 193, 128)) == "128 at 0 of layer 1, then 193");
  CHECK(described(redis_place_of(grown, 193, 1)) == "1 at 127 of layer 1, then 193");
  CHECK(described(redis_place_of(grown, 961, 512)) == "512 at 0 of layer 3, then 961");
}

TEST_CASE("CF.LOADCHUNK refuses a piece that does not lie within one layer") {
  CHECK(!redis_place_of(grown, 65, 0));
  CHECK(!redis_place_of(grown, 64, 64));
  CHECK(!redis_place_of(grown, 66, 64));
  CHECK(!redis_place_of(grown, 962, 512));
  CHECK(!redis_place_of(grown, 5000, 1));
  CHECK(!redis_place_of(grown, -1, 1));
  CHECK(!redis_place_of(grown, std::numeric_limits<std::int64_t>::min(), 1));
  CHECK(!redis_place_of(grown, std::numeric_limits<std::int64_t>::max(), 1));
  CHECK(!redis_place_of(grown, 2, std::numeric_limits<std::uint64_t>::max()));
}

}  // namespace redis_header_test
