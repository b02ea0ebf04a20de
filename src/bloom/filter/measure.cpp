// Rates and items from bits.
//
// The rate of a layer of blocks. An absent item takes any block alike, and k positions in it, each any of the
// B bits alike. So a block with X bits set answers "maybe" at the rate (X / B)^k, and the layer at the mean
// of this over its blocks. The mean is larger than (mean of X / B)^k, because blocks differ: this is why
// blocks are looked at one by one, and the share of all bits is not enough.
//
// The rate of a layer of double hashing. An item has the positions low, low + high, low + 2 high, ... In a
// large layer they are as good as independent, and the rate is fill^k. In a small one the progressions of
// items overlap far more often, and the rate is higher. There the rate is measured instead: for a random
// `high`, and all residues of `low` at once. The bits at a position of 64 items with neighbouring `low` are
// 64 neighbouring bits, so a few shifts and an AND for each probe test 64 items.
//
// The rate of a client's bitmap. Its positions are as good as independent, so the rate is fill^k too.
//
// The items of a layer. One item leaves a bit of its block unset with the probability q = (1 - 1/B)^k, and a
// bit of another block for certain. So a bit of N blocks is left unset by one item with 1 - (1 - q) / N, and
// by n items with the power n of it:
//
//     n = ln(1 - fill) / ln(1 - (1 - q) / N)
//
// The k positions of double hashing are different ones, so there q = 1 - k / B, with one block of all bits.
// What remains is the scatter of the bits that n items happen to set: 2.3% of a hundred items, 0.2% of ten
// thousand.
//
// Sample. A large bitmap is read in runs of neighbouring blocks, at equal distances. Items are spread over
// blocks by their hash, so neighbours are as good a sample as blocks that are far apart, and a run costs one
// miss in the translation cache.
#include <sepal/bloom/filter/measure.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

#include "bloom/kernel/positions.hpp"

namespace sepal::bloom {
namespace {

constexpr std::uint64_t run_bytes_min = 4096;
constexpr std::uint64_t measured_word_bytes = word_bits / 8;

double rate_of_probes(double base, std::uint32_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base)
    if (exponent % 2 != 0) result *= base;
  return result;
}

std::uint64_t count_bits(std::span<const std::uint64_t> words) {
  std::uint64_t count = 0;
  for (const std::uint64_t word : words) count += static_cast<std::uint64_t>(std::popcount(word));
  return count;
}

// One of the layers that are measured.
struct MeasuredLayer {
  LayerPlan plan;
  const ReadBits& read;
  std::size_t index;
};

// The words as the layer has them.
void copy_words(const MeasuredLayer& layer, std::uint64_t word, std::span<std::uint64_t> to) {
  layer.read(layer.index, word * measured_word_bytes, std::as_writable_bytes(to));
  if constexpr (std::endian::native != std::endian::little)
    for (std::uint64_t& each : to) each = __builtin_bswap64(each);
}

struct Sample {
  std::uint64_t bits = 0;
  std::uint64_t bits_set = 0;
  double block_rates = 0;  // the sum over the blocks
  std::uint64_t blocks = 0;
};

// Looks at runs of blocks at equal distances; at all blocks where `bytes_max` allows it.
Sample sample_of(const MeasuredLayer& layer, std::uint64_t bytes_max) {
  const LayerPlan& plan = layer.plan;
  const std::uint64_t block_words = plan.block_bits / word_bits;
  const std::uint64_t block_bytes = block_words * measured_word_bytes;
  const std::uint64_t run_blocks =
      std::min(plan.block_count, std::max<std::uint64_t>(1, run_bytes_min / block_bytes));
  const std::uint64_t runs = (plan.block_count + run_blocks - 1) / run_blocks;
  const std::uint64_t runs_read =
      plan.byte_count() <= bytes_max
          ? runs
          : std::clamp<std::uint64_t>(bytes_max / (run_blocks * block_bytes), 1, runs);
  std::vector<std::uint64_t> words(run_blocks * block_words);
  Sample sample;
  for (std::uint64_t i = 0; i < runs_read; ++i) {
    // In the reals, so that no product wraps.
    const auto run = static_cast<std::uint64_t>(static_cast<double>(i) / static_cast<double>(runs_read) *
                                                static_cast<double>(runs));
    // With all runs read, the index is exact; the reals above might name one run twice and leave out another.
    const std::uint64_t first = runs_read == runs ? i * run_blocks : run * run_blocks;
    const std::uint64_t count = std::min(run_blocks, plan.block_count - first);
    const auto read = std::span(words).first(count * block_words);
    copy_words(layer, first * block_words, read);
    for (std::uint64_t block = 0; block < count; ++block) {
      const std::uint64_t set = count_bits(read.subspan(block * block_words, block_words));
      sample.bits_set += set;
      // In other layouts an item's positions are not bound to one of these "blocks".
      if (plan.layout == Layout::blocked)
        sample.block_rates += rate_of_probes(static_cast<double>(set) / plan.block_bits, plan.probe_count);
    }
    sample.blocks += count;
    sample.bits += count * plan.block_bits;
  }
  return sample;
}

double items_from(const LayerPlan& plan, double fill) {
  const bool blocked = plan.layout == Layout::blocked;
  const double blocks = blocked ? static_cast<double>(plan.block_count) : 1;
  const double bits = blocked ? plan.block_bits : static_cast<double>(plan.bit_count());
  const double probes = plan.probe_count;
  // The logarithm of the share that one item leaves unset.
  const double one_item = blocked ? std::log1p(std::expm1(probes * std::log1p(-1 / bits)) / blocks)
                                  // Not all bits at once: the logarithm of 0 has no use. A layer may have
                                  // more probes than bits.
                                  : std::log1p(-std::min(probes / bits, 1 - 1 / bits));
  return std::log1p(-fill) / one_item;
}

// Up to this size the rate of a layer of double hashing is measured. Above, an item's positions are as good
// as independent.
constexpr std::uint64_t overlapping_bits_max = std::uint64_t{1} << 17;
// How many words the measurement may combine, for all layers of a filter. It tests 64 items with as many
// words as an item has probes. It may combine so many for each byte that it may read: a short look stays one.
constexpr std::uint64_t combined_words_max = std::uint64_t{1} << 21;
constexpr std::uint64_t combined_words_a_byte = 4;

// SplitMix64, whose state the caller keeps.
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t mixed = state += 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

class Progressions {
 public:
  explicit Progressions(const MeasuredLayer& layer)
      // One word more at the end, because bits_at() reads the word behind.
      : words_(layer.plan.block_count), probe_count_(layer.plan.probe_count), bits_(2 * words_ + 1) {
    copy_words(layer, 0, std::span(bits_).first(words_));
    // Once more behind themselves, so that no position has to be taken modulo the size.
    std::copy_n(bits_.begin(), words_, bits_.begin() + static_cast<std::ptrdiff_t>(words_));
  }

