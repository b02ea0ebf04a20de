"""Filters of sepal.so in a cluster of three masters and three replicas, and under Sentinel: slots move and masters are killed
while clients add. No add that a replica has acknowledged (WAIT) may be denied later."""

import os
import pathlib
import subprocess
import threading
import time

import redis
import redis.sentinel
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisError

from redis_case import Redis, RedisTest, field
from daemon import free_port

# Half of them have cuckoo filters.
KEYS = [("users:{%d}" if number % 2 else "deleting:{%d}") % number for number in range(8)]
MASTERS = 3
NODE_TIMEOUT_MS = 2000
BATCH = 20
PAUSE_SECONDS = 0.005
ADD_SECONDS = 2
SECONDS_MAX = 300
# As rare as that, no lost item hides behind a false positive.
RATE, CAPACITY = "0.000001", 200


def words(key, *items, asks=False):
    """A request that adds items to the filter of a key, or asks for them."""
    if key.startswith("deleting"):
        return ("CF.MEXISTS", key, *items) if asks else ("CF.INSERT", key, "ITEMS", *items)
    return ("BF.MEXISTS" if asks else "BF.MADD", key, *items)


def reserved(key):
    return ("CF.RESERVE", key, CAPACITY, "ERROR", RATE) if key.startswith("deleting") else ("BF.RESERVE", key, RATE, CAPACITY)


class Adder(threading.Thread):
    """Adds to one key until the end, and remembers what a replica has acknowledged. `connect()` gives a connection to the
    master of the key; what follows on it is one client's, so WAIT waits for its add."""

    def __init__(self, key, connect):
        super().__init__(daemon=True)
        self.key, self.connect = key, connect
        self.acknowledged = []
        self.errors = set()
        self.ends = threading.Event()

    def run(self):
        number = 0
        connection = None
        while not self.ends.is_set():
            items = ["%s/%d" % (self.key, i) for i in range(number, number + BATCH)]
            try:
                connection = connection or self.connect()
                connection.execute_command(*words(self.key, *items))
                if connection.execute_command("WAIT", 1, 500) >= 1:
                    self.acknowledged += items
                # An add that was not acknowledged may be there or not. Its items are not used again.
                number += BATCH
                time.sleep(PAUSE_SECONDS)
            except (RedisError, OSError) as error:
                self.errors.add(type(error).__name__)
                if connection is not None:
                    connection.close()
                connection = None
                number += BATCH
                time.sleep(0.05)
        if connection is not None:
            connection.close()

    def finish(self):
        self.ends.set()
        self.join(SECONDS_MAX)


def denied(client, key, items):
    known = []
    for at in range(0, len(items), 1000):
        known += client.execute_command(*words(key, *items[at:at + 1000], asks=True))
    return [item for item, there in zip(items, known) if not there]


def says(node, name):
    """A field of INFO replication. A server closes all connections when its role changes, perhaps in the middle of this question."""
    while True:
        try:
            with node.client() as client:
                return field(client.call("INFO", "replication"), name)
        except ConnectionError:
            if node.process.poll() is not None:
                raise


