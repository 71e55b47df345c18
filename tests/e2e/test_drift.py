"""What is applied stays as it was rendered: nothing that Argo CD would show as out of sync for ever."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kubekit.identity import Manifest, ObjectId

controlplane, crds, shipped = (sys.modules[name] for name in ("controlplane", "crds", "shipped"))

pytestmark = pytest.mark.e2e


def contents(cluster: Any, environment: Any) -> dict[ObjectId, Manifest]:
    """What is stored, without the status and what changes with every write."""
    found = shipped.stored(cluster, environment)
    for item in found.values():
        item.pop("status", None)
        del item["metadata"]["resourceVersion"]
    return found


def versions(cluster: Any, environment: Any) -> dict[ObjectId, str]:
    found = shipped.stored(cluster, environment)
    return {one: item["metadata"]["resourceVersion"] for one, item in found.items()}


def settled(cluster: Any, environment: Any) -> dict[ObjectId, str]:
    """The versions once the controllers have written their first status."""
    seen: list[dict[ObjectId, str]] = [{}]

    def quiet() -> bool:
        seen.append(versions(cluster, environment))
        return seen[-1] == seen[-2]

    controlplane.wait_until("the controllers to come to rest", 30, quiet)
    return seen[-1]


def test_every_object_is_in_the_cluster_after_an_apply(cluster, environment):
    assert set(shipped.stored(cluster, environment)) == {ObjectId.of(one) for one in environment.files.values()}


def test_applying_again_changes_nothing(cluster, environment):
    settled(cluster, environment)
    before = contents(cluster, environment)
    cluster.must(*shipped.APPLY, *environment.paths)
    assert contents(cluster, environment) == before


def test_applying_again_writes_nothing(cluster, environment):
    """From the third time on: at the second one the API server stores any claim once more, with the same bytes."""
    cluster.must(*shipped.APPLY, *environment.paths)
    before = settled(cluster, environment)
    cluster.must(*shipped.APPLY, *environment.paths)
    assert versions(cluster, environment) == before


def test_a_server_side_diff_finds_nothing_after_an_apply(cluster, environment):
    answer = cluster.kubectl("diff", "--server-side", f"--field-manager={shipped.MANAGER}", *environment.paths)
    assert answer.fine, answer


def test_the_api_server_adds_nothing_to_a_custom_resource(cluster, environment):
    """The defaults of the definitions are written out: External Secrets' above all, which drift for ever if not."""
    found = shipped.stored(cluster, environment)
    groups = {kind.group for kind in crds.KINDS}
    for manifest in [one for one in environment.files.values() if ObjectId.of(one).group in groups]:
        item = found[ObjectId.of(manifest)]
        assert item["spec"] == manifest["spec"], (
            f"{ObjectId.of(manifest)} was changed by the defaults of its definition"
        )


def test_an_external_secret_was_among_them(environment):
    if environment.config.secret_store is None:
        assert environment.of_kind("ExternalSecret") == []
    else:
        names = {one["metadata"]["name"] for one in environment.of_kind("ExternalSecret")}
        assert names >= {secret.name for secret in environment.config.server.secrets if not secret.external}


def test_a_change_by_hand_is_seen_by_the_diff(cluster, environment):
    """Else the two tests above would prove nothing."""
    namespace = ("-n", environment.system)
    cluster.must("patch", "service", "paperclip", *namespace, "--type=json", "-p", _other_port(3101))
    try:
        answer = cluster.kubectl("diff", "--server-side", "--force-conflicts", *environment.paths)
        assert answer.code == 1
        assert "3101" in answer.out
    finally:
        cluster.must(*shipped.APPLY, "--force-conflicts", *environment.paths)


def _other_port(number: int) -> str:
    return f'[{{"op": "replace", "path": "/spec/ports/0/targetPort", "value": {number}}}]'
