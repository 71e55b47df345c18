"""ResourceQuota by count of objects: pods, secrets, jobs and leases."""

from __future__ import annotations

from tests.fakeapi.statuses import GROUPS, forbidden
from tests.fakeapi.store import Store


def check_quota(resource: str, name: str, namespace: str, store: Store) -> None:
    """Refused where one more object of the resource is one too many."""
    group = GROUPS.get(resource)
    keys = [f"count/{resource}.{group}" if group else f"count/{resource}"]
    if not group:
        keys.append(resource)
    for item in tuple(store.shelf("resourcequotas", namespace).values()):
        hard = item.obj.get("spec", {}).get("hard", {})
        for key in keys:
            if key not in hard:
                continue
            objects = store.shelf(resource, namespace).values()
            # A pod that has ended counts no more under `pods`, but does under `count/pods`.
            ended = ("Succeeded", "Failed") if key == "pods" else ()
            used = sum(one.obj.get("status", {}).get("phase") not in ended for one in objects)
            if used >= int(hard[key]):
                figures = f"requested: {key}=1, used: {key}={used}, limited: {key}={hard[key]}"
                raise forbidden(resource, name, f"exceeded quota: {item.key[2]}, {figures}")
