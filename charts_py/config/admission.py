"""What the API server judges by itself: the policies as ValidatingAdmissionPolicies."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from charts_py.config.types import DnsLabel, Model, unique


class AdmissionPolicies(Model):
    """The policies that CEL can say, in the API server of the cluster."""

    actions: Annotated[tuple[Literal["Deny", "Warn", "Audit"], ...], Field(min_length=1)] = ("Warn", "Audit")
    """What happens to an object with an error; a warning never denies, an info only stands in the audit log."""
    prefix: Annotated[DnsLabel, Field(max_length=40)] = "paperclip"
    """Begins the name of each policy; environments that share a cluster need one each."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        unique("actions:", self.actions)
        if {"Deny", "Warn"} <= set(self.actions):
            raise ValueError("actions: Deny says all that Warn would, and Kubernetes refuses both together; keep one")
        return self
