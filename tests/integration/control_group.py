"""A control group (cgroup) with limits, as a container has one. It is nested: the limits are those of the group above.

It needs the right to make groups. Without it, the tests are skipped and say so.
"""

import os
import time

TOP = "/sys/fs/cgroup"
INNER = "container"
PERIOD_US = 100_000


def _write(folder, name, value):
    with open(os.path.join(folder, name), "w") as file:
        file.write(str(value))


def _read(folder, name):
    with open(os.path.join(folder, name)) as file:
        return file.read()


class ControlGroup:
    """Version 1 has a tree of groups for each kind of limit, version 2 one tree for all."""

    def __init__(self, memory_bytes, cpus):
        name = "sepal-test-%d-%d" % (os.getpid(), time.monotonic_ns())
        self.is_one_tree = os.path.exists(os.path.join(TOP, "cgroup.controllers"))
        trees = [TOP] if self.is_one_tree else [os.path.join(TOP, kind) for kind in ("memory", "cpu")]
        self.folders = [os.path.join(tree, name) for tree in trees]
        self.memory = self.folders[0]
        try:
            if self.is_one_tree:
                _write(TOP, "cgroup.subtree_control", "+memory +cpu")
            for folder in self.folders:
                os.mkdir(folder)
                if self.is_one_tree:
                    _write(folder, "cgroup.subtree_control", "+memory +cpu")
                os.mkdir(os.path.join(folder, INNER))
            self._limit(memory_bytes, int(cpus * PERIOD_US))
        except OSError:
            self.remove()
            raise

    def _limit(self, memory_bytes, quota_us):
        if self.is_one_tree:
            _write(self.memory, "memory.max", memory_bytes)
            _write(self.memory, "cpu.max", "%d %d" % (quota_us, PERIOD_US))
            return
        # In version 1, processes in the inner group count above it only if the groups are told so.
        for folder in (self.memory, os.path.join(self.memory, INNER)):
            if _read(folder, "memory.use_hierarchy").strip() == "0":
                _write(folder, "memory.use_hierarchy", 1)
        _write(self.memory, "memory.limit_in_bytes", memory_bytes)
        _write(self.folders[1], "cpu.cfs_period_us", PERIOD_US)
        _write(self.folders[1], "cpu.cfs_quota_us", quota_us)

    def join(self):
        """Puts the calling process into the inner group."""
        for folder in self.folders:
            _write(os.path.join(folder, INNER), "cgroup.procs", os.getpid())

    def killed(self):
        """How many of its processes the system has ended because the memory did not suffice."""
        files = ["memory.events"] if self.is_one_tree else ["memory.oom_control", INNER + "/memory.oom_control"]
        words = [line.split() for file in files for line in _read(self.memory, file).splitlines()]
        return sum(int(value) for name, value in words if name == "oom_kill")

    def remove(self):
        """When all of its processes have ended."""
        for folder in self.folders:
            for path in (os.path.join(folder, INNER), folder):
                for _ in range(100):
                    try:
                        if os.path.exists(path):
                            os.rmdir(path)
                        break
                    except OSError:
                        time.sleep(0.1)


def control_group_for(test, memory_bytes, cpus):
    """A group that is removed after the daemons of the test have ended. Skips the test where none can be made."""
    try:
        group = ControlGroup(memory_bytes, cpus)
    except OSError as error:
        test.skip_aloud("control groups cannot be made here: %s" % error)
    test.addCleanup(group.remove)
    return group
