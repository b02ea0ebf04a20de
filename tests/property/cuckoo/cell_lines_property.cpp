// A cell is a multiset of entries, and its bytes follow from them alone.
#include <cstring>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "cuckoo/cells/cell_lines.hpp"
#include "cuckoo/cells/home_line.hpp"
#include "support/catch.hpp"

namespace cell_lines_property {

namespace {

using namespace sepal::cuckoo;

using Entry = std::pair<std::uint32_t, std::uint64_t>;

// A cell beside the multiset that it should be.
class Model {
 public:
  Model(const CellShape& shape, std::uint64_t remainder_mask, std::uint64_t seed)
      : shape_(shape),
        mask_(remainder_mask),
        random_(seed),
        words_(shape.byte_count() / sizeof(std::uint64_t)) {}

  [[nodiscard]] CellLines lines() { return {shape_, words_.data()}; }

  void add() {
    const Entry entry = any();
    if (lines().insert(entry.first, entry.second, all) != CellLines::Inserted::yes) return;
    ++counts_[entry];
    entries_.push_back(entry);
  }
  void remove_one_that_is_there() {
    if (entries_.empty()) return;
    std::swap(entries_[random_() % entries_.size()], entries_.back());
    const Entry entry = entries_.back();
    entries_.pop_back();
    REQUIRE(lines().remove(entry.first, entry.second));
    if (--counts_[entry] == 0) counts_.erase(entry);
  }
  void ask() {
    const Entry entry = any();
    const auto found = counts_.find(entry);
    const std::uint32_t there = found == counts_.end() ? 0 : found->second;
    REQUIRE(lines().count(entry.first, entry.second, all) == there);
    if (there == 0) REQUIRE_FALSE(lines().remove(entry.first, entry.second));
  }
  void check() {
    for (const auto& [entry, there] : counts_) {
      REQUIRE(lines().count(entry.first, entry.second, all) == there);
      REQUIRE(lines().count(entry.first, entry.second, 1) == 1);
    }
    check_look_ups();
    std::vector<std::uint64_t> again(words_.size());
    CellBuilder builder(CellLines(shape_, again.data()));
    std::vector<Entry> listed;
    REQUIRE(lines().each([&](std::uint32_t quotient, std::uint64_t remainder) {
      listed.emplace_back(quotient, remainder);
      REQUIRE(builder.add(quotient, remainder));
    }));
    std::ranges::sort(entries_);
    CHECK(listed == entries_);
    CHECK(words_ == again);
  }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  static constexpr std::uint32_t all = 1000;
  // Several at once; and one by one without the instructions of this processor. Every second entry is there.
  void check_look_ups() {
    constexpr std::size_t batch = word_bits;
    std::size_t told_count = 0;
    std::size_t count = 0;
    for (auto next = counts_.begin(); next != counts_.end();) {
      std::vector<Entry> asked;
      std::vector<EntrySought> sought;
      for (; asked.size() < batch && next != counts_.end(); ++next)
        for (const Entry& entry : {next->first, any()}) {
          asked.push_back(entry);
          sought.push_back(CellLines::entry_sought(shape_, words_.data(), entry.first, entry.second));
        }
      bool present[batch];
      const std::uint64_t elsewhere = CellLines::find(sought, present);
      for (std::size_t at = 0; at < asked.size(); ++at) {
        const auto found = counts_.find(asked[at]);
        const std::uint32_t there = found == counts_.end() ? 0 : found->second;
        if ((elsewhere >> at & 1) == 0) {
          REQUIRE(present[at] == (there != 0));
          ++told_count;
        }
        ++count;
        const HomeLine<PlainBits> home(sought[at]);
        const auto remainder = asked[at].second;
        unsigned copies = home.count(remainder);
        if (copies == HomeLine<PlainBits>::elsewhere)
          copies = home.count_with(const_cast<Line>(sought[at].line) + line_words, remainder);
        if (copies != HomeLine<PlainBits>::elsewhere) REQUIRE(copies == there);
      }
    }
    CHECK(told_count >= count / 2);
  }
  [[nodiscard]] Entry any() {
    return {static_cast<std::uint32_t>(random_() % shape_.quotient_count()), random_() & mask_};
  }

