"""What is rendered: the same bytes on every machine, all or nothing under `kill -9`, and every text comes back."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from kubekit import yamlread
from kubekit.yamlwrite import dump
from tests.charts.test_determinism import ROOT, rendered
from tests.faults.elsewhere import passed
from tests.faults.table import Figure, exactly
from tests.kubekit.test_yaml_for_go import config_map, random_texts

_HASH_SEEDS = ("0", "1", "4242", "random")
_PLACES = ({"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "0"}, {"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"})
_ZONES = ("UTC", "Pacific/Kiritimati", "America/St_Johns")
_WHERE = (ROOT, Path("/"), Path(tempfile.gettempdir()))
_AT_ONCE = 4000
"""Texts of one document."""


def machines(seed: int, count: int) -> Iterator[Mapping[str, Any]]:
    """Machines as they may be, in words that `rendered` takes: every seed, locale, zone, folder and mask occurs."""
    rng = random.Random(seed)
    for number in range(count):
        yield {
            "PYTHONHASHSEED": _HASH_SEEDS[number % len(_HASH_SEEDS)],
            **_PLACES[number % len(_PLACES)],
            "TZ": rng.choice(_ZONES) if number >= len(_ZONES) else _ZONES[number],
            "cwd": rng.choice(_WHERE) if number >= len(_WHERE) else _WHERE[number],
            "umask": rng.choice((0o000, 0o022, 0o077)) if number > 1 else (0o077, 0o000)[number],
            "PYTHONOPTIMIZE": rng.choice(("", "1", "2")),
        }


def different(seed: int, count: int) -> list[str]:
    """Sums of what was rendered on so many machines: names, bytes and modes of all files."""
    found = set()
    with tempfile.TemporaryDirectory(prefix="paperclip-synth-") as folder:
        for number, machine in enumerate(machines(seed, count)):
            total = sha256()
            for name, (data, mode) in sorted(rendered(Path(folder), f"dist-{number}", **machine).items()):
                total.update(f"{name} {mode:o} {len(data)}\n".encode() + data)
            found.add(total.hexdigest())
    return sorted(found)


def wrong_texts(seed: int, count: int) -> int:
    """How many random texts were not the same after our writer and our reader, or libyaml."""
    wrong, texts = 0, random_texts(count, seed)
    for at in range(0, count, _AT_ONCE):
        wanted = {f"k{number}": text for number, text in enumerate(texts[at : at + _AT_ONCE])}
        written = dump(config_map(dict(wanted)))
        for read in (yamlread.read(written.encode(), "texts").value, yaml.load(written, yaml.CSafeLoader)):
            wrong += sum(read["data"].get(key) != text for key, text in wanted.items())
    return wrong


def figures(seed: int, *, full: bool = True) -> Iterator[Figure]:
    name, many, texts = "synth", 24 if full else 3, 100_000 if full else 8000
    yield exactly(name, f"rendered on {many} unlike machines: different results", len(different(seed, many)), 1)
    told = passed("tests/charts/test_dist_kill.py")
    yield exactly(name, "kill -9 at 100 moments, and before each call that writes", told, "passed")
    yield exactly(name, f"{texts:,} texts written as YAML and read again: wrong", wrong_texts(seed, texts), 0)
