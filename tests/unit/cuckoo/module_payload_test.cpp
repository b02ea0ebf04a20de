// Payloads of both kinds of cuckoo filters as sepal.so writes them, and changed ones.
#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/cuckoo/kind/module_type.hpp>
#include <sepal/cuckoo/kind/redis_kind.hpp>
#include <sepal/value/image.hpp>
#include <sepal/value/module_payload.hpp>

#include "support/catch.hpp"
#include "support/rdb_text.hpp"

namespace module_payload_test {

namespace {

using namespace sepal;
using namespace sepal::cuckoo;
using test::bytes_of;
using test::RdbText;

constexpr value::Limits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

FilterPtr own(std::uint64_t capacity, std::uint64_t item_count) {
  FilterPtr filter = *Filter::create(*plan({.capacity = capacity, .seed = 5}, plenty.bytes_max));
  OwnMemory memory;
  std::vector<Filter::AddOutcome> outcomes;
  for (std::uint64_t i = 0; i < item_count; ++i) {
    const std::string item = std::to_string(i);
    const std::string_view items[] = {item};
    (void)filter->add(items, Filter::AddIf::always, memory, outcomes, nullptr);
  }
  return filter;
}

RedisFilterPtr of_redis(std::uint64_t capacity, std::uint64_t item_count) {
  RedisFilterPtr filter = *RedisFilter::of(RedisTable::make(redis_header_of({.capacity = capacity}), plenty));
  for (std::uint64_t i = 0; i < item_count; ++i) (void)filter->changing().add(std::to_string(i), plenty);
  return filter;
}

std::string payload_of(const value::ValuePtr& value) {
  const value::Frozen frozen{value};
  std::string payload;
  const auto pieces = value::module_payload_of(frozen.view(), {});
  REQUIRE(pieces);
  for (const std::string& piece : *pieces) payload += piece;
  CHECK(payload.size() == value::module_payload_bytes(frozen.view()));
  return payload;
}

Result<value::ValuePtr> restored(std::string_view payload, const value::Limits& limits = plenty) {
  // Memory of exactly the needed size, so that a sanitizer notices a read beyond its end.
  const std::vector<char> exact(payload.begin(), payload.end());
  const auto bytes = std::as_bytes(std::span(exact));
  const value::KindRow* const row = value::row_of_payload(bytes);
  REQUIRE(row != nullptr);
  return row->payload->read(bytes, limits, {});
}

// A payload with this head and these strings.
std::string payload_with(std::string_view head, const std::vector<std::string>& pieces,
                         std::uint64_t id = value::module_id("MBbloomCF", sepal_encoding)) {
  RdbText text;
  text.bytes = "\x07";
  text.length(id);
  text.string(head);
  for (const std::string& piece : pieces) test::write_packed(text, piece);
  text.length(0);
  text.bytes += std::string("\x09\0", 2);
  return text.sealed();
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// An image, apart: its head, and its body in strings.
struct Parts {
  std::string head;
  std::vector<std::string> pieces;

  explicit Parts(const value::ValuePtr& value) {
    const value::Frozen frozen{value};
    head = text_of(frozen.head());
    const std::string body = text_of(value::image_of(*value)).substr(head.size());
    for (std::size_t at = 0; at < body.size(); at += value::module_piece_bytes)
      pieces.push_back(body.substr(at, value::module_piece_bytes));
  }
};

}  // namespace

TEST_CASE("a payload of sepal.so restores the same cuckoo filter, of each kind") {
  const value::ValuePtr filters[] = {own(1024, 0),   own(1024, 20'000),    own(2'000'000, 500),
                                     of_redis(4, 3), of_redis(1000, 3000), of_redis(3 << 20, 10)};
  for (const value::ValuePtr& filter : filters) {
    const std::string payload = payload_of(filter);
    const auto again = restored(payload);
    REQUIRE(again);
    CHECK((*again)->kind() == filter->kind());
    CHECK(value::image_of(**again) == value::image_of(*filter));
    // As a server writes it that packs its strings.
    const Parts parts(filter);
    const auto packed = restored(payload_with(parts.head, parts.pieces));
    REQUIRE(packed);
    CHECK(value::image_of(**packed) == value::image_of(*filter));
  }
}

TEST_CASE("empty strings of a payload stand for zeros, and digits for bytes") {
  const value::ValuePtr empty = of_redis(3 << 20, 0);
  const Parts parts(empty);
  const auto again = restored(payload_with(parts.head, std::vector<std::string>(parts.pieces.size())));
  REQUIRE(again);
  CHECK(value::image_of(**again) == value::image_of(*empty));

  // Redis writes a string like "12345678" as a number.
  RedisFilterPtr small = of_redis(8, 0);
  small->filling().write_at(0, bytes_of("12345678"));
  RdbText text;
  text.bytes = "\x07";
  text.length(value::module_id("MBbloomCF", sepal_encoding));
  text.string(Parts(small).head);
  text.length(5);
  text.bytes += '\xc2';
  text.bytes += std::string("\x4e\x61\xbc\0", 4);
  text.length(0);
  text.bytes += std::string("\x09\0", 2);
  const auto digits = restored(text.sealed());
  REQUIRE(digits);
  CHECK(value::image_of(**digits) == value::image_of(*small));
}

TEST_CASE("empty strings take no memory one by one, and a body above the limit is refused") {
  constexpr std::uint64_t body_bytes = std::uint64_t{1} << 30;
  const auto head = redis_image_head({.bucket_count = body_bytes / 2});
  RdbText text;
  text.string(text_of(head));
  for (std::uint64_t at = 0; at < body_bytes; at += value::module_piece_bytes) text.string("");
  text.length(0);
  rdb::Reader reader(bytes_of(text.bytes));
  const auto image = value::read_module_image(reader, plenty);
  REQUIRE(image);
  REQUIRE(image->pieces.size() == 1);
  CHECK(image->pieces.front().byte_count == body_bytes);

  rdb::Reader again(bytes_of(text.bytes));
  const auto above = value::read_module_image(again, {.bytes_max = body_bytes - 1});
  REQUIRE(!above);
  CHECK(above.error().code == Errc::too_large);
  // A file goes on behind it.
  CHECK(again.at_end());
}

TEST_CASE("a payload of sepal.so that no filter has is refused") {
  for (const value::ValuePtr& filter :
       {value::ValuePtr(own(1024, 3000)), value::ValuePtr(of_redis(1000, 500))}) {
    const Parts parts(filter);
    const auto refused = [&](const std::string& payload, const value::Limits& limits = plenty) {
      const auto made = restored(payload, limits);
      REQUIRE(!made);
      return made.error().code;
    };
    std::string broken = payload_of(filter);
    broken[broken.size() / 2] ^= 1;
    CHECK(refused(broken) == Errc::damaged);
    CHECK(refused(payload_with(parts.head + '\0', parts.pieces)) == Errc::out_of_range);
    CHECK(refused(payload_with(parts.head, {})) == Errc::out_of_range);
    CHECK(refused(payload_with(parts.head, {parts.pieces.front() + std::string(8, '\0')})) ==
          Errc::out_of_range);
    CHECK(refused(payload_with(parts.head, {parts.pieces.front(), "more"})) == Errc::out_of_range);
    CHECK(refused(payload_with("SPXX" + parts.head.substr(4), parts.pieces)) == Errc::out_of_range);
    CHECK(refused(payload_with(parts.head, parts.pieces, value::module_id("MBbloomCF", 513))) ==
          Errc::out_of_range);
    CHECK(refused(payload_of(filter), {.bytes_max = 100, .layers_max = 64}) == Errc::too_large);
    // What fits, and what it claims, is known before anything is allocated.
    const auto bytes = value::row_of_payload(bytes_of(payload_of(filter)))
                           ->payload->bytes_max(bytes_of(payload_with(parts.head, {""})), 64);
    CHECK(bytes >= value::Frozen(filter).body_bytes());
  }
  // Its cells contradict their counts.
  const value::ValuePtr filter = own(1024, 3000);
  Parts parts(filter);
  parts.pieces.front()[24] ^= 1;
  const auto made = restored(payload_with(parts.head, parts.pieces));
  REQUIRE(!made);
  CHECK(made.error().code == Errc::out_of_range);
}

TEST_CASE("what sepal.so emits for an AOF makes the same filter") {
  std::vector<std::pair<std::string, std::uint64_t>> emitted;
  std::string bytes;
  const auto emit = [&](const char* command, std::uint64_t iterator, std::span<const std::byte> piece) {
    emitted.emplace_back(command, iterator);
    bytes += text_of(piece);
  };
  const FilterPtr mine = own(1024, 3000);
  module_type.give_pieces(*mine, emit);
  CHECK(emitted == std::vector<std::pair<std::string, std::uint64_t>>{{"RESTORE", 0}});
  const auto again = restored(bytes);
  REQUIRE(again);
  CHECK(value::image_of(**again) == value::image_of(*mine));

  emitted.clear();
  bytes.clear();
  const RedisFilterPtr theirs = of_redis(2 << 20, 10);
  module_type.give_pieces(*theirs, emit);
  const std::uint64_t slots = theirs->header().slot_count();
  CHECK(emitted == std::vector<std::pair<std::string, std::uint64_t>>{
                       {"CF.LOADCHUNK", 1}, {"CF.LOADCHUNK", 1 + slots / 2}, {"CF.LOADCHUNK", 1 + slots}});
  CHECK(bytes.size() == redis_header_bytes + slots);
  CHECK(bytes.substr(redis_header_bytes) == text_of(theirs->table().slots(0)));
}

}  // namespace module_payload_test
