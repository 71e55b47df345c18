"""Three judges, one set of schemas: the fast validator, the readable one and kubeconform say the same.

Every object is a sound one with one change; whether the change is allowed is for the schemas to say.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import jsonschema_rs

from kubekit.identity import ObjectId
from policies.schemas import faults, kubeconform, versions
from policies.schemas.builtin import BuiltinSchemas
from policies.schemas.crds import CrdSchemas
from tests.support import needed

ROOT = Path(__file__).resolve().parents[2]
VERSION = "1.33"
META = {"name": "x", "namespace": "paperclip-agents", "labels": {"app": "x"}}
POD = {
    "restartPolicy": "Never",
    "securityContext": {"runAsNonRoot": True, "fsGroup": 10001},
    "containers": [
        {
            "name": "agent",
            "image": "agent@sha256:00",
            "args": ["--run"],
            "env": [
                {"name": "A", "value": "b"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "ports": [{"containerPort": 80, "name": "http"}],
            "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": 1}},
            "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 5},
            "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True}],
        },
    ],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}, {"name": "e", "emptyDir": {}}],
}
BUILTIN = [
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": META,
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": POD},
        },
    },
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": META,
        "spec": {"backoffLimit": 0, "activeDeadlineSeconds": 60, "template": {"spec": POD}},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": META,
        "spec": {
            "type": "ClusterIP",
            "selector": {"app": "x"},
            "ports": [{"port": 80, "targetPort": "http"}],
        },
    },
    {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": META,
        "spec": {
            "podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
            "policyTypes": ["Egress"],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 53, "protocol": "UDP"}]}],
        },
    },
]
CUSTOM = [
    {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": META,
        "spec": {
            "refreshInterval": "1h",
            "secretStoreRef": {"name": "vault", "kind": "ClusterSecretStore"},
            "target": {"name": "s", "creationPolicy": "Owner"},
            "data": [{"secretKey": "k", "remoteRef": {"key": "a", "property": "b"}}],
        },
    },
    {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": META,
        "spec": {
            "endpointSelector": {"matchLabels": {"app": "x"}},
            "egress": [
                {
                    "toFQDNs": [{"matchName": "github.com"}],
                    "toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}]}],
                },
            ],
        },
    },
]


def mutants(sound: dict[str, Any], random: Random) -> Iterator[dict[str, Any]]:
    """`sound` itself, then copies with one change below `spec`: a name, a value, something gone or added."""
    yield copy.deepcopy(sound)
    while True:
        mutant = copy.deepcopy(sound)
        places = list(containers(mutant["spec"]))
        place = random.choice(places)
        if not place:
            continue
        key = random.choice(list(place) if isinstance(place, dict) else list(range(len(place))))
        change = random.choice(("rename", "drop", "add", "value", "value", "value"))
        if change == "value" or isinstance(place, list):
            place[key] = random.choice(["text", "7", 7, -1, 2.5, True, [], {}, ["a"], {"a": "b"}, None])
        elif change == "rename":
            place[key + "s"] = place.pop(key)
        elif change == "drop":
            del place[key]
        else:
            place["surplus"] = random.choice(["x", 1, {}])
        yield mutant


def containers(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict | list):
        yield tree
        for child in tree.values() if isinstance(tree, dict) else tree:
            yield from containers(child)


def population(sound: list[dict[str, Any]], each: int) -> list[dict[str, Any]]:
    random = Random(20)  # the same objects in every run
    return [mutant for manifest in sound for mutant in islice(mutants(manifest, random), each)]


def shared() -> CrdSchemas:
    return CrdSchemas([needed.schemas()])


def split(verdicts: list[bool]) -> tuple[int, int]:
    return verdicts.count(True), verdicts.count(False)


def test_the_readable_validator_agrees_with_the_fast_one_on_objects_of_kubernetes() -> None:
    schemas = BuiltinSchemas(VERSION, None)
    verdicts = []
    for mutant in population(BUILTIN, 150):
        compiled = schemas.compiled(mutant["apiVersion"], mutant["kind"])
        fast = compiled._validator.is_valid(mutant)
        assert fast == (not faults.explain(compiled.schema, mutant, secret=False)), mutant
        verdicts.append(fast)
    assert min(split(verdicts)) > 100


def test_the_readable_validator_agrees_with_the_fast_one_on_custom_resources() -> None:
    crds = shared()
    verdicts = []
    for mutant in population(CUSTOM, 120):
        identity = ObjectId.of(mutant)
        found = crds.find(identity.group, identity.kind, identity.version)
        assert found is not None
        fast = found.compiled._validator.is_valid(mutant)
        assert fast == (not faults.explain(found.compiled.schema, mutant, secret=False)), mutant
        verdicts.append(fast)
    assert min(split(verdicts)) > 30


def test_making_the_schemas_small_changes_no_verdict_but_that_on_null() -> None:
    """The data as it is published refuses null where text or a number may stand; API servers take it."""
    definitions = json.loads(versions.definitions_file(VERSION).read_bytes())["$defs"]
    names = {
        "Deployment": "apps.v1",
        "Job": "batch.v1",
        "Service": "core.v1",
        "NetworkPolicy": "networking.v1",
    }
    published = {
        kind: jsonschema_rs.validator_for(
            {"$ref": f"#/$defs/io.k8s.api.{group}.{kind}", "$defs": definitions},
        )
        for kind, group in names.items()
    }
    schemas = BuiltinSchemas(VERSION, None)
    compared = 0
    for mutant in population(BUILTIN, 200):
        ours = schemas.compiled(mutant["apiVersion"], mutant["kind"])._validator.is_valid(mutant)
        if "null" not in json.dumps(mutant):
            compared += 1
            assert ours == published[mutant["kind"]].is_valid(mutant), mutant
    assert compared > 500


def test_kubeconform_agrees_with_the_check_in_process(tmp_path: Path) -> None:
    binary = needed.kubeconform()
    crds = shared()
    objects = population([*BUILTIN, *CUSTOM], 60)
    for number, manifest in enumerate(objects):
        manifest["metadata"] = {**META, "name": f"x{number}"}
    runner = kubeconform.Kubeconform(binary, VERSION, crds, cache=tmp_path)
    theirs = runner.check_manifests([(manifest, None) for manifest in objects])
    assert theirs.coverage.checked == len(objects)
    refused = {finding.object.name for finding in theirs.findings if finding.object}
    schemas = BuiltinSchemas(VERSION, tmp_path)
    for manifest in objects:
        identity = ObjectId.of(manifest)
        if schemas.knows(identity.api_version, identity.kind):
            compiled = schemas.compiled(identity.api_version, identity.kind)
        else:
            found = crds.find(identity.group, identity.kind, identity.version)
            assert found is not None
            compiled = found.compiled
        assert bool(compiled.faults(manifest)) == (identity.name in refused), manifest
