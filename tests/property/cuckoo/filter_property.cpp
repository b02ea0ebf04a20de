// A filter that deletes, beside a multiset: no item is denied of which more copies were added than removed,
// its records make it again, and so does its image, whenever that is taken.
#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "support/catch.hpp"

namespace filter_property {

namespace {

using namespace sepal;
using namespace sepal::cuckoo;

constexpr std::uint64_t roomy = std::uint64_t{1} << 40;
constexpr value::Limits no_limits{.bytes_max = roomy};

FilterPtr made(const Options& options) {
  auto planned = plan(options, roomy);
  REQUIRE(planned);
  auto filter = Filter::create(*planned);
  REQUIRE(filter);
  return *filter;
}

using Journal = value::CollectedEntries;

std::string item(std::uint64_t number) {
  return "item:" + std::to_string(number);
}

bool add(Filter& filter, const std::string& text, Journal* journal,
         Filter::AddIf condition = Filter::AddIf::always) {
  OwnMemory memory;
  std::vector<Filter::AddOutcome> outcomes;
  const std::string_view view = text;
  REQUIRE(filter.add({&view, 1}, condition, memory, outcomes, journal));
  REQUIRE(outcomes.size() == 1);
  return outcomes.front().added;
}
bool remove(Filter& filter, const std::string& text, Journal* journal) {
  OwnMemory memory;
  const std::string_view view = text;
  bool removed = false;
  REQUIRE(filter.remove({&view, 1}, memory, {&removed, 1}, journal));
  return removed;
}
bool contains(const Filter& filter, const std::string& text) {
  const std::string_view view = text;
  bool present = false;
  filter.contains({&view, 1}, {&present, 1});
  return present;
}

bool contains_all(const Filter& filter, std::span<const std::string> texts) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto present = std::make_unique<bool[]>(views.size());
  filter.contains(views, {present.get(), views.size()});
  return std::all_of(present.get(), present.get() + views.size(), [](bool each) { return each; });
}

double measured_rate(const Filter& filter, std::uint64_t asked) {
  constexpr std::uint64_t batch = 1000;
  std::uint64_t found = 0;
  for (std::uint64_t at = 0; at < asked; at += batch) {
    std::vector<std::string> texts;
    std::vector<std::string_view> views;
    for (std::uint64_t i = 0; i < batch; ++i) texts.push_back("absent:" + std::to_string(at + i));
    for (const std::string& text : texts) views.emplace_back(text);
    bool present[batch];
    filter.contains(views, present);
    for (const bool each : present) found += each ? 1 : 0;
  }
  return static_cast<double>(found) / static_cast<double>(asked);
}

// What the filter has, without the shapes of its cells, which depend on its history.
std::vector<std::uint64_t> counts_of(const Filter& filter, std::uint64_t item_count) {
  std::vector<std::uint64_t> counts;
  for (std::uint64_t number = 0; number < item_count; ++number) counts.push_back(filter.count(item(number)));
  return counts;
}

Options options_of(std::uint64_t capacity, double rate, bool given = true) {
  return {.capacity = capacity, .error_rate = rate, .capacity_given = given, .seed = 42};
}

}  // namespace

