"""One list and then watches, for ever: keeps a Store as the API server sees it, and tells each change once.

Three layers: `run` never ends, `_watch_on` goes from watch to watch, `_one_watch` is one stream. A 410 is a normal
event: the kind is listed again, and what differs from the store is told as changes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kubekit.identity import Manifest
from paperclip_launcher.cluster.api import Cluster
from paperclip_launcher.cluster.errors import ApiError, Gone, ServerFault, TooManyRequests, Unauthorized, of_status
from paperclip_launcher.cluster.retry import Backoff
from paperclip_launcher.cluster.store import Store
from paperclip_launcher.cluster.transport import Broken, NotSent, Stream, TimedOut, TransportError
from paperclip_launcher.errors import Unreachable

_log = logging.getLogger(__name__)

# The server ends a watch after so many seconds, and another replica may take the next one.
_SHORTEST, _LONGEST = 600, 1200
# The server sends a bookmark a minute. Without one or an event for so long, the connection is taken for dead.
_IDLE = 150.0
# An object has at most 1.5 MiB; a line that is much longer is no event.
_LONGEST_LINE = 16 << 20
# After a watch that lived so long, trouble is new trouble.
_HEALTHY = 30.0
# So many faults in a row, and it may be our resourceVersion that the server cannot serve.
_MOST_FAULTS = 3


@dataclass(frozen=True, slots=True)
class Change:
    """`old` is what was known before, None for ADDED. `new` is the object now; of a DELETED one its last state where
    the server told it, else None.
    """

    kind: str
    name: str
    old: Manifest | None = field(repr=False)
    new: Manifest | None = field(repr=False)


class Reflector:
    """All objects of one kind that the selectors take. `on_change` runs between two events, so it must be quick."""

    def __init__(
        self,
        cluster: Cluster,
        resource: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        on_change: Callable[[Change], None],
        rng: random.Random,
        trim: Callable[[Manifest], None] = lambda _: None,
        idle: float = _IDLE,
    ) -> None:
        """`trim` takes out of each object what nobody will ask for: a store holds thousands. `idle`: seconds after
        which a silent watch counts as broken.
        """
        self.store = Store()
        self.synced = asyncio.Event()
        """Set once the first list is in the store; whether that is still true, `last_heard` tells."""
        self.last_heard = float("-inf")
        """The loop's time of the last answer, event or bookmark."""
        self._cluster = cluster
        self._resource = resource
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._on_change = on_change
        self._trim = trim
        self._idle = idle
        self._rng = rng
        self._backoff = Backoff(0.5, 30.0, rng)

    async def run(self) -> None:
        """Until it is cancelled; raises nothing else."""
        while True:
            try:
                version = await self._list()
                await self._watch_on(version)
            except (ApiError, TransportError, Unreachable) as error:
                await self._wait(error)
            except Exception as error:  # noqa: BLE001 - a mistake of ours must not blind every run of this launcher
                _log.error("the watch of %s met %s; listing again", self._resource, error, exc_info=True)
                await self._wait(error)

    def forget(self, name: str) -> None:
        """Nobody will ask for the object again, though the server has it still; the next list brings it back."""
        self.store.drop(name)

    async def _list(self) -> str:
        """The resourceVersion of what is in the store now."""
        # The pause between two tries is ours, so the call itself makes one only.
        items, version = await self._cluster.list(
            self._resource,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            retry_seconds=0,
        )
        self._heard()
        left = dict(self.store)
        for one in items:
            left.pop(one["metadata"]["name"], None)
            self._put(one)
        for name in left:
            self._drop(name, None)
        self.synced.set()
        return version

    async def _watch_on(self, version: str) -> None:
        """Watch after watch, each from where the last one ended. Ends by an error that only a new list mends.

        Silence is such an error: after its storage was set back, a server has nothing to say of our resourceVersion.
        """
        faults = 0
        while True:
            began = self._time()
            trouble: Exception | None = None
            progress = _Progress(version)
            try:
                await self._one_watch(progress)
            except (NotSent, Broken, TimedOut, ServerFault, TooManyRequests, Unauthorized) as error:
                faults = faults + 1 if isinstance(error, ServerFault) else 0
                if faults == _MOST_FAULTS:
                    raise
                trouble = error
            finally:
                if self._time() - began >= _HEALTHY:
                    self._backoff.reset()
            version = progress.version
            if trouble is not None or self._time() - began < 1:
                await self._wait(trouble or Broken("the watch ended at once"))

    async def _one_watch(self, progress: _Progress) -> None:
        stream = await self._cluster.open_watch(
            self._resource,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            resource_version=progress.version,
            seconds=self._rng.randint(_SHORTEST, _LONGEST),
            idle=self._idle,
        )
        try:
            self._heard()
            await self._take_events(stream, progress)
        finally:
            await stream.close()

    async def _take_events(self, stream: Stream, progress: _Progress) -> None:
        lines = _Lines()
        while chunk := await stream.read():
            self._heard()
            for line in lines.feed(chunk):
                self._take(line, progress)

    def _take(self, line: bytes, progress: _Progress) -> None:
        event = json.loads(line)
        kind, one = event["type"], event["object"]
        if kind == "ERROR":
            code = one.get("code")
            error = of_status(code if type(code) is int else 500, one)
            # No more comes of this resourceVersion, whatever the cause; a plain ApiError leads to a new list as well.
            raise error if isinstance(error, Gone) else ApiError(error.status, error.reason, error.message)
        if kind in ("ADDED", "MODIFIED"):
            self._put(one)
        elif kind == "DELETED":
            known = self.store.get(one["metadata"]["name"])
            # Of two objects of one name, the end of the first is no news once the second is known.
            if known is not None and _uid(known) == _uid(one):
                self._drop(one["metadata"]["name"], one)
        progress.version = one["metadata"]["resourceVersion"]

    def _put(self, one: Manifest) -> None:
        meta = one["metadata"]
        name = meta["name"]
        known = self.store.get(name)
        if known is not None and _uid(known) != meta.get("uid"):
            self._drop(name, None)
            known = None
        if known is not None and known["metadata"].get("resourceVersion") == meta.get("resourceVersion"):
            return
        self._trimmed(one)
        self.store.put(name, one)
        self._tell(Change("ADDED" if known is None else "MODIFIED", name, known, one))

    def _drop(self, name: str, last: Manifest | None) -> None:
        if last is not None:
            self._trimmed(last)
        self._tell(Change("DELETED", name, self.store.drop(name), last))

    def _trimmed(self, one: Manifest) -> None:
        one["metadata"].pop("managedFields", None)
        self._trim(one)

    def _tell(self, change: Change) -> None:
        try:
            self._on_change(change)
        except Exception:  # noqa: BLE001 - the stream goes on for all others
            _log.exception("a change of %s %s was not taken", self._resource, change.name)

    async def _wait(self, error: Exception) -> None:
        if not isinstance(error, Gone):
            self._cluster.complaints.tell(f"watch {self._resource}", error)
        await asyncio.sleep(self._backoff.pause(error))

    def _heard(self) -> None:
        self.last_heard = self._time()

    def _time(self) -> float:
        return asyncio.get_running_loop().time()


@dataclass(slots=True)
class _Progress:
    """How far a watch has come; kept apart from it, since a watch mostly ends by an error."""

    version: str


class _Lines:
    """Whole lines out of pieces that are cut anywhere. Pieces of one line are joined once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        *whole, rest = chunk.split(b"\n")
        if whole:
            yield b"".join((*self._parts, whole[0]))
            self._parts, self._size = [], 0
            yield from whole[1:]
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > _LONGEST_LINE:
                raise Broken(f"an event of more than {_LONGEST_LINE >> 20} MiB")


def _uid(one: Manifest) -> Any:
    return one["metadata"].get("uid")
