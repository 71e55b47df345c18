"""Objects with uid and resourceVersion, their changes in order, and the watches that follow them.

An object is never changed in place: each version is a tree of its own that shares what did not change. So a version
is serialised once, however many watches and lists show it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from json import encoder
from random import Random
from typing import Any

from tests.fakeapi.selectors import Selector

KINDS = {
    "jobs": ("Job", "batch/v1"),
    "pods": ("Pod", "v1"),
    "secrets": ("Secret", "v1"),
    "events": ("Event", "v1"),
    "leases": ("Lease", "coordination.k8s.io/v1"),
    "persistentvolumeclaims": ("PersistentVolumeClaim", "v1"),
    "resourcequotas": ("ResourceQuota", "v1"),
    "limitranges": ("LimitRange", "v1"),
    "configmaps": ("ConfigMap", "v1"),
}
RESOURCES = {kind: resource for resource, (kind, _) in KINDS.items()}

Tree = dict[str, Any]
Key = tuple[str, str, str]
"""Resource, namespace, name."""


def _refuse(value: Any) -> Any:
    raise TypeError(f"no JSON: {type(value)}")


_encode = encoder.c_make_encoder(None, _refuse, encoder.encode_basestring, None, ":", ",", False, False, True)


def dumps(tree: Any) -> bytes:
    """Compact JSON in UTF-8; three times as fast as json.dumps for small trees."""
    return "".join(_encode(tree, 0)).encode("utf-8", "replace")


def rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Item:
    """One version of one object."""

    __slots__ = ("_inner", "_spec", "key", "obj", "version")

    def __init__(self, key: Key, obj: Tree, version: int, spec: tuple[Any, bytes] | None) -> None:
        self.key = key
        self.obj = obj
        self.version = version
        self._spec = spec
        self._inner: bytes | None = None

    def inner(self) -> bytes:
        """The object without kind, apiVersion and braces, as in the items of a list."""
        if self._inner is None:
            parts = []
            for name, value in self.obj.items():
                if name == "spec":
                    parts.append(b'"spec":' + self.spec_json())
                elif name not in ("kind", "apiVersion"):
                    parts.append(b'"%b":%b' % (name.encode(), dumps(value)))
            self._inner = b",".join(parts)
        return self._inner

    def spec_json(self) -> bytes:
        spec = self.obj["spec"]
        if self._spec is None or self._spec[0] is not spec:
            self._spec = (spec, dumps(spec))
        return self._spec[1]

    def known_spec(self) -> tuple[Any, bytes] | None:
        return self._spec

    def whole(self) -> bytes:
        kind, version = KINDS[self.key[0]]
        return b'{"kind":"%b","apiVersion":"%b",%b}' % (kind.encode(), version.encode(), self.inner())


class Change:
    """What a watch sees. `kind` is ADDED, MODIFIED or DELETED, `actor` who did it, `time` in loop seconds."""

    __slots__ = ("_line", "actor", "item", "kind", "old", "time", "version")

    def __init__(self, kind: str, item: Item, old: Item | None, time: float, actor: str) -> None:
        self.kind = kind
        self.item = item
        self.old = old
        self.version = item.version
        self.time = time
        self.actor = actor
        self._line: bytes | None = None

    def line(self) -> bytes:
        if self._line is None:
            self._line = watch_line(self.kind, self.item.whole())
        return self._line


def watch_line(kind: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


class Source(ABC):
    """A body that grows. `wake` is called when there is more, or the end has come; set by who reads.

    `broken`: the connection is gone, and what is left is lost.
    """

    __slots__ = ("broken", "ended", "wake")

    def __init__(self) -> None:
        self.wake: Callable[[], None] | None = None
        self.ended = False
        self.broken = False

    @abstractmethod
    def take(self) -> bytes:
        """What came since the last call; b"" for nothing."""

    @abstractmethod
    def detach(self) -> None:
        """Nobody reads any more."""

    def waiting(self) -> bool:
        """Whether even the head of the answer waits for what will be told."""
        return False

    def notify(self) -> None:
        if self.wake is not None:
            self.wake()


class Watch(Source):
    """One open watch."""

    __slots__ = ("_detach", "bookmarks", "chosen", "namespace", "queue", "resource")

    def __init__(self, resource: str, namespace: str, chosen: Selector | None, detach: Callable[[Watch], None]) -> None:
        super().__init__()
        self.resource = resource
        self.namespace = namespace
        self.chosen = chosen
        self.bookmarks = False
        self.queue: list[bytes] = []
        self._detach = detach

    def offer(self, change: Change) -> None:
        if change.item.key[1] != self.namespace:
            return
        if self.chosen is None:
            line = change.line()
        else:
            fits = self.chosen(change.item.obj)
            fitted = change.old is not None and self.chosen(change.old.obj)
            if not fits and not fitted:
                return
            if change.kind == "DELETED" or fits == fitted:
                line = change.line()
            else:
                line = watch_line("ADDED" if fits else "DELETED", change.item.whole())
        self.queue.append(line)
        if self.wake is not None:
            self.wake()

    def say(self, kind: str, body: bytes) -> None:
        self.queue.append(watch_line(kind, body))
        self.notify()

    def take(self) -> bytes:
        queue = self.queue
        if not queue:
            return b""
        data = queue[0] if len(queue) == 1 else b"".join(queue)
        queue.clear()
        return data

    def end(self) -> None:
        self.ended = True
        self._detach(self)
        self.notify()

    def detach(self) -> None:
        self._detach(self)


class Store:
    """All objects. `now` gives loop seconds, `epoch` makes times of day of them. Listeners hear of each change."""

    def __init__(self, now: Callable[[], float], epoch: float, random: Random, history: int) -> None:
        self.now = now
        self.epoch = epoch
        self.random = random
        self.actor = "test"
        self.version = 1000
        self.compacted = 1000
        self.changes: list[Change] = []
        self.listeners: list[Callable[[Change], None]] = []
        self.by_owner: dict[str, dict[Key, None]] = {}
        self.uids: dict[str, Key] = {}
        self._history = history
        self._shelves: dict[tuple[str, str], dict[str, Item]] = {}
        self._changes: dict[str, list[Change]] = {resource: [] for resource in KINDS}
        self._watches: dict[str, list[Watch]] = {resource: [] for resource in KINDS}
        self._stamped = (-1, "")

    # Reading.

    def shelf(self, resource: str, namespace: str) -> dict[str, Item]:
        shelf = self._shelves.get((resource, namespace))
        if shelf is None:
            shelf = self._shelves[resource, namespace] = {}
        return shelf

    def find(self, resource: str, namespace: str, name: str) -> Item | None:
        return self.shelf(resource, namespace).get(name)

    def owned(self, uid: str) -> Iterator[Item]:
        for resource, namespace, name in tuple(self.by_owner.get(uid, ())):
            item = self.find(resource, namespace, name)
            if item is not None:
                yield item

    def stamp(self) -> str:
        """Now, in whole seconds."""
        second = int(self.epoch + self.now())
        if second != self._stamped[0]:
            self._stamped = (second, rfc3339(second))
        return self._stamped[1]

    def uid(self) -> str:
        text = f"{self.random.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    # Writing. The callers have checked what may be written.

    def add(self, key: Key, tree: Tree, spec: tuple[Any, bytes] | None = None) -> Item:
        """`tree` with its metadata becomes the first version. Its metadata is copied."""
        self.version += 1
        kind, api_version = KINDS[key[0]]
        meta = dict(tree["metadata"])
        meta.pop("generateName", None)
        meta |= {
            "name": key[2],
            "namespace": key[1],
            "uid": meta.get("uid") or self.uid(),
            "resourceVersion": str(self.version),
            "creationTimestamp": self.stamp(),
        }
        obj = {**tree, "kind": kind, "apiVersion": api_version, "metadata": meta}
        item = Item(key, obj, self.version, spec)
        self.shelf(key[0], key[1])[key[2]] = item
        self.uids[meta["uid"]] = key
        for owner in meta.get("ownerReferences") or ():
            self.by_owner.setdefault(owner["uid"], {})[key] = None
        self._publish(Change("ADDED", item, None, self.now(), self.actor))
        return item

    def put(self, old: Item, tree: Tree, spec: tuple[Any, bytes] | None = None) -> Item:
        """The next version. An object that is being deleted and has no finalizer left goes away."""
        meta = tree["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds"):
            return self.drop(old, tree)
        self.version += 1
        tree = {**tree, "metadata": {**meta, "resourceVersion": str(self.version)}}
        item = Item(old.key, tree, self.version, spec or old.known_spec())
        self.shelf(old.key[0], old.key[1])[old.key[2]] = item
        if old.obj["metadata"].get("ownerReferences") != meta.get("ownerReferences"):
            for owner in old.obj["metadata"].get("ownerReferences") or ():
                self.by_owner.get(owner["uid"], {}).pop(old.key, None)
            for owner in meta.get("ownerReferences") or ():
                self.by_owner.setdefault(owner["uid"], {})[old.key] = None
        self._publish(Change("MODIFIED", item, old, self.now(), self.actor))
        return item

    def drop(self, old: Item, tree: Tree | None = None) -> Item:
        self.version += 1
        tree = tree or old.obj
        tree = {**tree, "metadata": {**tree["metadata"], "resourceVersion": str(self.version)}}
        item = Item(old.key, tree, self.version, old.known_spec())
        del self.shelf(old.key[0], old.key[1])[old.key[2]]
        meta = tree["metadata"]
        self.uids.pop(meta["uid"], None)
        for owner in meta.get("ownerReferences") or ():
            self.by_owner.get(owner["uid"], {}).pop(old.key, None)
        self._publish(Change("DELETED", item, old, self.now(), self.actor))
        return item

    def _publish(self, change: Change) -> None:
        resource = change.item.key[0]
        self.changes.append(change)
        changes = self._changes[resource]
        changes.append(change)
        if len(changes) > 2 * self._history:
            self.compacted = max(self.compacted, changes[self._history - 1].version)
            del changes[: self._history]
        for watch in tuple(self._watches[resource]):
            watch.offer(change)
        for listener in self.listeners:
            listener(change)

    # Watching.

    def compact(self) -> None:
        """Forgets all changes so far: whoever asks for one gets 410."""
        self.compacted = self.version
        for changes in self._changes.values():
            changes.clear()

    def watch(self, resource: str, namespace: str, version: int, chosen: Selector | None) -> Watch | None:
        """From the change after `version`, 0 for all that is there now. None: compacted."""
        watch = Watch(resource, namespace, chosen, self._unwatch)
        if version == 0:
            for item in self.shelf(resource, namespace).values():
                if chosen is None or chosen(item.obj):
                    watch.queue.append(watch_line("ADDED", item.whole()))
        else:
            if version < self.compacted:
                return None
            changes = self._changes[resource]
            for change in changes[bisect_right(changes, version, key=lambda one: one.version) :]:
                watch.offer(change)
        self._watches[resource].append(watch)
        return watch

    def watches(self) -> list[Watch]:
        return [watch for watches in self._watches.values() for watch in watches]

    def _unwatch(self, watch: Watch) -> None:
        if watch in self._watches[watch.resource]:
            self._watches[watch.resource].remove(watch)


def bookmark(resource: str, version: int) -> bytes:
    kind, api_version = KINDS[resource]
    tree = {"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": str(version)}}
    return json.dumps(tree).encode()


def with_meta(tree: Mapping[str, Any], **changes: Any) -> Tree:
    """A copy with other metadata; None takes a field away."""
    meta = {**tree["metadata"], **changes}
    return {**tree, "metadata": {key: value for key, value in meta.items() if value is not None}}
