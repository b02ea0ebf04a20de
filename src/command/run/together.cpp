// Requests that run together, and those that look ahead.
#include <sepal/base/assert.hpp>
#include <sepal/command/run/dispatcher.hpp>

#include <array>

#include "command/run/obstacle.hpp"
#include "command/run/scratch.hpp"

namespace sepal::command {
namespace {

// No look ahead for a key and an item that are longer than this together.
constexpr std::size_t looked_ahead_bytes_max = 1024;

// The answer of a request that ran together with others.
void append_answer(resp::Reply& reply, const CommandSpec& spec, bool answer) {
  if (!spec.flags.has(Flag::integers)) return reply.boolean(answer);
  reply.integer(answer ? 1 : 0);
}

void append_answers(resp::Reply& reply, const CommandSpec& spec, std::span<const bool> answers) {
  if (!spec.flags.has(Flag::integers)) return reply.booleans(answers);
  for (const bool answer : answers) append_answer(reply, spec, answer);
}

}  // namespace

bool Dispatcher::runs_together(const CommandSpec* spec, std::size_t word_count) {
  return spec != nullptr && spec->run_together != nullptr && arity_fits(*spec, word_count);
}

Dispatcher::Outcome Dispatcher::run_together(const Request& first,
                                             std::span<const std::string_view> last_words,
                                             const RunMode& mode) {
  SEPAL_ASSERT(first.spec != nullptr && first.partial == nullptr && !last_words.empty(),
               "requests run together that have no row, or one of them is long");
  // One by one, run() answers or holds each of them as it should. EXEC itself has waited for the pause, so
  // its commands do not. All of them have one client, row and key, so an obstacle to the first is an obstacle
  // to all.
  const bool is_paused = services_.pause.runs(mode.steady_now) && !mode.in_transaction;
  if (is_paused || obstacle_to(services_, first, mode) != Obstacle::none)
    return {.next = Next::need_alone, .spec = first.spec};
  if (first.client.transaction != nullptr) return queue(first, last_words, mode);
  const std::span<bool> answers = scratch_->flags(last_words.size());
  const Next next = answer_together(first, last_words, answers, mode);
  if (next == Next::done) {
    append_answers(first.reply, *first.spec, answers);
    first.client.last_command = first.spec;
    count_requests(first.client, last_words.size(), mode.steady_now);
    if (services_.monitors.any()) show_together(first, last_words, mode);
  }
  return {.next = next, .spec = first.spec};
}

Next Dispatcher::answer_together(const Request& first, std::span<const std::string_view> last_words,
                                 std::span<bool> answers, const RunMode& mode) {
  keyspace::WorkerLog* const log = log_of(*first.spec);
  // Refused, or no room yet: one by one, run_whole() answers each or puts it off.
  if (admit(log, first, last_words.size(), mode) != keyspace::Admission::granted) return Next::need_alone;
  Context context = context_of(first, log, mode);
  return first.spec->run_together(context, last_words, answers);
}

bool Dispatcher::run_lone_requests(std::span<const Request> requests, const RunMode& mode) {
  SEPAL_ASSERT(!requests.empty() && requests.size() <= lone_requests_max, "so many are run together");
  SEPAL_ASSERT(!mode.alone, "requests of several clients share the gate");
  if (services_.pause.runs(mode.steady_now)) return false;
  std::array<std::string_view, lone_requests_max> last_words;
  // Each client has a user and a transaction of its own, so all are asked before any of them runs.
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (obstacle_to(services_, requests[i], mode) != Obstacle::none ||
        requests[i].client.transaction != nullptr)
      return false;
    last_words[i] = requests[i].words[together_index(*requests[i].spec, requests[i].words.size())];
  }
  std::array<bool, lone_requests_max> answers;
  const auto answered = std::span(answers).first(requests.size());
  if (answer_together(requests.front(), std::span(last_words).first(requests.size()), answered, mode) !=
      Next::done)
    return false;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    append_answer(requests[i].reply, *requests[i].spec, answered[i]);
    requests[i].client.last_command = requests[i].spec;
    count_requests(requests[i].client, 1, mode.steady_now);
    if (services_.monitors.any()) show(requests[i], mode);
  }
  return true;
}

void Dispatcher::prefetch(const ClientState& client, std::span<const std::string_view> keys) const {
  services_.keyspace.prefetch(client.database, keys);
}

// Only for commands that may run together: they spend most of their time waiting for the item's block. A long
// key or item is left out: most of its time is spent on hashing, which the look ahead would do once more. The
// result is a hint (decisions/0018). So the key is looked up without the time: a key that is past its
// deadline costs a useless prefetch.
void Dispatcher::collect_lines(const ClientState& client, const CommandSpec* spec,
                               std::span<const std::string_view> words, LinesAhead& lines) const {
  if (!runs_together(spec, words.size())) return;
  if (words[1].size() + words.back().size() > looked_ahead_bytes_max) return;
  const auto* const filter =
      services_.keyspace.find_as<bloom::Filter>({.database = client.database, .key = words[1]});
  if (filter != nullptr) filter->collect_lines(words.back(), lines);
}

}  // namespace sepal::command
