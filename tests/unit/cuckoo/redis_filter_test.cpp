// A cuckoo filter of RedisBloom as a value: its image, its payload, its records.
#include <sepal/base/endian.hpp>
#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/cuckoo/foreign/redis_payload.hpp>
#include <sepal/cuckoo/kind/redis_kind.hpp>
#include <sepal/cuckoo/native/filter.hpp>

#include <random>

#include "support/catch.hpp"
#include "support/rdb_text.hpp"

namespace redis_filter_test {

namespace {

using namespace sepal;
using namespace sepal::cuckoo;
using Image = std::vector<std::byte>;

constexpr value::Limits plenty{.bytes_max = std::uint64_t{1} << 30, .layers_max = 64};

RedisFilterPtr made(const RedisOptions& options) {
  auto filter = RedisFilter::of(RedisTable::make(redis_header_of(options), plenty));
  REQUIRE(filter);
  return *filter;
}

// What a reader of a Still gets, in pieces of this length.
Image image_of(const RedisFilter& filter, const RedisStill& still, std::size_t piece) {
  const value::FrozenView view{.value = filter, .numbers = {}, .still = &still};
  Image image(redis_row.head_bytes(view));
  redis_row.encode_head(view, image);
  for (std::uint64_t offset = 0; offset < redis_row.body_bytes(view); offset += piece) {
    const auto count = std::min<std::uint64_t>(piece, redis_row.body_bytes(view) - offset);
    image.resize(image.size() + count);
    redis_row.copy_body(view, offset, std::span(image).last(count));
  }
  return image;
}
Image image_of(const RedisFilter& filter) {
  return image_of(filter, *filter.freeze(), 1 << 20);
}

std::string payload_of(const RedisFilter& filter) {
  const auto still = filter.freeze();
  const value::FrozenView view{.value = filter, .numbers = {}, .still = still.get()};
  const auto pieces = redis_row.payload->write(view, {});
  REQUIRE(pieces);
  std::string payload;
  for (const std::string& piece : *pieces) payload += piece;
  CHECK(payload.size() == redis_row.payload->byte_count(view));
  return payload;
}

std::uint64_t hash_of(std::uint64_t number) {
  return RedisTable::hash_of("item:" + std::to_string(number));
}

std::vector<std::byte> record_of(std::uint64_t hash) {
  std::vector<std::byte> record(sizeof hash);
  store_little_endian(record.data(), hash);
  return record;
}

Errc refused(RedisFilter& filter, std::uint8_t what, std::span<const std::byte> bytes) {
  const auto outcome = redis_row.apply(filter, what, bytes, plenty);
  REQUIRE(!outcome);
  return outcome.error().code;
}

}  // namespace

TEST_CASE("the image of a RedisBloom filter makes the same filter, of few slots and of many") {
  for (const std::uint64_t capacity : {4ULL, 1000ULL, 200000ULL}) {
    const auto filter = made({.capacity = capacity, .expansion = 2});
    for (std::uint64_t i = 0; i < capacity * 2; ++i)
      REQUIRE(filter->changing().add(hash_of(i), plenty) == RedisTable::Added::added);
    const Image image = image_of(*filter);
    CHECK(redis_row.begins_image(image));
    const auto shape = redis_row.read_head(image, 64);
    REQUIRE(shape);
    CHECK(shape->head_bytes + shape->body_bytes == image.size());
    CHECK(shape->item_count == filter->item_count());
    auto copy = redis_row.make(std::span(image).first(shape->head_bytes), plenty, value::FilledBy::load);
    REQUIRE(copy);
    redis_row.fill_body(**copy, 0, std::span(image).subspan(shape->head_bytes));
    const auto& same = value::as<RedisFilter>(**copy);
    CHECK(image_of(same) == image);
    CHECK(redis_row.byte_count(**copy) == filter->byte_count());
  }
}

TEST_CASE("a damaged head of a RedisBloom filter is refused") {
  const Image image = image_of(*made({}));
  const auto head = std::span(image).first(48);
  CHECK(redis_row.read_head(head.first(47), 64).error().code == Errc::damaged);
  for (const std::size_t at : {6U, 46U, 8U + 32U}) {
    Image changed(head.begin(), head.end());
    changed[at] = changed[at] == std::byte{0} ? std::byte{1} : std::byte{0};
    CHECK(redis_row.read_head(changed, 64).error().code == Errc::damaged);
  }
  Image later(head.begin(), head.end());
  later[4] = std::byte{2};
  CHECK(redis_row.read_head(later, 64).error().code == Errc::unsupported_version);
}

TEST_CASE("a header that claims more items than there are slots counts for no more than these") {
  auto header = redis_header_of({.capacity = 4});
  header.item_count = ~std::uint64_t{0};
  auto filter = RedisFilter::of(RedisTable::make(header, plenty));
  REQUIRE(filter);
  CHECK((*filter)->item_count() == 4);
  CHECK(redis_row.read_head(image_of(**filter), 64)->item_count == 4);
}

TEST_CASE("a copy has the bytes of its instant, whatever changes while it is made") {
  for (const std::size_t piece : {8U, 4096U, 10000U, 1U << 20}) {
    const auto filter = made({.capacity = 100000, .expansion = 1});
    for (std::uint64_t i = 0; i < 150000; ++i) (void)filter->changing().add(hash_of(i), plenty);
    const Image expected = image_of(*filter);
    const auto still = filter->freeze();
    const auto change_some = [&](std::uint64_t from) {
      for (std::uint64_t i = from; i < from + 20000; ++i) (void)filter->changing().remove(hash_of(i));
      for (std::uint64_t i = from; i < from + 30000; ++i)
        (void)filter->changing().add(hash_of(i + 500000), plenty);
      filter->changing().compact();
    };
    change_some(0);
    const value::FrozenView view{.value = *filter, .numbers = {}, .still = still.get()};
    Image body(redis_row.body_bytes(view));
    const std::size_t half = body.size() / 16 * 8;
    for (std::size_t at = 0; at < body.size();) {
      const std::size_t count = std::min(piece, (at < half ? half : body.size()) - at);
      redis_row.copy_body(view, at, std::span(body).subspan(at, count));
      at += count;
      if (at == half) change_some(50000);
    }
    CHECK(std::ranges::equal(body, std::span(expected).last(body.size())));
    CHECK(image_of(*filter) != expected);
  }
}

TEST_CASE("the payload of a RedisBloom filter is RedisBloom's, and makes the same filter") {
  const auto tiny = made({.capacity = 4});
  REQUIRE(tiny->changing().add("a", plenty) == RedisTable::Added::added);
  const std::string payload = payload_of(*tiny);
  std::string fields = payload;
  fields.resize(fields.size() - 10);
  CHECK(fields == test::unhex("07813016e5a2898214040201020202010200020202140201020205040000c40000"));
  const auto bytes = std::as_bytes(std::span(payload));
  CHECK(value::row_of_payload(bytes) == &redis_row);
  const auto read = redis_row.payload->read(bytes, plenty, {});
  REQUIRE(read);
  CHECK(image_of(value::as<RedisFilter>(**read)) == image_of(*tiny));
}

TEST_CASE("the records of random changes leave the same bytes when they are repeated") {
  std::mt19937_64 random(7);
  const auto filter = made({.capacity = 64, .bucket_slots = 2, .kicks_max = 5, .expansion = 2});
  const auto head = encode_redis_header(filter->header());
  const auto repeated = redis_row.make_recorded(head, plenty);
  REQUIRE(repeated);
  auto& other = value::as<RedisFilter>(**repeated);
  const auto repeat = [&](RedisChange what, std::span<const std::byte> bytes) {
    REQUIRE(redis_row.apply(other, static_cast<std::uint8_t>(what), bytes, plenty));
  };
  for (int step = 0; step < 20000; ++step) {
    const std::uint64_t hash = hash_of(random() % 600);
    const auto kind = random() % 100;
    if (kind < 55) {
      const auto added = kind < 30
                             ? filter->changing().add(hash, {.bytes_max = 1 << 20, .layers_max = 4})
                             : filter->changing().add_new(hash, {.bytes_max = 1 << 20, .layers_max = 4});
      if (added == RedisTable::Added::added) repeat(RedisChange::added, record_of(hash));
    } else if (kind < 98) {
      if (filter->changing().remove(hash)) repeat(RedisChange::removed, record_of(hash));
    } else if (kind < 99) {
      filter->changing().compact();
      repeat(RedisChange::compacted, {});
    } else {
      // A chunk.
      const std::uint64_t offset = random() % 60;
      const auto written = redis_written_head(offset);
      std::vector<std::byte> record(written.begin(), written.end());
      record.push_back(static_cast<std::byte>(random() % 256));
      filter->changing().write_at(offset, std::span(record).last(1));
      repeat(RedisChange::written, record);
    }
    if (step % 1000 == 0) REQUIRE(image_of(other) == image_of(*filter));
  }
  CHECK(image_of(other) == image_of(*filter));
}

TEST_CASE("records that no RedisBloom filter makes are refused") {
  const auto filter = made({.capacity = 4, .bucket_slots = 1, .expansion = 0});
  CHECK(refused(*filter, 4, {}) == Errc::damaged);
  CHECK(refused(*filter, 0, {}) == Errc::damaged);
  CHECK(refused(*filter, 0, std::vector<std::byte>(7)) == Errc::damaged);
  CHECK(refused(*filter, 1, record_of(hash_of(1))) == Errc::out_of_range);
  CHECK(refused(*filter, 2, std::vector<std::byte>(1)) == Errc::damaged);
  CHECK(refused(*filter, 3, redis_written_head(0)) == Errc::damaged);
  std::vector<std::byte> behind(9);
  behind[0] = std::byte{4};
  CHECK(refused(*filter, 3, behind) == Errc::out_of_range);
  std::vector<std::byte> far(9, std::byte{0xff});
  CHECK(refused(*filter, 3, far) == Errc::out_of_range);
  const std::uint64_t hash = hash_of(1);
  while (filter->changing().add(hash, plenty) == RedisTable::Added::added) {
  }
  CHECK(refused(*filter, 0, record_of(hash)) == Errc::out_of_range);
}

TEST_CASE("values of different kinds have different identities") {
  const auto one = made({});
  const auto plan = cuckoo::plan({.capacity = 100, .seed = 1}, 1 << 20);
  REQUIRE(plan);
  const auto own = Filter::create(*plan);
  REQUIRE(own);
  const auto other = made({});
  CHECK(std::set{one->identity(), (*own)->identity(), other->identity()}.size() == 3);
  CHECK((*own)->identity() == one->identity() + 1);
}

}  // namespace redis_filter_test
