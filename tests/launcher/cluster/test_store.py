"""A store finds objects by name and by label, whatever came and went."""

from __future__ import annotations

import random

from paperclip_launcher.cluster.store import Store


def test_an_index_says_what_a_search_would():
    rng, store = random.Random(3), Store()
    for step in range(2000):
        name = f"o{rng.randrange(30)}"
        if rng.random() < 0.3:
            store.drop(name)
        else:
            labels = {"app": rng.choice("abc")} if rng.random() < 0.8 else None
            store.put(name, {"metadata": {"name": name, "labels": labels, "resourceVersion": str(step)}})
        value = rng.choice("abc")
        expected = {n for n, one in store.items() if (one["metadata"]["labels"] or {}).get("app") == value}
        found = store.by_label("app", value)
        assert {one["metadata"]["name"] for one in found} == expected
        assert all(store[one["metadata"]["name"]] is one for one in found)


def test_what_is_not_there_is_not_found():
    store = Store()
    assert store.drop("a") is None
    assert store.by_label("app", "a") == []
    assert (store.get("a"), len(store), list(store)) == (None, 0, [])
