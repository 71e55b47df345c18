"""A way for pods to a server that listens on this machine's loopback alone: a port of their node that leads to it.

A socket belongs to the network in which it was made, whoever uses it: so a thread goes into the node's network, opens a
port there and ends; what comes to that port is passed on from here. All of it ends with this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of setns(2)
_PIECE = 1 << 16


class Relay:
    """`port` of the node leads to `target`, a port of 127.0.0.1; connections are refused for as long as it is 0."""

    def __init__(self, listening: socket.socket) -> None:
        self.target = 0
        self.host, self.port = listening.getsockname()
        self._listening = listening

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def serve(self) -> None:
        """Until the socket is closed."""
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.target)) as server:
            back = threading.Thread(target=_pump, args=(server, client), daemon=True)
            back.start()
            _pump(client, server)
            back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def running(holder: int, host: str) -> Iterator[Relay]:
    """On a free port of `host`, an address in the network of the process `holder`."""
    relay = Relay(_listening(holder, host))
    serving = threading.Thread(target=relay.serve, daemon=True)
    serving.start()
    try:
        yield relay
    finally:
        # A close alone does not wake the one who waits in accept.
        with contextlib.suppress(OSError):
            relay._listening.shutdown(socket.SHUT_RDWR)
        relay._listening.close()
        serving.join()


def _listening(holder: int, host: str) -> socket.socket:
    found: list[socket.socket | OSError] = []

    def open_there() -> None:
        try:
            _enter(holder)
            found.append(socket.create_server((host, 0), backlog=128))
        except OSError as error:
            found.append(error)

    # A network is a thread's own, and this one is not used for anything else.
    thread = threading.Thread(target=open_there)
    thread.start()
    thread.join()
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0]


def _enter(holder: int) -> None:
    """This thread goes into the network of that process. OSError."""
    with Path(f"/proc/{holder}/ns/net").open("rb") as network:
        if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), _NEW_NETWORK) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
