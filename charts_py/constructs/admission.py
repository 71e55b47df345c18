"""The policies in the API server: what CEL can say of them, as ValidatingAdmissionPolicies."""

from __future__ import annotations

from collections.abc import Iterator

from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.metadata import common_labels
from charts_py.known import facts
from kubekit.identity import Manifest
from policies import vap
from policies.registry import all_policies


class AdmissionPolicies(Concept):
    """A ValidatingAdmissionPolicy and its binding for each policy that speaks CEL."""

    concept = "admission"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        config = environment.admission_policies
        if config is None:
            return
        # In the server's namespace stands what others install too: the chart of the database, operators.
        labelled = [environment.namespace.name]
        if environment.argocd is not None:
            labelled.append(environment.argocd.namespace)
        scheme = vap.Scheme(
            whole=(environment.agents.namespace,),
            labelled=tuple(labelled),
            actions=config.actions,
            prefix=config.prefix,
            labels=common_labels(environment, "paperclip", "policies"),
        )
        yield from vap.objects(all_policies(), facts(environment, inputs.images), scheme, inputs.waivers.entries)
