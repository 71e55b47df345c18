"""What people may read about a policy: why it is, examples that pass and fail, its CEL, and how to waive it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from policies import waivers
from policies.facts import Facts
from policies.model import Policy, Scope
from policies.registry import FAMILIES, all_policies
from policies.vap import cel_of

_DIRECTIVE = re.compile(r"# (without|replace|base|finds|cel):")
_FINDS = re.compile(r"^# finds: *(\S+)", re.MULTILINE)
_SCOPES = {
    Scope.OBJECT: "each object by itself; Jobs are judged by it before they are created too",
    Scope.SET: "each object and the set around it",
    Scope.DOCUMENT: "files, or the way they got there",
}
_PLACE = "Deployment/default/example"
_HEAD = """\
# The policies

Made by `paperclip-gitops explain --all --format markdown`; `paperclip-gitops explain POLICY` shows examples.
[reports.md](reports.md) says how `check` reports them, and how findings are waived.

*Admission* says whether the API server can judge it too, by a ValidatingAdmissionPolicy in CEL: *partly* where it
cannot see all of it, *no* where other objects or files decide, *by facts* where the expression is made from the config.

Not judged here, since no manifest says it: the flags of the control plane and of the kubelets, encryption and backup of
etcd, audit logging, node images and upgrades, and what images contain.
"""


@dataclass(frozen=True)
class Examples:
    """Manifests, each with a first comment that says what they show; "" where a policy has none."""

    passes: str = ""
    fails: str = ""
    place: str = _PLACE


def examples(policy_id: str) -> Examples:
    """From the fixtures: in the wheel, or in the checkout."""
    packaged = Path(__file__).resolve().parents[1] / "policies" / "_fixtures"
    root = packaged if packaged.is_dir() else packaged.parents[1] / "tests" / "policies" / "fixtures"
    texts = {}
    for name in ("pass", "fail"):
        try:
            texts[name] = (root / policy_id / f"{name}.example.yaml").read_text(encoding="utf-8")
        except OSError:
            texts[name] = ""
    found = _FINDS.search(texts["fail"])
    return Examples(_bare(texts["pass"]), _bare(texts["fail"]), found[1] if found else _PLACE)


def _bare(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not _DIRECTIVE.match(line))


def admission(policy: Policy) -> tuple[str, str]:
    """(yes, partly, by facts or no; what there is to say of it)."""
    if policy.cel is None:
        why = {
            Scope.SET: "other objects decide, which an admission policy does not see",
            Scope.DOCUMENT: "it is about files",
        }
        return "no", why.get(policy.scope, "CEL cannot say it")
    cel = cel_of(policy, Facts())
    if cel is None:
        return "by facts", "the expression is made from the config: `synth` writes it where admission policies are on"
    return ("partly", cel.partly) if cel.partly else ("yes", "")


def expression(policy: Policy) -> str:
    """Its CEL with the variables of its own; "" for none."""
    cel = cel_of(policy, Facts())
    if cel is None:
        return ""
    return "\n".join([*(f"variables.{name} = {text}" for name, text in cel.variables.items()), cel.expression])


def entry(policy: Policy, today: datetime.date) -> str:
    """A waiver to fill in; "" for what cannot be waived."""
    if not policy.waivable:
        return ""
    expires = today + datetime.timedelta(days=waivers.SUGGESTED_DAYS)
    return f"waivers:\n{waivers.entry(policy.id, examples(policy.id).place, '', expires)}"


def as_data(policy: Policy) -> dict[str, Any]:
    """All of it but the examples."""
    can, why = admission(policy)
    return {
        "id": policy.id,
        "family": policy.family,
        "title": policy.title,
        "severity": str(policy.severity),
        "scope": str(policy.scope),
        "kinds": sorted(policy.kinds),
        "since": policy.since,
        "rationale": policy.rationale,
        "remedy": policy.remedy,
        "links": list(policy.links),
        "waivable": policy.waivable,
        "admission": {"cel": can, "note": why, "expression": expression(policy)},
    }


def by_family() -> Iterator[tuple[str, list[Policy]]]:
    """In the order of the families; each family's by id."""
    rank = {name: index for index, name in enumerate(FAMILIES)}
    known = sorted(all_policies(), key=lambda one: (rank.get(one.family, len(rank)), one.family, one.id))
    for family, group in groupby(known, key=lambda one: one.family):
        yield family, list(group)


def scope_of(policy: Policy) -> str:
    return _SCOPES[policy.scope]


def page() -> str:
    """docs/policies.md."""
    families = list(by_family())
    lines = [_HEAD]
    for family, group in families:
        lines += [f"## {family}\n", "| id | severity | scope | admission | what holds |", "|---|---|---|---|---|"]
        for one in group:
            cells = (f"[{one.id}](#{one.id})", one.severity, one.scope, admission(one)[0], _prose(one.title))
            lines.append(f"| {' | '.join(map(str, cells))} |")
        lines.append("")
    lines.append("# Each of them\n")
    for _, group in families:
        for one in group:
            lines += _section(one)
    return "\n".join(lines).rstrip() + "\n"


def _prose(text: str) -> str:
    """Our own sentences in Markdown: what stands between backticks is code, and no bar ends a cell."""
    parts = text.split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts).replace("|", "\\|")


def _section(policy: Policy) -> Iterator[str]:
    kinds = ", ".join(sorted(policy.kinds)) or "all kinds"
    since = f" From Kubernetes {policy.since} on." if policy.since else ""
    can, why = admission(policy)
    yield f"## {policy.id}\n"
    yield f"{_prose(policy.title)}.\n"
    yield f"- **why**: {_prose(policy.rationale)}"
    yield f"- **mend**: {_prose(policy.remedy)}"
    yield f"- **judges**: {kinds}; {scope_of(policy)}.{since}"
    yield f"- **severity**: {policy.severity}; {'can be waived' if policy.waivable else 'cannot be waived'}"
    yield f"- **admission**: {can}" + (f", {_prose(why)}" if why else "")
    if policy.links:
        yield f"- **read**: {', '.join(f'<{link}>' for link in policy.links)}"
    yield ""
