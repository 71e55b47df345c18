"""One environment: the root of the config."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from charts_py.config.admission import AdmissionPolicies
from charts_py.config.agents import Agents
from charts_py.config.argocd import ArgoCd
from charts_py.config.cluster import Cluster
from charts_py.config.database import Database
from charts_py.config.launcher import Launcher, check_fits
from charts_py.config.secrets import SecretStore
from charts_py.config.server import Network, Server
from charts_py.config.tenants import Tenant, check_tenants
from charts_py.config.types import DnsLabel, Model, unique
from policies.facts import external_of, minor

API_VERSION = "paperclip-gitops/v1"


def _external(text: str) -> str:
    external_of(text)
    return text


External = Annotated[str, AfterValidator(_external)]


class SystemNamespace(Model):
    """The namespace of the server."""

    name: DnsLabel = "paperclip-system"
    """Its name."""


class Checks(Model):
    """What the checks may leave out; each is named at every run."""

    unchecked_kinds: tuple[str, ...] = ()
    """Kinds, written group/Kind, that may pass where no schema of them is on the machine (`schemas pull` gets them)."""
    externals: tuple[External, ...] = ()
    """Objects that are made elsewhere, written Kind/namespace/name or Kind/name; `:a,b` at the end names keys."""
    registries: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """What images must begin with, for example ghcr.io/paperclipai. Empty: any registry."""
    private_registries: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """The same, of images that only a pull secret gets."""


class Environment(Model):
    """Everything that one Paperclip on one cluster needs."""

    api_version: Literal["paperclip-gitops/v1"]
    """paperclip-gitops/v1"""
    kind: Literal["Environment"]
    """Environment"""
    name: DnsLabel
    """The name of the environment: its folder in dist/."""
    cluster: Cluster = Cluster()
    """The cluster that it runs on."""
    namespace: SystemNamespace = SystemNamespace()
    """The namespace of the server."""
    secret_store: SecretStore | None = None
    """Where secrets come from; absent: every Secret is made elsewhere."""
    server: Server
    """The server."""
    network: Network = Network()
    """Who may talk to the server, and to whom it may talk."""
    database: Database
    """The database."""
    agents: Agents
    """The agents."""
    launcher: Launcher = Launcher()
    """Whether the server starts runs as Jobs, and who does it."""
    tenants: tuple[Tenant, ...] = ()
    """Companies whose agents upstream's Kubernetes plugin runs, each in a namespace that is made before it comes."""
    argocd: ArgoCd | None = Field(default=None)
    """How Argo CD picks the rendered state up; absent: no Application is rendered."""
    admission_policies: AdmissionPolicies | None = None
    """What the API server itself judges by; absent: nothing."""
    checks: Checks = Checks()
    """What the checks may leave out."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.agents.namespace == self.namespace.name:
            raise ValueError("agents.namespace: agents need a namespace of their own, apart from the server's")
        if self.database.kind == "bitnami" and self.argocd is None:
            raise ValueError("database.kind: bitnami is installed by Argo CD from its chart; it needs `argocd`")
        if self.agents.egress.fqdns and self.cluster.cilium is None:
            raise ValueError("agents.egress.fqdns: only Cilium can allow by name; it needs `cluster.cilium`")
        if self.agents.egress.fqdns and self.agents.egress.world:
            raise ValueError("agents.egress: rules add up, so `world: true` would hide `fqdns`; set `world: false`")
        if self.argocd is not None and self.argocd.application_prefix and self.database.kind == "bitnami":
            name = f"{self.argocd.application_prefix}-{self.database.release}"
            if len(name) > 63:
                raise ValueError(f"argocd.applicationPrefix: the name {name!r} has {len(name)} characters; at most 63")
        if self.database.kind == "bitnami":
            unique("secret name", [self.database.password_secret, *(secret.name for secret in self.server.secrets)])
        if self.launcher.sidecar is not None:
            check_fits(self.launcher.sidecar, self.server)
        if self.admission_policies is not None and minor(self.cluster.kubernetes_version) < 30:
            raise ValueError("admissionPolicies: ValidatingAdmissionPolicy is served from Kubernetes 1.30 on")
        taken = {self.namespace.name: "the server's", self.agents.namespace: "the agents'"}
        check_tenants(self.tenants, taken, self.cluster, launcher=self.launcher.enabled)
        kinds = [kind.name for kind in self.agents.jobs.kinds]
        if len(set(kinds)) != len(kinds):
            raise ValueError("agents.jobs.kinds: two kinds have one name")
        known = {entry.key for secret in self.agents.secrets for entry in secret.entries}
        for kind in self.agents.jobs.kinds:
            if unknown := sorted(set(kind.secret_keys) - known):
                raise ValueError(
                    f"agents.jobs.kinds: {kind.name} wants {', '.join(unknown)}, which no Secret of agents has"
                )
        return self

    @property
    def images(self) -> tuple[str, ...]:
        """Every image that is named, each once, sorted."""
        server = self.server
        found = {server.image, *(one.image for one in (*server.init_containers, *server.sidecars))}
        found |= {kind.image for kind in self.agents.jobs.kinds}
        if self.launcher.sidecar is not None:
            found.add(self.launcher.sidecar.image)
        if self.database.kind == "cloudnative-pg":
            found.add(self.database.image)
        if self.database.kind == "bitnami":
            found.add(self.database.image.text)
            if self.database.metrics_image is not None:
                found.add(self.database.metrics_image.text)
        return tuple(sorted(found))
