"""Requests as a launcher would send them, for tests of the fakes themselves and of what stands on them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from paperclip_launcher.cluster.transport import Request, Response, Transport
from tests.fakeapi.cluster import NAMESPACE
from tests.fakeapi.statuses import GROUPS

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"


def path_of(resource: str, name: str = "", namespace: str = NAMESPACE) -> str:
    group = GROUPS.get(resource)
    root = f"/apis/{group}/v1" if group else "/api/v1"
    return f"{root}/namespaces/{namespace}/{resource}" + (f"/{name}" if name else "")


def job_tree(
    name: str, *, secrets: tuple[str, ...] = (), env_secrets: tuple[str, ...] = (), **spec: Any
) -> dict[str, Any]:
    """A Job as our templates make it, but smaller."""
    container = {"name": "agent", "image": "agent:1", "envFrom": [{"secretRef": {"name": one}} for one in env_secrets]}
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 30}
    if secrets:
        sources = [{"secret": {"name": one}} for one in secrets]
        pod["volumes"] = [{"name": "prompt", "projected": {"sources": sources}}]
    rules = [
        {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"containerName": "agent", "operator": "NotIn", "values": [0]}},
    ]
    labels = {"paperclip.io/run-id": name}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels, "annotations": {"paperclip.io/owner": "one"}},
        "spec": {
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": rules},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **spec,
        },
    }


def owned_by(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
    return [{**owner, "blockOwnerDeletion": False}]


def secret_tree(name: str, job: Mapping[str, Any], **data: bytes) -> dict[str, Any]:
    texts = {key.replace("_", "-"): base64.b64encode(value).decode() for key, value in data.items()}
    meta = {"name": name, "ownerReferences": owned_by(job)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "immutable": True, "data": texts}


def lease_tree(name: str, holder: str = "one", **meta: Any) -> dict[str, Any]:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 30}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, **meta}, "spec": spec}


async def until(holds: Callable[[], Any], step: float = 0.1) -> None:
    """Looks every `step` seconds."""
    while not holds():  # noqa: ASYNC110 the cluster tells no test of its changes
        await asyncio.sleep(step)


async def send(
    transport: Transport, method: str, path: str, tree: Any = None, *, kind: str = "application/json", **query: str
) -> Response:
    body = None if tree is None else json.dumps(tree).encode()
    return await transport.send(Request(method, path, tuple(query.items()), body, kind if body else ""))


async def create(transport: Transport, resource: str, tree: Mapping[str, Any]) -> dict[str, Any]:
    """The object as it was made."""
    response = await send(transport, "POST", path_of(resource), tree)
    assert response.status == 201, response.body
    made: dict[str, Any] = json.loads(response.body)
    return made


async def get(transport: Transport, resource: str, name: str) -> dict[str, Any]:
    response = await send(transport, "GET", path_of(resource, name))
    found: dict[str, Any] = json.loads(response.body)
    return found


async def delete(
    transport: Transport, resource: str, name: str, propagation: str = "Background", **more: Any
) -> Response:
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation, **more}
    return await send(transport, "DELETE", path_of(resource, name), options)
