#include "app/system/descriptors.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <system_error>

namespace sepal::app {
namespace {

// How many files and folders each part has open at a time, most of them for a moment only. A segment of the
// journal is closed once it is mapped.
constexpr std::uint64_t of_journal = 2;  // SYNCED; and a new segment, or the directory while it is synced
constexpr std::uint64_t of_saver =
    3;  // the file that is written; the folders that are open while an old generation is removed
constexpr std::uint64_t of_adopter = 2;     // the file that is read, and the file that is written
constexpr std::uint64_t of_background = 2;  // the old configuration file, and the new one
constexpr std::uint64_t of_logging = 1;     // the new log file, before the old one is closed
constexpr std::uint64_t of_worker = 1;      // the system's file about the process, for INFO

// Assumed if the system does not say what is open: the standard streams, the log, the lock, and some
// inherited descriptors.
constexpr std::uint64_t open_at_start = 8;
// Assumed if the system does not tell its limit. The reference assumes the same.
constexpr std::uint64_t limit_assumed = 1024;

std::uint64_t open_now() {
  std::error_code unknown;
  const std::filesystem::directory_iterator all("/proc/self/fd", unknown);
  if (unknown) return open_at_start;
  // One of them belongs to the iterator itself.
  return static_cast<std::uint64_t>(std::distance(begin(all), end(all))) - 1;
}

// Shells and service managers start programs with a low limit, about a thousand, and let them raise it.
std::uint64_t raise_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return limit_assumed;
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

}  // namespace

Result<Descriptors> Descriptors::plan(const server::ServerOptions& options, std::uint64_t other_count) {
  const std::uint64_t operators = options.unix_socket.empty() ? 0 : server::operator_places;
  const std::uint64_t own = operators + server::newcomer_places + open_now() +
                            server::own_descriptors(options) + of_journal + of_saver + of_adopter +
                            of_background + of_logging + options.worker_count * of_worker + other_count;
  const std::uint64_t limit = raise_limit();
  if (limit > own) return Descriptors(limit, own);
  return fail(Errc::io, "the limit of open files is " + std::to_string(limit) +
                            ", and the server needs at least " + std::to_string(own + 1) +
                            "; raise it with ulimit -n");
}

void Descriptors::look_again() {
  // An operator may have lowered the limit below what the process has open (prlimit). Then no client fits.
  limit_ = std::max(raise_limit(), reserved_);
}

}  // namespace sepal::app
