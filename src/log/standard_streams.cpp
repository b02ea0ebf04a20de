#include <sepal/log/standard_streams.hpp>

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <initializer_list>
#include <string>
#include <system_error>
#include <unistd.h>

namespace sepal::log {

void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    // open() gives the lowest free number: those below are open, so it is this one. Standard input is opened
    // for writing as well: a tool that reads it must fail, and not find an empty list.
    if (::open("/dev/null", O_WRONLY) != -1) continue;
    // The root folder may have no /dev. What takes the number then can be neither read nor written.
    static_cast<void>(::open("/", O_PATH));
  }
}

// std::cout has no buffer of its own: it prints by way of stdout.
Result<void> written_out() {
  const std::string failed = "standard output cannot be written";
  if (std::fflush(stdout) != 0) {
    const int reason = errno;
    return fail(Errc::io, failed + ": " + std::generic_category().message(reason));
  }
  // An earlier write has failed, whose reason is not known any more.
  if (std::ferror(stdout) != 0) return fail(Errc::io, failed);
  return {};
}

}  // namespace sepal::log
