#include <sepal/log/standard_streams.hpp>

#include <fcntl.h>
#include <initializer_list>
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

}  // namespace sepal::log
