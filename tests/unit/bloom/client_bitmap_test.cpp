#include <sepal/bloom/filter/dump.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/filter/measure.hpp>
#include <sepal/bloom/foreign/client_bitmap.hpp>
#include <sepal/value/image.hpp>

#include "support/bitmap_of_bytes.hpp"
#include "support/catch.hpp"

namespace client_bitmap_test {
namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

// Does what a client program does: its own hashing, and SETBIT.
class Client {
 public:
  explicit Client(const ClientBits& bits) : bits_(bits), string_((bits.bit_count + 7) / 8, '\0') {}

  void add(const std::string& item) {
    for (const std::uint64_t position : positions(item))
      string_[position / 8] = static_cast<char>(string_[position / 8] | 0x80 >> position % 8);
  }
  [[nodiscard]] bool exists(const std::string& item) const {
    return std::ranges::all_of(positions(item), [&](std::uint64_t position) {
      return (static_cast<unsigned char>(string_[position / 8]) >> (7 - position % 8) & 1) != 0;
    });
  }
  // Without the zeros at its end: SETBIT makes a string only as long as it needs.
  [[nodiscard]] std::string redis_string() const {
    return string_.substr(0, string_.find_last_not_of('\0') + 1);
  }
  [[nodiscard]] std::string guava_string() const {
    const std::uint64_t words = bits_.bit_count / 64;
    std::string bytes{bits_.scheme == Scheme::guava_32 ? '\0' : '\1', static_cast<char>(bits_.probe_count)};
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(words >> shift);
    for (std::uint64_t word = 0; word < words; ++word)
      for (std::uint64_t byte = 8; byte-- > 0;) {
        unsigned reversed = 0;
        for (unsigned bit = 0; bit < 8; ++bit)
          reversed |= (static_cast<unsigned char>(string_[8 * word + byte]) >> bit & 1U) << (7 - bit);
        bytes += static_cast<char>(reversed);
      }
    return bytes;
  }

 private:
  [[nodiscard]] std::vector<std::uint64_t> positions(const std::string& item) const {
    std::vector<std::uint64_t> found(bits_.probe_count);
    positions_of(item, bits_, found);
    return found;
  }

