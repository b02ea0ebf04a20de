// A user of an access control list: a name, passwords, and the rules that say what it may do.
#pragma once

#include <sepal/command/users/acl_selector.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

inline constexpr std::size_t user_name_bytes_max = 1024;
// The memory that the rules and passwords of one user may take.
inline constexpr std::size_t user_bytes_max = std::size_t{64} << 10;
// The rules of one ACL SETUSER, or of one line of an ACL file, in bytes.
inline constexpr std::size_t user_rules_bytes_max = std::size_t{64} << 10;
// A password may be as long as what a client may send before it is authenticated.
inline constexpr std::size_t password_bytes_max = 16'384;

// Guarded by the gate once clients are served: changed with the gate closed, read inside it.
class User {
 public:
  // A user that is off, has no password and may do nothing.
  explicit User(std::string name) : name_(std::move(name)) {}
  // The user of a client until its server gives it one, and of a client whose user is gone.
  static const User& without_rights();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_on() const { return on_; }
  [[nodiscard]] bool needs_password() const { return !any_password_; }
  [[nodiscard]] bool unrestricted() const { return unrestricted_; }

  // Applies the rules one after the other. Returns the error in them; empty: all were applied. After an error
  // the user is as it was. No password is in an error.
  [[nodiscard]] std::string apply(std::span<const std::string_view> rules);

  // The user of requirepass: it may do everything. Empty: it needs no password.
  void set_only_password(std::string_view password);

  // Whether a client may log in as this user. The time that this takes does not tell how much of the password
  // was right.
  [[nodiscard]] bool accepts(std::string_view password) const;

  // Why the user may not run a request; none: it may. `spec` is row_for(words).
  [[nodiscard]] std::optional<Denial> denied(const CommandSpec& spec,
                                             std::span<const std::string_view> words) const;

  // As ACL GETUSER shows it. The first selector has the rules outside of parentheses.
  [[nodiscard]] std::vector<std::string_view> flags() const;
  [[nodiscard]] std::span<const std::string> passwords() const { return passwords_; }
  [[nodiscard]] std::span<const AclSelector> selectors() const { return selectors_; }
  // All rules in one text: applied to a new user, they make an equal one.
  [[nodiscard]] std::string rules() const;

  // The memory that it takes as one of Users.
  [[nodiscard]] std::size_t byte_count() const;

 private:
  [[nodiscard]] std::size_t fixed_bytes() const;
  [[nodiscard]] std::string apply_one(std::string_view rule);
  [[nodiscard]] std::string_view apply_word(std::string_view rule, bool& known);
  [[nodiscard]] std::string_view add_password(std::string_view rule);
  [[nodiscard]] std::string_view remove_password(std::string_view rule);
  [[nodiscard]] std::string_view add_selector(std::string_view rule);
  void reset();

  std::string name_;
  bool on_ = false;
  bool any_password_ = false;  // nopass
  bool skips_sanitizing_ = false;
  bool unrestricted_ = false;
  std::vector<std::string> passwords_;  // SHA-256, in hexadecimal
  std::vector<AclSelector> selectors_{1};
};

// "User bob has no permissions to run the 'get' command", or "No permissions to access a key".
[[nodiscard]] std::string denial_text(const Denial& denial, const User& user, const CommandSpec& spec);
// The same, but it names the key: for a client that may ask about other users.
[[nodiscard]] std::string denial_text_in_full(const Denial& denial, const User& user, const CommandSpec& spec,
                                              std::span<const std::string_view> words);

}  // namespace sepal::command
