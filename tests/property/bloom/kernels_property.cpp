// Compares every kernel that this machine can run with probe.hpp, which tests one probe of one item at a
// time. Also compares adds of batches with adds of single items.
#include <sepal/bloom/filter/filter.hpp>

#include <sys/mman.h>

#include "bloom/kernel/kernels.hpp"
#include "bloom/plan/probe.hpp"
#include "support/catch.hpp"
#include "support/guarded_words.hpp"

namespace kernels_property {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

// In bits from the beginning of the layer.
std::uint64_t position_in(const Blocks& blocks, const Fingerprint& item, std::uint32_t probe) {
  if (blocks.anywhere()) return (item.low + probe * item.high) % (blocks.block_count * word_bits);
  return block_of(item, blocks.block_count) * blocks.block_bits + position_of(item, probe, blocks.block_bits);
}

std::uint64_t& word_of(const Blocks& blocks, const Fingerprint& item, std::uint32_t probe) {
  return blocks.words[position_in(blocks, item, probe) / word_bits];
}

std::uint64_t bit_of(const Blocks& blocks, const Fingerprint& item, std::uint32_t probe) {
  return std::uint64_t{1} << (position_in(blocks, item, probe) % word_bits);
}

bool holds_plainly(const Blocks& blocks, const Fingerprint& item) {
  for (std::uint32_t probe = 0; probe < blocks.probe_count; ++probe)
    if ((word_of(blocks, item, probe) & bit_of(blocks, item, probe)) == 0) return false;
  return true;
}

// Sets all bits of the item except that of `probe_left_out`. A kernel that stops too early does not notice if
// the bit that it would test last is missing.
void set(const Blocks& blocks, const Fingerprint& item, std::uint32_t probe_left_out) {
  for (std::uint32_t probe = 0; probe < blocks.probe_count; ++probe)
    if (probe != probe_left_out) word_of(blocks, item, probe) |= bit_of(blocks, item, probe);
}

class Scene {
 public:
  explicit Scene(std::uint64_t seed) : random_(seed) {}

  Blocks draw_blocks() {
    constexpr std::uint32_t huge_block_bits = 1 << 18;
    // The last kind has no blocks.
    const std::uint64_t kind = random_() % 5;
    Blocks blocks{.words = nullptr,
                  .block_count = kind == 3 ? 1 : 1 + random_() % (random_() % 2 == 0 ? 4 : 300),
                  .block_bits = 0,
                  .probe_count = static_cast<std::uint32_t>(1 + random_() % (random_() % 2 == 0 ? 8 : 40))};
    if (kind == 0) blocks.block_bits = 64U << random_() % 8;
    if (kind == 1) blocks.block_bits = static_cast<std::uint32_t>(64 * (1 + random_() % 128));
    if (kind == 2) blocks.block_bits = static_cast<std::uint32_t>(64 * (1 + random_() % 9));
    if (kind == 3)
      blocks.block_bits = static_cast<std::uint32_t>(64 * (1 + random_() % (huge_block_bits / 64)));
    const std::uint64_t word_count =
        blocks.block_count * (blocks.anywhere() ? 1 : blocks.block_bits / word_bits);
    words_ = test::GuardedWords(word_count);
    blocks.words = words_.get();
    fill(word_count);
    return blocks;
  }

  // Some items are present, some lack one bit, and the others are random.
  Pending draw_window(const Blocks& blocks) {
    Pending pending;
    pending.count = random_() % 8 == 0 ? 0 : 1 + random_() % window_items_max;
    std::uint64_t index = 0;
    for (std::size_t at = 0; at < pending.count; ++at) {
      const Fingerprint item{.low = random_(), .high = random_()};
      pending.low[at] = item.low;
      pending.high[at] = item.high;
      pending.index[at] = index;
      index += 1 + random_() % 3;
    }
    set_some(blocks, pending);
    return pending;
  }

  // Sets the bits of all items, or of one in four or sixteen. For as many others it sets all bits but one.
  void set_some(const Blocks& blocks, const Pending& pending) {
    const std::uint64_t kinds = std::uint64_t{1} << (2 * (random_() % 3));
    for (std::size_t at = 0; at < pending.count; ++at) {
      const std::uint64_t kind = random_() % kinds;
      if (kind == 0) set(blocks, pending.fingerprint(at), blocks.probe_count);
      if (kind == 1)
        set(blocks, pending.fingerprint(at), static_cast<std::uint32_t>(random_() % blocks.probe_count));
    }
  }

