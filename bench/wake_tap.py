"""Stands between the server and the launcher on their socket: passes all on, and notes when what went by."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PIECE = 1 << 20
_Hear = Callable[[float, dict[str, Any]], None]


class Tap:
    """Seconds since the epoch, by run: `asked` of its run.execute, `told` of the first piece of its log."""

    def __init__(self, path: Path, target: Path) -> None:
        self.asked: dict[str, float] = {}
        self.told: dict[str, float] = {}
        self._target = target
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()

    def serve(self) -> None:
        """Until the socket is closed."""
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def close(self) -> None:
        # A close alone does not wake the one who waits in accept.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _pass_on(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as launcher:
            launcher.connect(str(self._target))
            back = threading.Thread(target=_pump, args=(launcher, client, self._hear_launcher), daemon=True)
            back.start()
            _pump(client, launcher, self._hear_server)
            back.join()

    def _hear_server(self, now: float, message: dict[str, Any]) -> None:
        if message.get("method") == "run.execute":
            self.asked.setdefault(message["params"]["context"]["runId"], now)

    def _hear_launcher(self, now: float, message: dict[str, Any]) -> None:
        if message.get("method") == "run.log":
            self.told.setdefault(message["params"]["runId"], now)


def _pump(source: socket.socket, sink: socket.socket, hear: _Hear) -> None:
    """What came is looked at after it was sent on, so that this costs the measured way next to nothing."""
    rest = b""
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE):
            now = time.time()
            sink.sendall(data)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                hear(now, json.loads(line))
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def tapped(launcher: Any) -> Iterator[Tap]:
    """On the socket of a sidecar that was not started yet, which gets another one."""
    path = launcher.socket
    launcher.socket = path.with_name("behind-the-tap.sock")
    tap = Tap(path, launcher.socket)
    sys.modules["paperclipserver"].give(path.parent)
    serving = threading.Thread(target=tap.serve, daemon=True)
    serving.start()
    try:
        yield tap
    finally:
        tap.close()
        serving.join()