  ClientBits bits_;
  std::string string_;
};

ClientBitmap bitmap_of(const ClientBits& bits, std::uint64_t capacity) {
  return {.bits = bits, .capacity = capacity, .error_rate = 0.01, .expansion = 2, .seed = 7};
}

FilterPtr moved(const Client& client, const ClientBits& bits, std::uint64_t capacity = 1000) {
  auto made =
      filter_of_bitmap(test::BitmapOfBytes(client.redis_string()), bitmap_of(bits, capacity), plenty, {});
  REQUIRE(made);
  return *made;
}

Errc why_not(const std::string& bytes, const ClientBits& bits) {
  const auto made = filter_of_bitmap(test::BitmapOfBytes(bytes), bitmap_of(bits, 1000), plenty, {});
  REQUIRE_FALSE(made);
  return made.error().code;
}

std::string item(int number) {
  return "item " + std::to_string(number);
}

bool contains(const Filter& filter, const std::string& item) {
  const std::string_view view = item;
  bool present = false;
  filter.contains({&view, 1}, {&present, 1});
  return present;
}

std::vector<bool> contains(const Filter& filter, const std::vector<std::string>& items) {
  const std::vector<std::string_view> views(items.begin(), items.end());
  const auto present = std::make_unique<bool[]>(items.size());
  filter.contains(views, {present.get(), items.size()});
  return std::vector<bool>(present.get(), present.get() + items.size());
}

std::vector<std::string> numbered(int begin, int end) {
  std::vector<std::string> items;
  for (int i = begin; i < end; ++i) items.push_back(item(i));
  return items;
}

ClientBits shape(const SchemeFacts& facts, std::uint64_t bit_count) {
  return {.scheme = facts.scheme,
          .bit_count = bit_count,
          .probe_count = facts.probe_count == 0 ? 7 : facts.probe_count,
          .first_seed = 0};
}

TEST_CASE("a filter answers as the client program whose bitmap it was made of") {
  for (const SchemeFacts& facts : schemes())
    for (const std::uint64_t bit_count : {20'011, 20'032, 9'000'001}) {
      CAPTURE(facts.name, bit_count);
      const ClientBits bits = shape(facts, bit_count);
      Client client(bits);
      const int added = static_cast<int>(std::min<std::uint64_t>(bit_count / 20, 5000));
      for (int i = 0; i < added; ++i) client.add(item(i));
      const FilterPtr filter = moved(client, bits, 1000);
      const auto items = numbered(0, 2 * added);
      const auto answers = contains(*filter, items);
      int different = 0;
      for (std::size_t i = 0; i < items.size(); ++i)
        different += answers[i] != client.exists(items[i]) ? 1 : 0;
      CHECK(different == 0);
      CHECK(std::ranges::count(std::span(items).first(100), true,
                               [&](const auto& some) { return contains(*filter, some); }) == 100);
      CHECK(filter->options().hash == ItemHash::xxh3_above_bitmap);
      const auto estimate = static_cast<double>(filter->item_count());
      CHECK(std::abs(estimate / added - 1) < 0.05);
    }
}

// SEPAL_SCHEME_ITEMS sets the number of items.
TEST_CASE("a full bitmap of each client errs as often after the move as before") {
  const char* const asked = std::getenv("SEPAL_SCHEME_ITEMS");
  const int added = asked == nullptr ? 30'000 : std::atoi(asked);
  REQUIRE(added > 0);
  for (const SchemeFacts& facts : schemes()) {
    CAPTURE(facts.name);
    // At the rate of 1% with 7 positions, and of 0.007% with 14: so many bits an item.
    const ClientBits bits =
        shape(facts, static_cast<std::uint64_t>(added) * (facts.probe_count == 0 ? 10 : 20) + 11);
    Client client(bits);
    for (int i = 0; i < added; ++i) client.add(item(i));
    const FilterPtr filter = moved(client, bits, static_cast<std::uint64_t>(added));
    const auto known = contains(*filter, numbered(0, added));
    CHECK(std::ranges::count(known, true) == added);
    const auto absent = numbered(added, 2 * added);
    const auto answers = contains(*filter, absent);
    std::uint64_t of_client = 0;
    for (const std::string& each : absent) of_client += client.exists(each) ? 1 : 0;
    const auto of_filter = static_cast<std::uint64_t>(std::ranges::count(answers, true));
    CHECK(of_filter == of_client);
    CHECK(of_client < absent.size() / 80);
    if (asked != nullptr)
      WARN(facts.name << ": all of " << added << " known, of as many absent ones the filter knows "
                      << of_filter << ", the client " << of_client);
  }
}

TEST_CASE("a client's bitmap is measured as the client looks at it") {
  for (const SchemeFacts& facts : schemes()) {
    CAPTURE(facts.name);
    const ClientBits bits = shape(facts, 50'011);
    Client client(bits);
    for (int i = 0; i < 4000; ++i) client.add(item(i));
    const FilterPtr filter = moved(client, bits, 5000);
    const FilterMeasure measured = measure(filter->layers(), measured_bytes_max);
    CHECK(measured.whole);
    CHECK(measured.bits == bits.bit_count);
    CHECK(std::abs(measured.item_estimate / 4000 - 1) < 0.05);
    const double rate = std::pow(measured.fill, bits.probe_count);
    CHECK(std::abs(measured.false_positive_rate / rate - 1) < 1e-6);
  }
}

TEST_CASE("new items get into layers above the bitmap, and known ones do not") {
  const ClientBits bits{.scheme = Scheme::redisson, .bit_count = 9'601, .probe_count = 7};
  Client client(bits);
  for (int i = 0; i < 500; ++i) client.add(item(i));
  const FilterPtr filter = moved(client, bits, 1000);
  const std::uint64_t before = filter->item_count();
  std::vector<std::byte> bitmap(filter->layer(0).plan().byte_count());
  filter->layer(0).copy_bits(0, bitmap);

  const std::string_view known = "item 3";
  bool added = true;
  REQUIRE(filter->try_add({&known, 1}, {&added, 1}));
  CHECK_FALSE(added);
  const std::string_view stranger = "stranger";
  REQUIRE_FALSE(filter->try_add({&stranger, 1}, {&added, 1}));
  CHECK_FALSE(filter->has_room(1));
  CHECK(filter->add_alone(stranger, plenty).added);
  REQUIRE(filter->layer_count() == 2);
  CHECK(filter->layer(1).plan().capacity == 1000);
  CHECK(filter->layer(1).plan().layout == Layout::blocked);
  CHECK_FALSE(filter->add_alone("item 4", plenty).added);

  // In batches, and past the capacity of the first layer above.
  std::uint64_t new_count = 1;
  for (int begin = 0; begin < 4000; begin += 100) {
    const auto items = numbered(begin, begin + 100);
    const std::vector<std::string_view> views(items.begin(), items.end());
    std::array<bool, 100> answers{};
    if (filter->try_add(views, answers)) {
      for (std::size_t i = 0; i < items.size(); ++i) {
        new_count += answers[i] ? 1 : 0;
        if (client.exists(items[i])) CHECK_FALSE(answers[i]);
      }
    } else {
      for (const auto& one : items) new_count += filter->add_alone(one, plenty).added ? 1 : 0;
    }
  }
  CHECK(filter->item_count() == before + new_count);
  CHECK(filter->layer_count() == 4);
  CHECK(filter->layer(2).plan().capacity == 2000);
  for (int i = 0; i < 4000; ++i) REQUIRE(contains(*filter, item(i)));
  std::vector<std::byte> bitmap_after(bitmap.size());
  filter->layer(0).copy_bits(0, bitmap_after);
  CHECK(bitmap == bitmap_after);
}

TEST_CASE("an image and a dump hold a client's bitmap and the layers above") {
  for (const SchemeFacts& facts : schemes()) {
    CAPTURE(facts.name);
    ClientBits bits = shape(facts, 9'601);
    if (facts.seeded) bits.first_seed = 0x80000001;
    Client client(bits);
    for (int i = 0; i < 400; ++i) client.add(item(i));
    const FilterPtr filter = moved(client, bits, 500);
    for (int i = 400; i < 1500; ++i) (void)filter->add_alone(item(i), plenty);
    REQUIRE(filter->layer_count() == 3);

    const auto image = value::image_of(*filter);
    CHECK(image[4] == std::byte{4});
    const auto made = value::value_of(image, plenty);
    REQUIRE(made);
    const auto& restored = value::as<Filter>(**made);
    CHECK(restored.layer(0).plan() == filter->layer(0).plan());
    CHECK(restored.layer(0).plan().client_bits() == bits);
    CHECK(restored.item_count() == filter->item_count());
    for (int i = 0; i < 3000; ++i) REQUIRE(contains(restored, item(i)) == contains(*filter, item(i)));
    CHECK(value::image_of(restored) == image);
    const auto copied = value::Frozen{value::ValuePtr(filter)}.copy(plenty, {});
    REQUIRE(copied);
    CHECK(value::image_of(**copied) == image);
  }
}

TEST_CASE("a header with a bitmap that no client has is damaged") {
  const ClientBits bits{.scheme = Scheme::guava_64, .bit_count = 640, .probe_count = 7};
  Client client(bits);
  client.add("item");
  const FilterPtr filter = moved(client, bits, 10);
  (void)filter->add_alone("another", plenty);
  const ImageHeader sound = header_of(*filter);
  const auto is_damaged = [&](const auto& change) {
    ImageHeader header = sound;
    change(header);
    const auto decoded = decode_image_header(encode(header), 64);
    return !decoded && decoded.error().code == Errc::damaged;
  };
  CHECK_FALSE(is_damaged([](ImageHeader&) {}));
  CHECK(is_damaged([](ImageHeader& header) { header.layers[0].plan.scheme = static_cast<Scheme>(7); }));
  CHECK(is_damaged([](ImageHeader& header) { header.layers[0].plan.unused_bits = 64; }));
  CHECK(is_damaged([](ImageHeader& header) { header.layers[0].plan.first_seed = 1; }));
  CHECK(is_damaged([](ImageHeader& header) { header.layers[0].plan.probe_count = 256; }));
  CHECK(is_damaged([](ImageHeader& header) { header.layers[0].plan.block_bits = 128; }));
  CHECK(is_damaged([](ImageHeader& header) { header.layers[0].plan.block_count = (1ULL << 26) + 1; }));
  CHECK(is_damaged([](ImageHeader& header) { header.layers[0].plan.layout = Layout::double_hashing; }));
  CHECK(is_damaged([](ImageHeader& header) { header.layers[1].plan.layout = Layout::client; }));
  CHECK(is_damaged([](ImageHeader& header) { header.layers[1].plan.scheme = Scheme::redisson; }));
  CHECK(is_damaged([](ImageHeader& header) { header.layers[1].plan.capacity = 20; }));
  CHECK(is_damaged([](ImageHeader& header) { header.options.expansion = 0; }));
  CHECK(is_damaged([](ImageHeader& header) { header.options.hash = ItemHash::xxh3; }));
  CHECK(is_damaged([](ImageHeader& header) { header.options.hash = ItemHash::redisbloom; }));
  CHECK(is_damaged([](ImageHeader& header) { header.layers.erase(header.layers.begin()); }));
  auto bytes = encode(sound);
  bytes[image_header_bytes + 43] = std::byte{1};
  CHECK_FALSE(decode_image_header(bytes, 64));
}

TEST_CASE("the serialised form of Guava says what its bits mean") {
  for (const Scheme scheme : {Scheme::guava_32, Scheme::guava_64}) {
    const ClientBits bits{.scheme = scheme, .bit_count = 64 * 151, .probe_count = 7};
    Client client(bits);
    for (int i = 0; i < 500; ++i) client.add(item(i));
    const test::BitmapOfBytes string(client.guava_string());
    const auto read = bits_of_guava(string);
    REQUIRE(read);
    CHECK(*read == bits);
    ClientBitmap bitmap = bitmap_of(*read, 1000);
    bitmap.form = BitmapForm::guava;
    const auto filter = filter_of_bitmap(string, bitmap, plenty, {});
    REQUIRE(filter);
    for (int i = 0; i < 2000; ++i) REQUIRE(contains(**filter, item(i)) == client.exists(item(i)));
  }
  const std::string sound =
      Client({.scheme = Scheme::guava_64, .bit_count = 64, .probe_count = 1}).guava_string();
  REQUIRE(bits_of_guava(test::BitmapOfBytes(sound)));
  for (const std::string& wrong :
       {std::string(), sound.substr(0, 5), sound.substr(0, 13), sound + 'x', '\2' + sound.substr(1),
        sound.substr(0, 1) + '\0' + sound.substr(2), sound.substr(0, 2) + std::string(4, '\0')}) {
    const auto refused = bits_of_guava(test::BitmapOfBytes(wrong));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::damaged);
  }
}

TEST_CASE("a bitmap that has another number of bits is refused") {
  const ClientBits bits{.scheme = Scheme::go_zero, .bit_count = 20'011, .probe_count = 14};
  Client client(bits);
  for (int i = 0; i < 1000; ++i) client.add(item(i));
  const std::string bytes = client.redis_string();
  const auto with_bits = [&](std::uint64_t bit_count) {
    ClientBits other = bits;
    other.bit_count = bit_count;
    return other;
  };
  CHECK(why_not(bytes, with_bits(19'000)) == Errc::out_of_range);
  CHECK(why_not(bytes, with_bits(20'200)) == Errc::damaged);
  CHECK(why_not(bytes, with_bits(client_bits_max)) == Errc::damaged);
  CHECK(filter_of_bitmap(test::BitmapOfBytes(bytes), bitmap_of(bits, 1), plenty, {}));
  // The end says nothing where few bits are set.
  Client sparse(bits);
  sparse.add("item");
  CHECK(filter_of_bitmap(test::BitmapOfBytes(sparse.redis_string()), bitmap_of(with_bits(20'100), 1), plenty,
                         {}));
  CHECK(filter_of_bitmap(test::BitmapOfBytes(""), bitmap_of(bits, 1), plenty, {}));
}

TEST_CASE("the limits of a filter hold for a bitmap, and its making can be given up") {
  const ClientBits bits{.scheme = Scheme::guava_64, .bit_count = 1 << 20, .probe_count = 7};
  const test::BitmapOfBytes string(std::string(1 << 17, '\x11'));
  const FilterPtr made = *filter_of_bitmap(string, bitmap_of(bits, 1000), plenty, {});
  const auto with_bytes = [&](std::uint64_t bytes_max) {
    return filter_of_bitmap(string, bitmap_of(bits, 1000), {.bytes_max = bytes_max, .layers_max = 64}, {});
  };
  CHECK(with_bytes(made->byte_count()));
  REQUIRE_FALSE(with_bytes(made->byte_count() - 1));
  CHECK(with_bytes(made->byte_count() - 1).error().code == Errc::too_large);
  const auto given_up =
      filter_of_bitmap(string, bitmap_of(bits, 1000), plenty, [](std::uint64_t) { return false; });
  REQUIRE_FALSE(given_up);
  CHECK(given_up.error().code == Errc::io);
}

TEST_CASE("a bitmap with more items than were asked for has a layer of as many above it") {
  const ClientBits bits{.scheme = Scheme::murmur3_32, .bit_count = 64, .probe_count = 1};
  const FilterPtr full =
      *filter_of_bitmap(test::BitmapOfBytes(std::string(8, '\xff')), bitmap_of(bits, 3), plenty, {});
  CHECK(full->item_count() > 64);
  CHECK(full->capacity() == full->item_count());
  CHECK_FALSE(full->add_alone("all are known", plenty).added);

  const FilterPtr none = *filter_of_bitmap(test::BitmapOfBytes(""), bitmap_of(bits, 1'000'000), plenty, {});
  CHECK(none->item_count() == 0);
  CHECK(none->add_alone("stranger", plenty).added);
  CHECK(none->capacity() == 2'000'000);
}

}  // namespace
}  // namespace client_bitmap_test
