#include <sepal/cuckoo/foreign/redis_payload.hpp>

#include "support/catch.hpp"
#include "support/rdb_text.hpp"

namespace redis_payload_test {

namespace {

using namespace sepal;
using namespace sepal::cuckoo;
using test::bytes_of;
using test::RdbText;

constexpr value::Limits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 32};

RedisTable made(const RedisOptions& options, std::uint64_t item_count) {
  auto table = RedisTable::make(redis_header_of(options), plenty);
  REQUIRE(table);
  for (std::uint64_t i = 0; i < item_count; ++i)
    REQUIRE(table->add("item:" + std::to_string(i), plenty) == RedisTable::Added::added);
  return std::move(*table);
}

ReadSlots reader_of(const RedisTable& table) {
  return [&table](std::uint32_t layer, std::uint64_t offset, std::span<std::byte> to) {
    std::ranges::copy(table.slots(layer).subspan(offset, to.size()), to.begin());
  };
}

std::string payload_of(const RedisTable& table) {
  const auto pieces = redis_payload_of(table.header(), reader_of(table), {});
  REQUIRE(pieces);
  std::string payload;
  for (const std::string& piece : *pieces) payload += piece;
  CHECK(payload.size() == redis_payload_bytes(table.header()));
  return payload;
}

bool same(const RedisTable& one, const RedisTable& other) {
  bool same = one.header() == other.header();
  for (std::uint32_t layer = 0; same && layer < one.header().layer_count; ++layer)
    same = std::ranges::equal(one.slots(layer), other.slots(layer));
  return same;
}

// RESTORE. The bytes stand at the end of an allocation, so that AddressSanitizer sees a read behind them.
Result<RedisTable> restored(std::string_view payload, const value::Limits& limits = plenty) {
  const std::vector<char> exact(payload.begin(), payload.end());
  const auto bytes = std::as_bytes(std::span(exact));
  const auto fields = decode_redis_payload(bytes);
  if (!fields) return fields.error();
  rdb::BytesInMemory strings(bytes);
  return table_of(*fields, strings, limits);
}

// A payload with the parts that a test changes.
struct Parts {
  std::uint64_t id = redis_id;
  std::vector<std::uint64_t> numbers{2, 2, 3, 0, 2, 20, 2};
  std::vector<std::uint64_t> buckets{2, 4};
  std::vector<std::string> slots{std::string("\xc4\0\0\x01", 4), std::string("\0\0\x02\0\0\0\0\0", 8)};
  std::string behind;
  std::function<void(RdbText&, const std::string&)> write_slots =
      [](RdbText& text, const std::string& of_layer) { text.string(of_layer); };

  [[nodiscard]] std::string text() const {
    RdbText text;
    text.bytes = "\x07";
    text.length(id);
    for (const std::uint64_t number : numbers) text.number(number);
    for (std::size_t layer = 0; layer < slots.size(); ++layer) {
      text.number(buckets[layer]);
      write_slots(text, slots[layer]);
    }
    text.length(0);
    text.bytes += behind;
    text.bytes += std::string("\x0c\0", 2);
    return text.sealed();
  }
};

template <class Change>
Errc refused(const Change& change) {
  Parts parts;
  change(parts);
  const auto table = restored(parts.text());
  REQUIRE(!table);
  return table.error().code;
}

// What a server reads from a file for the module.
class Fields final : public value::RdbFields {
 public:
  Fields(std::vector<std::uint64_t> numbers, std::vector<std::string> strings)
      : numbers_(std::move(numbers)), strings_(std::move(strings)) {}

  std::uint64_t number() override {
    if (next_number_ == numbers_.size()) failed_ = true;
    return failed_ ? 0 : numbers_[next_number_++];
  }
  double real() override {
    failed_ = true;
    return 0;
  }
  std::unique_ptr<String> string() override {
    if (next_string_ == strings_.size()) failed_ = true;
    return std::make_unique<Text>(failed_ ? std::string() : strings_[next_string_++]);
  }
  [[nodiscard]] bool failed() const override { return failed_; }

 private:
  class Text final : public String {
   public:
    explicit Text(std::string text) : text_(std::move(text)) {}
    [[nodiscard]] std::span<const std::byte> bytes() const override { return bytes_of(text_); }

   private:
    std::string text_;
  };

  std::vector<std::uint64_t> numbers_;
  std::vector<std::string> strings_;
  std::size_t next_number_ = 0;
  std::size_t next_string_ = 0;
  bool failed_ = false;
};

value::LimitsOfNew up_to(std::uint64_t bytes_max) {
  return [bytes_max](std::uint64_t) { return value::Limits{.bytes_max = bytes_max, .layers_max = 32}; };
}

}  // namespace

