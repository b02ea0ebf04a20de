// Rules about commands are kept twice: as a bit for each row of the command table, which a request is checked
// with, and as the texts that ACL LIST shows. A new text replaces older ones about the same command.
//
// Each rule changes the bits at once, so a later rule overrides an earlier one, and the cost of a check does
// not grow with the number of rules. The texts stand in the order in which the rules came. An older text may
// go because a newer one about the same rows overrides it: applied again, the texts that are left make the
// same bits.
//
// "+select|0" allows a command with one first argument only. SELECT has no row for that, so such words stand
// in a list (`first_words_`), until a rule about the whole command comes.

#include <sepal/base/arguments.hpp>
#include <sepal/base/glob.hpp>
#include <sepal/base/word_list.hpp>
#include <sepal/command/users/acl_selector.hpp>

#include <algorithm>
#include <utility>

#include "command/table/command_index.hpp"
#include "command/table/request_keys.hpp"
#include "command/table/row_category.hpp"

namespace sepal::command {
namespace {

// The reference's texts about wrong rules.
constexpr std::string_view rule_syntax = "Syntax error";
constexpr std::string_view rule_unknown = "Unknown command or category name in ACL";
constexpr std::string_view rule_behind_all_keys =
    "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. "
    "Try 'resetkeys' to start with an empty list of patterns";
constexpr std::string_view rule_behind_all_channels =
    "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any "
    "effect. Try 'resetchannels' to start with an empty list of channels";
constexpr std::string_view rule_word_of_subcommand = "Allowing first-arg of a subcommand is not supported";
constexpr std::string_view rule_too_long = "A rule is longer than its limit of 1024 bytes";

bool has_word(std::string_view list, std::string_view wanted) {
  bool found = false;
  for_each_word(list, [&](std::string_view word) { found = found || word == wanted; });
  return found;
}

// What a request does with one of its keys.
struct Use {
  bool reads = false;
  bool writes = false;
};

// The reference asks for a permission only where the access says what happens to the value: EXISTS and TTL
// ("RO") need none. It says nothing about the commands of its modules, so their %R~ and %W~ have no effect
// there. Sepal's commands of filters that read need the one, those that write need the other. A command that
// only reads needs no more than that, whatever the reference declares.
Use use_of(const CommandSpec& spec, std::string_view access) {
  const Use told{
      .reads = has_word(access, "access"),
      .writes = !spec.flags.has(Flag::read_only) &&
                (has_word(access, "insert") || has_word(access, "update") || has_word(access, "delete"))};
  if (told.reads || told.writes || !spec.flags.has(Flag::module)) return told;
  const bool writes = spec.flags.has(Flag::write);
  return {.reads = !writes, .writes = writes};
}

// "%RW~pattern": how many bytes stand before the pattern. 0: it is no such rule.
std::size_t pattern_at(std::string_view rule, Use& use) {
  for (std::size_t at = 1; at < rule.size(); ++at) {
    const char letter = upper(rule[at]);
    if (letter == '~') return use.reads || use.writes ? at + 1 : 0;
    bool* const wanted = letter == 'R' ? &use.reads : letter == 'W' ? &use.writes : nullptr;
    if (wanted == nullptr || *wanted) return 0;
    *wanted = true;
  }
  return 0;
}

std::string joined(const std::string& text, const std::string& more) {
  return text.empty() ? more : more.empty() ? text : text + " " + more;
}

}  // namespace

bool has_space(std::string_view text) {
  constexpr std::string_view spaces(" \t\n\v\f\r\0", 7);
  return text.find_first_of(spaces) != std::string_view::npos;
}

std::string_view AclSelector::apply(std::string_view rule) {
  if (rule.empty()) return rule_syntax;
  if (rule.size() > acl_rule_bytes_max) return rule_too_long;
  const auto is = [&](std::string_view word, std::string_view other) {
    return equal_ignoring_case(rule, word) || equal_ignoring_case(rule, other);
  };
  // Rules that are whole words come first: `~*` also begins like a pattern, and `+@all` like a category.
  std::string_view wrong;
  if (is("allkeys", "~*") || is("resetkeys", "resetkeys")) {
    all_keys_ = !equal_ignoring_case(rule, "resetkeys");
    keys_.clear();
  } else if (is("allchannels", "&*") || is("resetchannels", "resetchannels")) {
    all_channels_ = !equal_ignoring_case(rule, "resetchannels");
    channels_.clear();
  } else if (is("allcommands", "+@all") || is("nocommands", "-@all")) {
    set_all(is("allcommands", "+@all"));
  } else if (rule[0] == '~' || rule[0] == '%') {
    wrong = add_key_pattern(rule);
  } else if (rule[0] == '&') {
    wrong = add_channel(rule.substr(1));
  } else if (rule.starts_with("+@") || rule.starts_with("-@")) {
    wrong = set_category(rule.substr(1), rule[0] == '+');
  } else if (rule[0] == '+') {
    wrong = allow(rule.substr(1));
  } else if (rule[0] == '-') {
    wrong = forbid(rule.substr(1));
  } else {
    wrong = rule_syntax;
  }
  count_bytes();
  return wrong;
}

std::string_view AclSelector::add_key_pattern(std::string_view rule) {
  if (all_keys_) return rule_behind_all_keys;
  Use use{.reads = rule[0] == '~', .writes = rule[0] == '~'};
  const std::size_t begin = rule[0] == '~' ? 1 : pattern_at(rule, use);
  if (begin == 0 || has_space(rule)) return rule_syntax;
  const std::string_view pattern = rule.substr(begin);
  // Each pattern stands once. `%R~k` and `%W~k` together are `~k`.
  const auto known = std::ranges::find(keys_, pattern, &KeyPattern::pattern);
  if (known == keys_.end()) {
    keys_.push_back({.pattern = std::string(pattern), .read = use.reads, .write = use.writes});
  } else {
    known->read = known->read || use.reads;
    known->write = known->write || use.writes;
  }
  return {};
}

std::string_view AclSelector::add_channel(std::string_view pattern) {
  if (all_channels_) return rule_behind_all_channels;
  if (has_space(pattern)) return rule_syntax;
  if (std::ranges::find(channels_, pattern) == channels_.end()) channels_.emplace_back(pattern);
  return {};
}

std::string_view AclSelector::allow(std::string_view name) {
  const std::size_t bar = name.rfind('|');
  if (bar == std::string_view::npos) {
    const CommandSpec* const command = find_command(name);
    if (command == nullptr) return rule_unknown;
    set_row(*command, true);
    note_rule(command->name, true);
    return {};
  }
  // What stands before the last bar may be a subcommand ("config|get|port"), which has no words of its own.
  const CommandSpec* const command = find_row(name.substr(0, bar));
  if (command == nullptr) return rule_unknown;
  if (command->name.find('|') != std::string_view::npos) return rule_word_of_subcommand;
  if (bar + 1 == name.size()) return rule_syntax;
  if (!command->subcommands.empty()) {
    const CommandSpec* const subcommand = find_subcommand(*command, name.substr(bar + 1));
    if (subcommand == nullptr) return rule_unknown;
    set_row(*subcommand, true);
  } else {
    // A word with a space would not read back from an ACL file.
    if (has_space(name)) return rule_syntax;
    std::string word = lower_case(name.substr(bar + 1));
    const bool known = std::ranges::any_of(
        first_words_, [&](const FirstWord& each) { return each.command == command && each.word == word; });
    if (!known) first_words_.push_back({.command = command, .word = std::move(word)});
  }
  note_rule(name, true);
  return {};
}

// A single first argument cannot be forbidden: "select|0" names no row.
std::string_view AclSelector::forbid(std::string_view name) {
  const CommandSpec* const row = find_row(name);
  if (row == nullptr) return rule_unknown;
  set_row(*row, false);
  note_rule(row->name, false);
  return {};
}

// `name` begins with '@'.
std::string_view AclSelector::set_category(std::string_view name, bool allowed) {
  const Categories wanted = category_of(name.substr(1));
  if (wanted.bits == 0) return rule_unknown;
  for_each_row([&](const CommandSpec& row) {
    if (row.categories.has(wanted)) set_row(row, allowed);
  });
  note_rule(name, allowed);
  return {};
}

void AclSelector::set_all(bool allowed) {
  begins_with_all_ = allowed;
  command_rules_.clear();
  first_words_.clear();
  allowed_.reset();
  // Only rows that exist: allows_all() compares their number with that of the bits.
  for (std::size_t row = 0; allowed && row < command_row_count(); ++row) allowed_.set(row);
}

// A rule about a command is one about its subcommands, too. It also replaces what was allowed by first
// arguments.
void AclSelector::set_row(const CommandSpec& row, bool allowed) {
  allowed_.set(command_row(row), allowed);
  for (const CommandSpec& subcommand : row.subcommands) allowed_.set(command_row(subcommand), allowed);
  std::erase_if(first_words_, [&](const FirstWord& each) { return each.command == &row; });
}

void AclSelector::note_rule(std::string_view name, bool allowed) {
  const std::string rule = lower_case(name);
  std::erase_if(command_rules_, [&](std::string_view older) {
    older.remove_prefix(1);  // the sign
    // The command itself, and its subcommands and words behind a bar.
    return older.starts_with(rule) && (older.size() == rule.size() || older[rule.size()] == '|');
  });
  command_rules_.push_back((allowed ? "+" : "-") + rule);
}

void AclSelector::count_bytes() {
  byte_count_ = 0;
  const auto add = [&](const auto& list, auto text_of) {
    using Element = typename std::remove_cvref_t<decltype(list)>::value_type;
    for (const Element& each : list) byte_count_ += sizeof(Element) + text_of(each).size();
  };
  const auto itself = [](const std::string& text) -> const std::string& { return text; };
  add(keys_, [](const KeyPattern& each) -> const std::string& { return each.pattern; });
  add(channels_, itself);
  add(first_words_, [](const FirstWord& each) -> const std::string& { return each.word; });
  add(command_rules_, itself);
}

bool AclSelector::allows_all() const {
  return all_keys_ && allowed_.count() == command_row_count();
}

std::optional<Denial> AclSelector::denied(const CommandSpec& spec,
                                          std::span<const std::string_view> words) const {
  if (!may_run(spec, words)) return Denial{.reason = Denial::Reason::command};
  if (all_keys_) return std::nullopt;
  std::optional<Denial> denial;
  for_each_key(spec, words, [&](std::size_t at, std::string_view access) {
    // The visit cannot be ended early, so the keys behind the first refused one are passed over.
    if (denial) return;
    const Use use = use_of(spec, access);
    if (!may_use(words[at], use.reads, use.writes))
      denial = Denial{.reason = Denial::Reason::key, .word = at};
  });
  return denial;
}

// A client may always log in, ask for the protocol, reset and close its connection.
bool AclSelector::may_run(const CommandSpec& spec, std::span<const std::string_view> words) const {
  if (spec.flags.has(Flag::no_auth) || allowed_.test(command_row(spec))) return true;
  if (words.size() < 2) return false;
  return std::ranges::any_of(first_words_, [&](const FirstWord& each) {
    return each.command == &spec && equal_ignoring_case(each.word, words[1]);
  });
}

// If the command neither reads nor writes the value, any pattern that matches is enough.
bool AclSelector::may_use(std::string_view key, bool reads, bool writes) const {
  return std::ranges::any_of(keys_, [&](const KeyPattern& each) {
    return (each.read || !reads) && (each.write || !writes) && matches(each.pattern, key);
  });
}

std::string AclSelector::commands() const {
  std::string text = begins_with_all_ ? "+@all" : "-@all";
  for (const std::string& rule : command_rules_) text.append(" ").append(rule);
  return text;
}

std::string AclSelector::keys() const {
  if (all_keys_) return "~*";
  std::string text;
  for (const KeyPattern& each : keys_) {
    const std::string_view sign = each.read && each.write ? "~" : each.read ? "%R~" : "%W~";
    text.append(text.empty() ? "" : " ").append(sign).append(each.pattern);
  }
  return text;
}

std::string AclSelector::channels() const {
  if (all_channels_) return "&*";
  std::string text;
  for (const std::string& pattern : channels_) text.append(text.empty() ? "&" : " &").append(pattern);
  return text;
}

std::string AclSelector::rules() const {
  // "resetchannels" as in the reference, where a new user may begin with all channels (acl-pubsub-default).
  const std::string listed = all_channels_ ? channels() : joined("resetchannels", channels());
  return joined(joined(keys(), listed), commands());
}

}  // namespace sepal::command
