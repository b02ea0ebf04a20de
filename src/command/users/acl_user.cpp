#include <sepal/base/arguments.hpp>
#include <sepal/base/digest.hpp>
#include <sepal/command/users/acl_user.hpp>

#include <algorithm>
#include <utility>

namespace sepal::command {
namespace {

constexpr std::size_t digest_digits = 64;

// The reference's texts about wrong rules.
constexpr std::string_view user_rule_syntax = "Syntax error";
constexpr std::string_view no_such_password =
    "The password you are trying to remove from the user does not exist";
constexpr std::string_view bad_digest =
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters";
constexpr std::string_view password_too_long = "The password is longer than its limit of 16384 bytes";
constexpr std::string_view user_too_large =
    "The rules and passwords of the user would take more memory than their limit of 65536 bytes";

bool is_digest(std::string_view text) {
  return text.size() == digest_digits && std::ranges::all_of(text, [](char digit) {
           return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f');
         });
}

// Both have the same length. The time does not depend on where they differ.
bool equal_in_constant_time(std::string_view one, std::string_view other) {
  unsigned difference = 0;
  for (std::size_t at = 0; at < one.size(); ++at)
    difference |= static_cast<unsigned>(static_cast<unsigned char>(one[at] ^ other[at]));
  return difference == 0;
}

// A selector has no passwords, but a client may try to give one there.
bool may_have_password(std::string_view rule) {
  constexpr std::string_view signs = "><#!";
  if (rule.starts_with('(')) return rule.find_first_of(signs) != std::string_view::npos;
  return !rule.empty() && signs.find(rule[0]) != std::string_view::npos;
}

// The client sees the rule that is wrong, but no password: errors are copied into logs of clients.
std::string wrong_rule(std::string_view rule, std::string_view why) {
  std::string text = "Error in ACL SETUSER modifier '";
  if (may_have_password(rule)) {
    text.append(rule.substr(0, 1)).append("(hidden)");
  } else {
    text.append(echoed(rule));
  }
  return text.append("': ").append(why);
}

bool begins_selector(std::string_view rule) {
  return rule.starts_with('(') && !rule.ends_with(')');
}

// Joins the words of each selector, which a client may have sent as several: "(~a", "+get)". Nothing: a
// selector has no end, and `unfinished` is its first word.
struct JoinedRules {
  std::vector<std::string> rules;
  std::optional<std::string_view> unfinished;
};
JoinedRules join_selectors(std::span<const std::string_view> rules) {
  JoinedRules joined;
  for (std::size_t at = 0; at < rules.size(); ++at) {
    std::string rule(rules[at]);
    if (begins_selector(rule)) {
      const std::size_t first = at;
      while (++at < rules.size()) {
        rule.append(" ").append(rules[at]);
        if (rule.ends_with(')')) break;
      }
      if (at == rules.size()) {
        joined.unfinished = rules[first];
        return joined;
      }
    }
    joined.rules.push_back(std::move(rule));
  }
  return joined;
}

}  // namespace

const User& User::without_rights() {
  static const User none{std::string()};
  return none;
}

std::string User::apply(std::span<const std::string_view> rules) {
  // Before anything is done, because each rule may be a password to hash, and the selectors are joined to new
  // strings.
  std::size_t rules_bytes = 0;
  for (const std::string_view rule : rules) rules_bytes += rule.size() + 1;
  if (rules_bytes > user_rules_bytes_max)
    return "the rules are longer than their limit of " + std::to_string(user_rules_bytes_max) + " bytes";
  const JoinedRules joined = join_selectors(rules);
  if (joined.unfinished)
    return "Unmatched parenthesis in acl selector starting at '" + std::string(echoed(*joined.unfinished)) +
           "'.";
  User changed = *this;
  for (const std::string& rule : joined.rules)
    if (std::string wrong = changed.apply_one(rule); !wrong.empty()) return wrong;
  // Kept as a flag, so that a request of a user that may do everything costs one test.
  changed.unrestricted_ = std::ranges::any_of(changed.selectors_, &AclSelector::allows_all);
  *this = std::move(changed);
  return {};
}

// The error; empty: the rule was applied. Its size is checked after each rule, so that no list grows long
// enough to make the look for duplicates slow.
std::string User::apply_one(std::string_view rule) {
  bool known = false;
  std::string_view wrong = apply_word(rule, known);
  if (!known) {
    if (rule.starts_with('>') || rule.starts_with('#')) {
      wrong = add_password(rule);
    } else if (rule.starts_with('<') || rule.starts_with('!')) {
      wrong = remove_password(rule);
    } else if (rule.starts_with('(') && rule.ends_with(')')) {
      wrong = add_selector(rule.substr(1, rule.size() - 2));
    } else {
      wrong = selectors_.front().apply(rule);
    }
  }
  if (wrong.empty() && byte_count() > fixed_bytes() + user_bytes_max) wrong = user_too_large;
  return wrong.empty() ? std::string() : wrong_rule(rule, wrong);
}

// A rule that is one word. `known`: it was such a rule.
std::string_view User::apply_word(std::string_view rule, bool& known) {
  const auto is = [&](std::string_view word) {
    const bool equal = equal_ignoring_case(rule, word);
    known = known || equal;
    return equal;
  };
  if (is("on")) {
    on_ = true;
  } else if (is("off")) {
    on_ = false;
  } else if (is("nopass")) {
    any_password_ = true;
    passwords_.clear();
  } else if (is("resetpass")) {
    any_password_ = false;
    passwords_.clear();
  } else if (is("sanitize-payload")) {
    skips_sanitizing_ = false;
  } else if (is("skip-sanitize-payload")) {
    skips_sanitizing_ = true;
  } else if (is("clearselectors")) {
    selectors_.resize(1);
  } else if (is("reset")) {
    reset();
  }
  return {};
}

void User::reset() {
  User fresh(name_);
  *this = std::move(fresh);
}

std::string_view User::add_password(std::string_view rule) {
  const std::string_view given = rule.substr(1);
  const bool hashed = rule[0] == '#';
  if (hashed && !is_digest(given)) return bad_digest;
  if (given.size() > password_bytes_max) return password_too_long;
  std::string digest = hashed ? std::string(given) : sha256_hex(given);
  if (std::ranges::find(passwords_, digest) == passwords_.end()) passwords_.push_back(std::move(digest));
  // A password ends `nopass`. Otherwise any password would still be right.
  any_password_ = false;
  return {};
}

std::string_view User::remove_password(std::string_view rule) {
  const std::string_view given = rule.substr(1);
  const bool hashed = rule[0] == '!';
  if (hashed && !is_digest(given)) return bad_digest;
  const auto found = std::ranges::find(passwords_, hashed ? std::string(given) : sha256_hex(given));
  if (found == passwords_.end()) return no_such_password;
  passwords_.erase(found);
  return {};
}

// `rules` stood between the parentheses.
std::string_view User::add_selector(std::string_view rules) {
  AclSelector selector;
  while (!rules.empty()) {
    const std::string_view rule = rules.substr(0, rules.find(' '));
    rules.remove_prefix(std::min(rule.size() + 1, rules.size()));
    if (rule.empty()) continue;
    if (const std::string_view wrong = selector.apply(rule); !wrong.empty()) return wrong;
    // Within the loop: apply_one() looks at the size only when the whole selector is there.
    if (selector.byte_count() > user_bytes_max) return user_too_large;
  }
  selectors_.push_back(std::move(selector));
  return {};
}

void User::set_only_password(std::string_view password) {
  any_password_ = password.empty();
  passwords_.clear();
  if (!password.empty()) passwords_.push_back(sha256_hex(password));
}

// Each password is compared, whichever is right, and `on` is tested last. So the time tells neither which
// password is right nor whether the user is off.
bool User::accepts(std::string_view password) const {
  // No user has a longer one, and to hash a long one takes long.
  if (password.size() > password_bytes_max) return on_ && any_password_;
  const std::string digest = sha256_hex(password);
  bool right = false;
  for (const std::string& each : passwords_) right = equal_in_constant_time(each, digest) || right;
  return on_ && (any_password_ || right);
}

// One selector must allow the whole request. If none does, the answer is of the one that came furthest: a key
// that is refused is nearer than a command that is refused, and a later key is nearer than an earlier one.
std::optional<Denial> User::denied(const CommandSpec& spec, std::span<const std::string_view> words) const {
  if (unrestricted_) return std::nullopt;
  Denial nearest;
  for (const AclSelector& selector : selectors_) {
    const std::optional<Denial> denial = selector.denied(spec, words);
    if (!denial) return std::nullopt;
    if (denial->reason == Denial::Reason::key && denial->word >= nearest.word) nearest = *denial;
  }
  return nearest;
}

std::vector<std::string_view> User::flags() const {
  std::vector<std::string_view> flags{on_ ? "on" : "off"};
  if (any_password_) flags.emplace_back("nopass");
  flags.emplace_back(skips_sanitizing_ ? "skip-sanitize-payload" : "sanitize-payload");
  return flags;
}

std::string User::rules() const {
  std::string text;
  for (const std::string_view flag : flags()) text.append(flag).append(" ");
  // As digests, so neither ACL LIST nor an ACL file has a password.
  for (const std::string& password : passwords_) text.append("#").append(password).append(" ");
  text += selectors_.front().rules();
  for (const AclSelector& selector : std::span(selectors_).subspan(1))
    text.append(" (").append(selector.rules()).append(")");
  return text;
}

// Without rules and passwords: the user, and its entry in the table of users, which has the name once more.
std::size_t User::fixed_bytes() const {
  constexpr std::size_t entry_bytes = 128;
  return sizeof(User) + entry_bytes + 2 * name_.size();
}

std::size_t User::byte_count() const {
  std::size_t bytes = fixed_bytes();
  for (const std::string& password : passwords_) bytes += sizeof(std::string) + password.size();
  for (const AclSelector& selector : selectors_) bytes += sizeof(AclSelector) + selector.byte_count();
  return bytes;
}

std::string denial_text(const Denial& denial, const User& user, const CommandSpec& spec) {
  if (denial.reason == Denial::Reason::key) return "No permissions to access a key";
  std::string text = "User ";
  return text.append(user.name()).append(" has no permissions to run the '").append(spec.name) + "' command";
}

std::string denial_text_in_full(const Denial& denial, const User& user, const CommandSpec& spec,
                                std::span<const std::string_view> words) {
  if (denial.reason != Denial::Reason::key) return denial_text(denial, user, spec);
  std::string text = "User ";
  text.append(user.name()).append(" has no permissions to access the '");
  return text.append(echoed(words[denial.word])).append("' key");
}

}  // namespace sepal::command