TEST_CASE("a filter is a multiset of what was added and not removed") {
  const auto options = GENERATE(options_of(1024, 0.01, false), options_of(100, 0.001), options_of(5000, 0.03),
                                options_of(3, 0.1), options_of(200'000, 0.000001));
  const FilterPtr filter = made(options);
  std::mt19937_64 random(options.capacity);
  std::unordered_map<std::uint64_t, std::uint64_t> model;
  std::uint64_t total = 0;
  Journal journal;
  const std::uint64_t numbers = 20'000;
  for (int step = 0; step < 120'000; ++step) {
    // Waves: it grows, and shrinks again.
    const bool growing = step / 30'000 % 2 == 0;
    const std::uint64_t number = random() % numbers;
    const auto choice = random() % 10;
    if (choice < (growing ? 6U : 3U)) {
      REQUIRE(add(*filter, item(number), &journal));
      ++model[number];
      ++total;
    } else if (choice < 9) {
      const auto found = model.find(number);
      if (found == model.end()) continue;
      REQUIRE(remove(*filter, item(number), &journal));
      --total;
      if (--found->second == 0) model.erase(found);
    } else {
      const auto found = model.find(number);
      if (found != model.end()) {
        REQUIRE(contains(*filter, item(number)));
        REQUIRE(filter->count(item(number)) >= found->second);
      }
    }
  }
  CHECK(filter->item_count() == total);
  for (const auto& [number, copies] : model) REQUIRE(filter->count(item(number)) >= copies);

  // The journal alone makes it again, also where its records are out of order, as those of several workers.
  const FilterPtr replayed = made(options);
  for (std::size_t at = 0; at + 64 <= journal.entries.size(); at += 64)
    std::shuffle(journal.entries.begin() + static_cast<std::ptrdiff_t>(at),
                 journal.entries.begin() + static_cast<std::ptrdiff_t>(at) + 64, random);
  REQUIRE(replayed->repeat(journal.entries));
  CHECK(replayed->item_count() == total);
  CHECK(replayed->removed_count() == filter->removed_count());
  CHECK(counts_of(*replayed, numbers) == counts_of(*filter, numbers));

  // So does its image.
  auto copied = value::Frozen(filter).copy(no_limits, {});
  INFO((copied ? "" : copied.error().detail));
  REQUIRE(copied);
  const auto& copy = value::as<Filter>(**copied);
  CHECK(copy.item_count() == total);
  CHECK(counts_of(copy, numbers) == counts_of(*filter, numbers));
  CHECK(value::image_of(copy) == value::image_of(*filter));
}

TEST_CASE("an item has copies without limit, and harms no other") {
  const FilterPtr filter = made(options_of(1024, 0.01, false));
  for (std::uint64_t number = 0; number < 500; ++number) REQUIRE(add(*filter, item(number), nullptr));
  const std::uint64_t bytes = filter->byte_count();
  for (int copy = 0; copy < 10'000; ++copy) REQUIRE(add(*filter, "many", nullptr));
  CHECK(filter->count("many") == 10'000);
  CHECK(filter->byte_count() <= bytes + 256);
  for (std::uint64_t number = 0; number < 500; ++number) CHECK(filter->count(item(number)) <= 2);
  for (int copy = 0; copy < 10'000; ++copy) REQUIRE(remove(*filter, "many", nullptr));
  CHECK_FALSE(contains(*filter, "many"));
  CHECK(filter->item_count() == 500);
}

TEST_CASE("the counts of copies are in the account, also of cells that were split") {
  const FilterPtr filter = made(options_of(1024, 0.01, false));
  constexpr std::uint64_t items = 20'000;
  for (std::uint64_t number = 0; number < items; ++number)
    for (int copy = 0; copy < 4; ++copy) REQUIRE(add(*filter, item(number), nullptr));
  auto copied = value::Frozen(filter).copy(no_limits, {});
  REQUIRE(copied);
  CHECK(filter->byte_count() >= value::as<Filter>(**copied).byte_count());
}

TEST_CASE("the count of removals is right behind a copy that was under way when it began anew") {
  const FilterPtr filter = made(options_of(1024, 0.01, false));
  for (std::uint64_t number = 0; number < 1000; ++number) REQUIRE(add(*filter, item(number), nullptr));
  for (std::uint64_t number = 0; number < 300; ++number) REQUIRE(remove(*filter, item(number), nullptr));
  const value::Frozen frozen(filter);
  Journal before;
  for (std::uint64_t number = 300; number < 400; ++number) REQUIRE(remove(*filter, item(number), &before));
  const auto record = compacted_record(filter->compact());
  CHECK(filter->removed_count() == 0);
  Journal behind;
  for (std::uint64_t number = 400; number < 450; ++number) REQUIRE(remove(*filter, item(number), &behind));
  CHECK(filter->removed_count() == 50);
  // The copy has all of it, or, if it was made at once, nothing of it.
  const auto late = frozen.copy(no_limits, {});
  REQUIRE(late);
  auto& copy = value::as<Filter>(**late);
  REQUIRE(copy.repeat(before.entries));
  REQUIRE(value::row_of(copy).apply(copy, compacted_change, record, no_limits));
  REQUIRE(copy.repeat(behind.entries));
  CHECK(copy.removed_count() == 50);
  CHECK(copy.item_count() == 550);
}

TEST_CASE("any changed byte of an image is refused, or gives a filter that can be used") {
  const FilterPtr filter = made(options_of(64, 0.01, false));
  for (std::uint64_t number = 0; number < 200; ++number) REQUIRE(add(*filter, item(number % 50), nullptr));
  const auto image = value::image_of(*filter);
  for (std::size_t at = 0; at < image.size(); ++at) {
    auto changed = image;
    changed[at] ^= std::byte{static_cast<unsigned char>(1U << (at % 8))};
    auto read = value::value_of(changed, no_limits);
    if (!read) continue;
    auto& used = value::as<Filter>(**read);
    for (std::uint64_t number = 0; number < 300; ++number) (void)add(used, item(number), nullptr);
    for (std::uint64_t number = 0; number < 300; ++number) (void)remove(used, item(number), nullptr);
  }
}

TEST_CASE("the rate holds when a filter is full, after churn, and grown") {
  const double rate = GENERATE(0.1, 0.03, 0.01, 0.001);
  const bool given = GENERATE(true, false);
  const std::uint64_t capacity = 20'000;
  const FilterPtr filter = made(options_of(capacity, rate, given));
  for (std::uint64_t number = 0; number < capacity; ++number) REQUIRE(add(*filter, item(number), nullptr));
  if (given) CHECK(filter->layer_count() == 1);
  const auto limit = [&](std::uint64_t asked) {
    return rate * 1.1 + 4 * std::sqrt(rate / static_cast<double>(asked));
  };
  CHECK(measured_rate(*filter, 200'000) <= limit(200'000));
  std::uint64_t first = 0;
  for (; first < 2 * capacity; ++first) {
    REQUIRE(remove(*filter, item(first), nullptr));
    REQUIRE(add(*filter, item(first + capacity), nullptr));
  }
  CHECK(measured_rate(*filter, 200'000) <= limit(200'000));
  for (std::uint64_t number = first + capacity; number < first + 20 * capacity; ++number)
    REQUIRE(add(*filter, item(number), nullptr));
  CHECK(measured_rate(*filter, 200'000) <= limit(200'000));
  for (std::uint64_t number = first; number < first + 20 * capacity; number += 7)
    REQUIRE(contains(*filter, item(number)));
  const std::uint64_t grown_bytes = filter->byte_count();
  for (std::uint64_t number = first; number < first + 20 * capacity - 100; ++number)
    REQUIRE(remove(*filter, item(number), nullptr));
  CHECK(filter->byte_count() < grown_bytes / 4);
  for (std::uint64_t number = first + 20 * capacity - 100; number < first + 20 * capacity; ++number)
    REQUIRE(contains(*filter, item(number)));
}

TEST_CASE("a small filter with a low rate grows far") {
  const FilterPtr filter = made(options_of(8, 1e-6));
  for (std::uint64_t number = 0; number < 50'000; ++number) REQUIRE(add(*filter, item(number), nullptr));
  CHECK(measured_rate(*filter, 200'000) == 0);
}

TEST_CASE("a filter that does not scale holds what it was made for, and not one more") {
  const std::uint64_t capacity = GENERATE(1, 2, 3, 10, 1000, 100'000);
  Options options = options_of(capacity, 0.01);
  options.expansion = 0;
  const FilterPtr filter = made(options);
  for (std::uint64_t number = 0; number < capacity; ++number) REQUIRE(add(*filter, item(number), nullptr));
  CHECK_FALSE(add(*filter, "one more", nullptr));
  CHECK(filter->item_count() == capacity);
  REQUIRE(remove(*filter, item(0), nullptr));
  CHECK(add(*filter, "one more", nullptr));
}

TEST_CASE("an item is added once by those who add it if it is absent") {
  const FilterPtr filter = made(options_of(1024, 0.0001, false));
  constexpr int items = 3000;
  std::vector<std::atomic<int>> added(items);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int number = 0; number < items; ++number)
        if (add(*filter, item(static_cast<std::uint64_t>(number)), nullptr, Filter::AddIf::absent))
          ++added[number];
    });
  threads.clear();
  int twice = 0;
  for (const auto& times : added) twice += times > 1 ? 1 : 0;
  CHECK(twice == 0);
}

TEST_CASE("a removal whose add was lost in a crash takes no add of a later life") {
  const FilterPtr first = made(options_of(1024, 0.01, false));
  Journal journal;
  REQUIRE(add(*first, "x", &journal));
  REQUIRE(remove(*first, "x", &journal));
  const Fingerprint removal = journal.entries.back();
  // The journal lacks the add. The second life has the removal, which does nothing, and then an add.
  const FilterPtr second = made(options_of(1024, 0.01, false));
  REQUIRE(second->repeat({&removal, 1}));
  Journal later;
  later.entries.push_back(removal);
  REQUIRE(add(*second, "x", &later));
  CHECK(contains(*second, "x"));
  const FilterPtr third = made(options_of(1024, 0.01, false));
  REQUIRE(third->repeat(later.entries));
  CHECK(contains(*third, "x"));
  // Where the add comes late, the pair has no effect.
  const FilterPtr late = made(options_of(1024, 0.01, false));
  const std::vector<Fingerprint> swapped{journal.entries[1], journal.entries[0]};
  REQUIRE(late->repeat(swapped));
  CHECK_FALSE(contains(*late, "x"));
  CHECK(late->removed_count() == 1);
}

TEST_CASE("an add that waits for room, and its removal that waits for it, have no effect together") {
  Options options = options_of(1, 0.01);
  options.expansion = 0;
  const FilterPtr filter = made(options);
  const Plan& plan = filter->plan();
  // The lowest hash of an identity.
  const std::uint64_t identities = std::uint64_t{plan.root_quotients} << plan.layers[0].identity_bits;
  const auto hash_of = [&](std::uint64_t identity) {
    return identity == 0 ? 0 : ~std::uint64_t{0} / identities * identity + identity;
  };
  constexpr std::uint64_t removal = std::uint64_t{1} << 40;
  std::uint64_t number = 0;
  const auto repeat = [&](std::uint64_t identity, std::uint64_t high) {
    const Fingerprint record{.low = hash_of(identity), .high = high};
    REQUIRE(filter->repeat({&record, 1}));
    return filter->item_count();
  };
  std::uint64_t held = 0;
  std::uint64_t waiting = 0;
  while (repeat(waiting, ++number) > held) {
    ++held;
    REQUIRE(++waiting < identities);
  }
  const std::uint64_t number_of_add = number;
  // Other removals wait in front and behind.
  CHECK(repeat(waiting + 1, ++number | removal) == held);
  CHECK(repeat(waiting, ++number | removal) == held);
  CHECK(repeat(waiting + 2, ++number | removal) == held);
  // There is room: the add is repeated, and meets its removal.
  CHECK(repeat(0, ++number | removal) == held - 1);
  // Nothing waits for an add of this identity any more.
  CHECK(repeat(waiting, number_of_add) == held);
}

TEST_CASE("filters of all capacities have images that can be read, however they have grown") {
  const auto capacity = GENERATE(as<std::uint64_t>(), 32984, 500, 17, 1133, 23711, 39119);
  const FilterPtr filter = made(options_of(capacity, GENERATE(0.001, 0.02)));
  for (std::uint64_t number = 0; number < 2 * capacity + 1000; ++number) {
    REQUIRE(add(*filter, item(number), nullptr));
    if (number % (capacity / 8 + 100) != 0) continue;
    const auto copied = value::value_of(value::image_of(*filter), no_limits);
    INFO("capacity " << capacity << ", " << number << " items: " << (copied ? "" : copied.error().detail));
    REQUIRE(copied);
  }
}

namespace {

// Loads the image: that is taken, and does not take much more memory than it has bytes.
FilterPtr reloaded(const FilterPtr& filter) {
  constexpr std::uint64_t times_max = 5;
  constexpr std::uint64_t of_any_layer = std::uint64_t{2} << 20;
  const auto image = value::image_of(*filter);
  auto loaded = value::value_of(image, no_limits);
  INFO((loaded ? "" : loaded.error().detail));
  REQUIRE(loaded);
  FilterPtr again(&value::as<Filter>(**loaded));
  CHECK(again->item_count() == filter->item_count());
  CHECK(again->byte_count() <= times_max * image.size() + layer_count_max * of_any_layer);
  return again;
}

// What comes when only the first pieces are loaded into an empty filter.
FilterPtr of_first_pieces(const Filter& filter, int piece_count) {
  const FilterPtr to = *Filter::create(filter.plan());
  std::uint64_t place = 0;
  for (int at = 0; at < piece_count; ++at) {
    const auto piece = filter.piece_at(place);
    if (!piece) break;
    place = piece->next;
    OwnMemory memory;
    PieceLoad load(*to);
    auto outcome = load.read(std::as_bytes(std::span(piece->bytes)));
    while (outcome == PieceOutcome::more) outcome = to->load_some(load, memory, nullptr);
    REQUIRE(outcome == PieceOutcome::loaded);
  }
  return to;
}

}  // namespace

TEST_CASE("the image of any filter is loaded, whatever its history was, and takes memory in proportion") {
  const auto seed = GENERATE(range(std::uint64_t{0}, std::uint64_t{12}));
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Options options = options_of(1 + random() % (std::uint64_t{1} << (4 + random() % 13)),
                               std::pow(10.0, -0.5 - static_cast<double>(random() % 7)), random() % 2 == 0);
  if (random() % 5 == 0) options.expansion = 0;
  FilterPtr filter = made(options);
  std::uint64_t begin = 0;  // the items that are there
  std::uint64_t end = 0;
  for (int phase = 0; phase < 8; ++phase) {
    const std::uint64_t adds = random() % (random() % 3 == 0 ? 60'000 : 3000);
    for (std::uint64_t at = 0; at < adds && add(*filter, item(end), nullptr); ++at) ++end;
    const std::uint64_t left = random() % 3 == 0 ? random() % 20 : (end - begin) / (1 + random() % 3);
    for (; end - begin > left; ++begin) REQUIRE(remove(*filter, item(begin), nullptr));
    const FilterPtr again = reloaded(filter);
    reloaded(of_first_pieces(*filter, 1 + static_cast<int>(random() % 3)));
    if (random() % 2 == 0) filter = again;
  }
  for (std::uint64_t number = begin; number < end; ++number) REQUIRE(contains(*filter, item(number)));
}

TEST_CASE("an image that would need a huge table of cells, or that has impossible counts, is refused") {
  const FilterPtr filter = made(options_of(1024, 0.01, false));
  for (std::uint64_t number = 0; number < 100; ++number) REQUIRE(add(*filter, item(number), nullptr));
  const auto image = value::image_of(*filter);
  REQUIRE(value::value_of(image, no_limits));
  constexpr std::size_t head_bytes = 88;
  for (const std::size_t count_at : {8U, 16U, 24U}) {
    auto changed = image;
    for (std::size_t at = 0; at < 8; ++at) changed[head_bytes + count_at + at] = std::byte{0xff};
    CHECK_FALSE(value::value_of(changed, no_limits));
  }
  // Many roots, and one cell.
  auto roots = image;
  roots[24 + 32 + 2] = std::byte{0x0f};
  CHECK_FALSE(value::value_of(roots, no_limits));
}

namespace {

// What threads retire ends when all of them have ended.
class SharedMemory final : public Memory {
 public:
  ~SharedMemory() {
    for (const auto& [object, end] : retired_) end(object);
  }
  bool may_take(std::uint64_t) override { return true; }
  void took(std::int64_t bytes) override { taken.fetch_add(bytes); }
  void retire(void* object, void (*end)(void*)) override { retired_.emplace_back(object, end); }

  static inline std::atomic<std::int64_t> taken{0};

 private:
  std::vector<std::pair<void*, void (*)(void*)>> retired_;
};

struct World {
  FilterPtr filter;
  std::atomic<bool> stop{false};
  std::atomic<int> denied{0};
  std::vector<Journal> journals{4};
};

// Adds and removes items of its own, so it knows of each whether it is there.
void work(World& world, std::size_t thread, SharedMemory& memory, int steps) {
  std::mt19937_64 random(thread);
  std::vector<std::string> there;
  std::vector<Filter::AddOutcome> outcomes;
  for (int step = 0; step < steps; ++step) {
    const bool growing = step / (steps / 4) % 2 == 0;
    std::vector<std::string> texts;
    std::vector<std::string_view> views;
    if (random() % 4 < (growing ? 3U : 1U) || there.empty()) {
      for (std::uint64_t i = 0; i < 1 + random() % 16; ++i) texts.push_back(item(random() << 2 | thread));
      for (const std::string& text : texts) views.emplace_back(text);
      if (!world.filter->add(views, Filter::AddIf::always, memory, outcomes, &world.journals[thread])) return;
      for (std::string& text : texts) there.push_back(std::move(text));
    } else {
      const std::size_t at = random() % there.size();
      const std::string_view view = there[at];
      bool removed = false;
      if (!world.filter->remove({&view, 1}, memory, {&removed, 1}, &world.journals[thread])) return;
      if (!removed) ++world.denied;
      there[at] = std::move(there.back());
      there.pop_back();
    }
    if (!there.empty() && !contains(*world.filter, there[random() % there.size()])) ++world.denied;
    if (!contains_all(*world.filter, std::span(there).last(std::min<std::size_t>(there.size(), 40))))
      ++world.denied;
  }
  for (const std::string& text : there)
    if (!contains(*world.filter, text)) ++world.denied;
}

}  // namespace

TEST_CASE("threads add, remove and look up while a filter grows and shrinks and is copied") {
  const auto options = GENERATE(options_of(64, 0.01, false), options_of(300, 0.001));
  World world{.filter = made(options)};
  const std::uint64_t bytes_before = world.filter->byte_count();
  SharedMemory::taken = 0;
  std::vector<std::vector<std::byte>> images;
  {
    std::vector<SharedMemory> memories(4);
    std::vector<std::jthread> threads;
    std::atomic<int> running{4};
    // The freeze is made with the gate closed: here, before the threads begin.
    const value::Frozen early(world.filter);
    for (std::size_t thread = 0; thread < 4; ++thread)
      threads.emplace_back([&, thread] {
        work(world, thread, memories[thread], 12'000);
        --running;
      });
    // A slow reader.
    std::vector<std::byte> body(early.body_bytes());
    value::row_of(*world.filter).copy_body(early.view(), 0, body);
    auto image = early.head();
    image.insert(image.end(), body.begin(), body.end());
    images.push_back(std::move(image));
    threads.clear();
  }
  CHECK(world.denied == 0);
  CHECK(world.filter->byte_count() ==
        bytes_before + static_cast<std::uint64_t>(std::int64_t{SharedMemory::taken}));
  std::vector<Fingerprint> records;
  for (const Journal& journal : world.journals)
    records.insert(records.end(), journal.entries.begin(), journal.entries.end());
  const FilterPtr replayed = made(options);
  REQUIRE(replayed->repeat(records));
  CHECK(replayed->item_count() == world.filter->item_count());

  auto loaded = value::value_of(images.front(), no_limits);
  INFO((loaded ? "" : loaded.error().detail));
  REQUIRE(loaded);
  auto& filter = value::as<Filter>(**loaded);
  REQUIRE(filter.repeat(records));
  CHECK(filter.item_count() == world.filter->item_count());
  CHECK(filter.removed_count() == world.filter->removed_count());
}

TEST_CASE("of several threads that load the same pieces, one loads each, while others add") {
  constexpr std::uint64_t items = 40'000;
  constexpr std::size_t loaders = 3;
  constexpr std::uint64_t others = 5000;
  // No item is taken for another.
  const FilterPtr source = made(options_of(1024, 1e-9, false));
  for (std::uint64_t number = 0; number < items; ++number) REQUIRE(add(*source, item(number), nullptr));
  std::vector<std::string> pieces;
  for (std::uint64_t place = 0;;) {
    auto piece = source->piece_at(place);
    if (!piece) break;
    place = piece->next;
    pieces.push_back(std::move(piece->bytes));
  }
  const FilterPtr target = made(options_of(1024, 1e-9, false));
  SharedMemory memory[loaders + 1];
  Journal journals[loaders + 1];
  std::vector<std::atomic<int>> loaded(pieces.size());
  std::atomic<int> unexpected{0};
  const auto load_all = [&](std::size_t thread) {
    for (std::size_t at = 0; at < pieces.size(); ++at) {
      PieceLoad load(*target);
      auto outcome = load.read(std::as_bytes(std::span(pieces[at])));
      while (outcome == PieceOutcome::more)
        outcome = target->load_some(load, memory[thread], &journals[thread]);
      if (outcome == PieceOutcome::loaded) ++loaded[at];
      if (outcome != PieceOutcome::loaded && outcome != PieceOutcome::there) ++unexpected;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < loaders; ++thread) threads.emplace_back(load_all, thread);
  std::vector<Filter::AddOutcome> outcomes;
  for (std::uint64_t number = items; number < items + others; ++number) {
    const std::string text = item(number);
    const std::string_view view = text;
    if (!target->add({&view, 1}, Filter::AddIf::always, memory[loaders], outcomes, &journals[loaders]) ||
        !contains(*target, text))
      ++unexpected;
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(unexpected == 0);
  for (const auto& times : loaded) CHECK(times == 1);
  CHECK(target->item_count() == items + others);
  // The records make it again.
  const FilterPtr replayed = made(options_of(1024, 1e-9, false));
  for (const Journal& journal : journals) REQUIRE(replayed->repeat(journal.entries));
  CHECK(counts_of(*replayed, items + others) == std::vector<std::uint64_t>(items + others, 1));
}

}  // namespace filter_property
