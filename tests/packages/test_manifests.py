"""docker/kubernetes.yaml, the policy beside it and the compose files: each field exists and has the right type, and sepald accepts the flags.

For Kubernetes the types are those of its Python client, which are generated from the API's own description. A field that the
API does not know would be ignored or refused by a cluster; here it fails. For compose, docker-compose reads the file.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from systems import ROOT, skip

try:
    import kubernetes.client as kubernetes
    import yaml
except ImportError as problem:
    skip("%s; scripts/install-dependencies --packages installs it" % problem)
if not shutil.which("docker-compose"):
    skip("there is no docker-compose; scripts/install-dependencies --packages installs it")

KUBERNETES = ROOT / "docker" / "kubernetes.yaml"
POLICY = ROOT / "docker" / "network-policy.yaml"
COMPOSE = ROOT / "docker" / "docker-compose.yml"
KINDS = {("v1", "Secret"): "V1Secret", ("v1", "Service"): "V1Service", ("apps/v1", "StatefulSet"): "V1StatefulSet",
         ("apps/v1", "Deployment"): "V1Deployment", ("networking.k8s.io/v1", "NetworkPolicy"): "V1NetworkPolicy"}
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float)}
ENTRYPOINT = ["--bind", "0.0.0.0", "--dir", "/data"]
UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "kb": 2**10, "mb": 2**20, "gb": 2**30, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
# Of the limit: sepald sets aside an eighth each for clients, for scripts and for itself (src/settings/shares.cpp).
FILTER_SHARE = 5 / 8
# Seconds that an orderly stop may take: the default of stop_seconds_max.
STOP_SECONDS_MAX = 60


def checked(value, kind, place):
    """Fails unless `value` has the fields and types of `kind`."""
    if kind.startswith("list["):
        assert isinstance(value, list), "%s is no list" % place
        return [checked(one, kind[5:-1], "%s[%d]" % (place, at)) for at, one in enumerate(value)]
    if kind.startswith("dict("):
        assert isinstance(value, dict), "%s is no map" % place
        return {name: checked(one, kind[5:-1].split(", ")[1], "%s.%s" % (place, name)) for name, one in value.items()}
    if kind in PLAIN:
        right = isinstance(value, PLAIN[kind]) and (kind == "bool" or not isinstance(value, bool))
        assert right, "%s is %r: %s is expected" % (place, value, kind)
        return value
    if kind == "object":  # a number or a name, for example
        return value
    model = getattr(kubernetes, kind)
    names = {field: attribute for attribute, field in model.attribute_map.items()}
    assert isinstance(value, dict), "%s is no %s" % (place, kind)
    unknown = set(value) - set(names)
    assert not unknown, "%s: %s has no field %s" % (place, kind, ", ".join(sorted(unknown)))
    fields = {names[field]: checked(one, model.openapi_types[names[field]], "%s.%s" % (place, field)) for field, one in value.items()}
    try:
        return model(**fields)  # which refuses a missing field that must be there
    except ValueError as problem:
        raise AssertionError("%s: %s" % (place, problem)) from problem


def documents(path=KUBERNETES):
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def size(text):
    number, unit = re.fullmatch(r"(\d+)(\w*)", text).groups()
    return int(number) * UNITS[unit]


class ArgumentsTest(unittest.TestCase):
    """What the files say to sepald."""

    def check(self, arguments, place):
        """The settings that differ from the defaults. `arguments` follow those of the image."""
        with tempfile.TemporaryDirectory(prefix="sepal-test-") as folder:
            secret = pathlib.Path(folder, "password")
            secret.write_text("sesame\n")
            words = [re.sub(r"/run/secrets/(sepal/)?password", str(secret), word) for word in ENTRYPOINT + arguments]
            done = subprocess.run([os.environ["SEPALD"], *words, "--check-config"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, place + ": " + done.stderr)
        return dict(re.findall(r"^(\w+) = (.*?) \(default", done.stdout, re.M))

    def test_kubernetes(self):
        pods = [document["spec"]["template"]["spec"] for document in documents() if "template" in document.get("spec", {})]
        self.assertEqual(len(pods), 2)
        for pod in pods:
            self.assertGreater(pod["terminationGracePeriodSeconds"], STOP_SECONDS_MAX)
            self.assertEqual((pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsNonRoot"]), (6379, True))
            volumes = {volume["name"] for volume in pod["volumes"]} | {"data"}
            for container in pod["containers"]:
                self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
                self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
                self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
                self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)
            server = next(container for container in pod["containers"] if container["name"] == "sepal")
            settings = self.check(server["args"], "kubernetes.yaml")
            self.assertGreaterEqual(size(server["resources"]["limits"]["memory"]) * FILTER_SHARE, size(settings["maxmemory"].strip('"')))
            self.assertIn("/data", [mount["mountPath"] for mount in server["volumeMounts"]])
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if "exec" in server.get(probe, {}):
                    command = server[probe]["exec"]["command"]
                    self.assertEqual(command[:4], ["sepald", "--healthcheck", "--dir", "/data"])
                    self.check(command[2:], "kubernetes.yaml: " + probe)
                    # sepald gives an answer up after 5 seconds, and says so: the kubelet must wait for that.
                    self.assertGreater(server[probe]["timeoutSeconds"], 5)
                elif probe in server:
                    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
                    self.assertEqual(ports[server[probe]["httpGet"]["port"]], int(settings["http_port"]))

    def test_the_policy_is_about_the_pod_and_its_ports(self):
        pod = next(document["spec"]["template"] for document in documents() if document["kind"] == "StatefulSet")
        spec = documents(POLICY)[0]["spec"]
        self.assertLessEqual(spec["podSelector"]["matchLabels"].items(), pod["metadata"]["labels"].items())
        named = {port["name"] for container in pod["spec"]["containers"] for port in container["ports"]}
        self.assertEqual({port["port"] for rule in spec["ingress"] for port in rule["ports"]}, named)
        # A rule without `from` lets all in, and so does an empty selector.
        for rule in spec["ingress"]:
            for source in rule["from"]:
                self.assertTrue(source["podSelector"]["matchLabels"])
        self.assertEqual((set(spec["policyTypes"]), spec["egress"]), ({"Ingress", "Egress"}, []))

    def test_compose(self):
        service = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]["sepal"]
        settings = self.check(service["command"], "docker-compose.yml")
        self.assertGreaterEqual(size(service["mem_limit"].removesuffix("m") + "mb") * FILTER_SHARE, size(settings["maxmemory"].strip('"')))
        self.assertGreater(int(service["stop_grace_period"].removesuffix("s")), STOP_SECONDS_MAX)
        kind, program, *arguments = service["healthcheck"]["test"]
        self.assertEqual((kind, program, arguments[0]), ("CMD", "sepald", "--healthcheck"))
        self.check(arguments[1:], "docker-compose.yml: healthcheck")
        self.assertTrue(service["read_only"])
        self.assertEqual(service["cap_drop"], ["ALL"])


class FormTest(unittest.TestCase):
    def test_kubernetes_knows_each_field(self):
        names = []
        for document in documents() + documents(POLICY):
            kind = KINDS[document["apiVersion"], document["kind"]]
            checked(document, kind, document["kind"])
            names.append(document["kind"])
        self.assertEqual(names, ["Secret", "Service", "StatefulSet", "Deployment", "NetworkPolicy"])

    def test_a_wrong_field_type_or_gap_is_noticed(self):
        for value, told in (({"nmae": "a"}, "no field nmae"), ({"name": 1}, "str is expected"), ({}, "`name`, must not be"),
                            ({"name": "a", "args": "b"}, "no list"), ({"name": "a", "stdin": "yes"}, "bool is expected"),
                            ({"name": "a", "ports": [{"containerPort": True}]}, "int is expected"),
                            ({"name": "a", "resources": {"limits": {"cpu": 1}}}, "str is expected")):
            with self.subTest(value), self.assertRaisesRegex(AssertionError, told):
                checked(value, "V1Container", "container")

    def test_docker_compose_reads_its_files(self):
        for path in (COMPOSE, ROOT / "docker" / "cluster-compose.yml"):
            done = subprocess.run(["docker-compose", "--file", str(path), "config", "--quiet"], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
