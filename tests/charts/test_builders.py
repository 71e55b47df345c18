"""The Dockerfiles of templates/builders, as text; and the launcher, run from nothing but what its Dockerfile copies."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from charts_py import __version__
from tests.support import dockerfile

ROOT = Path(__file__).parents[2]
BUILDERS = ROOT / "templates" / "builders"
NAMES = ("launcher", "agent")
SECRET = re.compile(r"(?i)(token|secret|password|passwd|credential|api_?key|auth)")


def instructions(name, *wanted):
    every = dockerfile.read(BUILDERS / name / "Dockerfile")
    return [one for one in every if not wanted or one.name in wanted]


def copied(name):
    """(source in the repo, target in the image) of what comes from outside."""
    for one in instructions(name, "COPY"):
        if "from" not in one.flags:
            *sources, target = one.words
            yield from ((source, target) for source in sources)


@pytest.mark.parametrize("name", NAMES)
def test_every_base_is_named_by_its_digest_or_nothing_is_built(name):
    every = instructions(name)
    stages = [one.text.split(" ")[0] for one in every if one.name == "FROM"]
    assert len(stages) == 2
    (argument,) = {re.fullmatch(r"\$\{([A-Z_]+)\}", text)[1] for text in stages}
    # Without a default, so nobody builds on a tag by leaving it out.
    assert [one.text for one in every if one.name == "ARG" and one.stage == 0] == [argument]
    first = next(one for one in every if one.name == "RUN")
    for image, refused in (("python:3.13", True), ("python:3.13@sha256:" + "a" * 64, False)):
        done = subprocess.run(["sh", "-c", first.text], env={argument: image}, capture_output=True, check=False)
        assert (done.returncode != 0) is refused, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_the_base_is_in_the_lock_of_images(name):
    (base,) = re.findall(rf"^{name}\) base=(\S+)", (BUILDERS / "build.sh").read_text(), re.MULTILINE)
    assert f"- image: {base}\n" in (ROOT / "images.lock").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_it_ends_as_a_user_by_number_and_not_as_root(name):
    last = instructions(name)[-1]
    assert (last.name, last.text) == ("USER", "1000:1000")
    assert [one.text for one in instructions(name, "USER")] == ["1000:1000"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_comes_from_the_net_but_by_a_lock(name):
    assert instructions(name, "ADD") == []
    for one in instructions(name):
        assert "latest" not in one.text, one.text
        assert "://" not in one.text, one.text
        assert not re.search(r"\b(apt|apt-get|apk|curl|wget|git clone)\b", one.text), one.text
        if "pip install" in one.text:
            assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(one.words)
        assert "npm install" not in one.text


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_is_an_argument_or_a_variable(name):
    for one in instructions(name, "ARG", "ENV", "LABEL"):
        assert not SECRET.search(one.text), one.text


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_is(name):
    (label,) = instructions(name, "LABEL")
    told = dict(word.split("=", 1) for word in label.words)
    assert told["org.opencontainers.image.title"] == f"paperclip-{name}"
    assert told["org.opencontainers.image.version"] == "${VERSION}"
    assert {one.text for one in instructions(name, "ARG") if one.text.startswith("VERSION")} == {
        f"VERSION={__version__}"
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_context_holds_what_is_copied_and_nothing_else(name):
    sources = {source for source, _ in copied(name)}
    lines = (BUILDERS / name / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == sources
    assert all((ROOT / source).exists() for source in sources)


@pytest.mark.parametrize("name", NAMES)
def test_files_have_the_time_of_the_commit(name):
    assert any('touch --no-dereference --date="@${SOURCE_DATE_EPOCH}"' in one.text for one in instructions(name, "RUN"))


def test_the_launchers_lock_is_that_of_the_project(tmp_path):
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    script = tmp_path / "templates" / "builders" / "launcher" / "lock.sh"
    script.parent.mkdir(parents=True)
    shutil.copy(BUILDERS / "launcher" / "lock.sh", script)
    subprocess.run(["sh", str(script)], cwd=tmp_path, check=True)
    made = (script.parent / "requirements.lock").read_text()
    assert made == (BUILDERS / "launcher" / "requirements.lock").read_text(), f"run sh {script.relative_to(tmp_path)}"
    assert made.count("==") == 3


def test_the_agents_programs_are_locked_by_version_and_hash():
    wanted = json.loads((BUILDERS / "agent" / "package.json").read_text())["dependencies"]
    packages = json.loads((BUILDERS / "agent" / "package-lock.json").read_text())["packages"]
    assert packages[""]["dependencies"] == wanted
    for name, version in wanted.items():
        assert re.fullmatch(r"[0-9.]+", version)
        assert packages[f"node_modules/{name}"]["version"] == version
    assert all(one["integrity"].startswith("sha512-") for path, one in packages.items() if path)


def locked():
    text = (BUILDERS / "launcher" / "requirements.lock").read_text()
    return re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The launcher's files as its Dockerfile puts them together: COPY, lock and last RUN. Gives (root, python).

    Packages come from this environment instead of a registry; that they are those of the lock is looked at.
    """
    root = tmp_path_factory.mktemp("image")
    for source, target in copied("launcher"):
        place = root / target.lstrip("/") if target != "./" else root / "build" / Path(source).name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy(ROOT / source, place)
    library = root / "opt/paperclip-launcher/lib"
    for name, version in locked():
        found = metadata.distribution(name)
        assert found.version == version
        for file in found.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                place = library / file
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found.locate_file(file), place)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "python")], check=True)
    python = root / "python" / "bin" / "python3"
    last = next(one for one in instructions("launcher", "RUN") if "compileall" in one.text)
    text = last.text.replace("/opt/", f"{root}/opt/").replace("python3 ", f"{python} ")
    subprocess.run(["sh", "-c", text], env={**os.environ, "VERSION": "7.7.7", "SOURCE_DATE_EPOCH": "86400"}, check=True)
    return root, python


