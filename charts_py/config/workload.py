"""What containers need: resources, environment, volumes, ports. The server, its sidecars and the Jobs share it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from charts_py.config.types import (
    AbsolutePath,
    ConfigKey,
    Count,
    DnsLabel,
    DnsSubdomain,
    EnvName,
    Image,
    Model,
    PortName,
    PortNumber,
    Quantity,
    SubPath,
    unique,
)
from kubekit import quantity

_PORT_NAME = 15  # characters, RFC 6335

PullPolicy = Literal["Always", "IfNotPresent"]


class Amounts(Model):
    """Amounts of the resources of one container."""

    cpu: Quantity | None = None
    """CPU, for example 250m."""
    memory: Quantity | None = None
    """Memory, for example 512Mi."""
    ephemeral_storage: Quantity | None = None
    """Disk of the node: logs, the writable layer and emptyDirs, for example 1Gi."""


class Resources(Model):
    """What a container asks for, and what it may take at most."""

    requests: Amounts
    """What the scheduler reserves."""
    limits: Amounts
    """What the container may take at most; over memory it is killed."""

    @model_validator(mode="after")
    def _requests_fit(self) -> Self:
        for name in ("cpu", "memory", "ephemeral_storage"):
            request, limit = getattr(self.requests, name), getattr(self.limits, name)
            if request and limit and quantity.parse(request) > quantity.parse(limit):
                raise ValueError(f"the request of {name} ({request}) is over its limit ({limit})")
        return self


class SecretKey(Model):
    """One key of a Secret in the same namespace."""

    name: DnsSubdomain
    """The name of the Secret."""
    key: ConfigKey
    """The key in the Secret."""
    optional: bool = False
    """Whether the container starts without it."""


class EnvironmentVariable(Model):
    """One variable; the order counts, since `$(NAME)` sees only what stands before it."""

    name: EnvName
    """The name of the variable."""
    value: str | None = None
    """Its value. Never a secret: this text is committed."""
    secret: SecretKey | None = None
    """The key of a Secret to take the value from."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.value is None) == (self.secret is None):
            raise ValueError(f"{self.name} takes either `value` or `secret`")
        return self


class Mount(Model):
    """Where a volume of the pod stands in a container."""

    volume: DnsLabel
    """The name of one of `server.volumes`, or `data` for the server's own claim."""
    path: AbsolutePath
    """Where it stands in the container."""
    sub_path: SubPath | None = None
    """The file or folder of the volume that is mounted; such a mount never sees later changes."""
    read_only: bool = False
    """Whether the container may write to it."""


class Claim(Model):
    """A claim that the pod owns alone."""

    name: DnsLabel
    """The name of the PersistentVolumeClaim."""
    size: Quantity
    """Its size, for example 10Gi. It can grow later, never shrink."""
    storage_class: DnsSubdomain | None = None
    """Its class; absent: the default class of the cluster."""


class ConfigFiles(Model):
    """Files that come from this config."""

    name: DnsLabel
    """The name of the ConfigMap."""
    files: Annotated[dict[ConfigKey, str], Field(min_length=1)]
    """File name to text. Never a secret: this text is committed."""
    mode: Annotated[int, Field(ge=0, le=0o777)] | None = None
    """The permissions of the files as a decimal number (420 is 0644)."""


class SecretFiles(Model):
    """Files that come from a Secret."""

    name: DnsSubdomain
    """The name of the Secret."""
    mode: Annotated[int, Field(ge=0, le=0o777)] | None = None
    """The permissions of the files as a decimal number (256 is 0400)."""
    optional: bool = False
    """Whether the pod starts without it."""


class Scratch(Model):
    """An empty folder that goes with the pod."""

    size_limit: Quantity
    """How much may be written; over it the pod is evicted."""


