"""The two environments of the real deployment against its tables: field by field, and nothing else."""

from __future__ import annotations

import copy
import functools
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kubekit import pointers
from kubekit.identity import Manifest

TABLES = Path(__file__).with_name("tables")


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TABLES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up, and page imports comparison
    spec.loader.exec_module(module)
    return module


comparison = _load("comparison")
page = _load("page")
CATALOGUE = comparison.read_catalogue()
DEPLOYMENT = "Deployment/paperclip-system/paperclip"
POD = "/spec/template/spec"
SERVER = f"{POD}/containers/0"


@functools.cache
def verdicts() -> dict[str, Any]:
    return comparison.compare_everything(CATALOGUE)


@functools.cache
def sides(environment: str) -> tuple[dict[str, Manifest], dict[str, Manifest]]:
    """(table, ours); not to be changed."""
    return comparison.read_table(environment), comparison.rendered(environment)


def put(tree: Any, pointer: str, value: Any) -> None:
    """`value` at `pointer`; NOTHING takes away what stands there."""
    parent, last = pointer.rpartition("/")[0], pointers.split(pointer)[-1]
    holder = pointers.get(tree, parent)
    key = int(last) if isinstance(holder, list) else last
    if value is comparison.NOTHING:
        del holder[key]
    else:
        holder[key] = value


def problems_after(environment: str, name: str, change: Callable[[Manifest], None]) -> list[str]:
    """What the comparison says once one rendered object is changed."""
    table, ours = sides(environment)
    changed = copy.deepcopy(ours[name])
    change(changed)
    return comparison.judge(environment, table, {**ours, name: changed}, CATALOGUE).problems


@pytest.mark.parametrize("environment", comparison.ENVIRONMENTS)
def test_the_rendered_objects_are_those_of_the_tables_but_for_what_is_listed(environment: str) -> None:
    verdict = verdicts()[environment]
    assert not verdict.problems, "\n".join(verdict.problems)
    assert verdict.objects > 30
    assert verdict.fields > 250


def test_every_listed_difference_still_occurs() -> None:
    used = {part for verdict in verdicts().values() for part in verdict.used}
    dead = comparison.dead_entries(CATALOGUE, used)
    assert not dead, "\n".join(dead)


def test_the_page_in_docs_is_current() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page(CATALOGUE), "run python tests/charts/tables/page.py"


def test_every_entry_gives_its_reason_in_whole_sentences() -> None:
    for entry in CATALOGUE.differences:
        assert entry.topic, entry
        assert entry.reason.endswith("."), f"differences.yaml:{entry.line}"
    for entry in CATALOGUE.silent:
        assert entry.why.endswith("."), f"differences.yaml:{entry.line}"


@pytest.mark.parametrize(
    ("environment", "census"),
    [
        (
            "operating-post",
            {
                "ConfigMap": 1,
                "Deployment": 1,
                "Namespace": 1,
                "PersistentVolumeClaim": 1,
                "Service": 1,
                "ExternalSecret": 4,
            },
        ),
        (
            "frank-2026-08",
            {
                "ConfigMap": 5,
                "Deployment": 1,
                "Namespace": 1,
                "PersistentVolumeClaim": 2,
                "Service": 2,
                "ExternalSecret": 5,
            },
        ),
    ],
)
def test_the_transcription_has_as_many_objects_as_the_tables_count(environment: str, census: dict[str, int]) -> None:
    table, _ = sides(environment)
    assert Counter(one["kind"] for one in table.values() if one["kind"] in census) == census


def narrowed(name: str) -> Any:
    """The entries that may speak of this object: a comparison of one object need not ask the others."""

    def speaking(entries: Any) -> tuple[Any, ...]:
        return tuple(one for one in entries if any(fnmatchcase(name, glob) for glob in one.scope.objects))

    return replace(CATALOGUE, differences=speaking(CATALOGUE.differences), silent=speaking(CATALOGUE.silent))


