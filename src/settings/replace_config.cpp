#include "replace_config.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace sepal::settings {
namespace {

constexpr mode_t permission_bits = 07777;

Error system_error(const std::string& path, const std::string& what) {
  const int reason = errno;
  std::string sentence = path + ": " + what + ": " + std::strerror(reason);
  if (reason == EBUSY)
    sentence += "; a file that is mounted by itself cannot be replaced, mount its directory";
  return fail(reason == ENOENT ? Errc::not_found : Errc::io, std::move(sentence));
}

// Closes when it goes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool open() const { return number_ >= 0; }

 private:
  int number_;
};

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

// The new file, complete and synced, beside the old one.
Result<void> write_aside(const std::string& path, const struct stat& old, std::string_view text) {
  // What a crash has left behind; there may be nothing.
  ::unlink(path.c_str());
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.open()) return system_error(path, "cannot be created");
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
  if (!opened.open() || ::fsync(opened.number()) != 0) return system_error(directory, "cannot be synced");
  return {};
}

}  // namespace

Result<void> replace_config(const std::string& path, std::string_view text) {
  std::error_code unresolved;
  const std::filesystem::path target = std::filesystem::canonical(path, unresolved);
  struct stat old {};
  if (unresolved || ::stat(target.c_str(), &old) != 0) return system_error(path, "cannot be found");
  const std::string aside = target.string() + ".tmp";
  Result<void> written = write_aside(aside, old, text);
  if (written && std::rename(aside.c_str(), target.c_str()) != 0) {
    written = system_error(target.string(), "cannot be replaced");
  }
  if (!written) {
    ::unlink(aside.c_str());
    return written;
  }
  return sync_directory_of(target);
}

}  // namespace sepal::settings
