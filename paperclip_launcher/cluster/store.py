"""The objects of one kind as the last list and the watch after it tell them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubekit.identity import Manifest


class Store(Mapping[str, Manifest]):
    """Name to object, of one namespace. Nobody but the Reflector changes it, and no object in it is ever changed: a new
    state is a new object.
    """

    def __init__(self) -> None:
        self._objects: dict[str, Manifest] = {}
        # Label key to value to names (as the keys of a dict, which keep their order), from the first question on.
        self._indexes: dict[str, dict[str, dict[str, None]]] = {}

    def __getitem__(self, name: str) -> Manifest:
        return self._objects[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def by_label(self, key: str, value: str) -> list[Manifest]:
        """In the order in which they came."""
        if key not in self._indexes:
            self._indexes[key] = {}
            for name, one in self._objects.items():
                self._index(key, name, one)
        return [self._objects[name] for name in self._indexes[key].get(value, ())]

    def put(self, name: str, new: Manifest) -> Manifest | None:
        """What stood there before."""
        old = self._objects.get(name)
        self._objects[name] = new
        for key in self._indexes:
            if old is not None:
                if _label(old, key) == _label(new, key):
                    continue
                self._drop_index(key, name, old)
            self._index(key, name, new)
        return old

    def drop(self, name: str) -> Manifest | None:
        old = self._objects.pop(name, None)
        if old is not None:
            for key in self._indexes:
                self._drop_index(key, name, old)
        return old

    def _index(self, key: str, name: str, one: Manifest) -> None:
        value = _label(one, key)
        if value is not None:
            self._indexes[key].setdefault(value, {})[name] = None

    def _drop_index(self, key: str, name: str, one: Manifest) -> None:
        value = _label(one, key)
        if value is not None:
            names = self._indexes[key][value]
            del names[name]
            if not names:
                del self._indexes[key][value]


def _label(one: Manifest, key: str) -> str | None:
    value: str | None = (one["metadata"].get("labels") or {}).get(key)
    return value
