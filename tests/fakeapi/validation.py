"""What the API server checks and completes in an object before it keeps it."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from tests.fakeapi.statuses import bad_request, invalid, refused
from tests.fakeapi.store import KINDS, Tree

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_SECRET_BYTES = 1 << 20
_OBJECT_BYTES = 1_572_864
"""etcd takes no larger request."""
_ANNOTATION_BYTES = 256 << 10
_JOB_IMMUTABLE = ("template", "selector", "completions", "podFailurePolicy", "completionMode", "podReplacementPolicy")


def prepared(resource: str, namespace: str, tree: Any, size: int, uid: str) -> Tree:
    """The object as it will be stored. `size` of the request's body in bytes."""
    kind, api_version = KINDS[resource]
    if not isinstance(tree, dict) or (tree.get("kind"), tree.get("apiVersion")) != (kind, api_version):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind})")
    meta = tree.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(name, str) or not name:
        raise invalid(resource, kind, "", "metadata.name", "Required value: name or generateName is required")
    pattern = _LABEL if resource == "jobs" else _SUBDOMAIN
    if not pattern.fullmatch(name) or len(name) > 253:
        raise invalid(resource, kind, name, "metadata.name", f'Invalid value: "{name}": a lowercase RFC 1123 name')
    if meta.get("namespace") not in (None, namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if meta.get("resourceVersion"):
        raise refused(500, "", "resourceVersion should not be set on objects to be created")
    if size > _OBJECT_BYTES:
        raise refused(500, "", "etcdserver: request is too large")
    _check_meta(resource, kind, meta)
    meta = {key: value for key, value in meta.items() if key not in ("uid", "creationTimestamp", "selfLink")}
    meta["uid"] = uid
    tree = {**tree, "metadata": meta}
    if resource == "jobs":
        return _job(name, tree, uid)
    if resource == "secrets":
        _check_secret(name, tree)
    return tree


def _check_meta(resource: str, kind: str, meta: Mapping[str, Any]) -> None:
    name = meta["name"]
    for key, value in (meta.get("labels") or {}).items():
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            raise invalid(resource, kind, name, "metadata.labels", f'Invalid value: "{value}": no label value ({key})')
    annotations = meta.get("annotations") or {}
    if not all(isinstance(value, str) for value in annotations.values()):
        raise bad_request("json: cannot unmarshal into Go struct field ObjectMeta.metadata.annotations of type string")
    if sum(len(key) + len(value.encode("utf-8", "replace")) for key, value in annotations.items()) > _ANNOTATION_BYTES:
        raise invalid(resource, kind, name, "metadata.annotations", "Too long: may not be more than 262144 bytes")
    for owner in meta.get("ownerReferences") or ():
        if not all(owner.get(key) for key in ("apiVersion", "kind", "name", "uid")):
            raise invalid(resource, kind, name, "metadata.ownerReferences", "Required value: uid must not be empty")


def _job(name: str, tree: Tree, uid: str) -> Tree:
    spec = tree.get("spec")
    if not isinstance(spec, dict) or not spec.get("template", {}).get("spec", {}).get("containers"):
        raise invalid("jobs", "Job", name, "spec.template.spec.containers", "Required value")
    if spec["template"]["spec"].get("restartPolicy") not in ("Never", "OnFailure"):
        text = 'Required value: valid values: "OnFailure", "Never"'
        raise invalid("jobs", "Job", name, "spec.template.spec.restartPolicy", text)
    own = {"batch.kubernetes.io/controller-uid": uid}
    labels = {**own, "batch.kubernetes.io/job-name": name, "controller-uid": uid, "job-name": name}
    template_meta = spec["template"].get("metadata") or {}
    template_meta = {**template_meta, "labels": {**(template_meta.get("labels") or {}), **labels}}
    template = {**spec["template"], "metadata": template_meta}
    defaults = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False}
    spec = {**defaults, **spec, "selector": {"matchLabels": own}, "template": template}
    meta = {**tree["metadata"], "generation": 1}
    meta["labels"] = {**(meta.get("labels") or {})}
    return {**tree, "metadata": meta, "spec": spec, "status": {}}


def _check_secret(name: str, tree: Tree) -> None:
    total = 0
    if tree.get("stringData"):
        data = {key: base64.b64encode(text.encode()).decode() for key, text in tree.pop("stringData").items()}
        tree["data"] = {**(tree.get("data") or {}), **data}
    for key, value in (tree.get("data") or {}).items():
        if not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key):
            raise invalid("secrets", "Secret", name, f"data[{key}]", f'Invalid value: "{key}": a valid config key')
        try:
            total += len(base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError, TypeError):
            raise bad_request("illegal base64 data at input byte 0") from None
    if total > _SECRET_BYTES:
        raise invalid("secrets", "Secret", name, "data", "Too long: may not be more than 1048576 bytes")


def check_update(resource: str, old: Tree, new: Tree) -> Tree:
    """The new version with what nobody may change as it was. Refused."""
    kind = KINDS[resource][0]
    meta, before = new.get("metadata"), old["metadata"]
    if not isinstance(meta, dict) or meta.get("name") != before["name"]:
        raise invalid(resource, kind, before["name"], "metadata.name", "Invalid value: field is immutable")
    if meta.get("uid") not in (None, before["uid"]):
        raise invalid(resource, kind, before["name"], "metadata.uid", "Invalid value: field is immutable")
    _check_meta(resource, kind, meta)
    if resource == "jobs":
        for field in _JOB_IMMUTABLE:
            if new.get("spec", {}).get(field) != old["spec"].get(field):
                raise invalid(resource, kind, before["name"], f"spec.{field}", "Invalid value: field is immutable")
    if resource == "secrets" and old.get("immutable") and (new.get("data") or {}) != (old.get("data") or {}):
        raise invalid(resource, kind, before["name"], "data", "Forbidden: field is immutable when `immutable` is set")
    kept = ("uid", "namespace", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
    meta = {key: value for key, value in meta.items() if key not in (*kept, "resourceVersion")}
    meta |= {key: before[key] for key in (*kept, "resourceVersion") if key in before}
    if "generation" in meta and new.get("spec") != old.get("spec"):
        meta["generation"] += 1
    new = {**new, "kind": old["kind"], "apiVersion": old["apiVersion"], "metadata": meta}
    if "status" in old:
        new["status"] = old["status"]
    return new
