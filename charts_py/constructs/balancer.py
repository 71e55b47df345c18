"""Cilium's address pool and the announcement of its addresses."""

from __future__ import annotations

from collections.abc import Iterator

from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.metadata import KEPT, metadata
from kubekit.identity import Manifest


class AddressPool(Concept):
    """The pool and the L2 policy, where this environment owns them.

    Other Services of the cluster may have their addresses from here, so they outlive the Application.
    """

    concept = "addresses"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        cilium = environment.cluster.cilium
        if cilium is None:
            return
        if cilium.pool is not None and cilium.pool.render:
            yield {
                "apiVersion": f"cilium.io/{cilium.load_balancer_api_version}",
                "kind": "CiliumLoadBalancerIPPool",
                "metadata": metadata(environment, "CiliumLoadBalancerIPPool", cilium.pool.name, None, "network", KEPT),
                # The default of the definition is written out: what is stored is then what is rendered.
                "spec": {"blocks": [{"start": cilium.pool.start, "stop": cilium.pool.stop}], "disabled": False},
            }
        if cilium.l2_announcement is not None and cilium.l2_announcement.render:
            name = cilium.l2_announcement.name
            yield {
                "apiVersion": "cilium.io/v2alpha1",  # there is no v2 of this kind up to Cilium 1.19
                "kind": "CiliumL2AnnouncementPolicy",
                "metadata": metadata(environment, "CiliumL2AnnouncementPolicy", name, None, "network", KEPT),
                "spec": {
                    "interfaces": list(cilium.l2_announcement.interfaces),
                    "externalIPs": True,
                    "loadBalancerIPs": True,
                },
            }
