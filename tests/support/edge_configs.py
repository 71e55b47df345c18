"""Configs on an edge: each sets one thing to a value that Kubernetes may refuse.

The rule they are for: what we accept, a real API server accepts; what it refuses, we refuse first, with file and line.
So each of them is either refused when it is read or passes a server-side dry run. Imported by path, like its neighbour.
"""

from __future__ import annotations

import copy
from typing import Any

Tree = dict[str, Any]

_RESOURCES = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
_JOB_RESOURCES = {
    "requests": {"cpu": "100m", "memory": "64Mi", "ephemeralStorage": "1Gi"},
    "limits": {"cpu": "1", "memory": "1Gi", "ephemeralStorage": "2Gi"},
}
BASE: Tree = {
    "apiVersion": "paperclip-gitops/v1",
    "kind": "Environment",
    "name": "edge",
    "secretStore": {"name": "store"},
    "cluster": {"cilium": {"pool": {"name": "pool", "start": "192.168.55.200", "stop": "192.168.55.254"}}},
    "namespace": {"name": "edge-system"},
    "server": {
        "image": "ghcr.io/example/server:1.0",
        "publicUrl": "https://paperclip.example.com",
        "resources": _RESOURCES,
        "loadBalancer": {"ip": "192.168.55.212"},
        "secrets": [{"name": "server-keys", "entries": [{"key": "KEY", "remote": "KEY"}]}],
        "volumes": [{"name": "files", "config": {"name": "files", "files": {"a.txt": "a"}}}],
        "sidecars": [
            {
                "name": "side",
                "image": "ghcr.io/example/side:1.0",
                "resources": _RESOURCES,
                "ports": [{"name": "ssh", "port": 2222}],
                "runAs": {"user": 1000, "group": 1000},
                "readiness": {"port": "ssh"},
            },
        ],
        "services": [{"name": "side", "ports": [{"name": "ssh", "port": 22, "target": 2222}]}],
    },
    "database": {
        "kind": "cloudnative-pg",
        "image": "ghcr.io/cloudnative-pg/postgresql:17.6",
        "storage": {"size": "5Gi"},
        "resources": _RESOURCES,
    },
    "agents": {
        "namespace": "edge-agents",
        "secrets": [{"name": "agent-keys", "entries": [{"key": "KEY", "remote": "KEY"}]}],
        "egress": {"world": False, "fqdns": ["api.anthropic.com"]},
        "jobs": {"kinds": [{"name": "one", "image": "ghcr.io/example/agent:1.0", "resources": _JOB_RESOURCES}]},
    },
    "argocd": {"repository": "https://github.com/example/state.git"},
}

_SIDE, _SERVICE, _KIND = "server.sidecars.0", "server.services.0", "agents.jobs.kinds.0"
_TWINS = [{"name": "a", "port": 80}, {"name": "b", "port": 80}]
_SAME_NAME = [{"name": "a", "port": 80}, {"name": "a", "port": 81}]
_HUGE = 2**31

