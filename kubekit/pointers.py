"""JSON pointers (RFC 6901): how a finding, a position or a difference names a place in an object."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

# At most nine digits: int() refuses thousands of them with an error of its own.
_INDEX = re.compile("0|[1-9][0-9]{0,8}")


class PointerError(ValueError):
    """A pointer that is not one, or that leads nowhere."""


def escape(token: str) -> str:
    """One token as it stands between two slashes."""
    if "~" in token or "/" in token:
        return token.replace("~", "~0").replace("/", "~1")
    return token


def join(pointer: str, *tokens: str | int) -> str:
    """`pointer` one step deeper for each token: "/spec" with "a/b" and 0 is "/spec/a~1b/0"."""
    return pointer + "".join("/" + escape(str(token)) for token in tokens)


def split(pointer: str) -> tuple[str, ...]:
    """The tokens of `pointer`, unescaped; () for "", the whole document."""
    if not pointer:
        return ()
    if pointer[0] != "/":
        raise PointerError(f'pointer {pointer!r} does not begin with "/"; write "/{pointer}"')
    if "~" in pointer.replace("~0", "").replace("~1", ""):
        raise PointerError(f'pointer {pointer!r} holds a bare "~"; write "~0" for "~" and "~1" for "/"')
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))


def get(tree: Any, pointer: str) -> Any:
    """What stands at `pointer`; PointerError where nothing does."""
    here = tree
    for token in split(pointer):
        if isinstance(here, Mapping) and token in here:
            here = here[token]
        elif isinstance(here, list | tuple) and _INDEX.fullmatch(token) and int(token) < len(here):
            here = here[int(token)]
        else:
            raise PointerError(f"nothing stands at {pointer!r}: {token!r} is not there")
    return here


def walk(tree: Any) -> Iterator[tuple[str, Any]]:
    """(pointer, leaf) of all leaves in the order of the tree; an empty map or list is a leaf.

    Needs no stack of the interpreter: a tree of any depth will do.
    """
    waiting: list[tuple[str, Any]] = [("", tree)]
    while waiting:
        pointer, value = waiting.pop()
        if isinstance(value, Mapping) and value:
            waiting.extend([(f"{pointer}/{escape(str(key))}", child) for key, child in value.items()][::-1])
        elif isinstance(value, list | tuple) and value:
            waiting.extend([(f"{pointer}/{index}", child) for index, child in enumerate(value)][::-1])
        else:
            yield pointer, value
