// The items of a window are in one list for each seed: hashes, and the item's place in the window. Without
// ALL, a filter takes the items that it may have out of the list of its seed, and the list is ready for the
// next filter of that seed. The other lists follow when they are used again. With ALL, a filter gets a copy.
#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/bloom/commands/find.hpp>
#include <sepal/bloom/commands/texts.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/window/window_filter.hpp>

#include <algorithm>
#include <array>
#include <bit>

#include "bloom/kernel/kernels.hpp"

namespace sepal::bloom {

// A bit for each item of a window.
using ItemBits = std::uint64_t;
static_assert(window_items_max <= 64);

// How items are hashed.
struct ItemHashing {
  ItemHash hash = ItemHash::xxh3;
  std::uint64_t seed = 0;
  friend bool operator==(const ItemHashing&, const ItemHashing&) = default;
};

// The items that are left, under one hash.
struct HashedItems {
  ItemHashing hashing;
  ItemBits left = 0;
  Pending items;
};

namespace {

using FindItems = std::span<const std::string_view>;

// The answers of a window with ALL: with more keys it has fewer items.
constexpr std::size_t answers_max = 65536;
// The bytes of a window's items, and those of one more item: they are hashed for each seed.
constexpr std::size_t window_bytes_max = std::size_t{256} * 1024;
// The seeds for which a window is kept hashed.
constexpr std::size_t seeds_kept = 8;

constexpr ItemBits bit_of(std::uint64_t item) {
  return ItemBits{1} << item;
}

ItemBits item_bits(const Pending& items) {
  ItemBits bits = 0;
  for (std::size_t at = 0; at < items.count; ++at) bits |= bit_of(items.index[at]);
  return bits;
}

// Takes the items out of the list that are not in `kept`.
void keep_only(ItemBits kept, Pending& items) {
  std::size_t left = 0;
  for (std::size_t at = 0; at < items.count; ++at) {
    items.low[left] = items.low[at];
    items.high[left] = items.high[at];
    items.index[left] = items.index[at];
    left += (kept & bit_of(items.index[at])) != 0 ? 1 : 0;
  }
  items.count = left;
}

void copy_items(const Pending& from, Pending& to) {
  to.count = from.count;
  std::copy_n(from.low.begin(), from.count, to.low.begin());
  std::copy_n(from.high.begin(), from.count, to.high.begin());
  std::copy_n(from.index.begin(), from.count, to.index.begin());
}

ItemHashing hashing_of(const Filter& filter) {
  if (filter.item_hash() == ItemHash::redisbloom) return {.hash = ItemHash::redisbloom, .seed = 0};
  return {.hash = ItemHash::xxh3, .seed = filter.seed()};
}
ItemHashing hashing_of(const WindowFilter& filter) {
  return {.hash = ItemHash::xxh3, .seed = filter.options().seed};
}

}  // namespace

std::variant<FindRequest, Refusal, TooFewWords> parse_find(std::span<const std::string_view> words) {
  if (words.empty()) return TooFewWords{};
  const auto count = parse_integer(words[0]);
  if (!count) return Refusal{text::not_an_integer};
  if (*count < 1) return Refusal{text::too_few_keys};
  words = words.subspan(1);
  if (static_cast<std::uint64_t>(*count) > words.size()) return Refusal{text::find_many_keys};
  const auto key_count = static_cast<std::size_t>(*count);
  if (key_count > find_keys_max) return Refusal{text::find_keys_over_limit};
  FindRequest request{.keys = words.first(key_count), .items = {}};
  words = words.subspan(key_count);
  if (!words.empty() && equal_ignoring_case(words[0], "ALL")) {
    request.all = true;
    words = words.subspan(1);
  }
  if (words.empty()) return TooFewWords{};
  if (!equal_ignoring_case(words[0], "ITEMS")) return Refusal{text::syntax};
  request.items = words.subspan(1);
  if (request.items.empty()) return TooFewWords{};
  if (request.questions() > find_questions_max) return Refusal{text::find_over_limit};
  return request;
}

struct FindWindow::State {
  bool all = false;
  std::size_t item_count = 0;
  std::size_t byte_count = 0;
  std::size_t key_count = 0;
  std::size_t next_key = 0;  // its filter is asked next
  ItemBits left = 0;         // the items that are asked of it
  std::array<std::uint32_t, window_items_max> numbers;
  // With ALL: item by item, an answer for each key.
  std::unique_ptr<bool[]> answers;
  std::size_t answers_size = 0;
  std::unique_ptr<bool[]> nulls;
  std::size_t nulls_size = 0;

