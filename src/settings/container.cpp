#include <sepal/base/whole_number.hpp>
#include <sepal/settings/container.hpp>

#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

namespace sepal::settings {
namespace {

// Version 1 reports "no limit" as a number near 2^63.
constexpr std::uint64_t no_limit_min = std::uint64_t{1} << 62;

struct Words {
  std::string first;
  std::string second;
};
Words words_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  Words words;
  file >> words.first >> words.second;
  return words;
}

// 0: it is no number, such as "max" of version 2 and "-1" of version 1.
std::uint64_t number_of(std::string_view text) {
  const std::uint64_t value = parse_whole<std::uint64_t>(text).value_or(0);
  return value < no_limit_min ? value : 0;
}

double quotient(std::uint64_t quota, std::uint64_t period) {
  return quota == 0 || period == 0 ? 0 : static_cast<double>(quota) / static_cast<double>(period);
}

template <class Number>
void lower(Number& limit, Number value) {
  if (value > 0 && (limit == 0 || value < limit)) limit = value;
}

void read_group(const std::filesystem::path& group, ContainerLimits& limits) {
  // Each version has files of its own. A file that is not there reads as no limit, so both are asked.
  lower(limits.memory_bytes, number_of(words_of(group / "memory.max").first));
  lower(limits.memory_bytes, number_of(words_of(group / "memory.limit_in_bytes").first));
  const Words cpu = words_of(group / "cpu.max");
  lower(limits.cpus, quotient(number_of(cpu.first), number_of(cpu.second)));
  lower(limits.cpus, quotient(number_of(words_of(group / "cpu.cfs_quota_us").first),
                              number_of(words_of(group / "cpu.cfs_period_us").first)));
}

// Reads the group and those above it. A container may see its own group as the top, and not find its path
// below: then the top counts.
void read_groups(const std::filesystem::path& top, const std::filesystem::path& path,
                 ContainerLimits& limits) {
  // In a cgroup namespace, Linux writes "/../.." for a group outside of it. Such a path leaves the top, and
  // the loop then ends at the root of the file system.
  std::filesystem::path group = top / path.relative_path().lexically_normal();
  while (group != top && group.has_relative_path()) {
    read_group(group, limits);
    group = group.parent_path();
  }
  read_group(top, limits);
}

}  // namespace

// A line is "ID:CONTROLLERS:PATH". Version 2 has one line, without controllers. In version 1 a controller's
// folder has its name.
ContainerLimits container_limits(const std::filesystem::path& root) {
  ContainerLimits limits;
  const std::filesystem::path top = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    // A machine may mount both versions, so each line counts.
    if (controllers.empty()) read_groups(top, path, limits);
    if (controllers == "memory") read_groups(top / "memory", path, limits);
    if (controllers == "cpu" || controllers == "cpu,cpuacct") read_groups(top / "cpu", path, limits);
  }
  return limits;
}

std::uint64_t memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  std::uint64_t bytes = pages > 0 && page_bytes > 0
                            ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes)
                            : 0;
  lower(bytes, container_limits().memory_bytes);
  return bytes;
}

}  // namespace sepal::settings