# What is set → where (a path with dots) and what to.
EDGES: dict[str, tuple[str, Any]] = {
    # characters that the API server refuses in an apply, or changes (U+0085 becomes a blank)
    "delete in a setting": ("server.settings", {"A": "a\x7fb"}),
    "next line in a setting": ("server.settings", {"A": "a\x85b"}),
    "noncharacter in a file": ("server.volumes.0.config.files", {"a.txt": "\uffff"}),
    "control character in a variable": ("server.environment", [{"name": "A", "value": "\x90"}]),
    "zero in a setting": ("server.settings", {"A": "a\x00b"}),
    "control character in an argument": (f"{_SIDE}.arguments", ["\x9b"]),
    # names
    "service that begins with a digit": (f"{_SERVICE}.name", "1a"),
    "release that begins with a digit": (
        "database",
        {
            "kind": "bitnami",
            "release": "1a",
            "image": {"repository": "bitnamilegacy/postgresql", "tag": "16"},
            "storage": {"size": "5Gi"},
            "resources": _RESOURCES,
        },
    ),
    "image tag with a space": (f"{_SIDE}.image", "ghcr.io/example/side: 1.0"),
    "database that begins with a digit": ("database.name", "1a"),
    "range whose port names are too long": (f"{_SIDE}.ports", [{"name": "a" * 12, "port": 60000, "through": 60001}]),
    "range of a service whose names are too long": (
        f"{_SERVICE}.ports",
        [{"name": "a" * 12, "port": 60000, "through": 60001}],
    ),
    "label key of a selector with two slashes": ("server.nodeSelector", {"a/b/c": "d"}),
    "annotation key with a blank": ("argocd.annotations", {"no key": "a"}),
    "empty annotation key": ("argocd.annotations", {"": "a"}),
    "taint key with a blank": ("server.tolerations", [{"key": "no key"}]),
    "empty taint key with Equal": ("server.tolerations", [{"key": "", "operator": "Equal", "value": "a"}]),
    "empty taint key": ("server.tolerations", [{"key": ""}]),
    "taint value with a blank": ("server.tolerations", [{"key": "a", "operator": "Equal", "value": "no value"}]),
    "taint value of an agent with a blank": (
        "agents.jobs.tolerations",
        [{"key": "a", "operator": "Equal", "value": "no value"}],
    ),
    "taint key of an agent with a blank": ("agents.jobs.tolerations", [{"key": "no key"}]),
    "config key of two dots": ("server.volumes.0.config.files", {"..a": "a"}),
    "setting with a dot": ("server.settings", {"a.b-c": "a"}),
    "secret type with a blank": ("server.secrets.0.type", "no type"),
    "empty secret type": ("server.secrets.0.type", ""),
    "secret key that is no variable": (f"{_KIND}.secretKeys", ["KEY"]),
    "agent key with a dot": ("agents.secrets.0.entries", [{"key": "a.b", "remote": "A"}]),
    "empty sharing key": ("server.loadBalancer.sharingKey", ""),
    # what stands twice
    "two ports of a container with one number": (f"{_SIDE}.ports", [*_TWINS, {"name": "ssh", "port": 2222}]),
    "two ports of a container with one name": (f"{_SIDE}.ports", [*_SAME_NAME, {"name": "ssh", "port": 2222}]),
    "two ports of a service with one number": (f"{_SERVICE}.ports", _TWINS),
    "two ports of a service with one name": (f"{_SERVICE}.ports", _SAME_NAME),
    "one number of a service for two protocols": (
        f"{_SERVICE}.ports",
        [{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"}],
    ),
    "two variables of one name": ("server.environment", [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
    "variable of the database": ("server.environment", [{"name": "DATABASE_URL", "value": "1"}]),
    "two variables of a sidecar of one name": (
        f"{_SIDE}.environment",
        [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
    ),
    "two mounts at one path": (
        "server.mounts",
        [{"volume": "files", "path": "/a"}, {"volume": "files", "path": "/a", "subPath": "a.txt"}],
    ),
    "mount over the server's own": ("server.mounts", [{"volume": "files", "path": "/paperclip"}]),
    "two ConfigMaps of one name": (
        "server.volumes",
        [
            {"name": "a", "config": {"name": "files", "files": {"a": "a"}}},
            {"name": "b", "config": {"name": "files", "files": {"b": "b"}}},
        ],
    ),
    "ConfigMap called like the server's": (
        "server.volumes",
        [{"name": "a", "config": {"name": "paperclip-config", "files": {"a": "a"}}}],
    ),
    "ConfigMap called like the templates": (
        "server.volumes",
        [{"name": "a", "config": {"name": "paperclip-job-templates", "files": {"a": "a"}}}],
    ),
    "claim called like the server's": (
        "server.volumes",
        [{"name": "a", "claim": {"name": "paperclip-data", "size": "1Gi"}}],
    ),
    "two agent secrets of one name": (
        "agents.secrets",
        [
            {"name": "a", "entries": [{"key": "A", "remote": "A"}]},
            {"name": "a", "entries": [{"key": "B", "remote": "B"}]},
        ],
    ),
    "secret called like the database's": (
        "database",
        {
            "kind": "bitnami",
            "image": {"repository": "bitnamilegacy/postgresql", "tag": "16"},
            "storage": {"size": "5Gi"},
            "resources": _RESOURCES,
            "passwordSecret": "server-keys",
        },
    ),
    "two keys of a secret": ("server.secrets.0.entries", [{"key": "A", "remote": "A"}, {"key": "A", "remote": "B"}]),
    # numbers
    "huge initial delay": (f"{_SIDE}.readiness.initialDelaySeconds", _HUGE),
    "huge period": (f"{_SIDE}.readiness.periodSeconds", _HUGE),
    "huge grace period": ("server.terminationGracePeriodSeconds", 2**63 - 1),
    "huge user": (f"{_SIDE}.runAs.user", _HUGE),
    "huge group": (f"{_SIDE}.runAs.group", _HUGE),
    "huge user of agents": ("agents.jobs.user", _HUGE),
    "huge time to live": ("agents.jobs.timeToLiveSeconds", _HUGE),
    "huge number of pods": ("agents.quota.pods", 2**63 - 1),
    "range that targets beyond the last port": (
        f"{_SERVICE}.ports",
        [{"name": "a", "port": 1, "through": 3, "target": 65535}],
    ),
    "41 ports for names": ("agents.egress.worldPorts", list(range(1, 42))),
    # amounts
    "cpu of less than a thousandth": (f"{_SIDE}.resources.requests.cpu", "100u"),
    "memory of half a byte": (f"{_SIDE}.resources.requests.memory", "500m"),
    "claim of half a byte": ("server.storage.size", "500m"),
    "claim of more than fits": ("server.storage.size", "100E"),
    "scratch of half a byte": ("server.volumes", [{"name": "a", "scratch": {"sizeLimit": "500m"}}]),
    "minimum over maximum": ("agents.containerLimits.minimum.cpu", "100"),
    "default request over default limit": ("agents.containerLimits.defaultRequests.cpu", "4"),
    "default limit over maximum": ("agents.containerLimits.defaultLimits.cpu", "10"),
    "default request under minimum": ("agents.containerLimits.defaultRequests.cpu", "10m"),
    "job that asks for less than the minimum": (f"{_KIND}.resources.requests.cpu", "10m"),
    "job that may take more than the maximum": (f"{_KIND}.resources.limits.memory", "64Gi"),
    "job without a limit of cpu": (f"{_KIND}.resources.limits.cpu", None),
    "job that asks for more than the default limit": (
        f"{_KIND}.resources",
        {
            "requests": {**_JOB_RESOURCES["requests"], "cpu": "4"},
            "limits": {"memory": "1Gi", "ephemeralStorage": "2Gi"},
        },
    ),
    # addresses
    "pool that runs backwards": ("cluster.cilium.pool.start", "192.168.55.255"),
    "pool of two families": ("cluster.cilium.pool.stop", "fd00::1"),
    "pods that are the whole world": ("cluster.podCIDRs", ["0.0.0.0/0"]),
    "nodes that are the whole world in halves": ("cluster.nodeCIDRs", ["0.0.0.0/1", "128.0.0.0/1"]),
    "mapped address": ("cluster.nodeCIDRs", ["::ffff:10.0.0.0/104"]),
    "mapped caller": ("network.callers", [{"name": "a", "cidrs": ["::ffff:10.0.0.0/104"]}]),
    "mapped load balancer address": ("server.loadBalancer.ip", "::ffff:192.168.55.212"),
    "load balancer address of six": ("server.loadBalancer.ip", "fd00::1"),
    "address with a zone": ("server.loadBalancer.ip", "fe80::1%eth0"),
    "range with a zone": ("network.loadBalancerCIDRs", ["fe80::%1/64"]),
    # paths
    "sub path that leads out": ("server.mounts", [{"volume": "files", "path": "/a", "subPath": "../a"}]),
    "absolute sub path": ("server.mounts", [{"volume": "files", "path": "/a", "subPath": "/a"}]),
    "empty sub path": ("server.mounts", [{"volume": "files", "path": "/a", "subPath": ""}]),
    "mount at the root": ("server.mounts", [{"volume": "files", "path": "/"}]),
    # security
    "restricted namespace of the server": ("namespace.podSecurity", "restricted"),
    # sizes
    "ConfigMap of 2 MB": ("server.volumes.0.config.files", {"a.txt": "a" * 1_000_000, "b.txt": "b" * 100_000}),
    "annotation of 300 KB": ("server.imageVersion", "a" * 300_000),
    "claim's name of 63 characters": ("agents.workspace", {"name": "a" * 63}),
    "environment's name of 63 characters": ("name", "a" * 63),
    "names longer than labels": ("database.name", "a" * 63),
    # meaning
    "probe of a port that is not there": (f"{_SIDE}.readiness.port", "gone"),
    "empty command": (f"{_SIDE}.command", [""]),
    "schedule with letters": (
        "database.backup",
        {"schedule": "a b c d e f", "volumeSnapshotClass": "snap"},
    ),
    "local traffic policy": ("server.loadBalancer.externalTrafficPolicy", "Local"),
    "kind called contract": (f"{_KIND}.name", "contract"),
    "interfaces that are no expression": (
        "cluster.cilium.l2Announcement",
        {"name": "l2", "interfaces": ["^eth["]},
    ),
}


def config(edge: str) -> Tree:
    """The whole config of an edge. None as the value takes the field away."""
    path, value = EDGES[edge]
    result = copy.deepcopy(BASE)
    *parents, last = path.split(".")
    here: Any = result
    for part in parents:
        here = here[int(part)] if part.isdigit() else here.setdefault(part, {})
    if value is None:
        here.pop(last, None)
    else:
        here[last] = value
    return result
