#include <sepal/base/assert.hpp>
#include <sepal/command/users/users.hpp>

#include <algorithm>
#include <utility>

namespace sepal::command {
namespace {

constexpr std::string_view everything[] = {"reset", "on", "~*", "&*", "+@all"};

std::unique_ptr<User> default_user(std::string_view password) {
  auto user = std::make_unique<User>(std::string(Users::default_name));
  const std::string wrong = user->apply(everything);
  SEPAL_ASSERT(wrong.empty(), "the rules of the default user are wrong");
  user->set_only_password(password);
  return user;
}

// The error in a name; empty if there is none. A name with a space would not read back from an ACL file.
std::string_view wrong_name(std::string_view name) {
  if (name.empty()) return "the name of a user is empty";
  if (name.size() > user_name_bytes_max) return "the name of the user is longer than 1024 bytes";
  return has_space(name) ? "Usernames can't contain spaces or null characters" : std::string_view();
}

constexpr std::string_view too_many_users = "the users would take more memory than their limit of 256 MiB";
constexpr std::string_view no_memory_left = "the user would take more memory than maxmemory leaves";

std::vector<std::string_view> words_of_line(std::string_view line) {
  constexpr std::string_view blanks = " \t\r";
  std::vector<std::string_view> words;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
    if (line.empty()) return words;
    words.push_back(line.substr(0, line.find_first_of(blanks)));
    line.remove_prefix(words.back().size());
  }
}

// The error in a line that is neither blank nor a comment; empty if there is none.
std::string take_line(std::span<const std::string_view> words, UserTable& table) {
  if (words.size() < 2 || words[0] != "user")
    return "a line begins with the word user, and the name of a user";
  const std::string_view name = words[1];
  if (const std::string_view wrong = wrong_name(name); !wrong.empty()) return std::string(wrong);
  if (table.contains(name)) return "Duplicate user found. A user can only be defined once in config files";
  auto user = std::make_unique<User>(std::string(name));
  if (std::string wrong = user->apply(words.subspan(2)); !wrong.empty()) return wrong;
  table.emplace(std::string(name), std::move(user));
  return {};
}

}  // namespace

Result<UserTable> parse_users(std::string_view text, std::string_view file) {
  UserTable table;
  std::size_t byte_count = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::vector<std::string_view> words = words_of_line(line);
    if (words.empty() || words[0].starts_with('#')) continue;
    std::string wrong = take_line(words, table);
    if (wrong.empty()) byte_count += table.find(words[1])->second->byte_count();
    // After each line, so that a file of too many users is refused before all of them take memory.
    if (byte_count > users_bytes_max) wrong = too_many_users;
    if (!wrong.empty())
      return fail(Errc::invalid_setting, std::string(file) + ":" + std::to_string(number) + ": " + wrong);
  }
  return table;
}

Users::Users(std::string_view default_password) {
  users_.emplace(std::string(default_name), default_user(default_password));
  standard_ = users_.begin()->second.get();
  count_bytes();
  note_change();
}

void Users::count_bytes() {
  byte_count_ = 0;
  for (const auto& [name, user] : users_) byte_count_ += user->byte_count();
}

void Users::note_change() {
  open_ = standard_->is_on() && !standard_->needs_password();
  ++revision_;
}

const User* Users::find(std::string_view name) const {
  const auto found = users_.find(name);
  return found == users_.end() ? nullptr : found->second.get();
}

const User* Users::log_in(std::string_view name, std::string_view password) const {
  const User* const user = find(name);
  if (user == nullptr) {
    // The digest of the password takes most of the time of a login. It is made for an unknown name as well,
    // so the time does not tell a client which names exist.
    static_cast<void>(User::without_rights().accepts(password));
    return nullptr;
  }
  return user->accepts(password) ? user : nullptr;
}

std::string Users::set(std::string_view name, std::span<const std::string_view> rules,
                       std::uint64_t bytes_free) {
  if (const std::string_view wrong = wrong_name(name); !wrong.empty()) return std::string(wrong);
  const auto found = users_.find(name);
  const bool is_new = found == users_.end();
  // The rules are applied to a copy: how much memory the result takes decides whether it is taken.
  User changed = is_new ? User(std::string(name)) : *found->second;
  const std::size_t bytes_before = is_new ? 0 : found->second->byte_count();
  if (std::string wrong = changed.apply(rules); !wrong.empty()) return wrong;
  // A copy has no spare room in its lists.
  User exact = changed;
  SEPAL_ASSERT(bytes_before <= byte_count_, "a user takes more memory than all users");
  const std::size_t bytes = byte_count_ - bytes_before + exact.byte_count();
  // A change that frees memory is taken even above the bound.
  if (bytes > users_bytes_max && bytes > byte_count_) return std::string(too_many_users);
  if (bytes > byte_count_ && bytes - byte_count_ > bytes_free) return std::string(no_memory_left);
  byte_count_ = bytes;
  if (is_new) {
    users_.emplace(std::string(name), std::make_unique<User>(std::move(exact)));
  } else {
    *found->second = std::move(exact);
  }
  note_change();
  return {};
}

RemovedUsers Users::remove(std::span<const std::string_view> names) {
  RemovedUsers removed;
  for (const std::string_view name : names) {
    const auto found = users_.find(name);
    if (found == users_.end() || found->second.get() == standard_) continue;
    SEPAL_ASSERT(found->second->byte_count() <= byte_count_,
                 "a user that goes takes more memory than all users");
    byte_count_ -= found->second->byte_count();
    removed.push_back(std::move(found->second));
    users_.erase(found);
  }
  ++revision_;
  return removed;
}

void Users::set_default_password(std::string_view password) {
  SEPAL_ASSERT(standard_->byte_count() <= byte_count_, "the user `default` takes more memory than all users");
  byte_count_ -= standard_->byte_count();
  standard_->set_only_password(password);
  byte_count_ += standard_->byte_count();
  note_change();
}

RemovedUsers Users::adopt(UserTable table, std::string_view default_password) {
  // First, so that the loop finds `default` in the table, and its object stays.
  auto& wanted = table[std::string(default_name)];
  if (wanted == nullptr) wanted = default_user(default_password);
  RemovedUsers removed;
  for (auto& [name, user] : users_) {
    const auto found = table.find(name);
    if (found == table.end()) {
      removed.push_back(std::move(user));
      continue;
    }
    // Clients point to the old object. So the new rules move into it, and it takes the place of the new
    // object in the table.
    *user = std::move(*found->second);
    found->second = std::move(user);
  }
  users_ = std::move(table);
  SEPAL_ASSERT(find(default_name) == standard_,
               "the user `default` stays, and stays where clients point to it");
  count_bytes();
  note_change();
  return removed;
}

std::string Users::text() const {
  std::string text;
  for (const auto& [name, user] : users_)
    text.append("user ").append(name).append(" ").append(user->rules()).append("\n");
  return text;
}

}  // namespace sepal::command
