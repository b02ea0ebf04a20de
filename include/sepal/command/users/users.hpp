// All users, and the text of an ACL file. `default` is the user of new connections, and is always there.
//
// Clients keep pointers to their users. A user that is changed keeps its place in memory, so the change has
// effect at once. A user that is removed is handed to dismiss() (client_users.hpp), which takes it away from
// its clients.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/command/users/acl_user.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

// The memory of all users together, and the length of an ACL file. It counts for maxmemory, too.
inline constexpr std::size_t users_bytes_max = std::size_t{256} << 20;

using UserTable = std::map<std::string, std::unique_ptr<User>, std::less<>>;
using RemovedUsers = std::vector<std::unique_ptr<User>>;

// Reads the text of an ACL file: lines "user NAME RULE ...". Blank lines, and lines that begin with '#', are
// skipped. Errors: invalid_setting, with `file` and the number of the line. Any thread.
Result<UserTable> parse_users(std::string_view text, std::string_view file);

// Guarded by the gate: changed with the gate closed, read inside it.
class Users {
 public:
  static constexpr std::string_view default_name = "default";

  // Only `default`, which may do everything, with this password; empty: without one.
  explicit Users(std::string_view default_password);

  // The user of new connections.
  [[nodiscard]] const User& standard() const { return *standard_; }
  // Whether a new connection may act as that user without a password.
  [[nodiscard]] bool open() const { return open_; }

  // Another number after each change of any user; above 0.
  [[nodiscard]] std::uint64_t revision() const { return revision_; }

  [[nodiscard]] const User* find(std::string_view name) const;
  // Sorted by name.
  [[nodiscard]] const UserTable& all() const { return users_; }
  // The user, if a client may log in with this name and password; else null. The time does not tell whether
  // there is such a user.
  [[nodiscard]] const User* log_in(std::string_view name, std::string_view password) const;

  // Makes or changes a user, which may take so many bytes more than before. Returns the error; empty: all
  // rules were applied, else none was.
  [[nodiscard]] std::string set(std::string_view name, std::span<const std::string_view> rules,
                                std::uint64_t bytes_free = users_bytes_max);
  // Removes users. `default` stays. Names of no users are ignored.
  [[nodiscard]] RemovedUsers remove(std::span<const std::string_view> names);
  // The password of `default`; empty: it needs none.
  void set_default_password(std::string_view password);
  // Makes these the users. A table without `default` lets that user be as requirepass makes it: able to do
  // everything, with `default_password`. Returns the users that are gone.
  [[nodiscard]] RemovedUsers adopt(UserTable table, std::string_view default_password);

  // The text of an ACL file: parse_users() makes equal users of it.
  [[nodiscard]] std::string text() const;
  // The memory of all users.
  [[nodiscard]] std::size_t byte_count() const { return byte_count_; }

 private:
  void count_bytes();
  void note_change();

  UserTable users_;
  User* standard_ = nullptr;
  bool open_ = false;
  std::uint64_t revision_ = 0;
  std::size_t byte_count_ = 0;
};

}  // namespace sepal::command
