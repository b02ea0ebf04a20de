// Compares every kernel of filters that forget with the formulas of lanes.hpp, one probe of one lane of one
// item at a time.
#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "bloom/window/lane_kernel.hpp"
#include "support/catch.hpp"
#include "support/guarded_words.hpp"

namespace lane_kernels_property {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr std::uint64_t generation = 1'000'000;

// A layer of any shape, with any stamps and bits.
class LaneScene {
 public:
  explicit LaneScene(std::uint64_t seed)
      : random_(seed),
        plan_(draw_plan()),
        lanes_(2 + draw(lanes_max - 1)),
        memory_(plan_.byte_count(lanes_) / sizeof(std::uint64_t)),
        blocks_(plan_, lanes_, memory_.get()),
        live_(generation, lanes_) {
    fill();
  }

  [[nodiscard]] const LaneBlocks& blocks() const { return blocks_; }
  [[nodiscard]] const LiveStamps& live() const { return live_; }

  std::uint64_t draw(std::uint64_t count) { return random_() % count; }

  // Some items are present in some lanes, some lack a bit, and the others are random.
  std::vector<std::uint64_t> draw_hashes() {
    std::vector<std::uint64_t> hashes(draw(sought_together_max + 1));
    const std::uint64_t kinds = std::uint64_t{1} << (2 * draw(3));
    for (std::uint64_t& hash : hashes) {
      hash = random_();
      const std::uint64_t kind = draw(kinds);
      const auto lane = static_cast<std::uint32_t>(draw(lanes_));
      const std::uint32_t probes = blocks_.zones * blocks_.probes;
      for (std::uint32_t probe = 0; kind <= 1 && probe < probes; ++probe)
        word_of(hash, probe) |= std::uint64_t{1} << bit_of(hash, probe, lane);
      const auto lacking = static_cast<std::uint32_t>(draw(probes));
      if (kind == 1) word_of(hash, lacking) &= ~(std::uint64_t{1} << bit_of(hash, lacking, lane));
    }
    return hashes;
  }

  // The live lanes that have it.
  [[nodiscard]] std::uint32_t lanes_with(std::uint64_t hash) const {
    std::uint32_t lanes = 0;
    for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
      bool has = blocks_.stamps[block_of_hash(hash) * lanes_ + lane] == live_.stamps[lane];
      for (std::uint32_t probe = 0; has && probe < blocks_.zones * blocks_.probes; ++probe)
        has = (word_of(hash, probe) >> bit_of(hash, probe, lane) & 1) != 0;
      lanes |= (has ? 1U : 0U) << lane;
    }
    return lanes;
  }

 private:
  LanePlan draw_plan() {
    LanePlan plan{.capacity = 1, .error_rate = 0.01, .block_count = 1 + draw(draw(2) == 0 ? 4 : 100)};
    plan.zones = static_cast<std::uint16_t>(1 + draw(zones_max));
    plan.probes = static_cast<std::uint16_t>(1 + draw(zone_probes_max));
    plan.probes = std::min<std::uint16_t>(plan.probes, probe_count_max / plan.zones);
    plan.zone_lines = static_cast<std::uint32_t>(1 + draw(block_lines_max / plan.zones));
    return plan;
  }
  // The lanes are empty, half full or nearly full; most stamps are live.
  void fill() {
    const std::uint64_t rounds = draw(4);
    for (std::uint64_t word = 0; word < blocks_.block_count * blocks_.block_words(); ++word)
      for (std::uint64_t round = 0; round < rounds; ++round) blocks_.words[word] |= random_();
    for (std::uint64_t block = 0; block < blocks_.block_count; ++block)
      for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
        const std::array<std::uint32_t, 5> stamps{live_.stamps[lane], live_.stamps[lane], live_.stamps[lane],
                                                  0, live_.stamps[lane] - lanes_};
        blocks_.stamps[block * lanes_ + lane] = stamps[draw(stamps.size())];
      }
  }

  [[nodiscard]] std::uint64_t block_of_hash(std::uint64_t hash) const {
    return scaled(hash, blocks_.block_count);
  }
  [[nodiscard]] std::uint64_t& word_of(std::uint64_t hash, std::uint32_t probe) const {
    const std::uint32_t zone = probe / blocks_.probes;
    const std::uint64_t line =
        (mixed(hash) * line_factors[zone] >> 32) * blocks_.zone_lines / (std::uint64_t{1} << 32);
    const std::uint64_t lines_before =
        block_of_hash(hash) * blocks_.zones * blocks_.zone_lines + std::uint64_t{zone} * blocks_.zone_lines;
    const std::uint64_t word = mixed(hash) * probe_multipliers[probe] >> 61;
    return blocks_.words[(lines_before + line) * lane_line_words + word];
  }
  [[nodiscard]] std::uint64_t bit_of(std::uint64_t hash, std::uint32_t probe, std::uint32_t lane) const {
    const std::uint64_t fraction = (mixed(hash) * probe_multipliers[probe] >> 29) % (std::uint64_t{1} << 32);
    return lanes_ * (fraction * (64 / lanes_) >> 32) + lane;
  }

  std::mt19937_64 random_;
  LanePlan plan_;
  std::uint32_t lanes_;
  test::GuardedWords memory_;
  LaneBlocks blocks_;
  LiveStamps live_;
};

}  // namespace

TEST_CASE("every look-up kernel of filters that forget answers like the plain formula, in any shape",
          "[window]") {
  for (const LaneKernel& kernel : lane_kernels()) {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      LaneScene scene(seed);
      const LaneBlocks& blocks = scene.blocks();
      const std::vector<std::uint64_t> hashes = scene.draw_hashes();
      CAPTURE(kernel.name, seed, blocks.lanes, blocks.zones, blocks.probes, blocks.zone_lines, hashes.size());
      std::vector<std::pair<std::uint64_t, std::uint64_t>> expected;
      for (std::size_t place = 0; place < hashes.size(); ++place)
        if (const std::uint32_t lanes = scene.lanes_with(hashes[place]); lanes != 0)
          expected.emplace_back(place, lanes);
      for (const Zones zones : {Zones::first, Zones::all}) {
        SoughtItems sought;
        kernel.begin(blocks, hashes, zones, sought);
        kernel.narrow(blocks, scene.live(), sought);
        const auto sufficient = static_cast<std::uint32_t>(scene.draw(2) == 0 ? ~0ULL : scene.draw(1 << 17));
        const std::uint64_t bits = kernel.end(blocks, sufficient, sought);
        std::uint64_t expected_bits = 0;
        for (const auto& [place, lanes] : expected)
          if ((lanes & sufficient) != 0) expected_bits |= std::uint64_t{1} << place;
        REQUIRE(bits == expected_bits);
        std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
        for (std::size_t at = 0; at < sought.count; ++at)
          found.emplace_back(sought.place[at], sought.lanes[at]);
        REQUIRE((found == expected));
      }
    }
  }
}

}  // namespace lane_kernels_property
