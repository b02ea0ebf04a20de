// Requests that stand side by side in a client's input, and are taken from it together.
//
//     alike     they differ in one word, so they may run at once: BF.ADD k a, BF.ADD k b
//     similar   they share only the command, so they run one after the other, with their keys on the way from
//               memory: BF.ADD k a, BF.ADD l a
//
// If they do not run at once, each becomes the pending request in turn.
#pragma once

#include <sepal/resp/request_parser.hpp>
#include <sepal/session/session.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace sepal::session {

// The words of such a request: a command, a key, an item, and perhaps one more behind it. Similar requests
// may have no item.
inline constexpr std::size_t neighbour_words = 3;
inline constexpr std::size_t neighbour_tail_max = 1;

// Confined to its worker; lives for a batch. The memory for words belongs to the worker.
class Neighbours {
 public:
  using Words = std::span<const std::string_view>;

  Neighbours(TogetherWords& last_words, SimilarWords& similar_words)
      : last_words_(last_words), similar_words_(similar_words) {}

  // Whether there are requests that were taken, and are neither pending nor run.
  [[nodiscard]] bool any() const { return alike_at_ < alike_ || similar_at_ < similar_; }
  // They are not taken any more.
  void drop() {
    alike_ = 0;
    similar_ = 0;
  }

  // Takes requests that are alike the parser's, in which `tail` words stand behind the one that differs.
  // Returns how many there are with the parser's own.
  std::size_t take_alike(resp::RequestParser& parser, std::string_view input, std::size_t tail) {
    // The place in front is for the word of the first request itself.
    const auto words = std::span(last_words_).subspan(1);
    alike_ = 1 + (tail == 0 ? parser.next_alike(input, words) : parser.next_alike_before(tail, input, words));
    alike_at_ = 1;
    return alike_;
  }
  // The words in which they differ. `first` has the words of the first of them, which are copied, because the
  // requests may have to become pending; `index` is that of the word that differs.
  Words words_of_alike(Words first, std::size_t index) {
    copy(first);
    last_words_.front() = words_[index];
    return Words(last_words_).first(alike_);
  }
  // All of them ran at once.
  void alike_ran() { alike_at_ = alike_; }

  // Takes requests that are similar to the parser's, whose words are copied. Gives the keys of all, in
  // `room`; empty if there are no others, as with requests of another number of words.
  Words take_similar(resp::RequestParser& parser, std::string_view input, Words first,
                     std::array<std::string_view, similar_max + 1>& room) {
    similar_ = parser.next_similar(input, similar_words_);
    similar_at_ = 0;
    if (similar_ == 0) return {};
    copy(first);
    room[0] = words_[1];
    for (std::size_t i = 0; i < similar_; ++i) room[i + 1] = similar_words_[i].second;
    return Words(room).first(similar_ + 1);
  }

  // The words that were copied, or those of next().
  [[nodiscard]] Words words() const { return Words(words_).first(word_count_); }

  // Makes the next of the requests the pending one. Returns where its bytes begin: behind the last word of
  // the request before, and the end of its line. So words() must still be those of the request before.
  const char* next() {
    constexpr std::size_t line_end_bytes = 2;
    const std::string_view last = words_[word_count_ - 1];
    if (alike_at_ < alike_) {
      const std::string_view item = std::exchange(words_[2], last_words_[alike_at_++]);
      // The bytes behind the item are the same as in the request before.
      if (word_count_ > neighbour_words)
        words_[word_count_ - 1] = {words_[2].end() + (last.begin() - item.end()), last.size()};
    } else {
      const auto& words = similar_words_[similar_at_++];
      words_[1] = words.second;
      words_[word_count_ - 1] = words.last;
    }
    return last.data() + last.size() + line_end_bytes;
  }

 private:
  void copy(Words words) {
    std::ranges::copy(words, words_.begin());
    word_count_ = words.size();
  }

  TogetherWords& last_words_;
  SimilarWords& similar_words_;
  std::size_t alike_ = 0;  // with the first one
  std::size_t alike_at_ = 0;
  std::size_t similar_ = 0;  // without the first one
  std::size_t similar_at_ = 0;
  std::array<std::string_view, neighbour_words + neighbour_tail_max> words_{};
  std::size_t word_count_ = neighbour_words;
};

}  // namespace sepal::session
