"""What an API server would say to an object: CEL of the policies, evaluated here.

The evaluator is cel-expr-python (CEL in C++); what Kubernetes adds to the language (quantities, URLs, addresses,
regular expressions, lists: kubernetes.io/docs/reference/using-api/cel) is in celkube.py. What not every Kubernetes from
1.30 on has is not there, so that an expression with it does not compile. Types are not checked and costs are not
counted: the real API server of tests/e2e does that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from cel_expr_python import cel as engine

from kubekit.identity import ObjectId
from kubekit.resources import group_of
from policies import vap
from policies.cel import Cel
from tests.support import celkube

_CONFIG = """
name: kubernetes
extensions:
  - name: optional
  - name: sets
variables:
  - {name: object, type: dyn}
  - {name: oldObject, type: dyn}
  - {name: request, type: dyn}
  - {name: params, type: dyn}
  - {name: namespaceObject, type: dyn}
  - {name: variables, type: dyn}
"""
# github.com/google/cel-spec/blob/master/doc/langdef.md
_RESERVED = (
    "as break const continue else false for function if import in let loop namespace null package return true var void"
    " while"
)


def verdict(
    cel: Cel,
    manifest: Mapping[str, Any],
    *,
    kinds: Iterable[str] = (),
    old: Mapping[str, Any] | None = None,
    namespace: Mapping[str, Any] | None = None,
) -> str:
    """ "pass", "fail", or "error: " and why, which an API server takes for a refusal (failurePolicy: Fail).

    `kinds` are those of the policy, for a Cel that names none; what they do not hold is not judged, so it passes. With
    `old` it is an update. `namespace` is the Namespace object. Raises ValueError where the CEL does not compile.
    """
    operation = "CREATE" if old is None else "UPDATE"
    if not _meant(cel, manifest, frozenset(kinds)) or operation not in cel.operations:
        return "pass"
    activation = _activation(manifest, old, namespace, operation)
    activation["variables"] = _variables(cel, activation)
    answer = _compiled(cel.expression).eval(data=activation)
    if answer.type() == engine.Type.ERROR:
        return f"error: {answer.value()}"
    if answer.type() != engine.Type.BOOL:
        return f"error: the expression is no bool but {answer.type().name()}"
    return "pass" if answer.value() else "fail"


def message(cel: Cel, manifest: Mapping[str, Any]) -> str:
    """What the expression of the message says of the object; "" if it fails."""
    activation = _activation(manifest, None, None, "CREATE")
    activation["variables"] = _variables(cel, activation)
    answer = _compiled(cel.message).eval(data=activation)
    return str(answer.value()) if answer.type() == engine.Type.STRING else ""


def matches(
    conditions: Iterable[tuple[str, str]],
    manifest: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    user: str = "someone",
) -> bool:
    """Whether all match conditions let a policy look at the object. Raises ValueError for an error in one."""
    activation = _activation(manifest, old, None, "CREATE" if old is None else "UPDATE")
    activation["request"]["userInfo"] = {"username": user}
    for name, expression in conditions:
        answer = _compiled(expression).eval(data=activation)
        if answer.type() != engine.Type.BOOL:
            raise ValueError(f"{name}: {answer.value()}")
        if not answer.value():
            return False
    return True


def problems(cel: Cel) -> list[str]:
    """Every expression of it that does not compile, and why."""
    found = []
    try:
        expressions = [one for _, one in vap.reached(cel)]
    except ValueError as error:
        return [str(error)]
    found += [f"variables.{name}: no identifier of CEL" for name, _ in vap.reached(cel) if not _is_identifier(name)]
    expressions += [cel.expression, *([cel.message] if vap.is_expression(cel.message) else [])]
    for expression in expressions:
        try:
            _compiled(expression)
        except ValueError as error:
            found.append(str(error))
    return found


def _is_identifier(name: str) -> bool:
    return name not in _RESERVED.split() and re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) is not None


def _variables(cel: Cel, activation: Mapping[str, Any]) -> dict[str, Any]:
    """A variable is evaluated when it is needed: one that fails fails the expression only where that looks at it."""
    values: dict[str, Any] = {}
    for name, expression in _reached(cel.expression, tuple(cel.variables.items()), cel.message):
        answer = _compiled(expression).eval(data={**activation, "variables": values})
        if answer.type() != engine.Type.ERROR:
            values[name] = answer.plain_value()
    return values


@cache
def _reached(expression: str, variables: tuple[tuple[str, str], ...], text: str) -> tuple[tuple[str, str], ...]:
    return vap.reached(Cel(expression, variables=dict(variables), message=text))


def _meant(cel: Cel, manifest: Mapping[str, Any], kinds: frozenset[str]) -> bool:
    one = ObjectId.of(manifest)
    known = group_of(one.kind)
    wanted = cel.kinds or kinds
    return (not wanted or one.kind in wanted) and (known is None or known == one.group)


def _activation(
    manifest: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    namespace: Mapping[str, Any] | None,
    operation: str,
) -> dict[str, Any]:
    one = ObjectId.of(manifest)
    request = {"operation": operation, "name": one.name, "namespace": one.namespace, "kind": {"kind": one.kind}}
    return {"object": manifest, "oldObject": old, "request": request, "params": None, "namespaceObject": namespace}


@cache
def _compiled(expression: str) -> engine.Expression:
    try:
        return _environment().compile(expression)
    except RuntimeError as error:
        raise ValueError(f"{expression}: {error}") from None


@cache
def _environment() -> engine.Env:
    return engine.NewEnv(config=engine.NewEnvConfigFromYaml(_CONFIG), functions=celkube.functions())