  std::array<HashedItems, seeds_kept> hashed;
  std::size_t hashed_count = 0;
  std::size_t last_hashed = 0;
  Pending copied;

  [[nodiscard]] std::size_t left_count() const { return static_cast<std::size_t>(std::popcount(left)); }

  // The items that are left, hashed so.
  HashedItems& under(const ItemHashing& hashing, FindItems items) {
    if (last_hashed >= hashed_count || hashed[last_hashed].hashing != hashing) {
      const auto known = std::span(hashed).first(hashed_count);
      const auto found = std::ranges::find(known, hashing, &HashedItems::hashing);
      if (found == known.end()) return hash(hashing, items);
      last_hashed = static_cast<std::size_t>(found - known.begin());
    }
    HashedItems& kept = hashed[last_hashed];
    if (kept.left != left) {
      keep_only(left, kept.items);
      kept.left = left;
    }
    return kept;
  }

  HashedItems& hash(const ItemHashing& hashing, FindItems items) {
    if (hashed_count < seeds_kept) {
      last_hashed = hashed_count++;
    } else {
      last_hashed = (last_hashed + 1) % seeds_kept;
    }
    HashedItems& fresh = hashed[last_hashed];
    fresh.hashing = hashing;
    fresh.left = left;
    std::size_t count = 0;
    for (ItemBits rest = left; rest != 0; rest &= rest - 1) {
      const auto item = static_cast<std::size_t>(std::countr_zero(rest));
      const Fingerprint fingerprint = fingerprint_of(items[item], hashing.hash, hashing.seed);
      fresh.items.low[count] = fingerprint.low;
      fresh.items.high[count] = fingerprint.high;
      fresh.items.index[count++] = item;
    }
    fresh.items.count = count;
    return fresh;
  }

  // Asks for the memory that a filter's answer needs.
  void fetch(FindItems items, const value::Value* found) {
    if (const auto* const filter = value::as<Filter>(found)) {
      filter->fetch_blocks(under(hashing_of(*filter), items).items);
    } else if (const auto* const window = value::as<WindowFilter>(found)) {
      const Pending& hashes = under(hashing_of(*window), items).items;
      window->fetch_lines(std::span(hashes.low).first(hashes.count));
    }
  }

  // The items among those that are left which the filter may have.
  ItemBits held_by(FindItems items, const Filter& filter) {
    HashedItems& asked = under(hashing_of(filter), items);
    if (all) {
      copy_items(asked.items, copied);
      filter.remove_held(items, copied);
      return left & ~item_bits(copied);
    }
    const std::size_t count = asked.items.count;
    filter.remove_held(items, asked.items);
    if (asked.items.count == count) return 0;
    const ItemBits absent = item_bits(asked.items);
    asked.left = absent;
    return left & ~absent;
  }
  ItemBits held_by(FindItems items, const WindowFilter& filter, WallTime now) {
    const Pending& asked = under(hashing_of(filter), items).items;
    std::array<bool, window_items_max> present;
    filter.contains_hashed(std::span(asked.low).first(asked.count), now,
                           std::span(present).first(asked.count));
    ItemBits held = 0;
    for (std::size_t at = 0; at < asked.count; ++at) held |= present[at] ? bit_of(asked.index[at]) : 0;
    return held;
  }

