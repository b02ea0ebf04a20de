#include <sepal/log/standard_streams.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <initializer_list>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace sepal::log {

void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    // open() gives the lowest free number: those below are open, so it is this one. Standard input is opened
    // for writing, and standard output for reading: a tool that reads must not find an empty list, and one
    // that prints its result must not end as if that had gone anywhere.
    if (::open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_WRONLY) != -1) continue;
    // The root folder may have no /dev. What takes the number then can be neither read nor written.
    static_cast<void>(::open("/", O_PATH));
  }
}

bool standard_error_is_journal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");  // NOLINT(concurrency-mt-unsafe)
  struct stat status {};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &status) != 0) return false;
  // A child has the variable as well, but may have another standard error.
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) == stream;
}

// std::cout has no buffer of its own: it prints by way of stdout.
Result<void> written_out() {
  const std::string failed = "standard output cannot be written";
  if (std::fflush(stdout) != 0) {
    const int reason = errno;
    return fail(Errc::io,
                failed + ": " + (reason == EBADF ? "it is closed" : std::generic_category().message(reason)));
  }
  // An earlier write has failed, whose reason is not known any more.
  if (std::ferror(stdout) != 0) return fail(Errc::io, failed);
  return {};
}

}  // namespace sepal::log