  CellShape shape_;
  std::uint64_t mask_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> words_;
  std::map<Entry, std::uint32_t> counts_;
  std::vector<Entry> entries_;
};

}  // namespace

TEST_CASE("a cell of any shape is a multiset, and its bytes follow from its entries") {
  const std::uint64_t seed = GENERATE(range(0, 40));
  std::mt19937_64 random(seed);
  const auto remainder_bits = static_cast<unsigned>(1 + random() % remainder_bits_max);
  const std::uint32_t few = 600;
  const std::uint32_t most = CellShape::quotients_max(remainder_bits);
  const auto quotients = static_cast<std::uint32_t>(1 + random() % (seed % 8 == 0 ? most : few));
  // Few remainders make equal entries; full loads make long rows of runs.
  const std::uint64_t mask = low_bits(random() % 2 == 0 ? remainder_bits : std::min(remainder_bits, 2U));
  const auto target = static_cast<std::size_t>(quotients * (0.5 + 0.49 * (random() % 100) / 100.0));
  Model model(CellShape(quotients, remainder_bits), mask, seed);
  INFO("remainder bits " << remainder_bits << ", quotients " << quotients << ", seed " << seed);
  for (std::uint32_t step = 0; step < 4 * quotients + 200; ++step) {
    const auto choice = random() % 8;
    if (choice < 4 && model.size() < target) {
      model.add();
    } else if (choice < 7) {
      model.remove_one_that_is_there();
    } else {
      model.ask();
    }
    if (choice < 4) model.add();
  }
  model.check();
}

TEST_CASE("a cell is filled until it has no room, and refuses without a change") {
  const CellShape shape(500, GENERATE(3U, 7U, 20U));
  std::vector<std::uint64_t> words(shape.byte_count() / sizeof(std::uint64_t));
  CellLines lines(shape, words.data());
  std::mt19937_64 random(7);
  std::size_t added = 0;
  for (int failures = 0; failures < 50;) {
    const auto quotient = static_cast<std::uint32_t>(random() % 500);
    const std::uint64_t remainder = random() & low_bits(shape.remainder_bits());
    const auto before = words;
    if (lines.insert(quotient, remainder, 1000) == CellLines::Inserted::yes) {
      ++added;
    } else {
      ++failures;
      CHECK(words == before);
    }
  }
  CHECK(added > 500 * 92 / 100);
  std::size_t listed = 0;
  CHECK(lines.each([&](std::uint32_t, std::uint64_t) { ++listed; }));
  CHECK(listed == added);
}

TEST_CASE("any bytes are read to an end") {
  std::mt19937_64 random(GENERATE(range(0, 20)));
  const auto remainder_bits = static_cast<unsigned>(1 + random() % remainder_bits_max);
  const CellShape shape(static_cast<std::uint32_t>(1 + random() % 300), remainder_bits);
  std::vector<std::uint64_t> words(shape.byte_count() / sizeof(std::uint64_t));
  for (std::uint64_t& word : words) word = random() & random();
  const CellLines lines(shape, words.data());
  for (std::uint32_t quotient = 0; quotient < shape.quotient_count(); ++quotient) {
    const std::uint64_t remainder = random() & low_bits(remainder_bits);
    CHECK(lines.count(quotient, remainder, 1) <= 1);
    const EntrySought sought = CellLines::entry_sought(shape, words.data(), quotient, remainder);
    bool present = false;
    CHECK(CellLines::find({&sought, 1}, &present) <= 1);
  }
  std::uint64_t listed = 0;
  (void)lines.each([&](std::uint32_t, std::uint64_t) { ++listed; });
  CHECK(listed <= shape.byte_count() * 8);
}

TEST_CASE("fields of bits move within a line") {
  std::mt19937_64 random(GENERATE(range(0, 30)));
  for (int round = 0; round < 200; ++round) {
    std::array<std::uint64_t, line_words> line{};
    for (std::uint64_t& word : line) word = random();
    std::vector<bool> bits(line_bit_count);
    for (unsigned at = 0; at < line_bit_count; ++at) bits[at] = (line[at / 64] >> (at % 64) & 1) != 0;
    const auto by = static_cast<unsigned>(1 + random() % 48);
    const auto from = static_cast<unsigned>(random() % (line_bit_count - by));
    const auto to = from + static_cast<unsigned>(random() % (line_bit_count - by - from + 1));
    if (to == from) continue;
    std::vector<bool> expected = bits;
    if (round % 2 == 0) {
      move_bits_up(line.data(), from, to, by);
      for (unsigned at = from; at < to; ++at) expected[at + by] = bits[at];
      for (unsigned at = from; at < from + by; ++at) expected[at] = false;
    } else {
      move_bits_down(line.data(), from, to, by);
      for (unsigned at = from; at < to; ++at) expected[at] = bits[at + by];
      for (unsigned at = to; at < to + by; ++at) expected[at] = false;
    }
    for (unsigned at = 0; at < line_bit_count; ++at)
      REQUIRE(expected[at] == ((line[at / 64] >> (at % 64) & 1) != 0));
  }
}

TEST_CASE("the bit that has so many set bits below it is found with any instructions") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t bits = round % 2 == 0 ? random() : random() & random() & random();
    std::vector<std::uint64_t> each;
    for (std::uint64_t left = bits; left != 0; left &= left - 1) each.push_back(left & -left);
    REQUIRE(PlainBits::count(bits) == each.size());
    for (unsigned rank = 0; rank < word_bits; ++rank) {
      const std::uint64_t expected = rank < each.size() ? each[rank] : 0;
      REQUIRE(PlainBits::nth(bits, rank) == expected);
#if defined(__x86_64__)
      if (Bmi2Bits::available()) REQUIRE(Bmi2Bits::nth(bits, rank) == expected);
#endif
    }
#if defined(__x86_64__)
    if (!Bmi2Bits::available()) continue;
    const std::uint64_t some = bits & low_bits(static_cast<unsigned>(round % 65));
    REQUIRE(Bmi2Bits::count(some) == PlainBits::count(some));
    REQUIRE(Bmi2Bits::width(some) == PlainBits::width(some));
    REQUIRE(Bmi2Bits::trailing(some) == PlainBits::trailing(some));
    for (unsigned count = 0; count < 256; ++count)
      REQUIRE(Bmi2Bits::lowest(bits, count) == PlainBits::lowest(bits, count));
#endif
  }
}

}  // namespace cell_lines_property