  // The share of items that all probes find set, over random items.
  [[nodiscard]] double rate(std::uint64_t combined_max) const {
    const std::uint64_t rounds =
        // Each round tests an item for every bit of the layer. A small layer has more rounds for the same
        // work.
        std::clamp<std::uint64_t>(combined_max / (words_ * probe_count_), 1, 1 << 16);
    // The same items each time, so that the same bits give the same answer.
    std::uint64_t random = 0;
    std::uint64_t maybes = 0;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const std::uint64_t low = next_random(random);
      maybes += maybes_of({.low = low, .high = next_random(random)});
    }
    return static_cast<double>(maybes) /
           (static_cast<double>(rounds) * static_cast<double>(words_ * word_bits));
  }

 private:
  // How many of the items whose positions are those of `item`, all moved by the same distance, are "maybe":
  // for all distances below the size.
  [[nodiscard]] std::uint64_t maybes_of(const Fingerprint& item) const {
    const Anywhere positions({.words = nullptr, .block_count = words_, .block_bits = 0, .probe_count = 0});
    std::array<std::uint64_t, double_hashing_probe_count_max> offsets;
    const std::uint64_t bit_count = words_ * word_bits;
    const std::uint64_t start = positions.position(item, 0);
    for (std::uint32_t probe = 0; probe < probe_count_; ++probe)
      offsets[probe] = (positions.position(item, probe) + bit_count - start) % bit_count;
    std::uint64_t maybes = 0;
    for (std::uint64_t word = 0; word < words_; ++word) {
      // Bit i of `all` stands for the item that is moved by 64 * word + i. Each probe keeps the items whose
      // bit is set.
      std::uint64_t all = bits_[word];
      for (std::uint32_t probe = 1; probe < probe_count_ && all != 0; ++probe)
        all &= bits_at(word + offsets[probe] / word_bits, offsets[probe] % word_bits);
      maybes += static_cast<std::uint64_t>(std::popcount(all));
    }
    return maybes;
  }
  // The 64 bits from bit `shift` of a word on.
  [[nodiscard]] std::uint64_t bits_at(std::uint64_t word, std::uint64_t shift) const {
    // In two steps, because a shift by 64 has no meaning.
    return (bits_[word] >> shift) | (bits_[word + 1] << 1 << (word_bits - 1 - shift));
  }