def launched(image, *arguments, folder=None):
    root, python = image
    script = root / "opt/paperclip-launcher/bin/paperclip-launcher"
    assert script.read_text().startswith("#!/usr/local/bin/python3 -I\n")
    return subprocess.run(
        [str(python), "-I", str(script), *arguments],
        cwd=folder or root,
        env={"PATH": "/usr/bin:/bin", "HOME": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_launcher_starts_from_what_is_copied_and_locked(image):
    done = launched(image, "version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("paperclip-launcher 7.7.7 ")


def test_every_part_of_the_launcher_can_be_imported_there(image):
    root, python = image
    told = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import paperclip_launcher, kubekit
for package in (paperclip_launcher, kubekit):
    for one in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(one.name)
from policies.registry import all_policies
from paperclip_launcher.exposition import exposition
print(len(all_policies()), *sorted({"charts_py", "cdk8s", "jsii", "pydantic"} & set(sys.modules)))
"""
    library = str(root / "opt/paperclip-launcher/lib")
    done = subprocess.run([str(python), "-I", "-c", told, library], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"[0-9]{3}\n", done.stdout)


def test_it_makes_a_job_that_the_policies_let_pass(image):
    templates = ROOT / "dist" / "minimal" / "job-templates"
    done = launched(image, "render", "--prompt", "hello", "--templates", str(templates))
    assert done.returncode == 0, done.stderr
    assert "kind: Job" in done.stdout


def test_it_installs_the_adapter_that_it_carries(image, tmp_path):
    root, _ = image
    carried = root / "opt/paperclip-adapter"
    done = launched(image, "adapter", f"--install={tmp_path}", f"--from={carried}")
    assert done.returncode == 0, done.stderr
    records = json.loads((tmp_path / "adapter-plugins.json").read_text())
    assert {one["type"] for one in records} == {"claude_k8s", "opencode_k8s"}


def test_the_same_commit_makes_the_same_files(image):
    root, _ = image
    every = [path for path in (root / "opt").rglob("*") if path.is_file()]
    assert {path.stat().st_mtime for path in every} == {86400.0}
    compiled = [path for path in every if path.suffix == ".pyc"]
    # Checked against no time and no source: PEP 552, flags 0b01.
    assert compiled
    assert {path.read_bytes()[4:8] for path in compiled} == {b"\x01\x00\x00\x00"}


@pytest.fixture
def checkout(tmp_path):
    """A folder with the script, a lock and a `docker` that shows how it was called."""
    (tmp_path / "templates" / "builders").mkdir(parents=True)
    shutil.copy(BUILDERS / "build.sh", tmp_path / "templates" / "builders")
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "time $SOURCE_DATE_EPOCH"\n')
    docker.chmod(0o755)
    return tmp_path


def build(checkout, *arguments):
    environment = {"PATH": f"{checkout / 'bin'}:/usr/bin:/bin", "SOURCE_DATE_EPOCH": "1700000000"}
    script = ["sh", "templates/builders/build.sh", *arguments]
    return subprocess.run(script, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


def test_the_script_builds_on_the_digest_of_the_lock(checkout):
    digest = "sha256:" + "ab" * 32
    base = "docker.io/library/python:3.13-slim-trixie"
    (checkout / "images.lock").write_text(
        f"images:\n- image: other:1\n  digest: sha256:00\n- image: {base}\n  digest: {digest}\n"
    )
    done = build(checkout, "launcher", "ghcr.io/example/launcher:1", "--push")
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert f"PYTHON_IMAGE={base}@{digest}" in told
    assert {"templates/builders/launcher/Dockerfile", "ghcr.io/example/launcher:1", "--push", "time 1700000000"} <= set(
        told
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("launcher", "a/b:1"), 1, "run `paperclip-gitops images lock docker.io/library/python:3.13-slim-trixie`"),
        (("agent", "a/b:1"), 1, "run `paperclip-gitops images lock docker.io/library/node:24-trixie`"),
        (("server", "a/b:1"), 2, "which image?"),
        (("agent",), 2, "under which name?"),
    ],
)
def test_the_script_says_what_is_missing(checkout, arguments, code, said):
    shutil.copy(ROOT / "images.lock", checkout)
    text = re.sub(r"digest: sha256:\S+", "unresolved: nobody asked", (checkout / "images.lock").read_text())
    (checkout / "images.lock").write_text(text)
    done = build(checkout, *arguments)
    assert done.returncode == code
    assert said in done.stderr
