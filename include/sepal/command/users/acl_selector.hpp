// The rules of an access control list (ACL): which commands, keys and channels they allow. Pure: no clock, no
// lock. The texts of rules, and the texts about wrong rules, are the reference's.
#pragma once

#include <sepal/command/table/command_table.hpp>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

// A pattern of keys or channels, or another rule, is no longer than this. So one look at a key costs at most
// this times the length of the key.
inline constexpr std::size_t acl_rule_bytes_max = 1024;

// Why a request may not run.
struct Denial {
  enum class Reason : std::uint8_t { command, key };
  Reason reason = Reason::command;
  std::size_t word = 0;  // of a key: its index in the request
};

// What one list of rules allows. Confined, or guarded by its owner.
class AclSelector {
 public:
  // Applies one rule: ~pattern, %R~pattern, %W~pattern, &pattern, +command, +command|word, -command,
  // +@category, -@category, allkeys, resetkeys, allchannels, resetchannels, allcommands, nocommands. Returns
  // the error in the rule; empty: it was applied.
  [[nodiscard]] std::string_view apply(std::string_view rule);

  // Why these rules do not allow a request, of which there is at least one word; none: they do. `spec` is
  // row_for(words).
  [[nodiscard]] std::optional<Denial> denied(const CommandSpec& spec,
                                             std::span<const std::string_view> words) const;
  // Whether they allow every command on every key.
  [[nodiscard]] bool allows_all() const;

  // The rules, as ACL GETUSER shows them.
  [[nodiscard]] std::string commands() const;  // "-@all +bf.add"
  [[nodiscard]] std::string keys() const;      // "~app:* %R~shared:*"
  [[nodiscard]] std::string channels() const;  // "&*"
  // All rules in one text, as ACL LIST shows them: applied to an empty selector, they make an equal one.
  [[nodiscard]] std::string rules() const;

  [[nodiscard]] std::size_t byte_count() const { return byte_count_; }

 private:
  struct KeyPattern {
    std::string pattern;
    bool read = true;
    bool write = true;
  };
  // A command that is allowed only if its first argument is this word, as in "+select|0".
  struct FirstWord {
    const CommandSpec* command;
    std::string word;  // lower case
  };
  using Rows = std::bitset<command_rows_max>;

  [[nodiscard]] std::string_view add_key_pattern(std::string_view rule);
  [[nodiscard]] std::string_view add_channel(std::string_view pattern);
  [[nodiscard]] std::string_view allow(std::string_view name);
  [[nodiscard]] std::string_view forbid(std::string_view name);
  [[nodiscard]] std::string_view set_category(std::string_view name, bool allowed);
  void set_all(bool allowed);
  void set_row(const CommandSpec& row, bool allowed);
  void note_rule(std::string_view name, bool allowed);
  void count_bytes();
  [[nodiscard]] bool may_run(const CommandSpec& spec, std::span<const std::string_view> words) const;
  [[nodiscard]] bool may_use(std::string_view key, bool reads, bool writes) const;

  bool all_keys_ = false;
  bool all_channels_ = false;
  bool begins_with_all_ = false;  // the rules about commands begin with +@all, not with -@all
  std::vector<KeyPattern> keys_;
  std::vector<std::string> channels_;
  Rows allowed_;  // by command_row()
  std::vector<FirstWord> first_words_;
  std::vector<std::string> command_rules_;  // behind "+@all" or "-@all"
  std::size_t byte_count_ = 0;
};

// Whether a text has a blank, another space character or a NUL: no name and no pattern may.
[[nodiscard]] bool has_space(std::string_view text);

}  // namespace sepal::command
