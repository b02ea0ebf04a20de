#include "settings/replace_config.hpp"

#include <sepal/base/descriptor.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace sepal::settings {
namespace {

constexpr mode_t permission_bits = 07777;

Error system_error(const std::string& path, const std::string& what) {
  const int reason = errno;
  std::string sentence = path + ": " + what + ": " + std::generic_category().message(reason);
  if (reason == EBUSY)
    sentence += "; a file that is mounted by itself cannot be replaced, mount its directory";
  return fail(reason == ENOENT ? Errc::not_found : Errc::io, std::move(sentence));
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool take_owner(int file, const struct stat& old) {
  struct stat fresh {};
  if (::fstat(file, &fresh) != 0) return false;
  if (fresh.st_uid == old.st_uid && fresh.st_gid == old.st_gid) return true;
  return ::fchown(file, old.st_uid, old.st_gid) == 0;
}

// Fills and syncs the new file beside the old one. Owner and permissions are set before the text is written,
// because the text may hold a password.
Result<void> write_aside(const Descriptor& file, const std::string& path, const struct stat& old,
                         std::string_view text) {
  // The owner comes before the permissions, because fchown() may clear permission bits.
  if (!take_owner(file.number(), old))
    return system_error(path, "cannot be given to the owner of the old file");
  if (::fchmod(file.number(), old.st_mode & permission_bits) != 0) {
    return system_error(path, "cannot be given the permissions of the old file");
  }
  if (!write_all(file.number(), text)) return system_error(path, "cannot be written");
  if (::fsync(file.number()) != 0) return system_error(path, "cannot be synced");
  return {};
}

Result<void> sync_directory_of(const std::filesystem::path& file) {
  const std::string directory = file.parent_path().string();
  const Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open() || ::fsync(opened.number()) != 0) return system_error(directory, "cannot be synced");
  return {};
}

}  // namespace

Result<void> replace_config(const std::string& path, std::string_view text) {
  std::error_code unresolved;
  // A rename onto a symbolic link would replace the link, so the link is followed first.
  const std::filesystem::path target = std::filesystem::canonical(path, unresolved);
  struct stat old {};
  if (unresolved || ::stat(target.c_str(), &old) != 0) return system_error(path, "cannot be found");
  // A name that no other file has: the folder belongs to the operator.
  std::string aside = target.string() + ".XXXXXX";
  const Descriptor file(::mkostemp(aside.data(), O_CLOEXEC));
  if (!file.is_open()) return system_error(target.string(), "no new file can be created beside it");
  Result<void> written = write_aside(file, aside, old, text);
  if (written && std::rename(aside.c_str(), target.c_str()) != 0) {
    written = system_error(target.string(), "cannot be replaced");
  }
  // No half-written file stays beside the operator's file. It may hold a password.
  if (!written) {
    ::unlink(aside.c_str());
    return written;
  }
  // The rename itself is durable only when the directory is synced.
  return sync_directory_of(target);
}

}  // namespace sepal::settings
