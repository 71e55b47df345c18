"""The parameters of a call, read with care: every problem is told at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paperclip_launcher.readers import kind
from paperclip_launcher.serve.messages import INVALID_PARAMS, RpcError


class Params:
    """Readers gather what is wrong; `check` raises it. Keys that nobody asks for are ignored."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._tree = tree
        self._problems: list[str] = []

    def text(self, key: str, default: str | None = None) -> str:
        """Not empty, unless the default is."""
        found = self._tree.get(key)
        if found is None and default is not None:
            return default
        if isinstance(found, str) and (found or default == ""):
            return found
        self._problems.append(f"{key} is {'an empty text' if found == '' else _kind(found)}, and must be a text")
        return ""

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number from 0 on."""
        found = self._tree.get(key)
        if found is None and default is not None:
            return default
        if type(found) is int and found >= 0:
            return found
        self._problems.append(f"{key} is {_kind(found)}, and must be a whole number from 0 on")
        return 0

    def tree(self, key: str, default: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        found = self._tree.get(key)
        if found is None and default is not None:
            return default
        if isinstance(found, dict):
            return found
        self._problems.append(f"{key} is {_kind(found)}, and must be a map")
        return {}

    def any(self, key: str) -> Any:
        return self._tree.get(key)

    def check(self) -> None:
        if self._problems:
            data = {"code": "invalid_params", "problems": self._problems, "remedy": "see docs/launcher-protocol.md"}
            raise RpcError(INVALID_PARAMS, "; ".join(self._problems), data)


def _kind(value: Any) -> str:
    return "missing" if value is None else kind(value) if not isinstance(value, int) else str(value)
