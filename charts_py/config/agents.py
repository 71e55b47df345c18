"""The agents: their namespace, workspace, limits, ways out, and the Jobs that run them."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from charts_py.config.secrets import SecretSpec
from charts_py.config.server import Peer, Toleration
from charts_py.config.types import (
    Count,
    DnsLabel,
    DnsSubdomain,
    Image,
    Labels,
    Model,
    PortNumber,
    Quantity,
    unique,
)
from charts_py.config.workload import Amounts, Resources
from kubekit import quantity


class Workspace(Model):
    """The claim that all agents share, each in its own folder."""

    name: DnsLabel = "paperclip-agent-workspace"
    """The name of the claim."""
    size: Quantity = "50Gi"
    """Its size."""
    storage_class: DnsSubdomain | None = None
    """Its class, which must support ReadWriteMany; absent: the default class of the cluster."""
    access_mode: Literal["ReadWriteMany", "ReadWriteOnce"] = "ReadWriteMany"
    """ReadWriteOnce only on a cluster of one node: agents on a second node would wait for ever."""


class Quota(Model):
    """What all agents together may take."""

    pods: Count = 20
    """Agent pods at once."""
    jobs: Count = 200
    """Jobs, finished ones included until their time to live is over."""
    requests: Amounts = Amounts(cpu="10", memory="20Gi", ephemeral_storage="40Gi")
    """The sum of all requests."""
    limits: Amounts = Amounts(cpu="40", memory="80Gi", ephemeral_storage="160Gi")
    """The sum of all limits."""


class ContainerLimits(Model):
    """The bounds of one container of an agent."""

    minimum: Amounts = Amounts(cpu="50m", memory="64Mi")
    """A container that asks for less is refused."""
    maximum: Amounts = Amounts(cpu="8", memory="16Gi", ephemeral_storage="32Gi")
    """A container that may take more is refused."""
    default_requests: Amounts = Amounts(cpu="250m", memory="512Mi", ephemeral_storage="1Gi")
    """The requests of a container that names none."""
    default_limits: Amounts = Amounts(cpu="2", memory="4Gi", ephemeral_storage="8Gi")
    """The limits of a container that names none."""

    @model_validator(mode="after")
    def _rising(self) -> Self:
        steps = ("minimum", "default_requests", "default_limits", "maximum")
        for resource in Amounts.model_fields:
            named = [(step, amount) for step in steps if (amount := getattr(getattr(self, step), resource))]
            for (lower, small), (upper, large) in itertools.pairwise(named):
                if quantity.parse(small) > quantity.parse(large):
                    raise ValueError(f"{resource}: {lower} ({small}) is over {upper} ({large})")
        return self


class Egress(Model):
    """Where agents may go: DNS and the Paperclip API always, the cluster never."""

    world: bool = True
    """Whether they may reach the outside world by address. With `fqdns` it must be false: rules add up."""
    world_ports: Annotated[tuple[PortNumber, ...], Field(min_length=1, max_length=40)] = (443, 80, 22)
    """TCP ports of the outside world; Cilium takes 40 in a rule."""
    fqdns: tuple[DnsSubdomain, ...] = ()
    """Names they may reach instead, for example api.anthropic.com; needs Cilium."""
    destinations: tuple[Peer, ...] = ()
    """Further destinations inside, for example a model gateway."""


class JobKind(Model):
    """One kind of agent Job."""

    name: DnsLabel
    """The name of the Job template."""
    program: Literal["claude", "generic"] = "generic"
    """claude: Claude Code with its stream-json output; generic: the first argument is the program."""
    image: Image
    """The image of the agent, with a tag."""
    resources: Resources = Resources(
        requests=Amounts(cpu="250m", memory="1Gi", ephemeral_storage="2Gi"),
        limits=Amounts(cpu="2", memory="4Gi", ephemeral_storage="8Gi"),
    )
    """What a run asks for and may take, unless its request says otherwise."""
    secret_keys: tuple[str, ...] = ()
    """Keys of `agents.secrets` that become variables of the run."""


class Jobs(Model):
    """What all agent Jobs share."""

    deadline_seconds: Annotated[int, Field(ge=60, le=7 * 86400)] = 4 * 3600
    """How long a run may take, unless its request says otherwise."""
    time_to_live_seconds: Annotated[int, Field(ge=3600, le=2**31 - 1)] = 86400
    """How long a finished Job stays when no launcher is left to collect it."""
    termination_grace_period_seconds: Annotated[int, Field(ge=5, le=55)] = 30
    """How long an agent may take to stop; the server gives a cancellation 60 s in all."""
    user: Count = 1000
    """The user and group id of agents; the workspace belongs to it."""
    node_selector: Labels = Field(default_factory=dict)
    """The labels of the nodes agents may run on."""
    tolerations: tuple[Toleration, ...] = ()
    """The taints they bear."""
    priority_class: DnsSubdomain | None = None
    """Their PriorityClass."""
    runtime_class: DnsSubdomain | None = None
    """Their RuntimeClass, for example gvisor."""
    kinds: Annotated[tuple[JobKind, ...], Field(min_length=1)]
    """The kinds of Job."""


class Agents(Model):
    """The agents."""

    namespace: DnsLabel = "paperclip-agents"
    """Their namespace."""
    service_account: DnsLabel = "paperclip-agent-runner"
    """Their ServiceAccount; it has no token and no rights."""
    workspace: Workspace = Workspace()
    """Their claim."""
    secrets: tuple[SecretSpec, ...] = ()
    """Their API keys. Jobs take single keys as variables; no account can read the Secrets."""
    quota: Quota = Quota()
    """What all of them may take."""
    container_limits: ContainerLimits = ContainerLimits()
    """The bounds of one container."""
    egress: Egress = Egress()
    """Where they may go."""
    jobs: Jobs
    """Their Jobs."""

    @model_validator(mode="after")
    def _jobs_fit(self) -> Self:
        unique("secret name", [secret.name for secret in self.secrets])
        bounds = self.container_limits
        for kind in self.jobs.kinds:
            for resource in Amounts.model_fields:
                limit = getattr(kind.resources.limits, resource) or getattr(bounds.default_limits, resource)
                request = getattr(kind.resources.requests, resource) or limit
                found = [getattr(bounds.minimum, resource), request, limit, getattr(bounds.maximum, resource)]
                for small, large in itertools.pairwise([amount for amount in found if amount]):
                    if quantity.parse(small) > quantity.parse(large):
                        raise ValueError(
                            f"jobs.kinds: {kind.name}: {resource}: {small} is over {large}; see containerLimits"
                        )
        return self
