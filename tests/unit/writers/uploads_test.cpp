#include <sepal/bloom/filter/dump.hpp>
#include <sepal/writers/uploads.hpp>

#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"

namespace uploads_test {

namespace {

using namespace sepal;
using namespace sepal::keyspace;
using namespace sepal::writers;
using bloom::Filter;
using Outcome = Uploads::Outcome;
using std::chrono::seconds;

constexpr bloom::FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};
constexpr UploadLimits limits{.count_max = 2, .timeout = seconds(60)};
const DatabaseKey key{.database = 0, .key = "k"};
const WallTime start{seconds(1'700'000'000)};

bloom::FilterPtr filter_of(std::uint64_t capacity, int first, int count) {
  auto filter = *Filter::create({.error_rate = 0.001, .capacity = capacity, .seed = 3}, plenty);
  for (int i = first; i < first + count; ++i) (void)filter->add_alone("item " + std::to_string(i), plenty);
  return filter;
}

struct Place {
  test::FreeingHousekeeper housekeeper;
  Keyspace keyspace{KeyspaceOptions{}, housekeeper};
  Uploads uploads{keyspace};

  Result<void> begin(const std::vector<std::byte>& header, DatabaseKey of = key, WallTime now = start) {
    return uploads.begin(of, header, limits, now);
  }
  Outcome load(const bloom::DumpedData& data, WallTime now = start) {
    return uploads.load(key, {.iterator = static_cast<std::int64_t>(data.end) + 1, .bytes = data.piece}, now);
  }
};

bool holds(const Filter& filter, int first, int count) {
  for (int i = first; i < first + count; ++i) {
    const std::string item = "item " + std::to_string(i);
    const std::string_view view = item;
    bool present = false;
    filter.contains({&view, 1}, {&present, 1});
    if (!present) return false;
  }
  return true;
}

TEST_CASE("an upload is whole after its last piece, for any order and any repetitions") {
  Place place;
  const auto filter = filter_of(600'000, 0, 1000);
  REQUIRE(place.begin(bloom::dump_header(*filter, 1)));
  std::vector<bloom::DumpedData> pieces;
  for (std::uint64_t at = 0; at < bloom::header_of(*filter).bitmap_bytes(); at = pieces.back().end)
    pieces.push_back(*bloom::dump_data(*filter, at, 1));
  REQUIRE(pieces.size() > 3);
  CHECK(place.keyspace.memory_used() >= filter->byte_count());
  for (std::size_t i = pieces.size(); i-- > 1;) {
    CHECK(place.load(pieces[i]) == Outcome::taken);
    CHECK(place.load(pieces[i]) == Outcome::taken);
    CHECK(place.uploads.take(key, start) == nullptr);
  }
  CHECK(place.load(pieces[0]) == Outcome::whole);
  CHECK(place.load(pieces[1]) == Outcome::whole);
  const auto uploaded = place.uploads.take(key, start);
  REQUIRE(uploaded != nullptr);
  CHECK(holds(*uploaded, 0, 1000));
  CHECK(bloom::encode(bloom::header_of(*uploaded)) == bloom::encode(bloom::header_of(*filter)));
  CHECK(place.uploads.take(key, start) == nullptr);
  place.uploads.adopted(key, *uploaded);
  CHECK(place.load(pieces[0]) == Outcome::known_already);
  CHECK(place.uploads.summary().completed_count == 1);
  CHECK(place.uploads.summary().count == 0);
}

TEST_CASE("pieces of an upload whose adoption failed are refused, and a header begins a new upload") {
  Place place;
  const auto filter = filter_of(100, 0, 10);
  const auto header = bloom::dump_header(*filter, 1);
  const auto data = *bloom::dump_data(*filter, 0, 1);
  REQUIRE(place.begin(header));
  REQUIRE(place.load(data) == Outcome::whole);
  const auto lost = place.uploads.take(key, start);
  CHECK(place.load(data) == Outcome::not_adopted);
  CHECK(place.uploads.summary().completed_count == 0);
  REQUIRE(place.begin(header));
  CHECK(place.load(data) == Outcome::whole);
  const auto uploaded = place.uploads.take(key, start);
  REQUIRE(uploaded != nullptr);
  // The adoption of the earlier upload says nothing about this one.
  place.uploads.adopted(key, *lost);
  CHECK(place.load(data) == Outcome::not_adopted);
  place.uploads.adopted(key, *uploaded);
  CHECK(place.load(data) == Outcome::known_already);
}

TEST_CASE("a dump of a filter that changes meanwhile holds all items that it had at the header") {
  Place place;
  const auto filter = filter_of(300'000, 0, 299'999);
  REQUIRE(place.begin(bloom::dump_header(*filter, 1)));
  const std::uint64_t counted = filter->item_count();
  int added = 299'999;
  Outcome outcome = Outcome::taken;
  std::uint64_t at = 0;
  while (const auto data = bloom::dump_data(*filter, at, 1)) {
    at = data->end;
    const Outcome loaded = place.load(*data);
    if (outcome != Outcome::whole) outcome = loaded;
    for (int i = 0; i < 1000; ++i) (void)filter->add_alone("item " + std::to_string(added++), plenty);
  }
  REQUIRE(filter->layer_count() == 2);
  REQUIRE(outcome == Outcome::whole);
  const auto uploaded = place.uploads.take(key, start);
  CHECK(uploaded->layer_count() == 1);
  CHECK(uploaded->item_count() == counted);
  CHECK(holds(*uploaded, 0, 299'999));
}

TEST_CASE("a small filter that changed after its header is dumped as it was with its bits") {
  Place place;
  REQUIRE(place.begin(bloom::dump_header(*filter_of(100, 0, 10), 1)));
  const auto other = filter_of(100, 500, 100);
  const auto data = *bloom::dump_data(*other, 0, 1);
  CHECK(place.load(data) == Outcome::begins_anew);
  REQUIRE(place.begin(data.piece));
  CHECK(place.load(data) == Outcome::whole);
  CHECK(holds(*place.uploads.take(key, start), 500, 100));
}

TEST_CASE("pieces of another dump and bytes that are no piece are refused, and change nothing") {
  Place place;
  const auto filter = filter_of(600'000, 0, 10);
  const auto other = filter_of(600'000, 0, 10);
  const auto first = *bloom::dump_data(*filter, 0, 1);
  CHECK(place.load(first) == Outcome::not_found);
  REQUIRE(place.begin(bloom::dump_header(*filter, 1)));
  CHECK(place.load(*bloom::dump_data(*other, first.end, 1)) == Outcome::bad_data);
  CHECK(place.load(*bloom::dump_data(*filter, first.end, 2)) == Outcome::bad_data);
  auto damaged = first;
  damaged.piece[100] ^= std::byte{1};
  CHECK(place.load(damaged) == Outcome::bad_data);
  CHECK_FALSE(place.begin(damaged.piece));
  CHECK(place.uploads.summary().bytes_loaded == 0);
  CHECK(place.load(first) == Outcome::taken);
}

TEST_CASE("as many uploads may begin as the limit says, and not one more") {
  Place place;
  const auto header = bloom::dump_header(*filter_of(600'000, 0, 1), 1);
  REQUIRE(place.begin(header, {.database = 0, .key = "a"}));
  REQUIRE(place.begin(header, {.database = 1, .key = "a"}));
  const auto third = place.begin(header, {.database = 0, .key = "b"});
  REQUIRE_FALSE(third);
  CHECK(third.error().code == Errc::in_use);
  CHECK(place.begin(header, {.database = 1, .key = "a"}));
  const std::string long_key(key_bytes_max + 1, 'k');
  CHECK(place.begin(header, {.database = 0, .key = long_key}).error().code == Errc::key_too_long);
  place.uploads.flush(1);
  CHECK(place.begin(header, {.database = 0, .key = "b"}));
  place.uploads.flush_all();
  CHECK(place.uploads.summary().count == 0);
}

TEST_CASE("an upload counts as used memory, is refused without memory, and gives it back") {
  Place place;
  const auto filter = filter_of(600'000, 0, 1);
  const auto header = bloom::dump_header(*filter, 1);
  const std::uint64_t before = place.keyspace.memory_used();
  place.keyspace.set_memory_max(before + 2 * filter->byte_count() - 1);
  REQUIRE(place.begin(header));
  CHECK(place.keyspace.memory_used() == before + filter->byte_count());
  CHECK_FALSE(place.begin(header, {.database = 0, .key = "other"}));
  place.uploads.expire(start + limits.timeout);
  CHECK(place.keyspace.memory_used() == before);
  CHECK(place.uploads.summary().abandoned_count == 1);
}

TEST_CASE("an upload is dropped when no piece has come for as long as the timeout") {
  Place place;
  const auto filter = filter_of(600'000, 0, 1);
  REQUIRE(place.begin(bloom::dump_header(*filter, 1)));
  CHECK(place.uploads.earliest_deadline() == deadline_at(start + limits.timeout));
  const WallTime later = start + limits.timeout - seconds(1);
  place.uploads.expire(later);
  CHECK(place.load(*bloom::dump_data(*filter, 0, 1), later) == Outcome::taken);
  place.uploads.expire(start + limits.timeout);
  CHECK(place.uploads.summary().count == 1);
  place.uploads.expire(later + limits.timeout);
  CHECK(place.uploads.summary().count == 0);
  CHECK(place.uploads.earliest_deadline() == no_deadline);
}

// RedisBloom's dump of one layer with 72 bytes and three items.
std::vector<std::byte> redisbloom_header() {
  const std::string hex =
      "0300000000000000010000000500000002000000480000000000000040020000000000000300000000000000"
      "7b14ae47e17a743fe9862fb2350e264008000000320000000000000000";
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at < hex.size(); at += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(at, 2), nullptr, 16)));
  return bytes;
}

TEST_CASE("RedisBloom's pieces are placed by their iterator, which points behind them") {
  Place place;
  REQUIRE(place.begin(redisbloom_header()));
  const std::vector<std::byte> bytes(72, std::byte{0xff});
  const auto load = [&](std::int64_t iterator, std::size_t count) {
    return place.uploads.load(key, {.iterator = iterator, .bytes = std::span(bytes).first(count)}, start);
  };
  CHECK(load(0, 0) == Outcome::bad_data);
  CHECK(load(-5, 1) == Outcome::bad_data);
  CHECK(load(8, 8) == Outcome::bad_data);
  CHECK(load(100'000'000, 1) == Outcome::no_such_offset);
  CHECK(load(74, 1) == Outcome::no_such_offset);
  CHECK(load(74, 2) == Outcome::too_big);
  CHECK(load(73, 3) == Outcome::taken);
  CHECK(load(70, 68) == Outcome::taken);
  CHECK(place.uploads.summary().bytes_loaded == 71);
  CHECK(load(2, 1) == Outcome::whole);
  const auto filter = place.uploads.take(key, start);
  CHECK(filter->options().hash == bloom::ItemHash::redisbloom);
  CHECK(holds(*filter, 0, 100));
  CHECK(load(2, 1) == Outcome::not_adopted);
  place.uploads.adopted(key, *filter);
  CHECK(load(2, 1) == Outcome::known_already);
}

TEST_CASE("pieces that leave ever more gaps are refused at some point") {
  Place place;
  const auto filter = filter_of(600'000, 0, 1);
  auto header = redisbloom_header();
  // 2^17 bits, 50 items.
  const auto put = [&](std::size_t at, std::uint64_t value) {
    for (std::size_t i = 0; i < 8; ++i) header[at + i] = static_cast<std::byte>(value >> (8 * i));
  };
  put(20, std::uint64_t{1} << 14);
  put(28, std::uint64_t{1} << 17);
  REQUIRE(place.begin(header));
  const std::byte one{1};
  std::int64_t taken = 0;
  while (place.uploads.load(key, {.iterator = 2 * taken + 2, .bytes = {&one, 1}}, start) == Outcome::taken)
    ++taken;
  CHECK(taken == 1024);
}

// Reads the summary of the uploads whenever it gets a filter.
class AskingHousekeeper final : public sepal::test::FreeingHousekeeper {
 public:
  void dispose(sepal::value::ValuePtr) override {
    if (uploads == nullptr) return;
    count_seen = uploads->summary().count;
    ++disposed;
  }

  const Uploads* uploads = nullptr;
  std::uint64_t count_seen = 0;
  int disposed = 0;
};

TEST_CASE("the callback that gets dropped uploads may use the others: no lock is held") {
  AskingHousekeeper housekeeper;
  Keyspace keyspace{KeyspaceOptions{}, housekeeper};
  Uploads uploads{keyspace};
  housekeeper.uploads = &uploads;
  const auto header = bloom::dump_header(*filter_of(100, 0, 10), 1);
  REQUIRE(uploads.begin(key, header, limits, start));
  REQUIRE(uploads.begin({.database = 1, .key = "k"}, header, limits, start));
  uploads.flush(1);
  CHECK(housekeeper.disposed == 1);
  CHECK(housekeeper.count_seen == 1);
  uploads.expire(start + limits.timeout + seconds(1));
  CHECK(housekeeper.disposed == 2);
  CHECK(housekeeper.count_seen == 0);
}

}  // namespace

}  // namespace uploads_test
