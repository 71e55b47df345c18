"""One schema, ready to judge: a fast yes or no, and the reasons when it is no."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kubekit import pointers

if TYPE_CHECKING:
    import jsonschema_rs

    from policies.schemas.shape import Schema


@dataclass(frozen=True, order=True)
class Fault:
    """One place that does not fit. `pointer` is a JSON pointer from the root of what was judged."""

    pointer: str
    message: str
    remedy: str = ""


class SchemaUnusable(ValueError):
    """A schema that is no schema, or that points out of itself."""


class Compiled:
    """`schema` compiled when it is first needed: 3 us an object, 1 to 4 ms for the compiling."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator:
        # Here, because a run that is answered from the stamp of the last one never gets this far.
        import jsonschema_rs  # noqa: PLC0415

        try:
            return jsonschema_rs.validator_for(self.schema, retriever=_stay_offline)
        except (ValueError, jsonschema_rs.ValidationError) as error:
            raise SchemaUnusable(str(error).partition("\n")[0]) from error

    def faults(self, tree: Any, *, secret: bool = False) -> list[Fault]:
        """What does not fit, in the order of the pointers. With `secret` no message quotes a value.

        Raises SchemaUnusable.
        """
        try:
            if self._validator.is_valid(tree):
                return []
        except ValueError as error:  # a key that is not text, or a value that JSON does not have
            return [Fault("", f"cannot be written as JSON: {error}", "Use text as keys and plain values.")]
        from policies.schemas import faults  # noqa: PLC0415 - jsonschema takes 50 ms; needed only now

        return faults.explain(self.schema, tree, secret=secret) or self._bare_faults(tree, secret=secret)

    def _bare_faults(self, tree: Any, *, secret: bool) -> list[Fault]:
        """The fast validator's own words, for where jsonschema finds nothing (regular expressions differ)."""
        found = {
            Fault(
                pointers.join("", *error.instance_path),
                "does not fit its schema" if secret else str(error.message),
            )
            for error in self._validator.iter_errors(tree)
        }
        return sorted(found)


def _stay_offline(uri: str) -> Any:
    raise ValueError(f"the schema points to {uri}, and schemas are never fetched while checking")
