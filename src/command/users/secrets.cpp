#include "command/users/secrets.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>

#include <algorithm>

namespace sepal::command {
namespace {

// Parameters of CONFIG SET, of Sepal and of the reference.
constexpr std::string_view secret_parameters[] = {"requirepass", "masterauth", "masteruser",
                                                  "tls-key-file-pass", "tls-client-key-file-pass"};

// Subcommands of ACL whose words may name a user or hold a password.
constexpr std::string_view secret_user_commands[] = {"setuser", "getuser", "deluser"};

constexpr std::string_view script_commands[] = {"eval",       "eval_ro", "evalsha",
                                                "evalsha_ro", "fcall",   "fcall_ro"};

// What a script or its arguments mention where they have a password.
constexpr std::string_view mentions[] = {"auth",       "auth2",      "requirepass",
                                         "masterauth", "masteruser", "key-file-pass",
                                         "setuser",    "getuser",    "deluser"};

bool is_any_of(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view each) { return equal_ignoring_case(word, each); });
}

bool is_letter(char c) {
  return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

// Whether one of `mentions` stands in the text as a word of its own.
bool mentions_secret(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_letter(text[at]) || (at > 0 && is_letter(text[at - 1]))) continue;
    const std::string_view rest = text.substr(at);
    const bool found = std::ranges::any_of(mentions, [&](std::string_view each) {
      return equal_ignoring_case(rest.substr(0, each.size()), each) &&
             (rest.size() == each.size() || !is_letter(rest[each.size()]));
    });
    if (found) return true;
  }
  return false;
}

// Some requests carry another one (ACL DRYRUN, COMMAND GETKEYS): the index at which that one begins. 0: this
// one does not.
std::size_t begin_of_inner(std::span<const std::string_view> words) {
  constexpr std::size_t behind_user = 3;
  constexpr std::size_t behind_subcommand = 2;
  if (words.size() <= behind_subcommand) return 0;
  if (equal_ignoring_case(words[0], "acl") && equal_ignoring_case(words[1], "dryrun")) return behind_user;
  constexpr std::string_view get_keys[] = {"getkeys", "getkeysandflags"};
  return equal_ignoring_case(words[0], "command") && is_any_of(words[1], get_keys) ? behind_subcommand : 0;
}

}  // namespace

Secrets::Secrets(std::span<const std::string_view> words) : all_words_(words), words_(words) {
  SEPAL_ASSERT(!words.empty(), "a request has a name");
  for (std::size_t inner = begin_of_inner(words_); inner != 0 && inner < words_.size();
       inner = begin_of_inner(words_)) {
    begin_ += inner;
    words_ = words_.subspan(inner);
  }
  read();
}

// The request is not parsed: only the command and the words near a word decide. So the password in a request
// with a wrong option is hidden as well.
void Secrets::read() {
  constexpr std::size_t behind_subcommand = 2;
  const std::string_view name = words_[0];
  const auto is = [&](std::string_view command, std::string_view subcommand) {
    return words_.size() > behind_subcommand && equal_ignoring_case(name, command) &&
           equal_ignoring_case(words_[1], subcommand);
  };
  if (equal_ignoring_case(name, "auth")) return hide_from(1);
  if (equal_ignoring_case(name, "hello") || equal_ignoring_case(name, "migrate")) {
    kind_ = Kind::behind_auth;
  } else if (is("config", "set")) {
    kind_ = Kind::of_parameter;
  } else if (is_any_of(name, script_commands) || is("script", "load") || is("function", "load")) {
    // The password may stand anywhere in the text or argument that mentions it, and in the words behind that.
    const auto mention = std::ranges::find_if(words_.subspan(1), mentions_secret);
    hide_from(static_cast<std::size_t>(mention - words_.subspan(1).begin()) + 1);
  } else if (words_.size() > behind_subcommand && equal_ignoring_case(name, "acl") &&
             is_any_of(words_[1], secret_user_commands)) {
    hide_from(behind_subcommand);
  }
}

void Secrets::hide_from(std::size_t at) {
  kind_ = Kind::from_word;
  first_ = at;
}

bool Secrets::has_inner(std::size_t at) const {
  switch (kind_) {
    case Kind::none: return false;
    case Kind::from_word: return at >= first_;
    case Kind::of_parameter:
      // Behind CONFIG SET, a name is followed by its value, so values have odd indexes.
      return at >= 3 && at % 2 == 1 && is_any_of(words_[at - 1], secret_parameters);
    case Kind::behind_auth:
      // A name and a password; MIGRATE may have the password alone. One word too many does no harm.
      for (std::size_t back = 1; back <= 2 && back < at; ++back)
        if (equal_ignoring_case(words_[at - back], "AUTH") || equal_ignoring_case(words_[at - back], "AUTH2"))
          return true;
      return false;
  }
  return false;
}

}  // namespace sepal::command
