// The commands that a client has sent between MULTI and EXEC, and that wait for EXEC.
//
// Neighbours that differ in their last word only are kept as a group: their other words stand once, and EXEC
// runs them together, as if they were neighbours in a pipeline.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

struct CommandSpec;

// The most commands of a transaction, and the most bytes of its memory: of the words, and of what says where
// they are.
inline constexpr std::size_t transaction_commands_max = std::size_t{1} << 20;
inline constexpr std::size_t transaction_bytes_max = std::size_t{256} << 20;

// While a transaction runs, all other clients wait. So its replies have a bound, and maxmemory_clients if
// that is less. It is also the bound of one command's reply in a script.
inline constexpr std::uint64_t transaction_reply_bytes_max = std::uint64_t{64} << 20;
// A transaction that has run for so long, or whose replies have no room, runs its changes to the end, and
// refuses what only reads and may take long (runs_late()).
inline constexpr std::chrono::milliseconds transaction_time_max{1000};

// Belongs to its client, and is guarded as a ClientState is.
class Transaction {
 public:
  struct Group {
    const CommandSpec* spec = nullptr;
    std::size_t first_word = 0;  // of the group's words: the head of all commands, then the last word of each
    std::size_t head_count = 0;
    std::size_t command_count = 0;
  };

  // Whether commands of so many words and bytes in all may be queued.
  [[nodiscard]] bool takes(std::size_t command_count, std::size_t word_count, std::size_t byte_count) const {
    return command_count <= transaction_commands_max - command_count_ &&
           bytes_used() + byte_count + word_count * sizeof(std::size_t) + command_count * sizeof(Group) <=
               transaction_bytes_max;
  }
  // Copies the words of a command, of which there is at least one. `may_join`: it may run together with its
  // neighbours.
  void queue(const CommandSpec& spec, std::span<const std::string_view> words, bool may_join);

  [[nodiscard]] std::span<const Group> groups() const { return groups_; }
  [[nodiscard]] std::size_t command_count() const { return command_count_; }
  [[nodiscard]] bool has_script() const { return has_script_; }
  [[nodiscard]] std::size_t byte_count() const {
    return bytes_.capacity() + ends_.capacity() * sizeof(std::size_t) + groups_.capacity() * sizeof(Group);
  }
  // The word at an index; valid until the next queue().
  [[nodiscard]] std::string_view word(std::size_t index) const {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(bytes_).substr(begin, ends_[index] - begin);
  }

  // A command was refused when it came, so EXEC runs none of them. Frees the memory.
  void fail();
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  [[nodiscard]] std::size_t bytes_used() const {
    return bytes_.size() + ends_.size() * sizeof(std::size_t) + groups_.size() * sizeof(Group);
  }
  [[nodiscard]] bool joins(const Group& group, const CommandSpec& spec,
                           std::span<const std::string_view> words) const;
  void append(std::string_view word);

  std::string bytes_;              // of all words
  std::vector<std::size_t> ends_;  // of each word, in bytes_
  std::vector<Group> groups_;
  std::size_t command_count_ = 0;
  bool has_script_ = false;
  bool failed_ = false;
};

}  // namespace sepal::command
