// Compares the filter with a very plain model: each layer is a std::vector<bool>, the positions are those of
// the image format, and it takes one item at a time. Both give the same answers to batches of any size,
// before and after the filter was restored from an image.
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/filter/image.hpp>

#include "support/catch.hpp"
#include "support/redisbloom_filter.hpp"

namespace reference_model_property {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

std::uint64_t upper_half_of_product(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a_low = a & 0xffffffff, a_high = a >> 32, b_low = b & 0xffffffff, b_high = b >> 32;
  const std::uint64_t middle = a_high * b_low + ((a_low * b_low) >> 32);
  return a_high * b_high + (middle >> 32) + ((a_low * b_high + (middle & 0xffffffff)) >> 32);
}

// The n-th output of SplitMix64 from state 0, made odd.
std::uint64_t multiplier(std::uint64_t n) {
  std::uint64_t z = (n + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (z ^ (z >> 31)) | 1;
}

// A literal copy from https://github.com/aappleby/smhasher, MurmurHash2.cpp.
std::uint64_t murmur_hash_64a(const void* key, std::size_t len, std::uint64_t seed) {
  const std::uint64_t m = 0xc6a4a7935bd1e995;
  const int r = 47;
  std::uint64_t h = seed ^ (len * m);
  const auto* data = static_cast<const unsigned char*>(key);
  const unsigned char* const end = data + (len / 8) * 8;
  while (data != end) {
    std::uint64_t k;
    std::memcpy(&k, data, sizeof k);
    data += 8;
    k *= m;
    k ^= k >> r;
    k *= m;
    h ^= k;
    h *= m;
  }
  for (std::size_t i = len & 7; i > 0; --i) h ^= std::uint64_t{data[i - 1]} << (8 * (i - 1));
  if ((len & 7) != 0) h *= m;
  h ^= h >> r;
  h *= m;
  h ^= h >> r;
  return h;
}

class Model {
 public:
  explicit Model(const FilterOptions& options) : options_(options) {}

  bool contains(const std::string& item) const {
    for (const Layer& layer : layers_) {
      bool all = true;
      for (const std::uint64_t position : positions(layer.plan, item)) all = all && layer.bits[position];
      if (all) return true;
    }
    return false;
  }
  // The item is new and `plan` is that of the layer it goes to.
  void add(const std::string& item, const LayerPlan& plan) {
    if (layers_.empty() || layers_.back().item_count == layers_.back().plan.capacity)
      layers_.push_back({.plan = plan, .bits = std::vector<bool>(plan.bit_count()), .item_count = 0});
    for (const std::uint64_t position : positions(plan, item)) layers_.back().bits[position] = true;
    ++layers_.back().item_count;
  }

  [[nodiscard]] std::size_t layer_count() const { return layers_.size(); }
  [[nodiscard]] const std::vector<bool>& bits(std::size_t layer) const { return layers_[layer].bits; }
  [[nodiscard]] std::uint64_t item_count(std::size_t layer) const { return layers_[layer].item_count; }

 private:
  struct Layer {
    LayerPlan plan;
    std::vector<bool> bits;
    std::uint64_t item_count;
  };

  [[nodiscard]] Fingerprint fingerprint_of(const std::string& item) const {
    if (options_.hash == ItemHash::xxh3) return sepal::fingerprint_of(item, options_.seed);
    const std::uint64_t low = murmur_hash_64a(item.data(), item.size(), 0xc6a4a7935bd1e995);
    return {.low = low, .high = murmur_hash_64a(item.data(), item.size(), low)};
  }
  [[nodiscard]] std::vector<std::uint64_t> positions(const LayerPlan& plan, const std::string& item) const {
    const Fingerprint fingerprint = fingerprint_of(item);
    if (plan.layout == Layout::double_hashing) {
      std::vector<std::uint64_t> all;
      for (std::uint64_t probe = 0; probe < plan.probe_count; ++probe)
        all.push_back((fingerprint.low + probe * fingerprint.high) % plan.bit_count());
      return all;
    }
    const std::uint64_t block = upper_half_of_product(fingerprint.low, plan.block_count);
    std::vector<std::uint64_t> all;
    for (std::uint32_t probe = 0; probe < plan.probe_count; ++probe)
      all.push_back(block * plan.block_bits +
                    upper_half_of_product(fingerprint.high * multiplier(probe), plan.block_bits));
    return all;
  }

  FilterOptions options_;
  std::vector<Layer> layers_;
};

// A batch of items, some of which were added before.
class Scene {
 public:
  Scene(bloom::FilterPtr filter, std::uint64_t seed)
      : random_(seed), model_(filter->options()), filter_(std::move(filter)) {}

  void step() {
    draw_batch();
    switch (random_() % 4) {
      case 0: ask(); break;
      case 1: add_alone(); break;
      case 2:
        if (random_() % 8 == 0) take_an_image();
        break;
      default: add_together();
    }
  }

  void compare_bits() const {
    const auto layers = filter_->layers();
    REQUIRE(model_.layer_count() <= layers.size());
    for (std::size_t i = 0; i < model_.layer_count(); ++i) {
      REQUIRE(layers[i].item_count() == model_.item_count(i));
      std::vector<std::byte> bytes(layers[i].plan().byte_count());
      layers[i].copy_bits(0, bytes);
      std::uint64_t differences = 0;
      for (std::uint64_t bit = 0; bit < layers[i].plan().bit_count(); ++bit)
        differences += ((std::to_integer<unsigned>(bytes[bit / 8]) >> (bit % 8)) & 1) != model_.bits(i)[bit];
      REQUIRE(differences == 0);
    }
  }

 private:
  void draw_batch() {
    const std::size_t count = random_() % 4 == 0 ? 1 : random_() % 50;
    items_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t known = next_ == 0 ? 0 : random_() % next_;
      items_.push_back("item " + std::to_string(random_() % 3 == 0 ? known : next_++));
    }
    views_.assign(items_.begin(), items_.end());
    answers_ = std::make_unique<bool[]>(items_.size());
  }

  [[nodiscard]] LayerPlan newest_plan() const { return filter_->layers().back().plan(); }

  void ask() {
    filter_->contains(views_, {answers_.get(), views_.size()});
    for (std::size_t i = 0; i < items_.size(); ++i) REQUIRE(answers_[i] == model_.contains(items_[i]));
  }

  void add_together() {
    if (!filter_->try_add(views_, {answers_.get(), views_.size()})) return add_alone();
    for (std::size_t i = 0; i < items_.size(); ++i) note_add(items_[i], answers_[i]);
  }

  void add_alone() {
    for (const std::string& item : items_) {
      const auto outcome = filter_->add_alone(item, plenty);
      if (outcome.refusal == Filter::Refusal::none) {
        note_add(item, outcome.added);
      } else {
        REQUIRE(outcome.refusal == Filter::Refusal::full);
        REQUIRE_FALSE(model_.contains(item));
        REQUIRE(filter_->item_count() == filter_->capacity());
      }
    }
  }

  void note_add(const std::string& item, bool added) {
    REQUIRE(added == !model_.contains(item));
    if (added) model_.add(item, newest_plan());
    REQUIRE(model_.contains(item));
  }

  void take_an_image() {
    const auto decoded = decode_image_header(encode(header_of(*filter_)), plenty.layers_max);
    REQUIRE(decoded);
    auto restored = Filter::restore(decoded->options, decoded->layers, plenty);
    REQUIRE(restored);
    const auto layers = filter_->layers();
    for (std::uint32_t i = 0; i < layers.size(); ++i) {
      std::vector<std::byte> bytes(layers[i].plan().byte_count());
      layers[i].copy_bits(0, bytes);
      const std::size_t cut = bytes.size() / 16 * 8;
      (*restored)->fill_bits(i, 0, std::span(bytes).first(cut));
      (*restored)->fill_bits(i, cut, std::span(bytes).subspan(cut));
    }
    filter_ = *restored;
  }

  std::mt19937_64 random_;
  Model model_;
  bloom::FilterPtr filter_;
  std::uint64_t next_ = 0;
  std::vector<std::string> items_;
  std::vector<std::string_view> views_;
  std::unique_ptr<bool[]> answers_;
};

TEST_CASE("a filter has the same bits and answers as a plain reference") {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    for (const FilterOptions& options :
         {FilterOptions{.error_rate = 0.25, .capacity = 1, .expansion = 2},
          FilterOptions{.error_rate = 0.01, .capacity = 30, .expansion = 1},
          FilterOptions{.error_rate = 0.01, .capacity = 100, .expansion = 4},
          FilterOptions{.error_rate = 1e-6, .capacity = 700, .expansion = 2},
          FilterOptions{.error_rate = 0.1, .capacity = 2000, .expansion = 0},
          FilterOptions{.error_rate = 0.05, .capacity = 500'000, .expansion = 2}}) {
      CAPTURE(seed, options.error_rate, options.capacity, options.expansion);
      FilterOptions seeded = options;
      seeded.seed = seed * 0x9e3779b97f4a7c15;
      Scene scene(*Filter::create(seeded, plenty), seed);
      for (int step = 0; step < 200; ++step) scene.step();
      scene.compare_bits();
    }
  }
}

TEST_CASE("a filter of RedisBloom has the same bits and answers as a plain model of its layout") {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    for (const test::RedisBloomRequest& request :
         {test::RedisBloomRequest{.error_rate = 0.125, .capacity = 1, .expansion = 2},
          test::RedisBloomRequest{.error_rate = 0.005, .capacity = 30, .expansion = 1},
          test::RedisBloomRequest{.error_rate = 0.005, .capacity = 100, .expansion = 4},
          test::RedisBloomRequest{.error_rate = 1e-80, .capacity = 100, .expansion = 2},
          test::RedisBloomRequest{.error_rate = 0.1, .capacity = 2000, .expansion = 0},
          test::RedisBloomRequest{.error_rate = 0.05, .capacity = 500'000, .expansion = 2}}) {
      CAPTURE(seed, request.error_rate, request.capacity, request.expansion);
      Scene scene(test::redisbloom_filter(request), seed);
      for (int step = 0; step < 200; ++step) scene.step();
      scene.compare_bits();
    }
  }
}

}  // namespace

}  // namespace reference_model_property
