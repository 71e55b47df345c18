"""The scalar types of the config: each refuses what Kubernetes or a neighbour would refuse later."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from kubekit import imageref, names, quantity


def _written(name: str) -> str:
    """As Kubernetes writes it: camelCase, with CIDRs in capitals."""
    return to_camel(name).replace("Cidrs", "CIDRs")


class Model(BaseModel):
    """Frozen, nothing unknown, keys in camelCase as everywhere in Kubernetes."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=_written,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,
    )


def _dns_label(text: str) -> str:
    if problem := names.explain_dns_label(text):
        raise ValueError(f"{text!r} {problem}")
    return text


def _dns_subdomain(text: str) -> str:
    if problem := names.explain_dns_subdomain(text):
        raise ValueError(f"{text!r} {problem}")
    return text


def _label_key(text: str) -> str:
    if problem := names.explain_label_key(text):
        raise ValueError(f"{text!r} {problem}")
    return text


def _label_value(text: str) -> str:
    if problem := names.explain_label_value(text):
        raise ValueError(f"{text!r} {problem}")
    return text


def _quantity(text: str) -> str:
    if quantity.parse(text) <= 0:
        raise ValueError(f"{text!r} must be more than zero")
    return text


def _image(text: str) -> str:
    ref = imageref.parse(text)
    if not ref.tag and not ref.digest:
        raise ValueError(f"{text!r} names neither a tag nor a digest, so it would follow `latest`")
    if ref.tag == "latest" and not ref.digest:
        raise ValueError(f"{text!r} follows `latest`: name the version")
    return text


def _cidr(text: str) -> str:
    network = ipaddress.ip_network(text)  # strict: host bits must be zero
    _plain(text, network.network_address)
    return str(network)


def _address(text: str) -> str:
    address = ipaddress.ip_address(text)
    _plain(text, address)
    return str(address)


def _plain(text: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if not isinstance(address, ipaddress.IPv6Address):
        return
    if address.ipv4_mapped is not None:
        raise ValueError(f"{text!r} is IPv4 written as IPv6, which Kubernetes takes for IPv4; write that")
    if address.scope_id is not None:
        raise ValueError(f"{text!r} has a zone, which means something on one machine only; leave out what follows `%`")


_DURATION = re.compile(r"^(\d+h)?(\d+m)?(\d+s)?$")


def _duration(text: str) -> str:
    if not text or not _DURATION.match(text):
        raise ValueError(f"{text!r} is no duration such as 5m, 1h or 1h30m0s")
    return text


def _env_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError(f"{text!r} is no name of an environment variable: letters, digits and _, no digit first")
    return text


def _absolute(text: str) -> str:
    if not text.startswith("/") or any(part in ("..", "") for part in text.split("/")[1:]) or ":" in text:
        raise ValueError(f"{text!r} must be an absolute path without `..`, `//` or `:`")
    return text


def _config_key(text: str) -> str:
    if not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", text) or text == "." or text.startswith(".."):
        raise ValueError(
            f"{text!r} is no key of a ConfigMap or Secret: letters, digits, `-`, `_`, `.`, at most 253, not `..` first",
        )
    return text


def _port_name(text: str) -> str:
    if len(text) > 15 or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", text) or not re.search(r"[a-z]", text):
        raise ValueError(f"{text!r} is no port name: at most 15 of a-z, 0-9 and single `-`, with a letter")
    return text


def _service_name(text: str) -> str:
    if problem := names.explain_service_name(text):
        raise ValueError(f"{text!r} {problem}")
    return text


def _sub_path(text: str) -> str:
    if text.startswith("/") or ".." in text.split("/"):
        raise ValueError(f"{text!r} must be a path inside the volume: not absolute, and without `..`")
    return text


def unique(what: str, found: Iterable[object]) -> None:
    """Raises ValueError for the first that stands twice."""
    seen: set[object] = set()
    for one in found:
        if one in seen:
            raise ValueError(f"{what} {one} stands twice")
        seen.add(one)


def _url(text: str) -> str:
    if not re.fullmatch(r"https?://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?(/[^\s]*)?", text):
        raise ValueError(f"{text!r} is no http(s) URL such as https://paperclip.example.com")
    return text


DnsLabel = Annotated[str, AfterValidator(_dns_label)]
ServiceName = Annotated[str, AfterValidator(_service_name)]
SubPath = Annotated[str, AfterValidator(_sub_path)]
DnsSubdomain = Annotated[str, AfterValidator(_dns_subdomain)]
LabelKey = Annotated[str, AfterValidator(_label_key)]
LabelValue = Annotated[str, AfterValidator(_label_value)]
Labels = dict[LabelKey, LabelValue]
Quantity = Annotated[str, AfterValidator(_quantity)]
Image = Annotated[str, AfterValidator(_image)]
Cidr = Annotated[str, AfterValidator(_cidr)]
Address = Annotated[str, AfterValidator(_address)]
Duration = Annotated[str, AfterValidator(_duration)]
EnvName = Annotated[str, AfterValidator(_env_name)]
AbsolutePath = Annotated[str, AfterValidator(_absolute)]
ConfigKey = Annotated[str, AfterValidator(_config_key)]
PortName = Annotated[str, AfterValidator(_port_name)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
"""What Kubernetes keeps in 32 bits: seconds, user ids, numbers of objects."""
PortNumber = Annotated[int, Field(ge=1, le=65535)]
Url = Annotated[str, AfterValidator(_url)]
