#include <sepal/base/assert.hpp>
#include <sepal/base/free_memory.hpp>
#include <sepal/command/run/transaction.hpp>
#include <sepal/command/table/command_table.hpp>

namespace sepal::command {

void Transaction::queue(const CommandSpec& spec, std::span<const std::string_view> words, bool may_join) {
  SEPAL_ASSERT(!words.empty(), "a command has a name");
  SEPAL_ASSERT(!failed_ && command_count_ < transaction_commands_max,
               "a command is queued in a transaction that has failed, or that is full");
  ++command_count_;
  has_script_ = has_script_ || spec.flags.has(Flag::runs_script);
  if (may_join && !groups_.empty() && joins(groups_.back(), spec, words)) {
    append(words.back());
    ++groups_.back().command_count;
  } else {
    groups_.push_back(
        {.spec = &spec, .first_word = ends_.size(), .head_count = words.size() - 1, .command_count = 1});
    for (const std::string_view each : words) append(each);
  }
  const Group& last = groups_.back();
  SEPAL_ASSERT(last.first_word + last.head_count + last.command_count == ends_.size(),
               "the words of the last group end where all words end");
}

// Whether the command and those of the group differ in their last word only, which is not compared.
bool Transaction::joins(const Group& group, const CommandSpec& spec,
                        std::span<const std::string_view> words) const {
  if (group.spec != &spec || group.head_count + 1 != words.size()) return false;
  // The first word is the command's name, which clients may spell in any case.
  for (std::size_t at = 1; at < group.head_count; ++at)
    if (word(group.first_word + at) != words[at]) return false;
  return true;
}

void Transaction::append(std::string_view word) {
  bytes_.append(word);
  ends_.push_back(bytes_.size());
}

void Transaction::fail() {
  // The client may stay in its failed transaction for long, and no further command is queued in it.
  failed_ = true;
  free_memory(bytes_);
  free_memory(ends_);
  free_memory(groups_);
}

}  // namespace sepal::command