 private:
  // Fills the layer: it is empty, half full or nearly full.
  void fill(std::uint64_t word_count) {
    const std::uint64_t rounds = random_() % 4;
    for (std::uint64_t word = 0; word < word_count; ++word)
      for (std::uint64_t round = 0; round < rounds; ++round) words_[word] |= random_();
  }

  std::mt19937_64 random_;
  test::GuardedWords words_;
};

void check_find(const Kernel& kernel, std::span<const Blocks> layers, const Pending& before) {
  Pending after = before;
  kernel.find(layers, after);
  std::size_t left = 0;
  bool same = true;
  for (std::size_t at = 0; at < before.count; ++at) {
    const Fingerprint item = before.fingerprint(at);
    if (std::ranges::any_of(layers, [&](const Blocks& blocks) { return holds_plainly(blocks, item); }))
      continue;
    same = same && left < after.count && after.fingerprint(left) == before.fingerprint(at) &&
           after.index[left] == before.index[at];
    ++left;
  }
  REQUIRE(same);
  REQUIRE(after.count == left);
}

TEST_CASE("every look-up kernel answers like the plain formula, in a layer of any shape and fill") {
  for (const Kernel& kernel : kernels()) {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      Scene scene(seed);
      const Blocks blocks = scene.draw_blocks();
      CAPTURE(kernel.name, seed, blocks.block_count, blocks.block_bits, blocks.probe_count);
      check_find(kernel, {&blocks, 1}, scene.draw_window(blocks));
    }
  }
}

// Layers of any shapes, and items of which each may be in some of them.
struct Layers {
  std::vector<std::unique_ptr<Scene>> scenes;
  std::vector<Blocks> blocks;
  Pending pending;

  Layers(std::uint64_t seed, std::uint64_t count) {
    for (std::uint64_t layer = 0; layer < count; ++layer) {
      scenes.push_back(std::make_unique<Scene>(seed * 64 + layer));
      blocks.push_back(scenes.back()->draw_blocks());
    }
    pending = scenes.back()->draw_window(blocks.back());
    for (std::size_t layer = 0; layer + 1 < count; ++layer) scenes[layer]->set_some(blocks[layer], pending);
  }
};

// The words of consecutive blocks.
std::vector<std::uint64_t> words_of(const Blocks& blocks) {
  return {blocks.words, blocks.words + blocks.block_count * (blocks.block_bits / word_bits)};
}

TEST_CASE("every kernel sets exactly the bits of the plain formula, in blocks of any shape and fill") {
  for (const Kernel& kernel : kernels()) {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      Scene scene(seed);
      const Blocks blocks = scene.draw_blocks();
      if (blocks.anywhere()) continue;
      CAPTURE(kernel.name, seed, blocks.block_count, blocks.block_bits, blocks.probe_count);
      const Pending items = scene.draw_window(blocks);
      for (std::size_t at = 0; at < std::min<std::size_t>(items.count, 8); ++at) {
        const Fingerprint item = items.fingerprint(at);
        const bool held = holds_plainly(blocks, item);
        const std::vector<std::uint64_t> before = words_of(blocks);
        set(blocks, item, blocks.probe_count);
        const std::vector<std::uint64_t> expected = words_of(blocks);
        std::ranges::copy(before, blocks.words);
        const bool changed = kernel.set(blocks, block_of(item, blocks.block_count), item);
        REQUIRE(changed == !held);
        REQUIRE((words_of(blocks) == expected));
      }
    }
  }
}

TEST_CASE("every look-up kernel answers like the plain formula, in several layers of any shapes") {
  for (const Kernel& kernel : kernels()) {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      CAPTURE(kernel.name, seed);
      const Layers layers(seed, 1 + seed % 7);
      check_find(kernel, layers.blocks, layers.pending);
    }
  }
}

TEST_CASE("a look-up in one layer or several answers like the plain formula, however many items it has") {
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    CAPTURE(seed);
    const Layers layers(seed, 1 + seed % 20);
    const Kernel chosen{.name = kernel().name, .find = find_items, .set = set_item};
    check_find(chosen, layers.blocks, layers.pending);
    for (std::size_t at = 0; at < layers.pending.count; ++at) {
      const Fingerprint item = layers.pending.fingerprint(at);
      const auto holds = [&](const Blocks& blocks) { return holds_plainly(blocks, item); };
      REQUIRE(any_holds(layers.blocks, item) == std::ranges::any_of(layers.blocks, holds));
      REQUIRE(holds_item(layers.blocks[0], item) == holds(layers.blocks[0]));
    }
  }
}

