// BF.FIND, in every host of the commands: the same items, looked for in many filters (docs/decisions/0054).
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/parsed.hpp>
#include <sepal/bloom/commands/options.hpp>
#include <sepal/value/value.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>

namespace sepal::bloom {

// A Bloom filter, or one that forgets; not null.
[[nodiscard]] inline bool is_filter(const value::Value* found) {
  return found != nullptr && (found->kind() == value::Kind::bloom || found->kind() == value::Kind::window);
}

// The keys that one BF.FIND may name, and its keys times its items.
inline constexpr std::size_t find_keys_max = 4096;
inline constexpr std::uint64_t find_questions_max = std::uint64_t{1} << 24;

struct FindRequest {
  std::span<const std::string_view> keys;   // at least one
  std::span<const std::string_view> items;  // at least one
  bool all = false;                         // an answer for each key
  [[nodiscard]] std::uint64_t questions() const { return std::uint64_t{keys.size()} * items.size(); }
};
// `words` follow the name: numkeys key [key ...] [ALL] ITEMS item [item ...].
[[nodiscard]] std::variant<FindRequest, Refusal, TooFewWords> parse_find(
    std::span<const std::string_view> words);

// Some items of a BF.FIND, which are hashed once for each seed of its filters, and their answers.
//
// Without ALL, an item that a filter may have is asked of no further filter. The filters are asked one after
// the other, and the blocks of those behind are on their way meanwhile.
class FindWindow {
 public:
  FindWindow();
  ~FindWindow();

  // Begins anew, with the first of `items`: as many as are asked together. Returns their number.
  std::size_t begin(std::span<const std::string_view> items, std::size_t key_count, bool all);
  [[nodiscard]] std::size_t byte_count() const;  // of those items

  // What one filter was asked.
  struct Asked {
    std::size_t items = 0;
    std::size_t found = 0;
  };
  // Asks the filters of the next keys, in the order of the request. A null is a key that names none:
  // `missing` says whether it counts as a filter that may have each item. `items` are those of begin(),
  // `asked` is as long as `filters`.
  void ask(std::span<const std::string_view> items, std::span<const value::Value* const> filters,
           bool missing, WallTime now, std::span<Asked> asked);
  // Without ALL: each item has its answer.
  [[nodiscard]] bool found_all() const;

  // Appends the answers, one for each item: the number of a key, from 1, or 0; with ALL an array, with a null
  // for each key that named no filter.
  template <class Reply>
  void append(Reply& reply) const {
    if (!all()) {
      for (const std::uint32_t number : numbers()) reply.integer(number);
      return;
    }
    for (std::size_t item = 0; item < numbers().size(); ++item) {
      const std::span<const bool> answers = answers_of(item);
      reply.array(answers.size());
      for (std::size_t key = 0; key < answers.size(); ++key)
        nulls()[key] ? reply.null() : reply.boolean(answers[key]);
    }
  }

  [[nodiscard]] std::uint64_t memory() const;

 private:
  struct State;
  [[nodiscard]] bool all() const;
  [[nodiscard]] std::span<const std::uint32_t> numbers() const;  // one for each item
  [[nodiscard]] std::span<const bool> answers_of(std::size_t item) const;
  [[nodiscard]] std::span<const bool> nulls() const;  // the keys that named no filter

  std::unique_ptr<State> state_;
};

}  // namespace sepal::bloom
