#include "server/idle_cores.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <fcntl.h>
#include <sched.h>
#include <string>
#include <unistd.h>
#include <utility>

namespace sepal::server {
namespace {

constexpr std::string_view core_prefix = "cpu";
// The fields behind the name of a core: user, nice, system, idle, iowait. A core that waits for a disk is
// idle.
constexpr std::size_t idle_field = 3;
constexpr std::size_t iowait_field = 4;

// Takes the number at the front, and the space before it.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// What one line tells; nothing: it is about no core among these.
std::optional<std::uint64_t> idle_ticks_of_line(std::string_view line, const std::vector<bool>& cores) {
  // The first line is the sum of all cores, and has a space here.
  if (!line.starts_with(core_prefix) || line.substr(core_prefix.size()).starts_with(' ')) return std::nullopt;
  line.remove_prefix(core_prefix.size());
  const auto core = take_number(line);
  if (!core || *core >= cores.size() || !cores[*core]) return std::nullopt;
  std::uint64_t ticks = 0;
  for (std::size_t field = 0; field <= iowait_field; ++field) {
    const auto number = take_number(line);
    if (!number) return std::nullopt;
    if (field >= idle_field) ticks += *number;
  }
  return ticks;
}

std::vector<bool> own_cores() {
  std::vector<bool> cores(CPU_SETSIZE, true);
  cpu_set_t allowed;
  // Fails on machines with more cores than the set has.
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
  for (std::size_t core = 0; core < cores.size(); ++core) cores[core] = CPU_ISSET(core, &allowed);
  return cores;
}

// Empty if it cannot be read.
std::string whole_text(int file) {
  std::string text;
  constexpr std::size_t piece_bytes = 16 * 1024;
  ssize_t count = 0;
  do {
    const std::size_t before = text.size();
    text.resize(before + piece_bytes);
    count = ::pread(file, text.data() + before, piece_bytes, static_cast<off_t>(before));
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  } while (count > 0);
  return text;
}

}  // namespace

std::optional<std::uint64_t> idle_ticks(std::string_view proc_stat, const std::vector<bool>& cores) {
  std::optional<std::uint64_t> sum;
  while (proc_stat.starts_with(core_prefix)) {
    const std::size_t end = std::min(proc_stat.find('\n'), proc_stat.size());
    if (const auto ticks = idle_ticks_of_line(proc_stat.substr(0, end), cores))
      sum = sum.value_or(0) + *ticks;
    proc_stat.remove_prefix(std::min(end + 1, proc_stat.size()));
  }
  return sum;
}

IdleCores::IdleCores()
    : file_(::open("/proc/stat", O_RDONLY | O_CLOEXEC)),
      cores_(own_cores()),
      ticks_per_second_(static_cast<double>(std::max(1L, ::sysconf(_SC_CLK_TCK)))) {}

double IdleCores::since_last_look(SteadyTime now) {
  const auto ticks = idle_ticks(whole_text(file_.number()), cores_);
  if (!ticks) return static_cast<double>(cores_.size());
  const auto before = std::exchange(last_, Reading{.at = now, .ticks = *ticks});
  if (!before || now <= before->at) return 0;
  const double seconds = std::chrono::duration<double>(now - before->at).count();
  // The system's count of the time that a core waited for a disk may go back.
  const std::uint64_t passed = *ticks - std::min(*ticks, before->ticks);
  return static_cast<double>(passed) / ticks_per_second_ / seconds;
}

}  // namespace sepal::server
