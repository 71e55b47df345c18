"""The verb `serve`: what it hands over to the server, which has tests of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import time


def ask(path, *calls):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        _connect(client, path)
        for number, (method, params) in enumerate(calls):
            call = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            client.sendall(json.dumps(call).encode() + b"\n")
        with client.makefile() as lines:
            return [json.loads(next(lines)) for _ in calls]


def _connect(client, path):
    """The path is there a moment before anybody listens at it."""
    end = time.monotonic() + 30
    while True:
        try:
            return client.connect(str(path))
        except ConnectionRefusedError:
            assert time.monotonic() < end, "nobody listens"
            time.sleep(0.002)


def test_serve_answers_on_its_socket_under_the_name_of_its_folder(world, launcher, place):
    path, answers = place / "l.sock", []

    def talk():
        answers.extend(ask(path, ("initialize", {"protocolVersion": 1, "client": "test"}), ("ping", {})))
        os.kill(os.getpid(), signal.SIGTERM)

    world.when(path.exists, talk)
    code, out, err = launcher("serve", "--socket", path)
    assert (code, out) == (0, "")
    told = answers[0]["result"]
    assert told["namespace"] == "paperclip-agents"
    assert told["identity"] == (place / "state" / "paperclip-launcher" / "identity").read_text().strip()
    assert "serving as" in err
    assert world.left() == {}
