#include "app/system/machine.hpp"

#include <sepal/base/free_memory.hpp>

#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

#include "app/system/allocator.hpp"

namespace sepal::app {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// The value of "VmRSS:   123 kB" in /proc/self/status, in bytes.
std::uint64_t status_bytes(std::string_view status, std::string_view name) {
  const std::size_t at = status.find(name);
  if (at == std::string_view::npos) return 0;
  const std::size_t digits = status.find_first_of("0123456789", at);
  if (digits == std::string_view::npos) return 0;
  std::uint64_t kilobytes = 0;
  std::from_chars(status.data() + digits, status.data() + status.size(), kilobytes);
  return kilobytes * 1024;
}

// The times of the main thread, whose id is that of the process. Behind the name in brackets, the 12th and
// 13th word of "/proc/self/task/ID/stat" are the clock ticks that it spent for itself, and in the system.
void add_main_thread(command::ProcessUsage& usage) {
  std::ifstream file("/proc/self/task/" + std::to_string(getpid()) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const long ticks = sysconf(_SC_CLK_TCK);
  const std::size_t name_end = text.rfind(')');
  // The name may hold blanks and brackets, so its end is the last bracket.
  if (name_end == std::string::npos || ticks <= 0) return;
  std::istringstream words(text.substr(name_end + 1));
  std::string skipped;
  for (int word = 0; word < 11; ++word) words >> skipped;
  double user = 0;
  double system = 0;
  if (!(words >> user >> system)) return;
  usage.main_thread_user_seconds = user / static_cast<double>(ticks);
  usage.main_thread_system_seconds = system / static_cast<double>(ticks);
}

}  // namespace

std::uint64_t mappings_max() {
  std::ifstream file("/proc/sys/vm/max_map_count");
  std::uint64_t count = 0;
  constexpr std::uint64_t usual_count = 65530;
  return file >> count ? count : usual_count;
}

command::ProcessUsage process_usage() {
  command::ProcessUsage usage;
  rusage resources{};
  if (getrusage(RUSAGE_SELF, &resources) == 0) {
    usage.cpu_user_seconds = seconds_of(resources.ru_utime);
    usage.cpu_system_seconds = seconds_of(resources.ru_stime);
  }
  add_main_thread(usage);
  std::ifstream file("/proc/self/status");
  const std::string status{std::istreambuf_iterator<char>(file), {}};
  usage.resident_bytes = status_bytes(status, "VmRSS:");
  usage.resident_peak_bytes = status_bytes(status, "VmHWM:");
  usage.allocator = allocator_usage();
  return usage;
}

}  // namespace sepal::app
