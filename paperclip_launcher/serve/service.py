"""The methods of the protocol, as one table; docs/launcher-protocol.md says what they mean."""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Callable, Mapping
from typing import Any

from paperclip_launcher import version
from paperclip_launcher.launcher import Launcher
from paperclip_launcher.provision import Stock
from paperclip_launcher.serve import adapters, failures, overview
from paperclip_launcher.serve.environment import environment_report
from paperclip_launcher.serve.lines import Source
from paperclip_launcher.serve.messages import INVALID_REQUEST, NOT_INITIALIZED, UNKNOWN_METHOD, Call, RpcError
from paperclip_launcher.serve.params import Params
from paperclip_launcher.serve.peer import Drain, Peer
from paperclip_launcher.serve.runs import Runs

_LOG = logging.getLogger(__name__)
PROTOCOL_VERSION = 1
Handler = Callable[[Peer, Mapping[str, Any]], Any]
"""Gives a result, or an awaitable of one; what it raises becomes an error of the protocol."""
_OPEN_TO_ALL = frozenset({"initialize", "ping"})


class Service:
    """All that clients may ask of one launcher. `stop` is set by the method shutdown."""

    def __init__(self, launcher: Launcher, stock: Stock, stop: asyncio.Event) -> None:
        self._launcher = launcher
        self._stop = stop
        self.runs = Runs(launcher, stock)
        self._connections = 0
        self.methods: dict[str, Handler] = {
            "initialize": self._initialize,
            "ping": lambda _peer, _tree: {},
            "run.execute": self.runs.execute,
            "run.attach": self.runs.attach,
            "run.ack": self.runs.ack,
            "run.leave": self.runs.leave,
            "run.acknowledge": self.runs.acknowledge,
            "run.cancel": self.runs.cancel,
            "run.list": lambda _peer, _tree: {"runs": overview.list_runs(launcher)},
            "run.describe": self._describe,
            "environment.test": self._test,
            "skills.list": adapters.skills,
            "skills.sync": adapters.skills,
            "models.list": adapters.models,
            "config.schema": adapters.schema,
            "session.deserialize": adapters.read_session,
            "session.serialize": adapters.write_session,
            "session.displayId": adapters.session_label,
            "adapter.describe": adapters.describe,
            "metrics": self._metrics,
            "shutdown": self._shutdown,
        }

    def peer(self, source: Source, drain: Drain, name: str) -> Peer:
        """For a new connection."""
        self._connections += 1
        return Peer(source, drain, self._handle, self._translate, name=f"{name} {self._connections}")

    def _handle(self, peer: Peer, call: Call) -> Any:
        handler = self.methods.get(call.method)
        if handler is None:
            near = difflib.get_close_matches(call.method, self.methods, n=1)
            remedy = f"{near[0]} may be meant" if near else "see docs/launcher-protocol.md"
            data = {"code": "unknown_method", "problems": [], "remedy": remedy}
            raise RpcError(UNKNOWN_METHOD, f"there is no method {call.method[:100]!r}", data)
        if not peer.initialized and call.method not in _OPEN_TO_ALL:
            data = {"code": "not_initialized", "problems": [], "remedy": "call initialize first"}
            raise RpcError(NOT_INITIALIZED, f"{call.method} was called before initialize", data)
        return handler(peer, call.params)

    def _translate(self, error: Exception) -> RpcError:
        return failures.error_of(error, self._launcher.mask)

    def _initialize(self, peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
        params = Params(tree)
        spoken, client = params.whole("protocolVersion"), params.any("client")
        params.check()
        if spoken != PROTOCOL_VERSION:
            data = {
                "code": "protocol_version",
                "problems": [],
                "remedy": "use the adapter and the launcher of one release",
                "supported": [PROTOCOL_VERSION],
            }
            raise RpcError(INVALID_REQUEST, f"protocol version {spoken} is not spoken here", data)
        peer.initialized = True
        if isinstance(client, Mapping):
            name, instance = client.get("name"), client.get("instance")
            peer.client = (name if isinstance(name, str) else "", instance if isinstance(instance, str) else "")
        _LOG.info("%s: client %s", peer.name, str(client)[:100])
        settings = self._launcher.settings
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "launcher": {"name": "paperclip-launcher", "version": version()},
            "identity": settings.identity,
            "namespace": settings.namespace,
            "adapterTypes": list(adapters.ADAPTER_TYPES),
        }

    def _describe(self, _peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
        params = Params(tree)
        run_id = params.text("runId")
        params.check()
        return overview.describe_run(self._launcher, run_id)

    async def _test(self, _peer: Peer, tree: Mapping[str, Any]) -> dict[str, Any]:
        params = Params(tree)
        config, adapter_type = params.tree("config", {}), params.text("adapterType", "claude_k8s")
        params.check()
        return await environment_report(self._launcher, config, adapter_type)

    def _metrics(self, _peer: Peer, _tree: Mapping[str, Any]) -> dict[str, Any]:
        # It takes a moment to import, and few ask for it this way.
        from paperclip_launcher.exposition import CONTENT_TYPE, exposition  # noqa: PLC0415

        return {"contentType": CONTENT_TYPE, "text": exposition(self._launcher.metrics).decode()}

    def _shutdown(self, peer: Peer, _tree: Mapping[str, Any]) -> dict[str, Any]:
        _LOG.info("%s: shutdown was asked for", peer.name)
        self._stop.set()
        return {}
