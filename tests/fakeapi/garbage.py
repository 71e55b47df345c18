"""The garbage collector: what nobody owns any more goes, and an owner may wait for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakeapi.store import Change, Item, Key, with_meta

if TYPE_CHECKING:
    from tests.fakeapi.cluster import FakeCluster

_ACTOR = "garbage-collector"


def _has_new_owners(change: Change) -> bool:
    old, new = change.old, change.item.obj["metadata"]
    return old is not None and old.obj["metadata"].get("ownerReferences") != new["ownerReferences"]


class Collector:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def heard(self, change: Change) -> None:
        meta = change.item.obj["metadata"]
        if change.kind == "DELETED":
            for owner in meta.get("ownerReferences") or ():
                self._look_at_owner(owner["uid"])
            for dependent in self._cluster.store.owned(meta["uid"]):
                self._soon(self._collect, dependent.key, dependent.obj["metadata"]["uid"])
        elif meta.get("ownerReferences") and (change.kind == "ADDED" or _has_new_owners(change)):
            if not all(owner["uid"] in self._cluster.store.uids for owner in meta["ownerReferences"]):
                self._soon(self._collect, change.item.key, meta["uid"])
        elif "deletionTimestamp" in meta:
            if "foregroundDeletion" in (meta.get("finalizers") or ()):
                self._soon(self._foreground, change.item.key, meta["uid"])
            elif "orphan" in (meta.get("finalizers") or ()):
                self._soon(self._orphan, change.item.key, meta["uid"])

    def _soon(self, act: Any, key: Key, uid: str) -> None:
        self._cluster.later(_ACTOR, self._cluster.draw(self._cluster.knobs.collect), act, key, uid)

    def _find(self, key: Key, uid: str) -> Item | None:
        item = self._cluster.store.find(*key)
        return item if item is not None and item.obj["metadata"]["uid"] == uid else None

    def _look_at_owner(self, uid: str) -> None:
        key = self._cluster.store.uids.get(uid)
        if key is not None:
            owner = self._find(key, uid)
            if owner is not None and "foregroundDeletion" in (owner.obj["metadata"].get("finalizers") or ()):
                self._soon(self._foreground, key, uid)

    def _collect(self, key: Key, uid: str) -> None:
        item = self._find(key, uid)
        if item is None or "deletionTimestamp" in item.obj["metadata"]:
            return
        owners = item.obj["metadata"].get("ownerReferences") or ()
        if owners and not any(owner["uid"] in self._cluster.store.uids for owner in owners):
            self._cluster.delete(item, propagation="Background")

    def _foreground(self, key: Key, uid: str) -> None:
        owner = self._find(key, uid)
        if owner is None or "foregroundDeletion" not in (owner.obj["metadata"].get("finalizers") or ()):
            return
        blocking = False
        for item in tuple(self._cluster.store.owned(uid)):
            meta = item.obj["metadata"]
            mine = [one for one in meta["ownerReferences"] if one["uid"] == uid and one.get("blockOwnerDeletion")]
            if not mine:
                continue
            blocking = True
            if "deletionTimestamp" not in meta:
                self._cluster.delete(item, propagation="Background")
        if blocking and any(
            one.get("blockOwnerDeletion") and one["uid"] == uid
            for item in self._cluster.store.owned(uid)
            for one in item.obj["metadata"]["ownerReferences"]
        ):
            return
        self._without(owner, "foregroundDeletion")

    def _orphan(self, key: Key, uid: str) -> None:
        owner = self._find(key, uid)
        if owner is None:
            return
        for item in tuple(self._cluster.store.owned(uid)):
            left = [one for one in item.obj["metadata"]["ownerReferences"] if one["uid"] != uid]
            self._cluster.store.put(item, with_meta(item.obj, ownerReferences=left or None))
        self._without(owner, "orphan")

    def _without(self, owner: Item, finalizer: str) -> None:
        left = [one for one in owner.obj["metadata"]["finalizers"] if one != finalizer]
        self._cluster.store.put(owner, with_meta(owner.obj, finalizers=left or None))
