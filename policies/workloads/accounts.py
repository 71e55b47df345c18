"""The identity that pods have in the cluster: which account, and whether its token is in the pod."""

from __future__ import annotations

from collections.abc import Iterator

from kubekit import labels
from policies.cel import Cel
from policies.facts import Facts
from policies.model import Fault, Scope, Severity
from policies.registry import policy
from policies.workloads.subjects import AGENT_CEL, SERVER_CEL, is_agent, is_server
from policies.world import PODS, Entry, PodView, World

_ACCOUNTS = "https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/"
_ACCOUNT_CEL = "variables.podSpec.?serviceAccountName.orValue(variables.podSpec.?serviceAccount.orValue(''))"
_OURS_CEL = f"variables.podLabels[?'{labels.PART_OF}'].orValue('') == '{labels.PART_OF_PAPERCLIP}'"


def account_of(pod: PodView) -> str:
    """The name of its ServiceAccount, "" if it names none; `serviceAccount` is the old name of the field."""
    for field in ("serviceAccountName", "serviceAccount"):
        name = pod.spec.get(field)
        if isinstance(name, str) and name:
            return name
    return ""


@policy(
    "sa-explicit",
    title="Pods name their ServiceAccount, and it is not `default`",
    rationale="What somebody once bound to `default` of the namespace, every pod without an account of its own has.",
    remedy="give the workload a ServiceAccount of its own and name it in serviceAccountName",
    kinds=PODS,
    links=(_ACCOUNTS,),
    cel=Cel(f"!({_ACCOUNT_CEL} in ['', 'default'])"),
)
def sa_explicit(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.pod is not None and account_of(entry.pod) in {"", "default"}:
        found = "is default" if account_of(entry.pod) else "is absent, which means default"
        yield Fault(
            f"{entry.pod.pointer}/serviceAccountName", f"serviceAccountName must be an account of its own ({found})"
        )


@policy(
    "sa-exists",
    title="The ServiceAccount of a pod exists",
    rationale="Without it no pod is made at all: the controller only notes `serviceaccount not found` in an event.",
    remedy="add the ServiceAccount to the set, correct the name, or declare it as external",
    scope=Scope.SET,
    kinds=PODS,
    links=(_ACCOUNTS,),
)
def sa_exists(entry: Entry, world: World) -> Iterator[Fault]:
    name = account_of(entry.pod) if entry.pod is not None else ""
    # Each namespace has `default` from the start; that it is used is another policy's finding.
    if entry.pod is None or name in {"", "default"} or world.exists("ServiceAccount", entry.id.namespace, name):
        return
    yield Fault(
        f"{entry.pod.pointer}/serviceAccountName",
        f"ServiceAccount {name!r} must exist in namespace {entry.id.namespace!r} (is neither in the set nor external)",
    )


def _token_cel(facts: Facts) -> Cel:
    """An account without a list of API clients is judged for agents alone, as below."""
    clients = ", ".join(f"'{one}'" for one in sorted(facts.api_clients))
    return Cel(
        "variables.client || (variables.said ? !variables.auto"
        f" || !({'true' if clients else AGENT_CEL}) : !({_OURS_CEL}))",
        variables={
            "said": "has(variables.podSpec.automountServiceAccountToken)",
            "auto": "variables.podSpec.?automountServiceAccountToken.orValue(true)",
            "client": f"(object.metadata.?namespace.orValue('') + '/' + {_ACCOUNT_CEL}) in [{clients}]",
        },
        partly="Of pods that leave it open it judges ours alone: others may have a ServiceAccount that says no.",
    )


@policy(
    "no-sa-token",
    title="Only pods that call the Kubernetes API have a token for it",
    rationale="Who gets into the container has the token, and with it every right of the account.",
    remedy=(
        "set automountServiceAccountToken to false on the pod; declare the account in `apiClients` if its pods call"
        " the API"
    ),
    kinds=PODS,
    links=(f"{_ACCOUNTS}#opt-out-of-api-credential-automounting",),
    cel=_token_cel,
)
def no_sa_token(entry: Entry, world: World) -> Iterator[Fault]:
    pod = entry.pod
    if pod is None:
        return
    said = pod.spec.get("automountServiceAccountToken")
    account, clients = account_of(pod), world.facts.api_clients
    if said is False or f"{entry.id.namespace}/{account}" in clients:
        return
    pointer = f"{pod.pointer}/automountServiceAccountToken"
    if said is True:
        # Who writes `true` says that the pods call the API; without a list of those that do, there is nothing to add.
        if clients or is_agent(entry):
            told = f"automountServiceAccountToken must be false (is true, and {account or 'default'} is no API client)"
            yield Fault(pointer, told)
    elif pod.labels.get(labels.PART_OF) == labels.PART_OF_PAPERCLIP:
        yield Fault(pointer, "automountServiceAccountToken must be false (is absent: the account decides)")
    elif not _denied(entry, account, world):
        told = "automountServiceAccountToken must be false (is absent here and on the account, which means true)"
        yield Fault(pointer, told, Severity.WARNING)


def _denied(entry: Entry, account: str, world: World) -> bool:
    """Whether the account, if it is in the set, has no tokens mounted."""
    known = world.find("ServiceAccount", entry.id.namespace, account or "default")
    return known is not None and known.manifest.get("automountServiceAccountToken") is False


@policy(
    "service-links-off",
    title="The Services of the namespace are not in the environment of agents and of the server",
    rationale=(
        "Each Service adds variables to every pod of its namespace: an agent reads what runs there, and a Service named"
        " `paperclip` adds PAPERCLIP_PORT among the server's own settings."
    ),
    remedy="set enableServiceLinks to false; names of Services are in DNS",
    severity=Severity.WARNING,
    kinds=PODS,
    links=("https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables",),
    cel=Cel(f"!({AGENT_CEL} || {SERVER_CEL}) || !variables.podSpec.?enableServiceLinks.orValue(true)"),
)
def service_links_off(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if entry.pod is None or not (is_agent(entry) or is_server(entry)):
        return
    value = entry.pod.spec.get("enableServiceLinks")
    if value is not False:
        found = "is true" if value is True else "is absent, which means true"
        yield Fault(f"{entry.pod.pointer}/enableServiceLinks", f"enableServiceLinks must be false ({found})")
