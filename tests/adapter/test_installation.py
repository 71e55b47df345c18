"""The adapter in the home of a server: whole, listed, and beside what others have there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from paperclip_launcher.cli.main import main
from paperclip_launcher.serve import described, installation
from paperclip_launcher.serve.installation import LIST, STORE, AdapterMissing, install
from tests.adapter.node_program import node

ADAPTER = Path(__file__).parents[2] / "adapter"
OTHER = {"packageName": "droid", "type": "droid_local", "installedAt": "2026-01-01T00:00:00Z", "x": {"y": 1}}
NOW = 1_800_000_000.0


def listed(home):
    return json.loads((home / LIST).read_text())


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_is_whole_listed_and_what_the_server_would_load(tmp_path):
    found = install(tmp_path, ADAPTER, now=NOW)
    assert found.changed
    records = listed(tmp_path)
    assert [one["type"] for one in records] == ["claude_k8s", "opencode_k8s"]
    for record in records:
        assert set(record) == {"packageName", "localPath", "version", "type", "installedAt"}
        code = (
            f"const m = await import({json.dumps(record['localPath'] + '/index.js')});"
            "const a = m.createServerAdapter(); console.log(a.type, typeof a.listModels)"
        )
        told = subprocess.run([node(), "--input-type=module", "-e", code], capture_output=True, text=True, check=True)
        assert told.stdout == f"{record['type']} function\n"
    assert (tmp_path / STORE / found.folder.name / "package.json").stat().st_mode & 0o777 == 0o644


def test_installing_again_changes_nothing(tmp_path):
    install(tmp_path, ADAPTER, now=NOW)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert not install(tmp_path, ADAPTER, now=NOW + 60).changed
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_records_of_others_and_keys_that_are_not_ours_stay_in_their_place(tmp_path):
    ours = {"type": "claude_k8s", "packageName": "old", "localPath": "/old", "disabledReason": "test"}
    odd = ["text", 3]
    (tmp_path / LIST).write_text(json.dumps([OTHER, ours, *odd, {**ours, "localPath": "/older"}]))
    (tmp_path / "adapter-settings.json").write_text("{}")
    install(tmp_path, ADAPTER, now=NOW)
    first, claude, *rest, opencode = listed(tmp_path)
    assert (first, rest) == (OTHER, odd)
    assert claude["disabledReason"] == "test"
    assert claude["localPath"].endswith("/claude")
    assert opencode["type"] == "opencode_k8s"
    assert (tmp_path / "adapter-settings.json").read_text() == "{}"


@pytest.mark.parametrize("text", ["{", "", '{"a": 1}', "null", "[" * 100_000])
def test_a_list_that_is_none_is_put_aside_and_told(tmp_path, capsys, text):
    (tmp_path / LIST).write_text(text)
    assert main(["adapter", "--install", str(tmp_path), "--from", str(ADAPTER)]) == 0
    aside = next(tmp_path.glob(f"{LIST}.broken-*"))
    assert aside.read_text() == text
    assert str(aside) in capsys.readouterr().err
    assert len(listed(tmp_path)) == 2


def test_a_new_release_gets_a_folder_of_its_own_and_old_ones_go_in_time(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ADAPTER, source)
    home = tmp_path / "home"
    first = install(home, source, now=NOW)
    (source / "source" / "log.js").write_text("// another release\n")
    os.utime(first.folder, (NOW, NOW))
    second = install(home, source, now=NOW + 60)
    assert second.folder != first.folder
    assert first.folder.is_dir()
    assert all(one["localPath"].startswith(str(second.folder)) for one in listed(home))
    assert install(home, source, now=NOW + 8 * 86_400).removed == (first.folder,)
    assert not first.folder.exists()


def test_a_folder_that_somebody_changed_is_made_whole_again(tmp_path):
    found = install(tmp_path, ADAPTER, now=NOW)
    (found.folder / "claude" / "index.js").write_text("throw new Error()")
    (found.folder / "source" / "log.js").unlink()
    (found.folder / "more").write_text("")
    assert install(tmp_path, ADAPTER, now=NOW).changed
    assert tree(found.folder) == {str(path): data for path, data in installation._contents(ADAPTER).items()}
    assert [path.name for path in (tmp_path / STORE).iterdir()] == [found.folder.name]


def test_it_describes_the_launcher_that_installs_it(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ADAPTER, source)
    (source / "claude" / described.FILE).write_text("{}")
    found = install(tmp_path / "home", source, now=NOW)
    installed = json.loads((found.folder / "claude" / described.FILE).read_text())
    assert installed == described.described("claude_k8s")


def test_hidden_files_links_and_packages_of_others_are_left_out(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ADAPTER, source)
    (source / "node_modules").mkdir()
    (source / "node_modules" / "x.js").write_text("")
    (source / ".env").write_text("SECRET=1")
    (source / "link.js").symlink_to("/etc/passwd")
    found = install(tmp_path / "home", source, now=NOW)
    assert not {"node_modules/x.js", ".env", "link.js"} & set(tree(found.folder))


def test_many_at_once_leave_one_whole_installation(tmp_path):
    threads = [threading.Thread(target=install, args=(tmp_path, ADAPTER), kwargs={"now": NOW}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one["type"] for one in listed(tmp_path)] == ["claude_k8s", "opencode_k8s"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [STORE, LIST]


def test_a_folder_that_is_no_adapter_installs_nothing(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for source in ("empty", "absent"):
        assert main(["adapter", "--install", str(tmp_path / "home"), "--from", str(tmp_path / source)]) == 1
        assert "--from DIR" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()
    with pytest.raises(AdapterMissing, match=r"claude/package\.json"):
        install(tmp_path / "home", tmp_path / "empty", now=NOW)


def test_the_adapter_is_found_by_what_is_said_then_by_the_environment_then_in_the_checkout():
    assert installation.found("/a", {"PAPERCLIP_ADAPTER": "/b"}) == Path("/a")
    assert installation.found("", {"PAPERCLIP_ADAPTER": "/b"}) == Path("/b")
    assert installation.found("", {}) in {ADAPTER, Path("/opt/paperclip-adapter")}


@pytest.mark.parametrize("words", [[], ["--install", "a", "--write", "b"]])
def test_one_thing_is_asked_for_at_a_time(words, capsys):
    assert main(["adapter", *words]) == 2
    assert "give --install HOME, or --write DIR" in capsys.readouterr().err


def test_the_package_brings_the_whole_adapter_along(tmp_path):
    (wheel,) = WheelBuilder(str(ADAPTER.parent)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as packed:
        within = {name.partition("/_adapter/")[2] for name in packed.namelist() if "/_adapter/" in name}
    assert within == {str(path.relative_to(ADAPTER)) for path in ADAPTER.rglob("*") if path.is_file()}