TEST_CASE("the payload of a tiny filter is RedisBloom's, byte for byte") {
  auto table = made({.capacity = 4}, 0);
  REQUIRE(table.add("a", plenty) == RedisTable::Added::added);
  std::string fields = payload_of(table);
  fields.resize(fields.size() - 10);
  CHECK(fields == test::unhex("07"
                              "813016e5a289821404"
                              "02010202020102000202021402010202"
                              "05040000c40000"));
}

TEST_CASE("a payload is known by its first bytes") {
  const auto begins = [](const std::string& text) { return begins_redis_payload(bytes_of(text)); };
  Parts parts;
  CHECK(begins(parts.text()));
  CHECK(begins(parts.text().substr(0, 10)));
  CHECK(!begins(parts.text().substr(0, 9)));
  CHECK(!begins(""));
  parts.id = redis_type_id | 1023;
  CHECK(begins(parts.text()));
  parts.id = 0x3016e5a289bef804;  // a Bloom filter
  CHECK(!begins(parts.text()));
}

TEST_CASE("a payload restores the same filter") {
  const auto check = [](const RedisTable& table) {
    const auto copy = restored(payload_of(table));
    REQUIRE(copy);
    CHECK(same(*copy, table));
  };
  check(made({}, 0));
  check(made({}, 300));
  check(made({.capacity = 64, .expansion = 2}, 600));
  check(made({.capacity = 2, .bucket_slots = 1}, 40));
  check(made({.capacity = 1000, .bucket_slots = 255, .expansion = 0}, 500));
  check(made({.capacity = 4 << 20, .expansion = 0}, 10));
}

TEST_CASE("a payload comes in pieces of a megabyte, and ends when it is given up") {
  const auto table = made({.capacity = 3 << 20}, 10);
  std::uint64_t last_done = 0;
  const auto pieces = redis_payload_of(table.header(), reader_of(table), [&](std::uint64_t bytes_done) {
    CHECK(bytes_done > last_done);
    last_done = bytes_done;
    return true;
  });
  REQUIRE(pieces);
  CHECK(pieces->size() == 5);
  for (const std::string& piece : *pieces) CHECK(piece.size() <= value::module_piece_bytes);
  const auto given_up =
      redis_payload_of(table.header(), reader_of(table), [](std::uint64_t) { return false; });
  REQUIRE(!given_up);
  CHECK(given_up.error().code == Errc::io);
}

TEST_CASE("counts of any size are in a payload") {
  RedisHeader header = redis_header_of({.capacity = 4});
  header.item_count = std::numeric_limits<std::uint64_t>::max();
  header.delete_count = std::uint64_t{1} << 32;
  auto table = RedisTable::make(header, plenty);
  REQUIRE(table);
  const auto copy = restored(payload_of(*table));
  REQUIRE(copy);
  CHECK(copy->header() == header);
}

TEST_CASE("slots are read from strings that are plain, packed, or numbers") {
  const Parts parts;
  const auto plain = restored(parts.text());
  REQUIRE(plain);
  CHECK(plain->slots(0)[3] == std::byte{1});
  CHECK(plain->slots(1)[2] == std::byte{2});

  Parts packed;
  packed.numbers = {1, 512, 0, 0, 2, 20, 1};
  packed.buckets = {512};
  packed.slots = {std::string(1023, 'x') + 'y'};
  packed.write_slots = [](RdbText& text, const std::string& of_layer) { test::write_packed(text, of_layer); };
  const auto unpacked = restored(packed.text());
  REQUIRE(unpacked);
  CHECK(unpacked->slots(0)[1022] == std::byte{'x'});
  CHECK(unpacked->slots(0)[1023] == std::byte{'y'});

  // Redis writes slots that are the digits of a number as a number.
  Parts number;
  number.numbers = {1, 2, 4, 0, 2, 20, 1};
  number.buckets = {2};
  number.slots = {std::string()};
  number.write_slots = [](RdbText& text, const std::string&) { text.bytes += "\x05\xc1\xd2\x04"; };
  const auto digits = restored(number.text());
  REQUIRE(digits);
  CHECK(std::ranges::equal(digits->slots(0), bytes_of("1234")));
  // Another count of digits than of slots.
  number.write_slots = [](RdbText& text, const std::string&) { text.bytes += "\x05\xc0\x0c"; };
  const auto short_one = restored(number.text());
  REQUIRE(!short_one);
  CHECK(short_one.error().code == Errc::out_of_range);
}

