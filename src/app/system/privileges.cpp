#include "app/system/privileges.hpp"

#include <sepal/base/assert.hpp>

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <grp.h>
#include <linux/capability.h>
#include <optional>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace sepal::app {
namespace {

constexpr uid_t root = 0;

Error system_refuses(const std::string& what) {
  return fail(Errc::io, "cannot " + what + ": " + std::generic_category().message(errno));
}

// After a change of its user Linux writes no core of a process, and hides its files in /proc from it.
void allow_cores() {
  static_cast<void>(prctl(PR_SET_DUMPABLE, 1));
}

// The manual recommends this size where the system names none.
constexpr std::size_t user_record_bytes = 16384;

struct UserRecord {
  uid_t user = 0;
  gid_t group = 0;
};

Result<UserRecord> find_user(const std::string& name) {
  std::vector<char> memory(user_record_bytes);
  passwd record{};
  passwd* found = nullptr;
  const int error_number = getpwnam_r(name.c_str(), &record, memory.data(), memory.size(), &found);
  if (found != nullptr) return UserRecord{.user = found->pw_uid, .group = found->pw_gid};
  if (error_number == 0)
    return fail(Errc::not_found,
                "user: there is no user \"" + name + "\" on this machine; make it, or name another one");
  return fail(Errc::io,
              "user: cannot look for \"" + name + "\": " + std::generic_category().message(error_number));
}

// No capability may be left: with one of them the process could still do what only root may.
Result<void> require_no_capabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capget, &header, sets) != 0) return system_refuses("ask for the capabilities");
  for (const __user_cap_data_struct& set : sets)
    if (set.effective != 0 || set.permitted != 0)
      return fail(Errc::io, "capabilities are left after the change of the user");
  return {};
}

// The highest folder above `path` that the effective user may not enter.
std::optional<std::filesystem::path> folder_in_the_way(const std::filesystem::path& path) {
  std::error_code code;
  std::filesystem::path folder;
  for (const auto& part : std::filesystem::absolute(path, code).parent_path()) {
    folder /= part;
    if (::faccessat(AT_FDCWD, folder.c_str(), X_OK, AT_EACCESS) != 0) return folder;
  }
  return std::nullopt;
}

}  // namespace

Result<void> require_user(const std::string& name) {
  if (name.empty()) return {};
  const auto record = find_user(name);
  return record ? Result<void>() : record.error();
}

Result<void> Privileges::begin(const std::string& user, const Files& files) {
  const uid_t now = geteuid();
  root_unasked_ = now == root && user.empty();
  if (user.empty()) return {};
  const auto record = find_user(user);
  if (!record) return record.error();
  if (record->user == now) return {};
  if (now != root)
    return fail(Errc::read_only, "user: only root can become \"" + user +
                                     "\"; start sepald as root or as that user, or leave user empty");
  changes_ = true;
  name_ = user;
  user_ = record->user;
  group_ = record->group;
  // A terminal or a pipe stays as it is.
  std::error_code unknown;
  if (std::filesystem::symlink_status(files.log, unknown).type() == std::filesystem::file_type::regular)
    if (auto given = give(files.log); !given) return given;
  if (auto made = make_directory(files.data_directory); !made) return made;
  if (auto became = become(); !became) return became;
  // AT_EACCESS: the effective user counts. Without it the system would ask for the real one, which is still
  // root.
  if (::faccessat(AT_FDCWD, files.data_directory.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0) return {};
  const std::string refusal =
      "the user " + user + " may not write to the data directory " + files.data_directory;
  if (const auto bar = folder_in_the_way(files.data_directory))
    return fail(Errc::read_only, refusal + ", because it may not enter " + bar->string() +
                                     "; put the data elsewhere, or let the user enter that folder");
  return fail(Errc::read_only,
              refusal + "; give it to this user: chown -R " + user + " " + files.data_directory);
}

// Every folder that is made belongs to the user.
Result<void> Privileges::make_directory(const std::string& path) const {
  std::vector<std::filesystem::path> missing;
  std::error_code code;
  if (std::filesystem::is_regular_file(path, code)) return fail(Errc::io, path + " is a file, no folder");
  for (auto at = std::filesystem::absolute(path, code).lexically_normal();
       !at.empty() && !std::filesystem::exists(at, code); at = at.parent_path())
    missing.push_back(at);
  for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
    if (!folder->has_filename()) continue;  // the path ends with a slash
    if (::mkdir(folder->c_str(), 0700) != 0)
      return system_refuses("create the directory " + folder->string());
    if (auto given = give(folder->string()); !given) return given;
  }
  return {};
}

Result<void> Privileges::give(const std::string& path) const {
  // lchown() gives a link itself, and not the file behind it.
  if (!changes_ || ::lchown(path.c_str(), user_, group_) == 0) return {};
  return system_refuses("give " + path + " to the user " + name_);
}

Result<void> Privileges::become() const {
  static_cast<void>(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
  // The groups come first: only root may change them, and the process is not root after seteuid().
  if (initgroups(name_.c_str(), group_) != 0) return system_refuses("take the groups of the user " + name_);
  if (setegid(group_) != 0 || seteuid(user_) != 0) return system_refuses("become the user " + name_);
  allow_cores();
  return {};
}

Result<void> Privileges::drop() {
  if (!changes_) return {};
  // Root once more, because only for root setgid() and setuid() change the saved ids as well. The group comes
  // first, for the same reason as in become().
  if (seteuid(root) != 0 || setgid(group_) != 0 || setuid(user_) != 0)
    return system_refuses("become the user " + name_ + " for good");
  // It is tried, not assumed: a process that serves clients must not find its way back.
  if (setuid(root) == 0 || seteuid(root) == 0)
    return fail(Errc::io, "the process could become root again after it has become the user " + name_);
  changes_ = false;
  allow_cores();
  return require_no_capabilities();
}

Privileges::AsRoot::AsRoot(const Privileges& privileges) : privileges_(privileges) {
  if (privileges_.changes_) SEPAL_ASSERT(seteuid(root) == 0, "the saved user is root");
}

Privileges::AsRoot::~AsRoot() {
  if (privileges_.changes_) SEPAL_ASSERT(seteuid(privileges_.user_) == 0, "root may become any user");
}

}  // namespace sepal::app