class Volume(Model):
    """One volume of the pod; it takes exactly one source."""

    name: DnsLabel
    """The name that mounts refer to."""
    claim: Claim | None = None
    """A ReadWriteOnce claim that is rendered here."""
    config: ConfigFiles | None = None
    """Files of this config."""
    secret: SecretFiles | None = None
    """Files of a Secret."""
    scratch: Scratch | None = None
    """An empty folder."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        sources = [self.claim, self.config, self.secret, self.scratch]
        if sum(source is not None for source in sources) != 1:
            raise ValueError(f"volume {self.name!r} takes exactly one of claim, config, secret, scratch")
        return self


class ContainerPort(Model):
    """A port that a container listens on, or a range of them."""

    name: PortName
    """The name of the port; a range appends the number: mosh-60000."""
    port: PortNumber
    """The number, or the first of the range."""
    through: PortNumber | None = None
    """The last number of the range."""
    protocol: Literal["TCP", "UDP"] = "TCP"
    """TCP or UDP."""

    @model_validator(mode="after")
    def _forward(self) -> Self:
        if self.through is not None and self.through < self.port:
            raise ValueError(f"port range {self.port} to {self.through} runs backwards")
        if long := [name for name, _ in self.expand() if len(name) > _PORT_NAME]:
            raise ValueError(
                f"port name {long[0]!r} has {len(long[0])} characters, at most {_PORT_NAME}: shorten the name"
            )
        return self

    def expand(self) -> tuple[tuple[str, int], ...]:
        """(name, number) of each port."""
        if self.through is None:
            return ((self.name, self.port),)
        return tuple((f"{self.name}-{number}", number) for number in range(self.port, self.through + 1))


class TcpProbe(Model):
    """A probe that connects and hangs up. An HTTP probe is not offered: in private mode the server answers 403."""

    port: PortName
    """The name of the port."""
    initial_delay_seconds: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """How long after the start the first probe comes."""
    period_seconds: Count = 10
    """How often."""


class Identity(Model):
    """As whom a container runs, without any privilege."""

    user: Count
    """The user id."""
    group: Count
    """The group id."""


def differ(ports: Iterable[ContainerPort]) -> None:
    """Raises ValueError for a name, or a number with its protocol, that stands twice."""
    every = [(name, number, port.protocol) for port in ports for name, number in port.expand()]
    unique("port name", [name for name, _, _ in every])
    unique("port", [f"{number}/{protocol}" for _, number, protocol in every])


def differ_in_environment(variables: Iterable[EnvironmentVariable], *taken: str) -> None:
    """Raises ValueError for a name that stands twice: a server-side apply refuses it."""
    unique("variable", [*taken, *(one.name for one in variables)])


class Container(Model):
    """A further container of the server's pod."""

    name: DnsLabel
    """Its name."""
    image: Image
    """Its image, with a tag; the digest comes from images.lock."""
    image_pull_policy: PullPolicy | None = None
    """Absent: IfNotPresent with a digest or a fixed tag."""
    command: tuple[str, ...] = ()
    """Replaces the entry point of the image."""
    arguments: tuple[str, ...] = ()
    """Replaces the arguments of the image."""
    environment: tuple[EnvironmentVariable, ...] = ()
    """Its variables, in this order."""
    secrets: tuple[DnsSubdomain, ...] = ()
    """Names of Secrets whose keys become variables; each is optional to the container."""
    mounts: tuple[Mount, ...] = ()
    """Where the volumes stand."""
    ports: tuple[ContainerPort, ...] = ()
    """What it listens on."""
    resources: Resources
    """What it asks for and may take."""
    run_as: Identity | None = None
    """As whom it runs: then without escalation and capabilities, never as root. Absent: as its image says."""
    readiness: TcpProbe | None = None
    """When it counts as ready."""
    liveness: TcpProbe | None = None
    """When it is restarted."""

    @model_validator(mode="after")
    def _differ(self) -> Self:
        differ(self.ports)
        differ_in_environment(self.environment)
        unique("mount path", [mount.path for mount in self.mounts])
        return self
