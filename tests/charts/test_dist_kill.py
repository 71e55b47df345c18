"""kill -9 at any moment leaves all of the old state or all of the new one."""

from __future__ import annotations

import errno
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from charts_py.dist import swap
from charts_py.dist.layout import RenderedEnvironment
from charts_py.dist.plan import complete
from charts_py.dist.publish import publish
from charts_py.dist.system import SystemCalls

_KILLS = 100
_ROOT = str(Path(swap.__file__).parents[2])


def state(letter: str) -> list[RenderedEnvironment]:
    files = {f"stack/configmap-{number}.yaml": f"{letter} {number}\n".encode() for number in range(20)}
    return [RenderedEnvironment(name, files, {}) for name in ("lab", "prod")]


def on_disk(letter: str) -> dict[str, bytes]:
    return {f"{item.name}/{path}": data for item in state(letter) for path, data in complete(item).items()}


def content(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def which(dist: Path) -> str:
    """ "A" or "B"; fails for anything between."""
    found = content(dist)
    letters = [letter for letter in "AB" if found == on_disk(letter)]
    assert letters, "dist is a mixture"
    return letters[0]


def sums_hold(dist: Path) -> None:
    for name in ("lab", "prod"):
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=dist / name, check=True)


class Nursery:
    """A process of one thread that forks publishers to be killed: no interpreter start for each of them."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": _ROOT},
        )

    def ask(self, *words: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(*words, sep="\t", file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def killed_at(self, dist: Path, step: int, letter: str, *, exchange: bool) -> bool:
        """Publishes in a child that dies before call number `step`; whether it did die."""
        pid = int(self.ask("die", dist, step, letter, int(exchange)))
        ending = self.ask("wait", pid)
        assert ending in {"0", "-9"}
        return ending == "-9"


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    found = Nursery()
    with found.process:
        yield found
        assert found.process.stdin is not None
        found.process.stdin.close()


def serve() -> None:
    for line in sys.stdin:
        what, *words = line.rstrip("\n").split("\t")
        if what == "wait":
            print(os.waitstatus_to_exitcode(os.waitpid(int(words[0]), 0)[1]), flush=True)
            continue
        child = os.fork()
        if child == 0:
            ended = 1
            try:
                ended = {"loop": publish_for_ever, "die": publish_and_die}[what](*words)
            finally:
                os._exit(ended)
        print(child, flush=True)


def publish_for_ever(dist: str) -> int:
    for letter in itertools.cycle("AB"):
        publish(Path(dist), state(letter), allow_removal=False)
    return 0


def publish_and_die(dist: str, step: str, letter: str, exchange: str) -> int:
    publish(Path(dist), small(letter), allow_removal=False, calls=Dying(int(step), exchange=exchange == "1"))
    return 0


def test_a_hundred_kills_at_random_moments(tmp_path: Path, nursery: Nursery) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    dist = tmp_path / "dist"
    publish(dist, state("A"), allow_removal=False)
    seen, leftovers, longest = set(), 0, 0.05
    for _ in range(_KILLS):
        pid = int(nursery.ask("loop", dist))
        longest *= 1.05 if len(seen) < 2 else 1.0  # a busy machine takes longer for a publish
        time.sleep(chance.uniform(0, longest))
        os.kill(pid, signal.SIGKILL)
        assert nursery.ask("wait", pid) == "-9"
        leftovers += any(path != dist for path in tmp_path.iterdir())
        seen.add(which(dist))
    sums_hold(dist)
    assert seen == {"A", "B"}
    assert leftovers, "no kill fell into a publish: nothing was tested"

    publish(dist, state("A"), allow_removal=False)

    assert which(dist) == "A"
    assert list(tmp_path.iterdir()) == [dist]


class Dying(SystemCalls):
    """Ends the process as kill -9 does, before the call of that number."""

    def __init__(self, at: int, *, exchange: bool) -> None:
        self.left = at
        self.has_exchange = exchange

    def _step(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def make_folder(self, path: str) -> None:
        self._step()
        super().make_folder(path)

    def write_file(self, path: str, data: bytes) -> None:
        self._step()
        super().write_file(path, data)

    def link(self, source: str, target: str) -> None:
        self._step()
        super().link(source, target)

    def flush_entry(self, path: str) -> None:
        self._step()
        super().flush_entry(path)

    def exchange(self, one: Path, other: Path) -> bool:
        self._step()
        return super().exchange(one, other) if self.has_exchange else False

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def remove_tree(self, path: Path) -> None:
        self._step()
        next(path.rglob("*.yaml")).unlink()  # half removed
        self._step()
        super().remove_tree(path)


def small(letter: str) -> list[RenderedEnvironment]:
    files = {"stack/configmap-a.yaml": letter.encode(), "stack/configmap-same.yaml": b"same"}
    return [RenderedEnvironment("prod", files, {})]


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two renames"])
def test_killed_before_every_single_call(tmp_path: Path, nursery: Nursery, *, exchange: bool) -> None:
    dist = tmp_path / "dist"
    states = {letter: {f"prod/{path}": data for path, data in complete(small(letter)[0]).items()} for letter in "AB"}
    publish(dist, small("A"), allow_removal=False)
    step, letter, moments = 0, "B", []
    while nursery.killed_at(dist, step, letter, exchange=exchange):
        if not exchange and not dist.exists():
            moments.append("no dist")
        swap.recover(dist)
        found = content(dist)
        assert found in states.values(), f"a mixture after call {step}"
        assert list(tmp_path.iterdir()) == [dist]
        moments.append("new" if found == states[letter] else "old")
        letter = "A" if found == states["B"] else "B"
        step += 1
    assert step >= 10
    assert set(moments) >= {"old", "new"}
    assert ("no dist" in moments) is (not exchange)
    assert content(dist) == states[letter]


def test_a_first_publish_that_dies_leaves_no_dist_and_the_next_one_works(tmp_path: Path, nursery: Nursery) -> None:
    dist = tmp_path / "dist"
    step = 0
    while nursery.killed_at(dist, step, "A", exchange=True):
        assert not dist.exists() or content(dist)["prod/stack/configmap-a.yaml"] == b"A"
        swap.recover(dist)
        if dist.exists():
            break
        step += 1
    publish(dist, small("A"), allow_removal=False)
    assert list(tmp_path.iterdir()) == [dist]


def test_a_half_made_swap_that_fails_is_put_back(tmp_path: Path) -> None:
    class Stuck(SystemCalls):
        renames = 0

        def exchange(self, one: Path, other: Path) -> bool:
            return False

        def rename(self, source: Path, target: Path) -> None:
            self.renames += 1
            if self.renames == 2:
                raise OSError(errno.EIO, "Input/output error", str(source))
            super().rename(source, target)

    dist = tmp_path / "dist"
    publish(dist, state("A"), allow_removal=False)

    with pytest.raises(Exception, match="Input/output error"):
        publish(dist, state("B"), allow_removal=False, calls=Stuck())

    assert which(dist) == "A"
    assert list(tmp_path.iterdir()) == [dist]


def test_the_stage_of_a_live_publish_is_left_alone(tmp_path: Path) -> None:
    class Watched(SystemCalls):
        def flush(self, root: str, entries: list[str]) -> None:  # type: ignore[override]
            assert (
                subprocess.run(
                    [
                        sys.executable,
                        "-S",
                        "-c",
                        _RECOVER,
                        _ROOT,
                        str(tmp_path / "dist"),
                    ],
                    capture_output=True,
                    check=False,
                ).stdout
                == b"busy\n"
            )
            assert Path(root).is_dir()
            super().flush(root, entries)

    publish(tmp_path / "dist", state("A"), allow_removal=False, calls=Watched())

    assert which(tmp_path / "dist") == "A"


_RECOVER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from charts_py.dist import lock, swap
from charts_py.dist.errors import DistBusy
lock.held.__wrapped__.__kwdefaults__["patience"] = 0.05
try:
    swap.recover(Path(sys.argv[2]))
except DistBusy:
    print("busy")
"""


def test_folders_of_a_like_name_are_not_ours_to_clean(tmp_path: Path) -> None:
    names = [".dist-stage-notes", ".dist-old-backup-2026", "dist-stage-1-aaaaaaaa"]
    for name in names:
        (tmp_path / name).mkdir()

    publish(tmp_path / "dist", state("A"), allow_removal=False)

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, "dist"])


if __name__ == "__main__":
    serve()