MUTATIONS = [
    ("operating-post", DEPLOYMENT, "/spec/replicas", 2),
    ("operating-post", DEPLOYMENT, "/spec/strategy/type", "RollingUpdate"),
    ("operating-post", DEPLOYMENT, f"{SERVER}/readinessProbe/tcpSocket/port", 3100),
    ("operating-post", DEPLOYMENT, f"{POD}/securityContext/fsGroup", comparison.NOTHING),
    ("operating-post", DEPLOYMENT, f"{SERVER}/envFrom/3/secretRef/optional", comparison.NOTHING),
    ("operating-post", DEPLOYMENT, f"{POD}/terminationGracePeriodSeconds", 30),
    ("operating-post", DEPLOYMENT, f"{POD}/tolerations", []),
    ("operating-post", DEPLOYMENT, f"{SERVER}/startupProbe/failureThreshold", 3),
    (
        "operating-post",
        "Service/paperclip-system/paperclip-lb",
        "/metadata/annotations/lbipam.cilium.io~1ips",
        "192.168.55.213",
    ),
    ("operating-post", "PersistentVolumeClaim/paperclip-system/paperclip-data", "/spec/accessModes", ["ReadWriteMany"]),
    ("operating-post", "ConfigMap/paperclip-system/paperclip-config", "/data/PORT", 3100),
    ("operating-post", "ConfigMap/paperclip-system/paperclip-config", "/data/OPENAI_API_KEY", "x"),
    ("operating-post", "Application/argocd/paperclip", "/spec/syncPolicy/automated/prune", False),
    ("frank-2026-08", DEPLOYMENT, f"{POD}/nodeSelector/kubernetes.io~1hostname", "gpu-2"),
    ("frank-2026-08", DEPLOYMENT, f"{POD}/shareProcessNamespace", True),
    ("frank-2026-08", DEPLOYMENT, f"{POD}/volumes/3/secret/defaultMode", 400),
    ("frank-2026-08", DEPLOYMENT, f"{POD}/containers/1/ports/16/containerPort", 60016),
    ("frank-2026-08", "CiliumLoadBalancerIPPool/default-pool", "/spec/blocks/0/stop", "192.168.55.253"),
    ("frank-2026-08", "HelmValues/paperclip-db", "/values/primary/resources/limits/memory", "512Mi"),
    ("frank-2026-08", "Application/argocd/paperclip-db", "/spec/sources/0/targetRevision", "14.1.3"),
]


@pytest.mark.parametrize(("environment", "name", "pointer", "value"), MUTATIONS)
def test_one_changed_field_is_named(environment: str, name: str, pointer: str, value: Any) -> None:
    found = problems_after(environment, name, lambda manifest: put(manifest, pointer, value))
    # A difference that only one side has is named at its top: /startupProbe, not /startupProbe/failureThreshold.
    tops = [pointer, pointer.rpartition("/")[0]]
    assert any(f"{environment}: {name} {top}: " in problem for problem in found for top in tops), found


def test_both_values_stand_in_the_message() -> None:
    found = problems_after("operating-post", DEPLOYMENT, lambda manifest: put(manifest, "/spec/replicas", 2))
    assert found == [
        f"not in differences.yaml: operating-post: {DEPLOYMENT} /spec/replicas: changed: the table has 1, we render 2",
    ]


def test_a_database_url_before_its_password_is_seen() -> None:
    def swap(manifest: Manifest) -> None:
        variables = pointers.get(manifest, f"{SERVER}/env")
        variables[0], variables[1] = variables[1], variables[0]

    found = problems_after("operating-post", DEPLOYMENT, swap)
    assert any(f"{SERVER}/env/0/name: changed" in problem for problem in found), found


def test_an_object_too_many_and_one_too_few_are_named() -> None:
    table, ours = sides("operating-post")
    service = ours["Service/paperclip-system/paperclip-lb"]
    more = {**ours, "Service/paperclip-system/second": service}
    fewer = {name: one for name, one in ours.items() if name != "Service/paperclip-system/paperclip-lb"}
    (added,) = comparison.judge("operating-post", table, more, CATALOGUE).problems
    (removed,) = comparison.judge("operating-post", table, fewer, CATALOGUE).problems
    assert "Service/paperclip-system/second (the whole object): added" in added
    assert "Service/paperclip-system/paperclip-lb (the whole object): removed" in removed


@pytest.mark.parametrize("environment", comparison.ENVIRONMENTS)
def test_no_field_that_a_table_states_can_change_unseen(environment: str) -> None:
    table, ours = sides(environment)
    for name in table.keys() & ours.keys():
        catalogue = narrowed(name)
        for pointer, leaf in pointers.walk(table[name]):
            try:
                mine = pointers.get(ours[name], pointer)
            except pointers.PointerError:
                continue  # a listed difference: removed, or inside a list that is one field
            if mine != leaf:
                continue
            changed = copy.deepcopy(ours[name])
            put(changed, pointer, f"{mine} of another")
            one_table, one_ours = {name: table[name]}, {name: changed}
            assert comparison.judge(environment, one_table, one_ours, catalogue).problems, f"{name} {pointer}"


