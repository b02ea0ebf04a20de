#include <sepal/base/descriptor.hpp>
#include <sepal/command/users/users.hpp>
#include <sepal/settings/acl_file.hpp>

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "settings/replace_config.hpp"

namespace sepal::settings {
namespace {

Error acl_file_error(const std::string& path, const std::string& what) {
  // Read first, because the calls that build the text may change errno.
  const int reason = errno;
  return fail(reason == ENOENT ? Errc::not_found : Errc::io,
              path + ": " + what + ": " + std::generic_category().message(reason));
}

// A new file is empty, and only its owner may read it: it will hold hashes of passwords. An old file is not
// cut (no O_TRUNC), so its users stay until replace_config() renames the new file onto it.
Result<void> make_if_missing(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.is_open()) return acl_file_error(path, "the ACL file cannot be opened for writing");
  return {};
}

}  // namespace

Result<std::string> read_acl_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    const Error error = acl_file_error(path, "the ACL file cannot be opened");
    const bool is_missing = error.code == Errc::not_found;
    return fail(error.code, error.detail + (is_missing ? "; create it (it may be empty)" : ""));
  }
  std::string text;
  std::array<char, 65536> piece;
  for (;;) {
    const ssize_t count = ::read(file.number(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return acl_file_error(path, "the ACL file cannot be read");
    if (count == 0) return text;
    // The bound is tested while the file is read, so a huge file or a device does not take all memory.
    text.append(piece.data(), static_cast<std::size_t>(count));
    if (text.size() > command::users_bytes_max)
      return fail(Errc::too_large, path + ": the ACL file is longer than its limit of " +
                                       std::to_string(command::users_bytes_max) + " bytes");
  }
}

Result<void> write_acl_file(const std::string& path, std::string_view text) {
  // replace_config() takes the owner and the permissions from the old file, so there must be one.
  if (auto made = make_if_missing(path); !made) return made;
  return replace_config(path, text);
}

}  // namespace sepal::settings
