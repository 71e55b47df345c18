"""Who may do what at the API server."""

from __future__ import annotations

from collections.abc import Iterator

from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.metadata import metadata
from charts_py.constructs.server import SERVICE_ACCOUNT
from kubekit import calls
from kubekit.identity import Manifest

LAUNCHER_ROLE = "paperclip-launcher"


class AgentAccess(Concept):
    """The agents' account, which may do nothing, and the launcher's Role over their namespace."""

    concept = "access"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        namespace = environment.agents.namespace
        yield {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(
                environment, "ServiceAccount", environment.agents.service_account, namespace, "agents"
            ),
            "automountServiceAccountToken": False,
        }
        if not environment.launcher.enabled:
            return
        yield {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata(environment, "Role", LAUNCHER_ROLE, namespace, "launcher"),
            "rules": calls.rules(),
        }
        yield {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata(environment, "RoleBinding", LAUNCHER_ROLE, namespace, "launcher"),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": LAUNCHER_ROLE},
            # The launcher runs in the server's pod, which has one account: the binding crosses the namespaces.
            "subjects": [
                {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": environment.namespace.name},
            ],
        }
