from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from charts_py.dist import skip
from charts_py.dist.layout import RenderedEnvironment
from charts_py.dist.publish import publish

_FILE = "prod/paperclip-system/configmap-server.yaml"


def rendered(name: str = "prod", value: str = "a") -> RenderedEnvironment:
    return RenderedEnvironment(name, {"paperclip-system/configmap-server.yaml": f"value: {value}\n".encode()}, {})


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    publish(tmp_path / "dist", [rendered(), rendered("lab")], allow_removal=False)
    skip.remember(tmp_path / "cache", tmp_path / "dist", "prod", "inputs")
    return tmp_path / "dist"


def current(dist: Path, inputs: str = "inputs", environment: str = "prod") -> bool:
    return skip.is_current(dist.parent / "cache", dist, environment, inputs)


def test_what_was_recorded_is_current(dist: Path) -> None:
    assert current(dist)
    assert current(dist), "also once the record has been refreshed"


def test_other_inputs_another_environment_or_no_record_are_not(dist: Path) -> None:
    assert not current(dist, "other")
    assert not current(dist, environment="lab")
    assert not skip.is_current(dist.parent / "elsewhere", dist, "prod", "inputs")


@pytest.mark.parametrize("path", [_FILE, "prod/SHA256SUMS", "prod/provenance.json"])
def test_tampering_is_noticed_even_with_size_and_time_put_back(dist: Path, path: str) -> None:
    assert current(dist)
    before = (dist / path).stat()
    data = bytearray((dist / path).read_bytes())
    data[0] ^= 1
    (dist / path).write_bytes(bytes(data))
    os.utime(dist / path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert not current(dist)


def test_a_removed_or_added_file_or_a_link_is_noticed(dist: Path) -> None:
    (dist / "prod/paperclip-system/configmap-hand.yaml").write_text("x")
    assert not current(dist)
    (dist / "prod/paperclip-system/configmap-hand.yaml").unlink()
    assert current(dist)
    (dist / "prod/link").symlink_to("SHA256SUMS")
    assert not current(dist)
    (dist / "prod/link").unlink()
    (dist / _FILE).unlink()
    assert not current(dist)


def test_a_touched_file_with_the_same_content_is_still_current(dist: Path) -> None:
    (dist / _FILE).touch()

    assert current(dist)


def test_the_publish_of_another_environment_does_not_matter(dist: Path) -> None:
    publish(dist, [rendered("lab", "b")], allow_removal=False)

    assert current(dist)


def test_a_tampered_state_is_never_recorded(dist: Path) -> None:
    (dist / _FILE).write_text("edited")
    skip.remember(dist.parent / "cache", dist, "prod", "inputs")

    assert not current(dist)


@pytest.mark.parametrize("junk", [b"", b"[]", b"{", b'{"format":1,"inputs":"inputs","files":7}', b"\xff", b"[" * 9999])
def test_a_broken_cache_is_no_error(dist: Path, junk: bytes) -> None:
    for path in (dist.parent / "cache").iterdir():
        path.write_bytes(junk)

    assert not current(dist)


@pytest.mark.parametrize("row", ["null", "[]", '["a"]', "{}", '{"x":1}'])
def test_a_broken_row_is_no_error(dist: Path, row: str) -> None:
    (record,) = (dist.parent / "cache").iterdir()
    names = ",".join(f'"{path.relative_to(dist / "prod").as_posix()}":{row}' for path in (dist / "prod").rglob("*.*"))
    record.write_text('{"format":1,"inputs":"inputs","files":{"SHA256SUMS":' + row + "," + names + "}}")

    assert not current(dist)


def test_a_cache_that_cannot_be_written_is_no_error(dist: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    skip.remember(tmp_path / "file", dist, "prod", "inputs")

    assert not skip.is_current(tmp_path / "file", dist, "prod", "inputs")


def test_the_digest_of_inputs_does_not_depend_on_order_or_joints() -> None:
    assert skip.inputs_digest({"a": "1", "b": "2"}) == skip.inputs_digest({"b": "2", "a": "1"})
    assert skip.inputs_digest({"a": "1b"}) != skip.inputs_digest({"a1": "b"})


def test_the_check_loads_nothing_heavy() -> None:
    root = str(Path(skip.__file__).parents[2])
    code = f"import sys; sys.path.insert(0, {root!r}); import charts_py.dist.skip; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert not {"dataclasses", "inspect", "typing", "yaml", "pydantic", "cdk8s", "subprocess"} & set(loaded)
