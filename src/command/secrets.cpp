#include "secrets.hpp"

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

bool is_any_of(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view each) { return equal_ignoring_case(word, each); });
}

}  // namespace

Secrets::Secrets(std::span<const std::string_view> words) : words_(words), kind_(kind_of(words)) {}

// The request is not parsed: only the command and the words near a word decide. So the password in a request
// with a wrong option is hidden as well.
Secrets::Kind Secrets::kind_of(std::span<const std::string_view> words) {
  SEPAL_ASSERT(!words.empty(), "a request has a name");
  const std::string_view name = words[0];
  if (equal_ignoring_case(name, "auth")) return Kind::behind_name;
  if (equal_ignoring_case(name, "hello") || equal_ignoring_case(name, "migrate")) return Kind::behind_auth;
  if (words.size() < 3) return Kind::none;
  if (equal_ignoring_case(name, "config") && equal_ignoring_case(words[1], "set")) return Kind::of_parameter;
  if (equal_ignoring_case(name, "acl") && is_any_of(words[1], secret_user_commands))
    return Kind::behind_subcommand;
  return Kind::none;
}

bool Secrets::has(std::size_t at) const {
  switch (kind_) {
    case Kind::none:
      return false;
    case Kind::behind_name:
      return at >= 1;
    case Kind::behind_subcommand:
      return at >= 2;
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