class ClusterTest(RedisTest):
    def setUp(self):
        super().setUp()
        ports = [free_port() for _ in range(2 * MASTERS)]  # on which the nodes talk to each other
        self.nodes = [self.start("--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT_MS, "--cluster-port", port,
                                 "--appendonly", "yes", "--appendfsync", "no", directory=self.make_directory()) for port in ports]
        self.cli("create", *("127.0.0.1:%d@%d" % (node.port, port) for node, port in zip(self.nodes, ports)), "--cluster-replicas", 1)
        self.eventually("the cluster is not ready", lambda: all(self.is_ready(node) for node in self.nodes))
        self.eventually("the replicas are not in sync", lambda: len(self.replicas()) == MASTERS and all(
            says(node, "master_link_status") == "up" for node, _ in self.replicas()))
        self.cluster = self.connect()

    def cli(self, *words, seconds_max=SECONDS_MAX):
        done = subprocess.run(["redis-cli", "--cluster", *map(str, words), "--cluster-yes"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds_max)
        self.assertEqual(done.returncode, 0, done.stdout)

    def reshard(self, source, target, slot_count):
        """Moves slots. Each node hears of it in its time, and redis-cli moves nothing more before all of them agree."""
        node = "127.0.0.1:%d" % source.port
        self.eventually("the nodes do not agree", lambda: subprocess.run(
            ["redis-cli", "--cluster", "check", node], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=SECONDS_MAX, check=False).returncode == 0)
        self.cli("reshard", node, "--cluster-from", self.id_of(source), "--cluster-to", self.id_of(target), "--cluster-slots", slot_count,
                 # redis-cli moves one slot after the other, each with some commands to every node.
                 seconds_max=SECONDS_MAX + slot_count // 10)
        self.more_adds()

    def connect(self):
        alive = [node for node in self.nodes if node.process.poll() is None]
        cluster = RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", node.port) for node in alive], socket_timeout=5)
        self.addCleanup(cluster.close)
        return cluster

    @staticmethod
    def is_ready(node):
        with node.client() as client:
            return b"cluster_state:ok" in client.call("CLUSTER", "INFO")

    def replicas(self):
        """(replica, the port of its master) of the nodes that live."""
        alive = [node for node in self.nodes if node.process.poll() is None]
        return [(node, int(says(node, "master_port"))) for node in alive if says(node, "role") == "slave"]

    def connection_to(self, cluster, key):
        try:
            node = cluster.get_node_from_key(key)
            return cluster.get_redis_connection(node).client()
        finally:
            # After an error the slots may have moved.
            cluster.nodes_manager.initialize()

    def begin_load(self):
        for key in KEYS:
            self.cluster.execute_command(*reserved(key))
        self.adders = []
        for key in KEYS:
            cluster = self.connect()
            self.adders.append(Adder(key, lambda cluster=cluster, key=key: self.connection_to(cluster, key)))
        for adder in self.adders:
            adder.start()
        self.more_adds()

    def more_adds(self):
        """Waits until each adder has added something more."""
        counts = [len(adder.acknowledged) for adder in self.adders]
        self.eventually("nothing is added any more: %s" % [adder.errors for adder in self.adders], lambda: all(
            len(adder.acknowledged) > count for adder, count in zip(self.adders, counts)))

    def end_load(self):
        for adder in self.adders:
            adder.finish()
        cluster = self.connect()
        total = 0
        for adder in self.adders:
            self.assertEqual(denied(cluster, adder.key, adder.acknowledged), [], adder.key)
            total += len(adder.acknowledged)
        print("%d acknowledged adds, none denied" % total, flush=True)

    def id_of(self, node):
        with node.client() as client:
            return client.call("CLUSTER", "MYID").decode()

    def assert_replicas_are_equal(self):
        for replica, port in self.replicas():
            master = next(node for node in self.nodes if node.port == port)
            with master.client() as one, replica.client() as other:
                other.call("READONLY")
                keys = sorted(one.call("KEYS", "*"))
                self.eventually("the replica is behind", lambda: says(master, "master_repl_offset") == says(
                    replica, "master_repl_offset"))
                self.assertEqual(sorted(other.call("KEYS", "*")), keys)
                if keys:
                    self.assertEqual(other.call("DEBUG", "DIGEST-VALUE", *keys), one.call("DEBUG", "DIGEST-VALUE", *keys))

    def test_slots_move_while_clients_add(self):
        self.begin_load()
        masters = [node for node in self.nodes if says(node, "role") == "master"]
        for source, target in ((0, 1), (1, 2), (2, 0)):
            self.reshard(masters[source], masters[target], 1500)
        # The slot of one filter for certain.
        self.cluster.nodes_manager.initialize()
        port = self.cluster.get_node_from_key(KEYS[0]).port
        owner = next(node for node in masters if node.port == port)
        self.reshard(owner, next(node for node in masters if node is not owner), 6000)
        self.end_load()
        self.assert_replicas_are_equal()

    def test_a_master_is_killed_while_clients_add(self):
        self.begin_load()
        time.sleep(ADD_SECONDS)
        port = self.cluster.get_node_from_key(KEYS[0]).port
        master = next(node for node in self.nodes if node.port == port)
        replica = next(node for node, of in self.replicas() if of == port)
        master.kill()
        self.eventually("no replica takes over", lambda: says(replica, "role") == "master")
        time.sleep(ADD_SECONDS)
        # The killed node comes back, with its AOF, as a replica of the one that took over.
        again = Redis.again(master)
        self.addCleanup(again.kill)
        self.nodes[self.nodes.index(master)] = again
        self.eventually("the killed node is no replica", lambda: says(again, "role") == "slave"
                        and says(again, "master_link_status") == "up")
        self.more_adds()
        self.end_load()
        self.assert_replicas_are_equal()


class SentinelTest(RedisTest):
    def test_a_failover_while_clients_add(self):
        master = self.start(directory=self.make_directory())
        replica = self.start("--replicaof", "127.0.0.1 %d" % master.port, directory=self.make_directory())
        self.eventually("the replica is not in sync", lambda: says(replica, "master_link_status") == "up")
        sentinel_port = self.start_sentinel(master.port)
        sentinel = redis.sentinel.Sentinel([("127.0.0.1", sentinel_port)], socket_timeout=5)
        self.eventually("Sentinel knows no replica", lambda: self.replicas_of(sentinel))

        sentinel.master_for("mine").execute_command("BF.RESERVE", "users", RATE, CAPACITY)
        adder = Adder("users", lambda: sentinel.master_for("mine", socket_timeout=5).client())
        adder.start()
        self.eventually("nothing is added", lambda: len(adder.acknowledged) > 1000)
        master.kill()
        self.eventually("there is no failover", lambda: says(replica, "role") == "master")
        # Alone it has no replica that could acknowledge.
        again = self.start("--replicaof", "127.0.0.1 %d" % replica.port, directory=self.make_directory())
        count = len(adder.acknowledged)
        self.eventually("nothing is added after the failover", lambda: len(adder.acknowledged) > count + 1000)
        adder.finish()
        with redis.Redis(port=replica.port) as survivor, redis.Redis(port=again.port) as other:
            self.assertEqual(denied(survivor, "users", adder.acknowledged), [])
            survivor.execute_command("WAIT", 1, 5000)
            self.eventually("the new replica is not equal", lambda: survivor.execute_command("DEBUG", "DIGEST-VALUE", "users")
                            == other.execute_command("DEBUG", "DIGEST-VALUE", "users"))
        print("%d acknowledged adds, none denied" % len(adder.acknowledged), flush=True)

    @staticmethod
    def replicas_of(sentinel):
        try:
            return sentinel.discover_slaves("mine")
        except RedisError:
            return []

    def start_sentinel(self, master_port):
        port = free_port()
        folder = self.make_directory()
        path = pathlib.Path(folder, "sentinel.conf")
        path.write_text("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor mine 127.0.0.1 %d 1\n"
                        "sentinel down-after-milliseconds mine 1000\nsentinel failover-timeout mine 5000\n" % (port, folder, master_port),
                        encoding="utf-8")
        process = subprocess.Popen(["redis-server", str(path), "--sentinel"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=dict(os.environ))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return port
