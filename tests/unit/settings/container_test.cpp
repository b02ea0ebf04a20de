#include <sepal/settings/container.hpp>

#include "support/catch.hpp"
#include "unit/settings/temporary_root.hpp"

namespace container_test {

using namespace sepal::settings;

namespace {

ContainerLimits limits_of(const Root& root) {
  return container_limits(root.path());
}

}  // namespace

TEST_CASE("without control groups nothing is limited", "[settings]") {
  const Root root;
  CHECK(limits_of(root).memory_bytes == 0);
  CHECK(limits_of(root).cpus == 0);
}

TEST_CASE("the lowest limit of nested groups counts, in version 2", "[settings]") {
  const Root root;
  root.write("proc/self/cgroup", "0::/a.slice/b.service/c");
  root.write("sys/fs/cgroup/a.slice/memory.max", "1000");
  root.write("sys/fs/cgroup/a.slice/b.service/memory.max", "300");
  root.write("sys/fs/cgroup/a.slice/b.service/c/memory.max", "max");
  root.write("sys/fs/cgroup/a.slice/cpu.max", "50000 100000");
  root.write("sys/fs/cgroup/a.slice/b.service/cpu.max", "max 100000");
  root.write("sys/fs/cgroup/other/memory.max", "1");
  CHECK(limits_of(root).memory_bytes == 300);
  CHECK(limits_of(root).cpus == 0.5);
}

TEST_CASE("in a container the top may be its own group", "[settings]") {
  const Root root;
  for (const char* path : {"0::/", "0::/docker/0123", "0::/../../x"}) {
    root.write("proc/self/cgroup", path);
    root.write("sys/fs/cgroup/memory.max", "268435456");
    root.write("sys/fs/cgroup/cpu.max", "250000 100000");
    CHECK(limits_of(root).memory_bytes == 268435456);
    CHECK(limits_of(root).cpus == 2.5);
  }
}

TEST_CASE("version 1 has a folder for each controller, and a large number for no limit", "[settings]") {
  const Root root;
  root.write("proc/self/cgroup",
             "5:memory:/docker/0123\n4:cpu,cpuacct:/docker/0123\n1:name=systemd:/x\n0::/y");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  root.write("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "700");
  root.write("sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "9223372036854771712");
  root.write("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_quota_us", "150000");
  root.write("sys/fs/cgroup/cpu/docker/0123/cpu.cfs_period_us", "100000");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  CHECK(limits_of(root).memory_bytes == 700);
  CHECK(limits_of(root).cpus == 1.5);
}

TEST_CASE("files that make no sense limit nothing", "[settings]") {
  const Root root;
  root.write("proc/self/cgroup", "nonsense\n:\n0::/a");
  root.write("sys/fs/cgroup/a/memory.max", "lots");
  root.write("sys/fs/cgroup/a/cpu.max", "1000 0");
  CHECK(limits_of(root).memory_bytes == 0);
  CHECK(limits_of(root).cpus == 0);
}

}  // namespace container_test
