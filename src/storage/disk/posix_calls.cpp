#include "storage/disk/posix_calls.hpp"

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <system_error>

namespace sepal::storage {
namespace {

// The most that a file may have: other users may not read it, because keys can be confidential. sepald's
// umask takes the group's rights, too.
constexpr mode_t file_mode = 0640;

Errc code_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: return Errc::disk_full;
    case EROFS:
    case EACCES:
    case EPERM: return Errc::read_only;
    case ENOENT: return Errc::not_found;
    default: return Errc::io;
  }
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "folder";
  if (S_ISFIFO(mode)) return "pipe";
  if (S_ISSOCK(mode)) return "socket";
  return "device";
}

Error not_regular(std::string_view operation, const Path& path, std::string_view kind) {
  return fail(Errc::io, "cannot " + std::string(operation) + " " + path.string() +
                            ": it is not a regular file but a " + std::string(kind));
}

}  // namespace

Error failed(std::string_view operation, const Path& path, int error_number) {
  return fail(code_of(error_number), "cannot " + std::string(operation) + " " + path.string() + ": " +
                                         std::generic_category().message(error_number));
}

const Path& named(const Path& directory) {
  static const Path here = ".";
  return directory.empty() ? here : directory;
}

// A signal may interrupt a system call, which then fails with EINTR and has done nothing.
// The loop calls it again.
Descriptor open_descriptor(const Path& path, int flags) {
  for (;;) {
    const int number = ::open(path.c_str(), flags | O_CLOEXEC, file_mode);
    if (number >= 0 || errno != EINTR) return Descriptor(number);
  }
}

// Opens a regular file. O_NONBLOCK keeps open() from waiting for the other end of a pipe or a device; it does
// nothing to a regular file. Once it is open, the descriptor is asked for the kind, because the name may get
// another file meanwhile.
Result<Descriptor> open_regular(std::string_view operation, const Path& path, int flags) {
  Descriptor descriptor = open_descriptor(path, flags | O_NONBLOCK);
  const int error_number = descriptor.is_open() ? 0 : errno;
  struct stat status {};
  // For a pipe without a reader, a folder and a socket, open() itself fails without a clear reason. lstat()
  // gives it.
  const bool known = descriptor.is_open() ? ::fstat(descriptor.number(), &status) == 0
                                          : ::lstat(path.c_str(), &status) == 0 && !S_ISLNK(status.st_mode);
  if (known && !S_ISREG(status.st_mode)) return not_regular(operation, path, kind_of(status.st_mode));
  // The name is there. So this is not the error of a file that is not.
  if (error_number == ENOENT && S_ISLNK(status.st_mode))
    return fail(Errc::io, "cannot " + std::string(operation) + " " + path.string() +
                              ": it is a link to a file that is not there");
  if (!descriptor.is_open()) return failed(operation, path, error_number);
  if (!known) return failed("look at", path, errno);
  return descriptor;
}

}  // namespace sepal::storage
