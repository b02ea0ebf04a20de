#include <sepal/settings/container.hpp>

#include "support/catch.hpp"
#include "unit/settings/temporary_root.hpp"

namespace container_test {

using namespace sepal::settings;

TEST_CASE("the lowest limit of the control groups that a process is in counts") {
  const std::string version_1 = "5:memory:/docker/0123\n4:cpu,cpuacct:/docker/0123\n1:name=systemd:/x\n0::/y";
  struct Case {
    const char* what;
    std::string groups;                                      // /proc/self/cgroup
    std::vector<std::pair<std::string, const char*>> files;  // below /sys/fs/cgroup
    std::uint64_t memory_bytes;
    double cpus;
  };
  const std::vector<std::pair<std::string, const char*>> at_the_top{{"memory.max", "268435456"},
                                                                    {"cpu.max", "250000 100000"}};
  const Case cases[] = {
      {"no group", "", {}, 0, 0},
      {"nested groups, in version 2",
       "0::/a.slice/b.service/c",
       {{"a.slice/memory.max", "1000"},
        {"a.slice/b.service/memory.max", "300"},
        {"a.slice/b.service/c/memory.max", "max"},
        {"a.slice/cpu.max", "50000 100000"},
        {"a.slice/b.service/cpu.max", "max 100000"},
        {"other/memory.max", "1"}},
       300,
       0.5},
      {"in a container the top may be its own group", "0::/", at_the_top, 268435456, 2.5},
      {"its path is that of the machine", "0::/docker/0123", at_the_top, 268435456, 2.5},
      {"its path leads out of the container", "0::/../../x", at_the_top, 268435456, 2.5},
      {"version 1 has a folder for each controller, and a large number for no limit",
       version_1,
       {{"memory/memory.limit_in_bytes", "9223372036854771712"},
        {"memory/docker/memory.limit_in_bytes", "700"},
        {"memory/docker/0123/memory.limit_in_bytes", "9223372036854771712"},
        {"cpu/docker/0123/cpu.cfs_quota_us", "150000"},
        {"cpu/docker/0123/cpu.cfs_period_us", "100000"},
        {"cpu/cpu.cfs_quota_us", "-1"},
        {"cpu/cpu.cfs_period_us", "100000"}},
       700,
       1.5},
      {"files that make no sense",
       "nonsense\n:\n0::/a",
       {{"a/memory.max", "lots"}, {"a/cpu.max", "1000 0"}},
       0,
       0},
  };
  for (const Case& each : cases) {
    INFO(each.what);
    const Root root;
    if (!each.groups.empty()) root.write("proc/self/cgroup", each.groups);
    for (const auto& [name, text] : each.files) root.write("sys/fs/cgroup/" + name, text);
    const ContainerLimits limits = container_limits(root.path());
    CHECK(limits.memory_bytes == each.memory_bytes);
    CHECK(limits.cpus == each.cpus);
  }
}

}  // namespace container_test
