"""How the server starts runs as Jobs: by itself, or through a launcher beside it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from charts_py.config.server import Server
from charts_py.config.types import AbsolutePath, DnsLabel, Image, Model, unique
from charts_py.config.workload import Amounts, PullPolicy, Resources

HOME = "/paperclip"
"""Where the server's claim stands in its container."""
SOCKET_FOLDER = "/run/paperclip-launcher"
SOCKET_VARIABLE = "PAPERCLIP_LAUNCHER_SOCKET"
LAUNCHER, ADAPTER = "launcher", "adapter-install"
"""The names of its two containers."""
SOCKET, TEMPLATES, TOKEN, WORKSPACE = "launcher-socket", "launcher-templates", "launcher-token", "launcher-workspace"
_SERVER_PORT = 3100


class Sidecar(Model):
    """A launcher of its own container in the server's pod. It alone has the token of the pod's account."""

    image: Image
    """The image of the launcher, with a tag (templates/builders/launcher); the digest comes from images.lock."""
    image_pull_policy: PullPolicy | None = None
    """Absent: IfNotPresent."""
    resources: Resources = Resources(
        requests=Amounts(cpu="50m", memory="128Mi"),
        limits=Amounts(cpu="1", memory="512Mi"),
    )
    """What it asks for and may take."""
    metrics_port: Annotated[int, Field(ge=1024, le=65535)] = 9464
    """Where /metrics, /healthz and /readyz are. `network.callers` says who may scrape: a peer with this in `ports`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What it logs, as lines of JSON."""
    skills_folders: tuple[AbsolutePath, ...] = (
        "/paperclip/instances/default/companies",
        "/paperclip/instances/default/skills",
    )
    """Folders below /paperclip that runs may take skills and instructions from: by default where the server keeps those
    of its agents and companies. The claim is mounted read-only for them; empty: it is not.
    """
    workspace_claim: DnsLabel | None = None
    """A claim of the server's namespace over the volume of the agents' workspace, made elsewhere; absent: none."""

    @model_validator(mode="after")
    def _folders_fit(self) -> Self:
        unique("skills folder", self.skills_folders)
        for folder in self.skills_folders:
            if not f"{folder}/".startswith(f"{HOME}/"):
                raise ValueError(f"skillsFolders: {folder} is not on the server's claim: name a folder below {HOME}")
        return self


class Launcher(Model):
    """Whether the server starts runs as Jobs, and who does it."""

    enabled: bool = True
    """True: the server's ServiceAccount has the launcher's Role in the agents' namespace, and the pod has its token."""
    sidecar: Sidecar | None = None
    """A container for the launcher, which then has the token alone. Absent: the server starts it as its own child."""

    @model_validator(mode="after")
    def _has_rights(self) -> Self:
        if self.sidecar is not None and not self.enabled:
            raise ValueError("a `sidecar` has rights only with `enabled: true`; leave one of the two out")
        return self


def check_fits(sidecar: Sidecar, server: Server) -> None:
    """Raises ValueError where the rest of the config leaves no room for the sidecar."""
    others = (*server.init_containers, *server.sidecars)
    _refuse("server", "container", {LAUNCHER, ADAPTER}, [one.name for one in others])
    _refuse("server.volumes", "volume", {SOCKET, TEMPLATES, TOKEN, WORKSPACE}, [one.name for one in server.volumes])
    _refuse("server.mounts", "mount path", {SOCKET_FOLDER}, [one.path for one in server.mounts])
    variables = [one.name for one in server.environment]
    _refuse("server", "variable", {SOCKET_VARIABLE}, [*server.settings, *variables])
    if "PAPERCLIP_HOME" in variables:
        raise ValueError("server.environment: PAPERCLIP_HOME stands in `server.settings`, where the adapter finds it")
    home = server.settings.get("PAPERCLIP_HOME", HOME)
    if not f"{home}/".startswith(f"{HOME}/") or ".." in home.split("/"):
        raise ValueError(f"server.settings: PAPERCLIP_HOME must be {HOME} or below, on the server's claim (is {home})")
    _check_port(sidecar, server)
    claims = [server.storage.name, *(one.claim.name for one in server.volumes if one.claim)]
    if sidecar.workspace_claim in claims:
        raise ValueError(f"launcher.sidecar.workspaceClaim: {sidecar.workspace_claim} is a claim of the server itself")


def _check_port(sidecar: Sidecar, server: Server) -> None:
    """The containers of a pod share its ports."""
    taken = {_SERVER_PORT: "the server"}
    for one in server.sidecars:
        for port in one.ports:
            if port.protocol == "TCP":
                taken |= {number: f"the container {one.name!r}" for _, number in port.expand()}
    if holder := taken.get(sidecar.metrics_port):
        raise ValueError(
            f"launcher.sidecar.metricsPort: {holder} listens on {sidecar.metrics_port}; choose another one"
        )


def _refuse(where: str, what: str, ours: set[str], found: list[str]) -> None:
    if taken := sorted(ours.intersection(found)):
        raise ValueError(f"{where}: the {what} {taken[0]} belongs to `launcher.sidecar`; choose another name")
