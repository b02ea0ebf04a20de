#include <sepal/bloom/plan/schemes.hpp>

#include "support/catch.hpp"

namespace schemes_test {
namespace {

using namespace sepal::bloom;

struct Vector {
  ClientBits bits;
  std::string item;
  std::vector<std::uint64_t> positions;
};

Scheme scheme_named(const std::string& name) {
  const auto all = schemes();
  const auto found = std::ranges::find(all, name, &SchemeFacts::name);
  REQUIRE(found != all.end());
  return found->scheme;
}

std::string bytes_of(const std::string& hexadecimal) {
  std::string bytes;
  for (std::size_t at = 0; at < hexadecimal.size(); at += 2)
    bytes += static_cast<char>(std::stoi(hexadecimal.substr(at, 2), nullptr, 16));
  return bytes;
}

// What other implementations computed: schemes/README.md.
std::vector<Vector> vectors() {
  std::ifstream file(SEPAL_SOURCE_FOLDER "/tests/unit/bloom/schemes/vectors.txt");
  std::vector<Vector> read;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Vector vector;
    std::string name;
    std::string item;
    words >> name >> vector.bits.bit_count >> vector.bits.probe_count >> vector.bits.first_seed >> item;
    vector.bits.scheme = scheme_named(name);
    vector.item = bytes_of(item.substr(1));
    for (std::uint64_t position = 0; words >> position;) vector.positions.push_back(position);
    read.push_back(vector);
  }
  return read;
}

std::vector<std::uint64_t> positions(const ClientBits& bits, std::string_view item) {
  std::vector<std::uint64_t> found(bits.probe_count);
  positions_of(item, bits, found);
  return found;
}

bool is_of_guava(Scheme scheme) {
  return scheme == Scheme::guava_32 || scheme == Scheme::guava_64;
}

TEST_CASE("positions are those that other implementations computed") {
  std::map<Scheme, int> seen;
  for (const Vector& vector : vectors()) {
    CAPTURE(facts_of(vector.bits.scheme).name, vector.bits.bit_count, vector.bits.probe_count,
            vector.item.size());
    REQUIRE(is_sound(vector.bits));
    auto found = positions(vector.bits, vector.item);
    if (is_of_guava(vector.bits.scheme)) {
      std::ranges::sort(found);
      found.erase(std::unique(found.begin(), found.end()), found.end());
    }
    REQUIRE(found == vector.positions);
    ++seen[vector.bits.scheme];
  }
  for (const SchemeFacts& facts : schemes()) {
    CAPTURE(facts.name);
    CHECK(seen[facts.scheme] >= 50);
  }
}

TEST_CASE("an item is held if all of its bits are set") {
  for (const SchemeFacts& facts : schemes()) {
    CAPTURE(facts.name);
    const ClientBits bits{.scheme = facts.scheme,
                          .bit_count = 1000,
                          .probe_count = facts.probe_count == 0 ? 6 : facts.probe_count,
                          .first_seed = 0};
    std::vector<std::uint64_t> words(16);
    CHECK_FALSE(holds(words.data(), bits, "item"));
    for (const std::uint64_t position : positions(bits, "item"))
      words[position / 64] |= std::uint64_t{1} << (position % 64);
    CHECK(holds(words.data(), bits, "item"));
    for (const std::uint64_t position : positions(bits, "item")) {
      words[position / 64] ^= std::uint64_t{1} << (position % 64);
      CHECK_FALSE(holds(words.data(), bits, "item"));
      words[position / 64] ^= std::uint64_t{1} << (position % 64);
    }
  }
}

TEST_CASE("numbers that a scheme does not have are not sound") {
  const ClientBits guava{.scheme = Scheme::guava_64, .bit_count = 64, .probe_count = 1};
  const auto with = [](ClientBits bits, auto member, auto value) {
    bits.*member = value;
    return bits;
  };
  CHECK(is_sound(guava));
  CHECK_FALSE(is_sound(with(guava, &ClientBits::bit_count, 0)));
  CHECK(is_sound(with(guava, &ClientBits::bit_count, client_bits_max)));
  CHECK_FALSE(is_sound(with(guava, &ClientBits::bit_count, client_bits_max + 1)));
  CHECK_FALSE(is_sound(with(guava, &ClientBits::probe_count, 0)));
  CHECK(is_sound(with(guava, &ClientBits::probe_count, client_probe_count_max)));
  CHECK_FALSE(is_sound(with(guava, &ClientBits::probe_count, client_probe_count_max + 1)));
  CHECK_FALSE(is_sound(with(guava, &ClientBits::first_seed, 1)));
  CHECK_FALSE(is_sound(with(guava, &ClientBits::scheme, static_cast<Scheme>(7))));

  const ClientBits go_zero{.scheme = Scheme::go_zero, .bit_count = 64, .probe_count = 14};
  CHECK(is_sound(go_zero));
  CHECK_FALSE(is_sound(with(go_zero, &ClientBits::probe_count, 13)));

  const ClientBits seeded{
      .scheme = Scheme::murmur3_32, .bit_count = 64, .probe_count = 2, .first_seed = 0xffffffff};
  CHECK(is_sound(seeded));
}

TEST_CASE("positions of 31 bits do not reach the end of more bits") {
  const ClientBits guava_32{
      .scheme = Scheme::guava_32, .bit_count = client_bits_max, .probe_count = client_probe_count_max};
  CHECK(reach_of(guava_32) == std::uint64_t{1} << 31);
  std::uint64_t highest = 0;
  for (int i = 0; i < 100; ++i)
    highest = std::max(highest, std::ranges::max(positions(guava_32, std::to_string(i))));
  CHECK(highest < reach_of(guava_32));
  CHECK(highest > reach_of(guava_32) / 100 * 99);

  ClientBits guava_64 = guava_32;
  guava_64.scheme = Scheme::guava_64;
  CHECK(reach_of(guava_64) == client_bits_max);
}

TEST_CASE("items are counted by the bits that they set") {
  constexpr std::uint64_t item_count = 5000;
  for (const SchemeFacts& facts : schemes()) {
    CAPTURE(facts.name);
    const ClientBits bits{.scheme = facts.scheme,
                          .bit_count = 100'003,
                          .probe_count = facts.probe_count == 0 ? 9 : facts.probe_count,
                          .first_seed = 0};
    CHECK(items_of(bits, 0) == 0);
    std::vector<bool> set(bits.bit_count);
    for (std::uint64_t i = 0; i < item_count; ++i)
      for (const std::uint64_t position : positions(bits, "item " + std::to_string(i))) set[position] = true;
    const auto estimate =
        static_cast<double>(items_of(bits, static_cast<std::uint64_t>(std::ranges::count(set, true))));
    CHECK(std::abs(estimate / item_count - 1) < 0.03);
    CHECK(items_of(bits, bits.bit_count) > items_of(bits, bits.bit_count - 1));
  }
}

}  // namespace
}  // namespace schemes_test