  void answer(ItemBits held) {
    if (!all) {
      for (ItemBits rest = held; rest != 0; rest &= rest - 1)
        numbers[static_cast<std::size_t>(std::countr_zero(rest))] = static_cast<std::uint32_t>(next_key + 1);
      left &= ~held;
      return;
    }
    bool* answer = answers.get() + next_key;
    for (std::size_t item = 0; item < item_count; ++item, answer += key_count)
      *answer = (held & bit_of(item)) != 0;
  }
};

FindWindow::FindWindow() = default;
FindWindow::~FindWindow() = default;

std::size_t FindWindow::begin(std::span<const std::string_view> items, std::size_t key_count, bool all) {
  SEPAL_ASSERT(!items.empty() && key_count > 0 && key_count <= find_keys_max,
               "BF.FIND asks some items of some keys");
  if (state_ == nullptr) state_ = std::make_unique<State>();
  State& state = *state_;
  const std::size_t count_max =
      std::min({items.size(), window_items_max, all ? answers_max / key_count : window_items_max});
  state.all = all;
  state.item_count = state.byte_count = 0;
  while (state.item_count < count_max && state.byte_count < window_bytes_max)
    state.byte_count += items[state.item_count++].size();
  state.key_count = key_count;
  state.next_key = 0;
  state.left = state.item_count == 64 ? ~ItemBits{0} : bit_of(state.item_count) - 1;
  state.numbers.fill(0);
  state.hashed_count = 0;
  if (!all) return state.item_count;
  // As much as any window of these items needs, so that a later one allocates nothing.
  if (const std::size_t needed = count_max * key_count; state.answers_size < needed) {
    state.answers = std::make_unique<bool[]>(needed);
    state.answers_size = needed;
  }
  if (state.nulls_size < key_count) {
    state.nulls = std::make_unique<bool[]>(key_count);
    state.nulls_size = key_count;
  }
  return state.item_count;
}

std::size_t FindWindow::byte_count() const {
  return state_->byte_count;
}

void FindWindow::ask(std::span<const std::string_view> items, std::span<const value::Value* const> filters,
                     bool missing, WallTime now, std::span<Asked> asked) {
  State& state = *state_;
  SEPAL_ASSERT(items.size() == state.item_count && asked.size() == filters.size() &&
                   filters.size() <= state.key_count - state.next_key,
               "a window's filters are asked in order, and about its items");
  std::size_t fetched = 0;
  for (std::size_t at = 0; at < filters.size(); ++at, ++state.next_key) {
    asked[at] = {};
    const value::Value* const found = filters[at];
    if (state.all) state.nulls[state.next_key] = found == nullptr && !missing;
    const std::size_t count = state.left_count();
    if (count == 0) continue;
    if (found == nullptr) {
      state.answer(missing ? state.left : 0);
      continue;
    }
    // The blocks of about a window's items are on their way, be they of one filter or of many.
    const std::size_t ahead = std::min(at + 1 + window_items_max / count, filters.size());
    for (; fetched < ahead; ++fetched) state.fetch(items, filters[fetched]);
    const auto* const filter = value::as<Filter>(found);
    const ItemBits held = filter != nullptr
                              ? state.held_by(items, *filter)
                              : state.held_by(items, static_cast<const WindowFilter&>(*found), now);
    state.answer(held);
    asked[at] = {.items = count, .found = static_cast<std::size_t>(std::popcount(held))};
  }
}

bool FindWindow::found_all() const {
  return state_->left == 0;
}

std::uint64_t FindWindow::memory() const {
  return state_ == nullptr ? 0 : sizeof(State) + state_->answers_size + state_->nulls_size;
}

bool FindWindow::all() const {
  return state_->all;
}
std::span<const std::uint32_t> FindWindow::numbers() const {
  return std::span(state_->numbers).first(state_->item_count);
}
std::span<const bool> FindWindow::answers_of(std::size_t item) const {
  return {state_->answers.get() + item * state_->key_count, state_->key_count};
}
std::span<const bool> FindWindow::nulls() const {
  return {state_->nulls.get(), state_->key_count};
}

}  // namespace sepal::bloom
