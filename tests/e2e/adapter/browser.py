"""A headless Chromium, told what to do by its own protocol over a pair of pipes.

The pipes (`--remote-debugging-pipe`) need no port and no library: one JSON object and a NUL a message.
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

paperclipserver = sys.modules["paperclipserver"]

_CALL_SECONDS, _END_SECONDS, _SETTLE_SECONDS = 60, 20, 1
_SIZE = (1400, 1000)
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # which needs namespaces that a container may not have; it sees our own server alone
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    f"--window-size={_SIZE[0]},{_SIZE[1]}",
    "--remote-debugging-pipe",
)


class Page:
    """One tab. Calls raise AssertionError with what the browser said."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._heard = b""
        self._number = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of one command of the DevTools protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + _CALL_SECONDS
        while True:
            found = self._hear(end)
            assert found is not None, f"Chromium did not answer {method} in {_CALL_SECONDS} s"
            if found.get("id") == self._number:
                assert "error" not in found, f"{method}: {found['error']}"
                return found["result"]
            self.events.append(found)

    def _hear(self, end: float) -> dict[str, Any] | None:
        while b"\0" not in self._heard:
            if not select.select([self._reading], [], [], max(0, end - time.monotonic()))[0]:
                return None
            data = os.read(self._reading, 1 << 20)
            assert data, "Chromium has ended"
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """What JavaScript makes of it, as JSON has it; a promise is waited for."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, f"{expression}: {told['exceptionDetails']}"
        return told["result"].get("value")

    @property
    def text(self) -> str:
        """What can be read on the page."""
        return str(self.value("document.body ? document.body.innerText : ''"))

    def shows(self, *texts: str, seconds: float = 60) -> None:
        """Until all of them can be read on the page."""
        end = time.monotonic() + seconds
        while missing := [one for one in texts if one not in self.text]:
            assert time.monotonic() < end, f"the page does not show {missing}, but:\n{self.text[:4000]}"
            time.sleep(0.2)

    def press(self, label: str, seconds: float = 30) -> None:
        """Clicks what has this text, as a person would: once it stands still, and the smallest of several that lie in
        each other. On a page that is still being laid out the click would meet something else.
        """
        end, before = time.monotonic() + seconds, None
        while not (place := self.value(_PLACE % json.dumps(label))) or place != before:
            assert time.monotonic() < end, f"nothing to press is called {label!r}:\n{self.text[:4000]}"
            before = place
            time.sleep(0.5)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **place, button="left", clickCount=1)

    def point_at_hint(self, label: str) -> None:
        """Moves the mouse to the question mark beside a field's label."""
        place = self.value(_HINT % json.dumps(label))
        assert place, f"no question mark stands beside {label!r}"
        # From elsewhere: a pointer that appears does not count as one that came.
        for there in ({"x": 1, "y": 1}, place):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", **there)

    def fill(self, label: str, text: str) -> None:
        """Types into the field of that label or placeholder, in place of what is there."""
        assert self.value(_FOCUS % json.dumps(label)), f"no field is called {label!r}:\n{self.text[:4000]}"
        self.call("Input.insertText", text=text)

    def picture(self, path: Path, height: int = _SIZE[1]) -> None:
        """A PNG of the page as a window of that height would show it: its parts scroll by themselves."""
        path.parent.mkdir(parents=True, exist_ok=True)
        window = {"width": _SIZE[0], "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **window)
        time.sleep(_SETTLE_SECONDS)
        shot = self.call("Page.captureScreenshot", format="png")
        self.call("Emulation.clearDeviceMetricsOverride")
        path.write_bytes(base64.b64decode(shot["data"]))


# Each of these takes a text as JSON; a place is the middle of an element, once it is scrolled to.
_PLACE = """(() => {
  const wanted = %s;
  const all = [...document.querySelectorAll('button, a, label, summary, [role=button], [role=option], [role=tab]')];
  const fits = (one) => one.innerText?.trim() === wanted && one.getClientRects().length > 0 && !one.disabled;
  const found = all.filter(fits).pop();
  if (!found) return null;
  found.scrollIntoView({ block: 'center' });
  const box = found.getBoundingClientRect();
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
})()"""

_HINT = """(() => {
  const wanted = %s;
  const named = [...document.querySelectorAll('label, span, div')].filter((one) => one.innerText?.trim() === wanted);
  const near = (one) => one && (one.querySelector('[data-slot=tooltip-trigger]') ?? near(one.parentElement));
  const found = named.length > 0 && near(named[named.length - 1]);
  if (!found) return null;
  found.scrollIntoView({ block: 'center' });
  const box = found.getBoundingClientRect();
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
})()"""
_FOCUS = """(() => {
  const wanted = %s;
  const fields = 'input, textarea';
  const labels = [...document.querySelectorAll('label')].filter((one) => one.innerText.trim() === wanted);
  const beside = labels.map((one) => one.parentElement.parentElement.querySelector(fields)).find((one) => one);
  const found = beside ?? [...document.querySelectorAll(fields)].find((one) => one.placeholder === wanted);
  if (!found) return false;
  found.scrollIntoView({ block: 'center' });
  found.focus();
  found.select();
  return true;
})()"""


@contextmanager
def running(program: str, folder: Path) -> Iterator[Page]:
    """A page of `program`, a Chromium, which ends with us; `folder` is for its files."""
    folder.mkdir()
    paperclipserver.give(folder)
    # Chromium reads commands from its descriptor 3 and answers on 4.
    commands, writing = os.pipe()
    reading, answers = os.pipe()
    prepare = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
    options = [*_OPTIONS, f"--user-data-dir={folder}/profile"]
    started = [*paperclipserver.as_its_user("--pdeathsig=KILL"), "bash", "-c", prepare, program, *options]
    with (folder / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            started,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": str(folder)},
            pass_fds=(commands, answers),
            start_new_session=True,
        )
    os.close(commands)
    os.close(answers)
    try:
        yield Page(reading, writing)
    finally:
        os.close(writing)  # it ends when nobody can tell it anything any more
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(reading)