TEST_CASE("a payload that RedisBloom would only assert is refused") {
  const auto number = [](std::size_t index, std::uint64_t value) {
    return [index, value](Parts& parts) { parts.numbers[index] = value; };
  };
  CHECK(restored(Parts().text()));
  // Layers, buckets, slots of a bucket, kicks, expansion.
  CHECK(refused(number(0, 0)) == Errc::out_of_range);
  CHECK(refused(number(0, 1)) == Errc::out_of_range);
  CHECK(refused(number(0, 3)) == Errc::out_of_range);
  CHECK(refused(number(0, std::uint64_t{1} << 40)) == Errc::out_of_range);
  CHECK(refused(number(0, (std::uint64_t{1} << 32) + 2)) == Errc::out_of_range);
  CHECK(refused(number(1, 0)) == Errc::out_of_range);
  CHECK(refused(number(1, 3)) == Errc::out_of_range);
  CHECK(refused(number(1, std::uint64_t{1} << 60)) == Errc::out_of_range);
  CHECK(refused(number(4, 0)) == Errc::out_of_range);
  CHECK(refused(number(4, 256)) == Errc::out_of_range);
  CHECK(refused(number(4, 65538)) == Errc::out_of_range);
  CHECK(refused(number(5, 0)) == Errc::out_of_range);
  CHECK(refused(number(6, 0)) == Errc::out_of_range);
  CHECK(refused(number(6, 3)) == Errc::out_of_range);
  CHECK(refused(number(6, 65536)) == Errc::out_of_range);
  // Layers that do not fit the first one, or their strings.
  CHECK(refused([](Parts& parts) { parts.buckets[1] = 2; }) == Errc::out_of_range);
  CHECK(refused([](Parts& parts) { parts.buckets[1] = 8; }) == Errc::out_of_range);
  CHECK(refused([](Parts& parts) { parts.slots[0] += '\0'; }) == Errc::out_of_range);
  CHECK(refused([](Parts& parts) { parts.slots[1].pop_back(); }) == Errc::out_of_range);
  CHECK(refused([](Parts& parts) { parts.slots[1].clear(); }) == Errc::out_of_range);
  // Not one value, of another version, of another module.
  CHECK(refused([](Parts& parts) { parts.behind = "x"; }) == Errc::out_of_range);
  CHECK(refused([](Parts& parts) { parts.id += 1; }) == Errc::out_of_range);
  CHECK(refused([](Parts& parts) { parts.id = 0x3016e5a289bef804; }) == Errc::out_of_range);
}

TEST_CASE("a payload that was changed on its way is damaged") {
  const std::string whole = Parts().text();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    const auto table = restored(changed);
    REQUIRE(!table);
    CHECK(table.error().code == Errc::damaged);
    CHECK(!restored(whole.substr(0, i)));
  }
}

TEST_CASE("a payload that would take too much memory is refused") {
  const auto table = made({}, 10);
  const std::uint64_t bytes = RedisTable::memory_bytes(table.header());
  CHECK(restored(payload_of(table), {.bytes_max = bytes}));
  const auto refused = restored(payload_of(table), {.bytes_max = bytes - 1});
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::too_large);
}

TEST_CASE("a payload with more layers than allowed is refused") {
  CHECK(restored(Parts().text(), {.bytes_max = 1 << 20, .layers_max = 2}));
  const auto refused = restored(Parts().text(), {.bytes_max = 1 << 20, .layers_max = 1});
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::layer_limit);
}

TEST_CASE("in a file, the fields of a filter that is refused are read to their end") {
  Parts parts;
  parts.buckets[0] = 1;
  const std::string text = parts.text();
  rdb::Reader reader(bytes_of(text));
  reader.byte();
  REQUIRE(reader.length() == redis_id);
  const auto fields = read_redis_fields(reader);
  REQUIRE(!fields);
  CHECK(fields.error().code == Errc::out_of_range);
  CHECK(!reader.failed());
  CHECK(reader.offset() == text.size() - 10);
}

TEST_CASE("the module reads the fields of a server's file") {
  const std::vector<std::uint64_t> numbers{2, 2, 3, 0, 2, 20, 2, 2, 4};
  const std::vector<std::string> strings = Parts().slots;
  Fields fields(numbers, strings);
  const auto table = read_redis_table(fields, up_to(1 << 20));
  REQUIRE(table);
  const auto expected = restored(Parts().text());
  REQUIRE(expected);
  CHECK(same(*table, *expected));

  const auto refused = [&](std::vector<std::uint64_t> some_numbers, std::vector<std::string> some_strings,
                           std::uint64_t bytes_max = 1 << 20) {
    Fields some(std::move(some_numbers), std::move(some_strings));
    const auto none = read_redis_table(some, up_to(bytes_max));
    REQUIRE(!none);
    return none.error().code;
  };
  CHECK(refused(numbers, strings, 16) == Errc::too_large);
  for (std::size_t count = 0; count < numbers.size(); ++count)
    CHECK(refused({numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(count)}, strings) ==
          Errc::damaged);
  CHECK(refused(numbers, {strings[0]}) == Errc::damaged);
  CHECK(refused(numbers, {strings[0], strings[0]}) == Errc::out_of_range);
  CHECK(refused({2, 2, 3, 0, 2, 20, 2, 2, 8}, strings) == Errc::out_of_range);
  CHECK(refused({2, 3, 3, 0, 2, 20, 2, 3, 6}, strings) == Errc::out_of_range);
}

}  // namespace redis_payload_test