// Untouched pages take no memory. Null when the system gives no address space of this size.
class Untouched {
 public:
  explicit Untouched(std::uint64_t word_count) : bytes_(word_count * sizeof(std::uint64_t)) {
    void* const mapped =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped != MAP_FAILED) words_ = static_cast<std::uint64_t*>(mapped);
  }
  ~Untouched() {
    if (words_ != nullptr) munmap(words_, bytes_);
  }
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;

  [[nodiscard]] std::uint64_t* words() const { return words_; }

 private:
  std::uint64_t bytes_;
  std::uint64_t* words_ = nullptr;
};

TEST_CASE("every look-up kernel finds items in layers of more than 2^32 words, bits or blocks") {
  constexpr std::uint64_t blocks_of_32_bits = 0xffffffff;
  for (Blocks blocks :
       {Blocks{nullptr, blocks_of_32_bits + 12346, 64, 3}, Blocks{nullptr, blocks_of_32_bits, 64, 3},
        Blocks{nullptr, blocks_of_32_bits, 64, 12}, Blocks{nullptr, blocks_of_32_bits, 192, 12},
        Blocks{nullptr, blocks_of_32_bits, 128, 12}, Blocks{nullptr, blocks_of_32_bits / 2, 512, 7},
        Blocks{nullptr, 1, std::uint32_t{1} << 31, 12}}) {
    CAPTURE(blocks.block_count, blocks.block_bits, blocks.probe_count);
    const Untouched memory(blocks.block_count * (blocks.block_bits / word_bits));
    blocks.words = memory.words();
    if (blocks.words == nullptr) {
      WARN("the system gives no address space of this size");
      continue;
    }
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Pending pending = Scene(seed).draw_window(blocks);
      CAPTURE(seed);
      for (const Kernel& kernel : kernels()) check_find(kernel, {&blocks, 1}, pending);
    }
  }
}

// The state of a filter after some batches.
struct Outcome {
  std::vector<bool> added;
  std::vector<std::byte> bits;
  std::vector<std::uint64_t> item_counts;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

class Adder {
 public:
  explicit Adder(const FilterOptions& options) {
    auto created = Filter::create(options, plenty);
    REQUIRE(created);
    filter_ = *created;
  }

  void add(const std::vector<std::string_view>& items) {
    const auto answers = std::make_unique<bool[]>(items.size());
    if (filter_->try_add(items, {answers.get(), items.size()})) {
      outcome_.added.insert(outcome_.added.end(), answers.get(), answers.get() + items.size());
    } else {
      for (const std::string_view item : items)
        outcome_.added.push_back(filter_->add_alone(item, plenty).added);
    }
  }

  Outcome outcome() {
    for (const LayerView& layer : filter_->layers()) {
      std::vector<std::byte> bits(layer.plan().byte_count());
      layer.copy_bits(0, bits);
      outcome_.bits.insert(outcome_.bits.end(), bits.begin(), bits.end());
      outcome_.item_counts.push_back(layer.item_count());
    }
    return outcome_;
  }

 private:
  FilterPtr filter_;
  Outcome outcome_;
};

TEST_CASE("a batch of adds gives the answers and bits of single adds") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    for (const FilterOptions& options :
         {FilterOptions{.error_rate = 0.01, .capacity = 100'000, .expansion = 2},
          FilterOptions{.error_rate = 0.1, .capacity = 100, .expansion = 2},
          FilterOptions{.error_rate = 1e-7, .capacity = 50, .expansion = 4},
          FilterOptions{.error_rate = 0.01, .capacity = 80, .expansion = 1},
          FilterOptions{.error_rate = 0.001, .capacity = 20'000, .expansion = 0}}) {
      CAPTURE(seed, options.error_rate, options.capacity, options.expansion);
      std::mt19937_64 random(seed);
      Adder together(options), alone(options);
      for (int batch = 0; batch < 60; ++batch) {
        std::vector<std::string> items(1 + random() % 200);
        // There are few names, so that items occur again, also in the same window.
        for (std::string& item : items) item = "item " + std::to_string(random() % 6000);
        together.add({items.begin(), items.end()});
        for (const std::string& item : items) alone.add({item});
      }
      REQUIRE((together.outcome() == alone.outcome()));
    }
  }
}

}  // namespace

}  // namespace kernels_property