  std::uint64_t words_;
  std::uint32_t probe_count_;
  std::vector<std::uint64_t> bits_;
};

// As a client program looks for its items. The bits behind its last position are never set, and do not count.
LayerMeasure measure_client(const LayerPlan& plan, const Sample& sample) {
  const ClientBits bits = plan.client_bits();
  LayerMeasure measured{.whole = sample.bits == plan.bit_count()};
  const double share = static_cast<double>(sample.bits_set) / static_cast<double>(sample.bits);
  const double bits_set =
      measured.whole ? static_cast<double>(sample.bits_set) : share * static_cast<double>(plan.bit_count());
  measured.bits_set = std::min(bits.bit_count, static_cast<std::uint64_t>(std::llround(bits_set)));
  measured.fill = static_cast<double>(measured.bits_set) / static_cast<double>(bits.bit_count);
  measured.item_estimate = static_cast<double>(items_of(bits, measured.bits_set));
  const double reached = static_cast<double>(measured.bits_set) / static_cast<double>(reach_of(bits));
  measured.false_positive_rate = rate_of_probes(std::min(1.0, reached), bits.probe_count);
  return measured;
}

struct Effort {
  std::uint64_t bytes_max;
  std::uint64_t combined_max;
};

LayerMeasure measure_layer(const MeasuredLayer& layer, const Effort& effort) {
  const LayerPlan& plan = layer.plan;
  const Sample sample = sample_of(layer, effort.bytes_max);
  if (plan.layout == Layout::client) return measure_client(plan, sample);
  LayerMeasure measured{.whole = sample.bits == plan.bit_count()};
  measured.fill = static_cast<double>(sample.bits_set) / static_cast<double>(sample.bits);
  measured.bits_set =
      measured.whole
          ? sample.bits_set
          : static_cast<std::uint64_t>(std::llround(measured.fill * static_cast<double>(plan.bit_count())));
  // If all bits are set, no number of items is the likeliest: half a bit is taken as unset.
  const double unset_min = 0.5 / static_cast<double>(sample.bits);
  measured.item_estimate = items_from(plan, std::min(measured.fill, 1 - unset_min));
  if (plan.layout == Layout::blocked) {
    measured.false_positive_rate = sample.block_rates / static_cast<double>(sample.blocks);
  } else if (plan.bit_count() <= overlapping_bits_max) {
    measured.false_positive_rate = Progressions(layer).rate(effort.combined_max);
  } else {
    measured.false_positive_rate = rate_of_probes(measured.fill, plan.probe_count);
  }
  return measured;
}

}  // namespace

FilterMeasure measure(std::span<const LayerView> layers, std::uint64_t bytes_max) {
  std::vector<LayerPlan> plans;
  for (const LayerView& layer : layers) plans.push_back(layer.plan());
  return measure(
      plans,
      [&](std::size_t layer, std::uint64_t offset, std::span<std::byte> to) {
        layers[layer].copy_bits(offset, to);
      },
      bytes_max);
}

FilterMeasure measure(std::span<const LayerPlan> layers, const ReadBits& read, std::uint64_t bytes_max) {
  FilterMeasure sum;
  double absent_logarithm = 0;  // of the share of absent items that all layers call absent
  std::uint64_t bytes_left = bytes_max;
  const std::uint64_t combined_max =
      std::min(bytes_max, combined_words_max / combined_words_a_byte) * combined_words_a_byte;
  for (std::size_t index = 0; index < layers.size(); ++index) {
    // Older layers are mostly smaller. What they leave of their share is for the younger ones.
    const std::uint64_t share = bytes_left / (layers.size() - index);
    const LayerPlan& plan = layers[index];
    const LayerMeasure layer =
        measure_layer({.plan = plan, .read = read, .index = index},
                      {.bytes_max = share, .combined_max = combined_max / layers.size()});
    bytes_left -= std::min({plan.byte_count(), share, bytes_left});
    sum.bits += plan.layout == Layout::client ? plan.client_bits().bit_count : plan.bit_count();
    sum.bits_set += layer.bits_set;
    sum.item_estimate += layer.item_estimate;
    sum.whole = sum.whole && layer.whole;
    // Logarithms, because rates of 1e-9 and less would be lost in a product of numbers close to 1.
    absent_logarithm += std::log1p(-layer.false_positive_rate);
    sum.layers.push_back(layer);
  }
  sum.fill = sum.bits == 0 ? 0 : static_cast<double>(sum.bits_set) / static_cast<double>(sum.bits);
  sum.false_positive_rate = std::abs(std::expm1(absent_logarithm));  // never -0
  return sum;
}

}  // namespace sepal::bloom
