#include "command/run/parts.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/command/run/dispatcher.hpp>

#include <algorithm>
#include <memory>

#include "command/run/scratch.hpp"
#include "command/table/command_row.hpp"

namespace sepal::command {
namespace {

// The word behind the part that begins at `begin`. A part has at least one item. Each part runs the `first`
// words of the request anew: where they are many or long, a part gets more items, so that this takes less
// time than the items.
std::size_t end_of_part(std::span<const std::string_view> words, std::size_t first, std::size_t begin) {
  SEPAL_ASSERT(first > 0 && begin >= first && begin < words.size(),
               "a part of a request begins where it has no item");
  std::size_t first_bytes = 0;
  for (const std::string_view word : words.first(first)) first_bytes += word.size();
  const std::size_t items_max = std::max(part_items_max, 4 * first + first_bytes / 4);
  const std::size_t bytes_max = std::max(part_bytes_max, 4 * first_bytes);
  const std::size_t end_max = begin + std::min(items_max, words.size() - begin);
  std::size_t bytes = 0;
  for (std::size_t at = begin; at < end_max; ++at) {
    bytes += words[at].size();
    // An item is never cut, so the last one may exceed the bound.
    if (bytes >= bytes_max) return at + 1;
  }
  return end_max;
}

}  // namespace

std::size_t items_behind_word(std::span<const std::string_view> words) {
  const auto is_items = [](std::string_view word) { return equal_ignoring_case(word, "ITEMS"); };
  const auto options = words.subspan(std::min<std::size_t>(words.size(), 2));
  const auto found = std::ranges::find_if(options, is_items);
  return found == options.end() ? 0 : static_cast<std::size_t>(found - words.begin()) + 1;
}

// Runs one part of a request that is cut. The outcomes need_alone and later are those of the part:
// `next_word` stays where it is, so the same part runs again.
//
// The words of the part are the first words of the request (the key, and options) and some of its items. So
// the handler gets an ordinary request, and knows nothing of parts (decisions/0022).
Dispatcher::Outcome Dispatcher::run_part(const Request& request, const RunMode& mode) {
  const std::span<const std::string_view> words = request.words;
  if (request.partial == nullptr) request.partial = std::make_unique<PartialRun>();
  PartialRun& partial = *request.partial;
  const std::size_t items_at = request.spec->items_at(words);
  const bool is_first = partial.next_word == 0;
  const std::size_t begin = is_first ? items_at : partial.next_word;
  const std::size_t end = end_of_part(words, items_at, begin);
  SEPAL_ASSERT(end > begin && end <= words.size(),
               "a part of a request has no item, and the request would never end");
  scratch_->part_words.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(items_at));
  scratch_->part_words.insert(scratch_->part_words.end(), words.begin() + static_cast<std::ptrdiff_t>(begin),
                              words.begin() + static_cast<std::ptrdiff_t>(end));
  // The part needs a reply of its own: join() reads it as one whole value, and the client's reply already
  // holds the answers to other requests.
  resp::Reply& reply = scratch_->part_reply;
  reply.truncate(0);
  reply.set_version(request.reply.version());
  Outcome outcome = run_whole({.client = request.client,
                               .reply = reply,
                               .spec = request.spec,
                               .words = scratch_->part_words,
                               .partial = request.partial},
                              mode, !is_first);
  if (outcome.next != Next::done) return outcome;
  partial.join(reply.bytes());
  partial.next_word = end;
  // After an error that ends the request, what is left of the items must not run.
  if (end < words.size() && !partial.ends()) {
    outcome.next = Next::more;
  } else {
    partial.answer(request.reply);
  }
  return outcome;
}

}  // namespace sepal::command
