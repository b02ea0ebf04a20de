// What a crash leaves in the log: version, signal, address, thread, stack, and the settings that differ from
// their defaults. The process then ends as the signal would have ended it, with its core dump and its exit
// status.
//
// The handler runs in a process of which nothing is known to be whole: it may have crashed inside malloc, or
// with a lock held. So it only writes texts that were prepared before, and numbers, by write(). The stack
// comes from glibc (backtrace_symbols_fd), which takes no memory once it is warmed up; Boost.Stacktrace calls
// the same unwinder, and resolves names by other programs, or by a library that takes memory. If the handler
// hangs all the same, an alarm ends the process.
#pragma once

#include <string>
#include <string_view>

namespace sepal::app {

// Installs the handlers of SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, and one of std::terminate, which
// notes what was thrown. Called once, before other threads start. `version` is the first line of a report. A
// build with a sanitizer has the sanitizer's reports instead, and installs nothing.
void install_crash_report(const std::string& version);

// Any thread. Where a report goes; standard error until the first call. The descriptor stays open until the
// next call.
void set_crash_descriptor(int descriptor);

// One thread at a time. The settings that a report shows, one a line, without secrets. They are cut at a
// fixed length.
void set_crash_settings(std::string_view lines);

}  // namespace sepal::app