@pytest.mark.parametrize("environment", comparison.ENVIRONMENTS)
def test_no_rendered_field_that_a_difference_gives_a_value_can_change_unseen(environment: str) -> None:
    table, ours = sides(environment)
    for difference in comparison.differences(environment, table, ours):
        entries = [one for one in CATALOGUE.differences if one.covers(difference)]
        if not entries or not difference.pointer or difference.kind == "removed" or "*" in str(entries[0].ours):
            continue
        changed = copy.deepcopy(ours[difference.object])
        put(changed, difference.pointer, "another")
        one_table, one_ours = {difference.object: table[difference.object]}, {difference.object: changed}
        assert comparison.judge(environment, one_table, one_ours, CATALOGUE).problems, str(difference)


def test_an_entry_without_a_difference_is_dead() -> None:
    gone = "/spec/template/spec/hostNetwork"
    extended = replace(
        CATALOGUE,
        differences=tuple(
            replace(one, scope=replace(one.scope, pointers=(*one.scope.pointers, gone))) if number == 0 else one
            for number, one in enumerate(CATALOGUE.differences)
        ),
    )
    used = {part for verdict in verdicts().values() for part in verdict.used}
    (problem,) = comparison.dead_entries(extended, used)
    assert gone in problem
    assert f"differences.yaml:{CATALOGUE.differences[0].line}:" in problem


def test_a_difference_that_two_entries_list_is_refused() -> None:
    table, ours = sides("operating-post")
    doubled = replace(CATALOGUE, differences=(*CATALOGUE.differences, CATALOGUE.differences[0]))
    (problem,) = comparison.judge("operating-post", table, ours, doubled).problems
    assert "listed more than once" in problem


def test_what_is_known_of_an_open_field_is_still_checked() -> None:
    pointer = "/spec/target/template/data/.dockerconfigjson"
    found = problems_after(
        "operating-post",
        "ExternalSecret/paperclip-system/paperclip-ghcr",
        lambda manifest: put(manifest, pointer, '{"auths":{"docker.io":{"username":"clawdia-ai-assistant"}}}'),
    )
    assert [problem for problem in found if "ghcr.io" in problem], found
    assert [problem for problem in found if "{{ .GHCR_PAT }}" in problem], found


def test_an_open_field_that_is_not_rendered_is_a_dead_entry() -> None:
    table, ours = sides("frank-2026-08")
    name = "ConfigMap/paperclip-system/paperclip-shell-motd"
    without = {key: value for key, value in ours[name].items() if key != "data"}
    used = comparison.judge("frank-2026-08", table, {**ours, name: without}, CATALOGUE).used
    assert [one for one in comparison.dead_entries(CATALOGUE, used) if name in one]


def test_a_field_cannot_be_open_where_the_table_speaks() -> None:
    table, ours = sides("frank-2026-08")
    name = "ConfigMap/paperclip-system/paperclip-shell-motd"
    speaking = {**table, name: {**table[name], "data": {"60-tips.sh": "echo"}}}
    catalogue = replace(
        CATALOGUE,
        silent=tuple(
            replace(one, scope=replace(one.scope, pointers=("/data/60-tips.sh",)))
            if one.scope.objects == (name,)
            else one
            for one in CATALOGUE.silent
        ),
    )
    found = comparison.judge("frank-2026-08", speaking, ours, catalogue).problems
    assert [problem for problem in found if "the table speaks" in problem], found


def test_the_accepted_hosts_are_those_of_the_table_and_more() -> None:
    table, ours = sides("frank-2026-08")
    theirs, mine = (
        set(side["ConfigMap/paperclip-system/paperclip-config"]["data"]["PAPERCLIP_ALLOWED_HOSTNAMES"].split(","))
        for side in (table, ours)
    )
    assert theirs < mine


def test_nodes_that_forward_for_a_load_balancer_reach_each_of_its_ports() -> None:
    _, ours = sides("frank-2026-08")
    spec = ours["CiliumNetworkPolicy/paperclip-system/paperclip-server-entities"]["spec"]
    (rule,) = spec["ingress"]
    assert rule["fromEntities"] == ["host", "remote-node"]
    opened = {
        (port["protocol"], number)
        for port in rule["toPorts"][0]["ports"]
        for number in range(int(port["port"]), port.get("endPort", int(port["port"])) + 1)
    }
    forwarded = {
        (port["protocol"], 3100 if port["targetPort"] == "http" else port["targetPort"])
        for name in ("paperclip-lb", "paperclip-shell")
        for port in ours[f"Service/paperclip-system/{name}"]["spec"]["ports"]
    }
    assert opened == forwarded
