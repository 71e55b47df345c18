"""Where all of it is tried: the real server, our adapter in it, the launcher beside it, a real node for the pods."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kubekit import names

controlplane, paperclipserver = sys.modules["controlplane"], sys.modules["paperclipserver"]
relay, sidecar = sys.modules["relay"], sys.modules["sidecar"]

ADAPTERS = controlplane.ROOT / "adapter"
TYPE, OTHER_TYPE = "claude_k8s", "opencode_k8s"
_MOUNT = "/workspace"


@dataclass(frozen=True)
class Stage:
    """`site` is the environment on the node, `server` Paperclip, `launcher` the sidecar, `api` the server's."""

    site: Any
    server: Any
    launcher: Any

    @property
    def api(self) -> Any:
        return self.server.api

    def agent(self, company: str, name: str = "Ada", heartbeat: Any = None, **config: Any) -> Any:
        return self.api.create_agent(company, name, TYPE, config, heartbeat)

    def begun(self, company: str, count: int = 1) -> Any:
        """The run of that number in the company, as soon as the server has made it; issues make them by themselves."""
        (found, *_) = controlplane.wait_until(
            f"run {count}", 60, lambda: self.api.runs(company)[count - 1 :], lambda: str(self.api.runs(company))
        )
        return found

    def ended(self, run: Any, seconds: float = 120) -> Any:
        """The run when it is over; where it takes too long, all that can be said of it."""
        try:
            return self.api.ended(run.id, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story(run)}") from None

    def saying(self, run: Any, text: str, seconds: float = 90) -> None:
        """Until the server's log of the run has `text`."""
        try:
            self.api.wait_for_log(run.id, text, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story(run)}") from None

    def settled(self, ask: Callable[[], Any], wanted: Any) -> None:
        """Until the server's records say so: some it writes a moment after its answer."""
        controlplane.wait_until(f"{wanted!r} in the records", 20, lambda: ask() == wanted, lambda: repr(ask()))

    def story(self, run: Any) -> str:
        """For whoever has to find out why a test failed."""
        jobs = [one["metadata"]["name"] for one in self.site.objects("jobs")]
        outputs = (self.launcher.output[-4000:], self.server.output[-4000:])
        return "\n".join((*self._records(run), f"Jobs: {jobs}", self.site.story(self.job_of(run)), *outputs))

    def _records(self, run: Any) -> list[str]:
        if not self.server.pid:
            return ["no server runs"]
        events = [f"{one.type}: {one.message} {json.dumps(one.payload)[:300]}" for one in self.api.events(run.id)]
        return [str(self.api.run(run.id)), self.api.log_text(run.id)[-3000:], *events[-15:]]

    def job_of(self, run: Any) -> str:
        """The name of its Job, whether that is there or not."""
        return str(names.job_name(run.agent, run.id))

    def created(self, *runs: Any) -> int:
        """How many Jobs of these runs the API server has made, by its audit log."""
        jobs = {self.job_of(run) for run in runs}
        return sum(
            entry["responseStatus"]["code"] == HTTPStatus.CREATED and entry["objectRef"].get("name") in jobs
            for entry in self._audited("create", "jobs")
        )

    def _audited(self, verb: str, resource: str) -> Iterator[dict[str, Any]]:
        # While it is written, its last line may be half of one.
        for line in self.site.cluster.audit_log.read_text().split("\n")[:-1]:
            if f'"verb":"{verb}"' in line and f'"resource":"{resource}"' in line:
                entry = json.loads(line)
                if entry["stage"] == "ResponseComplete" and "dryRun" not in entry["requestURI"]:
                    yield entry

    def pod_of(self, run: Any) -> dict[str, Any]:
        """The pod of a run, once it is there."""
        found: dict[str, Any] = controlplane.wait_until(
            f"the pod of {run.id}", 60, lambda: self.site.pod(self.job_of(run)), lambda: self.story(run)
        )
        return found

    def open_gate(self, run: Any, name: str) -> None:
        """Makes the file NAME for which the run's agent waits by `@agent await`, in its workspace."""
        (container,) = self.pod_of(run)["spec"]["containers"]
        (mount,) = [one for one in container["volumeMounts"] if one["mountPath"] == _MOUNT]
        (self.site.cluster.workspace / mount["subPath"] / name).touch()

    def keep_log(self, run: Any) -> KeptLog:
        """What the node itself keeps of the pod's output, also after the pod is gone."""
        pod = self.pod_of(run)
        uid = pod["metadata"]["uid"]
        folder = self.site.cluster.state / "var-log/pods"
        (path,) = controlplane.wait_until(
            "the pod's log", 60, lambda: list(folder.glob(f"*_{uid}/*/0.log")), lambda: self.story(run)
        )
        kept = self.site.cluster.state / f"kept-{uid}.log"
        os.link(path, kept)
        return KeptLog(kept)

    @contextmanager
    def changed(self, kind: str, name: str, change: Callable[[dict[str, Any]], None]) -> Iterator[None]:
        """An object of the agents' namespace is another one for as long as it lasts."""
        there = ("-n", self.site.agents)
        before = self.site.cluster.must("get", kind, name, *there, "-o", "json").json
        for key in ("resourceVersion", "managedFields", "uid", "creationTimestamp"):
            before["metadata"].pop(key, None)
        after = json.loads(json.dumps(before))
        change(after)
        self.site.cluster.must("replace", *there, "-f", "-", objects=[after])
        try:
            yield
        finally:
            self.site.cluster.must("replace", *there, "-f", "-", objects=[before])

    def quiet(self, company: str) -> None:
        """No run of the company is left, and none will come."""
        for agent in self.api.agents(company):
            self.api.pause(agent.id)
        for run in self.api.runs(company):
            self.ended(run)


@dataclass(frozen=True)
class KeptLog:
    """A container's log as the runtime writes it."""

    path: Path

    @property
    def text(self) -> str:
        """The bytes of standard output and standard error, as the container wrote them."""
        found = []
        for line in self.path.read_bytes().split(b"\n")[:-1]:
            match = re.fullmatch(rb"\S+ (?:stdout|stderr) ([FP]) (.*)", line, re.DOTALL)
            assert match is not None, line
            found.append(match[2] + (b"\n" if match[1] == b"F" else b""))
        return b"".join(found).decode()


@contextmanager
def running(site: Any, say: Callable[[str], None]) -> Iterator[Stage]:
    """All of it but the launcher, which every test starts for itself. Raises PaperclipError."""
    holder = int((site.cluster.state / "holder.pid").read_text())
    address = re.search(r"https://([0-9.]+):", site.kubeconfig.read_text())
    assert address is not None, "the API server is on the node"
    with relay.running(holder, address[1]) as way, sidecar.made(site, way.url) as launcher:
        environment = {
            "PAPERCLIP_LAUNCHER_SOCKET": str(launcher.socket),
            "PAPERCLIP_ALLOWED_HOSTNAMES": way.host,
            "HEARTBEAT_SCHEDULER_INTERVAL_MS": "10000",
        }
        with paperclipserver.running(say, environment) as server:
            way.target = server.port
            launcher.skills = server.folder / "home"
            yield Stage(site, server, launcher)
