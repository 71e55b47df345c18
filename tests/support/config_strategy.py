"""Generated configs: a hypothesis strategy over all that an environment may say, as YAML-ready trees.

Every config is meant to be accepted: names are unique where the config wants that, and amounts fit together. What lies
on an edge, where it is not plain whether we or the API server should say no, stands in edge_configs.py.

Test folders are no packages, so this file is imported by its path.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

Tree = dict[str, Any]

_ALNUM = string.ascii_lowercase + string.digits
# From small to large; requests and limits are drawn in this order, so that they fit.
_CPU = ("50m", "100m", "250m", "0.5", "1", "1500m", "2", "8")
_MEMORY = ("64Mi", "128M", "256Mi", "0.5Gi", "1Gi", "1536Mi", "4Gi", "16Gi")
_DISK = ("100Mi", "500M", "1Gi", "2Gi", "4Gi", "8Gi", "1e10", "32Gi")
_SIZES = ("500M", "1Gi", "2Gi", "1.5Gi", "10Gi", "20Gi", "0.5Ti", "1e12", "100000000000")
_CIDRS = ("10.0.0.0/8", "172.20.0.0/16", "192.168.55.0/24", "203.0.113.7/32", "2001:db8::/32", "fd00:10:244::/56")
_HOSTS = ("docker.io", "ghcr.io", "mirror.gcr.io", "registry.example.com:5000", "localhost:5000", "")

# Any character but surrogates, which no file can hold, and those that no server-side apply can carry (edge_configs.py).
NOT_APPLICABLE = "".join(map(chr, (*range(0x7F, 0xA0), 0xFFFE, 0xFFFF)))
text = st.text(st.characters(exclude_categories=("Cs",), exclude_characters=NOT_APPLICABLE), max_size=30)
lines = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_characters=NOT_APPLICABLE), max_size=80)
dns_label = st.one_of(
    st.from_regex(r"[a-z]([a-z0-9-]{0,12}[a-z0-9])?", fullmatch=True),
    st.builds(
        lambda head, tail: f"{head}{'-' * 61}{tail}", st.sampled_from(string.ascii_lowercase), st.sampled_from(_ALNUM)
    ),
)
"""Of 1 to 63 characters; the longest ones are as likely as to be seen."""
dns_subdomain = st.one_of(
    dns_label,
    st.lists(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True), min_size=2, max_size=4).map(".".join),
    st.just(".".join(["a" * 62] * 4)),
)
_qualified = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", fullmatch=True)
label_key = st.one_of(_qualified, st.builds("{}/{}".format, dns_subdomain, _qualified))
label_value = st.one_of(st.just(""), _qualified)
labels = st.dictionaries(label_key, label_value, max_size=3)
config_key = st.from_regex(r"[-_a-zA-Z0-9][-._a-zA-Z0-9]{0,20}", fullmatch=True)
env_name = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
port = st.integers(1, 65535)
cidrs = st.lists(st.sampled_from(_CIDRS), min_size=1, max_size=3, unique=True)
size = st.sampled_from(_SIZES)
address = st.sampled_from(("192.168.55.212", "10.1.2.3", "203.0.113.9"))
image = st.builds(
    lambda host, path, tag, digest: f"{f'{host}/' if host else ''}{path}:{tag}{digest}",
    st.sampled_from(_HOSTS),
    st.from_regex(r"[a-z0-9]{1,8}(/[a-z0-9]{1,8}([._-][a-z0-9]{1,4})?){0,2}", fullmatch=True),
    st.from_regex(r"v?[0-9]{1,3}(\.[0-9]{1,3}){0,2}(-[a-z0-9]{1,8})?", fullmatch=True),
    st.sampled_from(("", "@sha256:" + "0123456789abcdef" * 4)),
)


def unique(values: st.SearchStrategy[str], taken: Sequence[str] = (), **bounds: int) -> st.SearchStrategy[list[str]]:
    """A list without repeats, and without what is `taken`."""
    return st.lists(values.filter(lambda one: one not in taken), unique=True, **bounds)


@st.composite
def some(draw: st.DrawFn, **fields: st.SearchStrategy[Any]) -> Tree:
    """A map of which each field may be absent."""
    return {name: draw(values) for name, values in fields.items() if draw(st.booleans())}


@st.composite
def rising(draw: st.DrawFn, count: int, *, complete: bool = False) -> list[Tree]:
    """`count` maps of amounts, in each resource from small to large; all of them name the same resources."""
    every = ("cpu", "memory", "ephemeralStorage")
    named = every if complete else draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    scales = {"cpu": _CPU, "memory": _MEMORY, "ephemeralStorage": _DISK}
    chosen = {name: sorted(draw(st.lists(st.integers(0, 7), min_size=count, max_size=count))) for name in named}
    return [{name: scales[name][steps[index]] for name, steps in chosen.items()} for index in range(count)]


resources = rising(2).map(lambda found: {"requests": found[0], "limits": found[1]})

toleration = st.one_of(
    st.fixed_dictionaries({"key": label_key}, optional={"effect": st.sampled_from(("NoSchedule", "NoExecute"))}),
    st.fixed_dictionaries({"key": label_key, "operator": st.just("Equal"), "value": label_value}),
)


@st.composite
def variables(draw: st.DrawFn) -> list[Tree]:
    taken = ("DATABASE_URL", "PG_PASSWORD")
    reference = st.fixed_dictionaries({"name": dns_subdomain, "key": config_key}, optional={"optional": st.booleans()})
    source = st.one_of(st.fixed_dictionaries({"value": text}), st.fixed_dictionaries({"secret": reference}))
    return [{"name": name, **draw(source)} for name in draw(unique(env_name, taken, max_size=4))]


@st.composite
def secrets(draw: st.DrawFn, names: Sequence[str], *, of_server: bool) -> list[Tree]:
    result = []
    for name in names:
        keys = draw(unique(config_key, min_size=1, max_size=3))
        one: Tree = {
            "name": name,
            "entries": [{"key": key, "remote": draw(st.text("AZ_/.-", min_size=1))} for key in keys],
        }
        one |= draw(some(template=st.dictionaries(config_key, lines, max_size=2), external=st.booleans()))
        if draw(st.booleans()):
            one["type"] = draw(st.sampled_from(("Opaque", "kubernetes.io/dockerconfigjson", "kubernetes.io/tls")))
        if of_server:
            uses = st.sampled_from(("environment", "imagePull", "none"))
            one |= draw(some(use=uses, optional=st.booleans()))
        result.append(one)
    return result


@st.composite
def ports(draw: st.DrawFn, *, of_service: bool) -> list[Tree]:
    """Ports that do not overlap; a range keeps its names within 15 characters."""
    result: list[Tree] = []
    first = 1024
    for name in draw(unique(st.from_regex(r"[a-z]{1,9}", fullmatch=True), min_size=1, max_size=3)):
        start = first + draw(st.integers(0, 4000))
        one: Tree = {"name": name, "port": start, "protocol": draw(st.sampled_from(("TCP", "UDP")))}
        last = start
        if draw(st.booleans()):
            one["through"] = last = start + draw(st.integers(0, 4))
        if of_service and draw(st.booleans()):
            one["target"] = draw(st.integers(1, 65000))
        result.append(one)
        first = last + 1
    return result


@st.composite
def mounts(draw: st.DrawFn, volumes: Sequence[str], prefix: str) -> list[Tree]:
    paths = draw(unique(st.from_regex(r"[a-z0-9._-]{1,8}x", fullmatch=True), max_size=3))
    extras = some(subPath=st.from_regex(r"[a-z0-9]{1,8}(/[a-z0-9.]{1,8}x)?", fullmatch=True), readOnly=st.booleans())
    return [{"volume": draw(st.sampled_from(volumes)), "path": f"{prefix}/{path}", **draw(extras)} for path in paths]


@st.composite
def container(draw: st.DrawFn, name: str, volumes: Sequence[str], *, probes: bool) -> Tree:
    listens = draw(st.one_of(st.just([]), ports(of_service=False)))
    one = {"name": name, "image": draw(image), "resources": draw(resources)}
    one |= draw(
        some(
            imagePullPolicy=st.sampled_from(("Always", "IfNotPresent")),
            command=st.lists(text.filter(bool), max_size=3),
            arguments=st.lists(text, max_size=3),
            environment=variables(),
            secrets=unique(dns_subdomain, max_size=2),
            mounts=mounts(volumes, "/side"),
            runAs=st.fixed_dictionaries({"user": st.integers(1, 2**31 - 1), "group": st.integers(1, 2**31 - 1)}),
        ),
    )
    if listens:
        one["ports"] = listens
    named = [port["name"] for port in listens if "through" not in port and port["protocol"] == "TCP"]
    if probes and named:
        probe = st.fixed_dictionaries(
            {"port": st.sampled_from(named)},
            optional={"initialDelaySeconds": st.integers(0, 600), "periodSeconds": st.integers(1, 600)},
        )
        one |= draw(some(readiness=probe, liveness=probe))
    return one


@st.composite
def volume(draw: st.DrawFn, name: str, object_name: str) -> Tree:
    mode = st.integers(0, 0o777)
    files = st.dictionaries(config_key, text, min_size=1, max_size=3)
    kind = draw(st.sampled_from(("claim", "config", "secret", "scratch")))
    source: Tree = {
        "claim": lambda: {"name": object_name, "size": draw(size), **draw(some(storageClass=dns_subdomain))},
        "config": lambda: {"name": object_name, "files": draw(files), **draw(some(mode=mode))},
        "secret": lambda: {"name": object_name, **draw(some(mode=mode, optional=st.booleans()))},
        "scratch": lambda: {"sizeLimit": draw(size)},
    }[kind]()
    return {"name": name, kind: source}


balancer = st.fixed_dictionaries(
    {"ip": address},
    optional={"externalTrafficPolicy": st.sampled_from(("Cluster", "Local")), "sharingKey": dns_label},
)


@st.composite
def server(draw: st.DrawFn) -> Tree:
    names = draw(unique(dns_label, ("data", "paperclip"), max_size=4))
    volumes = [draw(volume(name, f"v{index}-{name}"[:63].rstrip("-"))) for index, name in enumerate(names)]
    mountable = ["data", *names]
    others = draw(unique(dns_label, ("paperclip",), max_size=3))
    before = draw(st.integers(0, len(others)))
    services = draw(unique(dns_label, ("paperclip", "paperclip-lb"), max_size=2))
    hosts = st.lists(dns_subdomain, max_size=2)
    one: Tree = {
        "image": draw(image),
        "publicUrl": draw(
            st.sampled_from(("http://localhost:3100", "https://paperclip.example.com/", "http://10.1.2.3:3100"))
        ),
        "resources": draw(resources),
        "secrets": draw(secrets(draw(unique(dns_subdomain, ("paperclip-db-auth",), max_size=3)), of_server=True)),
        "volumes": volumes,
        "mounts": draw(mounts(mountable, "/extra")),
        "initContainers": [draw(container(name, mountable, probes=False)) for name in others[:before]],
        "sidecars": [draw(container(name, mountable, probes=True)) for name in others[before:]],
        "services": [
            {"name": name, "ports": draw(ports(of_service=True)), **draw(some(loadBalancer=balancer))}
            for name in services
        ],
    }
    return one | draw(
        some(
            imageVersion=lines,
            imagePullPolicy=st.sampled_from(("Always", "IfNotPresent")),
            ingressHosts=hosts,
            allowedHostnames=hosts,
            trustProxy=st.booleans(),
            settings=st.dictionaries(config_key, text, max_size=3),
            environment=variables(),
            storage=st.fixed_dictionaries({}, optional={"size": size, "storageClass": dns_subdomain}),
            nodeSelector=labels,
            tolerations=st.lists(toleration, max_size=3),
            terminationGracePeriodSeconds=st.integers(1, 86400),
            loadBalancer=balancer,
        ),
    )


@st.composite
def peer(draw: st.DrawFn) -> Tree:
    one: Tree = {"name": draw(dns_label), "ports": draw(st.lists(port, max_size=3, unique=True))}
    if draw(st.booleans()):
        return {**one, "cidrs": draw(cidrs)}
    return {**one, "namespace": draw(dns_label), **draw(some(podLabels=labels))}


peers = st.lists(peer(), max_size=3)


@st.composite
def database(draw: st.DrawFn) -> Tree:
    storage = st.fixed_dictionaries({"size": size}, optional={"storageClass": dns_subdomain})
    identifier = st.from_regex(r"[a-z_][a-z0-9_]{0,62}", fullmatch=True)
    kind = draw(st.sampled_from(("external", "bitnami", "cloudnative-pg")))
    if kind == "external":
        one: Tree = {"kind": kind, "secret": draw(dns_subdomain), **draw(some(key=config_key, port=port))}
        if draw(st.booleans()):
            return {**one, "cidrs": draw(cidrs)}
        return {**one, "namespace": draw(dns_label), **draw(some(podLabels=labels))}
    one = {"kind": kind, "storage": draw(storage), "resources": draw(resources), **draw(some(database=identifier))}
    if kind == "bitnami":
        chart_image = st.fixed_dictionaries(
            {"repository": st.just("bitnamilegacy/postgresql"), "tag": st.just("16.2.0")}
        )
        return {**one, "image": draw(chart_image), **draw(some(metricsImage=chart_image, username=identifier))}
    stored = st.fixed_dictionaries(
        {"destination": st.just("s3://backups/paperclip"), "secret": dns_subdomain},
        optional={"endpoint": st.just("https://s3.example.com")},
    )
    target = st.one_of(
        st.fixed_dictionaries({"objectStore": stored}),
        st.fixed_dictionaries({"volumeSnapshotClass": dns_subdomain}),
    )
    backup = st.builds(lambda to, more: {**to, **more}, target, some(retention=st.sampled_from(("7d", "12w", "6m"))))
    name = st.from_regex(r"[a-z]([a-z0-9-]{0,48}[a-z0-9])?", fullmatch=True)
    return {**one, "image": draw(image), **draw(some(name=name, instances=st.integers(1, 9), backup=backup))}


@st.composite
def agents(draw: st.DrawFn, namespace: str, *, cilium: bool) -> Tree:
    minimum, requests, asked, limits, taken, maximum = draw(rising(6, complete=True))
    quota = {name: {"cpu": "1000", "memory": "1Ti", "ephemeralStorage": "10Ti"}[name] for name in maximum}
    own = draw(secrets(draw(unique(dns_subdomain, max_size=2)), of_server=False))
    keys = sorted({entry["key"] for secret in own for entry in secret["entries"]})
    kind = st.fixed_dictionaries(
        {"image": image, "resources": st.just({"requests": asked, "limits": taken})},
        optional={
            "program": st.sampled_from(("claude", "generic")),
            "secretKeys": st.lists(st.sampled_from(keys), unique=True, max_size=2) if keys else st.just([]),
        },
    )
    jobs: Tree = {
        "kinds": [
            {"name": name, **draw(kind)} for name in draw(unique(dns_label, ("contract",), min_size=1, max_size=2))
        ],
    }
    jobs |= draw(
        some(
            deadlineSeconds=st.integers(60, 7 * 86400),
            timeToLiveSeconds=st.integers(3600, 30 * 86400),
            terminationGracePeriodSeconds=st.integers(5, 55),
            user=st.integers(1, 2**31 - 1),
            nodeSelector=labels,
            tolerations=st.lists(toleration, max_size=3),
            priorityClass=dns_subdomain,
            runtimeClass=dns_subdomain,
        ),
    )
    egress: Tree = draw(some(worldPorts=st.lists(port, min_size=1, max_size=5, unique=True), destinations=peers))
    if cilium and draw(st.booleans()):
        egress |= {"world": False, "fqdns": draw(st.lists(dns_subdomain, min_size=1, max_size=3))}
    return {
        "namespace": namespace,
        "secrets": own,
        "jobs": jobs,
        "egress": egress,
        "quota": {"pods": draw(st.integers(1, 500)), "requests": quota, "limits": quota},
        "containerLimits": {
            "minimum": minimum,
            "defaultRequests": requests,
            "defaultLimits": limits,
            "maximum": maximum,
        },
        **draw(
            some(
                serviceAccount=dns_label,
                workspace=some(
                    size=size,
                    storageClass=dns_subdomain,
                    accessMode=st.sampled_from(("ReadWriteMany", "ReadWriteOnce")),
                ),
            ),
        ),
    }


@st.composite
def tenants(draw: st.DrawFn, taken: Sequence[str], *, cilium: bool) -> list[Tree]:
    """One or two companies in namespaces that nobody else has."""
    found = []
    names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True).filter(lambda one: "kube-" not in one)
    for company in draw(unique(names, min_size=1, max_size=2)):
        one: Tree = {"company": company}
        elsewhere = f"{company}-own"
        if f"paperclip-{company}" in taken or draw(st.booleans()):
            one["namespace"] = elsewhere if elsewhere not in taken else f"{elsewhere}2"
        egress: Tree = draw(some(worldPorts=st.lists(port, min_size=1, max_size=5, unique=True), destinations=peers))
        if cilium and draw(st.booleans()):
            egress |= {"world": False, "fqdns": draw(st.lists(dns_subdomain, min_size=1, max_size=3))}
        one |= {"egress": egress} | draw(
            some(
                quota=some(pods=st.integers(1, 500), jobs=st.integers(1, 500)),
                serviceAccountAnnotations=st.dictionaries(label_key, text, max_size=2),
                runGrants=st.booleans(),
            ),
        )
        found.append(one)
    return found


cilium = some(
    loadBalancerApiVersion=st.sampled_from(("v2alpha1", "v2")),
    pool=st.just({"name": "pool", "start": "192.168.55.200", "stop": "192.168.55.254"}),
    l2Announcement=st.fixed_dictionaries(
        {"name": dns_subdomain, "interfaces": st.just(["^eth[0-9]+"])}, optional={"render": st.booleans()}
    ),
)


@st.composite
def cluster(draw: st.DrawFn) -> Tree:
    return draw(
        some(
            kubernetesVersion=st.sampled_from(("1.29", "1.31", "1.34", "1.35", "1.37")),
            domain=dns_subdomain,
            podCIDRs=st.sampled_from((["10.244.0.0/16"], ["10.42.0.0/16", "fd00:42::/56"], ["203.0.113.0/24"])),
            serviceCIDRs=st.sampled_from((["10.96.0.0/12"], ["2001:db8:1::/112"])),
            nodeCIDRs=cidrs,
            dns=some(
                namespace=dns_label, podLabels=labels, nodeLocalAddress=st.sampled_from(("169.254.20.10", "fd00::10"))
            ),
            apiServer=some(cidrs=cidrs, port=port),
            cilium=cilium,
        ),
    )


sidecar = st.fixed_dictionaries(
    {"image": image},
    optional={
        "imagePullPolicy": st.sampled_from(("Always", "IfNotPresent")),
        "resources": resources,
        "metricsPort": st.integers(60001, 65535),  # beyond what the containers of `ports` listen on
        "logLevel": st.sampled_from(("debug", "info", "warning", "error")),
        "skillsFolders": st.lists(
            st.sampled_from(("/paperclip", "/paperclip/instances", "/paperclip/skills")), unique=True
        ),
        "workspaceClaim": st.just("shared-workspace"),
    },
)
launcher = st.one_of(
    st.fixed_dictionaries({"enabled": st.booleans()}),
    st.fixed_dictionaries({"sidecar": sidecar}, optional={"enabled": st.just(True)}),
)

argocd = st.fixed_dictionaries(
    {"repository": st.just("https://github.com/example/state.git")},
    optional={
        "project": dns_label,
        "renderProject": st.booleans(),
        "prune": st.booleans(),
        "applicationPrefix": st.from_regex(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", fullmatch=True),
        "annotations": st.dictionaries(label_key, text, max_size=2),
    },
)


@st.composite
def environments(draw: st.DrawFn) -> Tree:
    """A whole config, ready to be written as YAML."""
    system, own = draw(unique(dns_label, min_size=2, max_size=2))
    found = draw(cluster())
    stored = draw(database())
    config: Tree = {
        "apiVersion": "paperclip-gitops/v1",
        "kind": "Environment",
        "name": draw(dns_label),
        "cluster": found,
        "namespace": {"name": system},
        "server": draw(server()),
        "database": stored,
        "agents": draw(agents(own, cilium="cilium" in found)),
        "launcher": draw(launcher),
        **draw(
            some(
                network=some(
                    callers=peers, destinations=peers, loadBalancerCIDRs=cidrs, worldPorts=st.lists(port, max_size=3)
                ),
                secretStore=st.fixed_dictionaries(
                    {"name": dns_subdomain}, optional={"refreshInterval": st.just("1h30m")}
                ),
            ),
        ),
    }
    if config["launcher"].get("enabled", True) and draw(st.booleans()):
        taken = ("default", system, own, *([found["dns"]["namespace"]] if "namespace" in found.get("dns", {}) else []))
        config["tenants"] = draw(tenants(taken, cilium="cilium" in found))
    if stored["kind"] == "bitnami" or draw(st.booleans()):
        config["argocd"] = draw(argocd)
    if found.get("kubernetesVersion") != "1.29" and draw(st.integers(0, 3)) == 0:
        actions = st.sampled_from((["Deny"], ["Warn", "Audit"], ["Deny", "Audit"]))
        config["admissionPolicies"] = draw(some(actions=actions, prefix=st.from_regex(r"[a-z]{1,40}", fullmatch=True)))
    return config
