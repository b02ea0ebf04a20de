#include "app/system/allocator.hpp"

#ifdef SEPAL_JEMALLOC

#include <cstddef>
#include <cstdint>
#include <jemalloc/jemalloc.h>
#include <string_view>

// jemalloc reads this at its start. Free memory goes back about a second after it became free, so that what
// comes and goes all day stays; that of a megabyte or more goes at once. Its addresses go back as well
// (retain): where they are limited (ulimit -v), the journal's files need them. jemalloc's own thread for this
// is off: where the system refuses that thread, the process crashes.
extern "C" {
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
const char* malloc_conf = "dirty_decay_ms:1000,muzzy_decay_ms:0,oversize_threshold:1048576,retain:false";
}

namespace sepal::app {
namespace {

// In names, 4096 stands for all arenas (MALLCTL_ARENAS_ALL).
std::uint64_t figure(const char* name) {
  std::size_t value = 0;
  std::size_t length = sizeof value;
  return mallctl(name, &value, &length, nullptr, 0) == 0 ? value : 0;
}

}  // namespace

command::AllocatorUsage allocator_usage() {
  // The figures are those of the last epoch; this begins one.
  std::uint64_t epoch = 1;
  std::size_t length = sizeof epoch;
  static_cast<void>(mallctl("epoch", &epoch, &length, &epoch, length));
  // The version has a commit behind it: 5.3.0-0-g54eaed1d8b56.
  std::string_view version = JEMALLOC_VERSION;
  version = version.substr(0, version.find('-'));
  // Not "stats.resident", which counts the allocator's own tables as well: it has touched a small part of
  // them only, and none of them are ever free.
  const std::uint64_t active = figure("stats.active");
  return {.name = "jemalloc-" + std::string(version),
          .allocated_bytes = figure("stats.allocated"),
          .active_bytes = active,
          .resident_bytes = active + figure("stats.arenas.4096.pdirty") * figure("arenas.page")};
}

void return_old_free_memory() {
  static_cast<void>(mallctl("arena.4096.decay", nullptr, nullptr, nullptr, 0));
}
void return_all_free_memory() {
  static_cast<void>(mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0));
}

}  // namespace sepal::app

#else

namespace sepal::app {

command::AllocatorUsage allocator_usage() {
  return {};
}
void return_old_free_memory() {}
void return_all_free_memory() {}

}  // namespace sepal::app

#endif
