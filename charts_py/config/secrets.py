"""Secrets: where they come from and who reads them. Their values never stand in a config."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from charts_py.config.types import ConfigKey, DnsSubdomain, Duration, Model


class SecretStore(Model):
    """The External Secrets store; without one, every Secret is made elsewhere and only named here."""

    name: DnsSubdomain
    """The name of the store."""
    kind: Literal["ClusterSecretStore", "SecretStore"] = "ClusterSecretStore"
    """The kind of the store."""
    refresh_interval: Duration = "5m"
    """How often External Secrets looks for a new value."""
    null_byte_policy: Literal["Ignore", "Fail"] | None = None
    """Write Ignore for External Secrets 2.3 and newer, which fills it in and so drifts; older ones do not know it."""


class SecretEntry(Model):
    """One key of a Secret and where its value stands in the store."""

    key: ConfigKey
    """The key in the Secret."""
    remote: Annotated[str, Field(min_length=1)]
    """The key in the store."""


class SecretSpec(Model):
    """A Secret: rendered as an ExternalSecret if there is a store, else expected to exist."""

    name: DnsSubdomain
    """The name of the Secret, and of its ExternalSecret."""
    entries: tuple[SecretEntry, ...] = ()
    """Its keys; without a store they only say what the Secret must hold."""
    type: str | None = None
    """The type of the Secret, for example kubernetes.io/dockerconfigjson; absent: Opaque."""
    template: dict[ConfigKey, str] = Field(default_factory=dict)
    """Keys written by a template of External Secrets: fixed text or Go templates such as {{ .KEY }}."""
    external: bool = False
    """True: the Secret is made elsewhere even though there is a store."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.external and self.template and not self.entries:
            raise ValueError(
                f"Secret {self.name!r} has a template but no entries: an ExternalSecret must fetch something"
            )
        return self


class ServerSecret(SecretSpec):
    """A Secret of the server's namespace and how the server reads it."""

    use: Literal["environment", "imagePull", "none"] = "environment"
    """environment: each key becomes a variable of the server; imagePull: to pull its image; none: named elsewhere."""
    optional: bool = False
    """Whether the server starts without it. A feature's key must never stop the server."""
