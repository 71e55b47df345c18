"""Which failed calls are tried again, when, and for how long."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import EllipsisType
from typing import TypeVar

from paperclip_launcher.cluster.errors import AlreadyExists, ApiError, Gone
from paperclip_launcher.cluster.transport import Broken, NotSent, TimedOut, TransportError
from paperclip_launcher.errors import Unreachable

T = TypeVar("T")
Outcome = type[TransportError] | int
Budget = float | EllipsisType | None
"""Seconds for one call with all its tries: 0 for one try, None for ever, ... for the setting."""

_log = logging.getLogger(__name__)

EVERY = frozenset({"get", "list", "create", "patch", "update", "delete"})
CREATE = frozenset({"create"})


@dataclass(frozen=True, slots=True)
class Rule:
    """After this outcome, a call of these verbs is tried again. `most` tries more, None for as many as there is time.

    `unknown`: the try may have had its effect. It is repeated all the same, since every write of ours says which object
    it means: what the repetition meets (AlreadyExists, Conflict, NotFound, a failed test) is then marked `repeated`.
    """

    outcome: Outcome
    verbs: frozenset[str] = EVERY
    most: int | None = None
    unknown: bool = False


RULES = (
    Rule(NotSent),
    Rule(Broken, unknown=True),
    Rule(TimedOut, unknown=True),
    # The token may have been changed a moment ago, here or there; the transport has read it again.
    Rule(401, most=1),
    Rule(408, unknown=True),
    # A create has no resourceVersion to conflict with: it met another one in the count of a ResourceQuota.
    Rule(409, CREATE),
    Rule(429),
    Rule(500, unknown=True),
    Rule(502, unknown=True),
    Rule(503, unknown=True),
    Rule(504, unknown=True),
)
_TABLE = {(rule.outcome, verb): rule for rule in RULES for verb in rule.verbs}
_OTHERS = 3
# A server that asks for more time than this is asked again by then.
_LONGEST_SAID = 600.0
# A try ends by its own timeout before. What it takes beyond, this process stood still: no time in which to be answered.
_LONGEST_TRY = 60.0


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """Seconds. `budget` is for one call with all its tries, None for ever; the others are of the pause between two."""

    first: float = 0.2
    longest: float = 20.0
    budget: float | None = 60.0


class Backoff:
    """Pauses that double, each within 25 % of its step, so that many launchers do not come at once."""

    def __init__(self, first: float, longest: float, rng: random.Random) -> None:
        self._first = first
        self._longest = longest
        self._rng = rng
        self._step = first

    def pause(self, error: Exception | None = None) -> float:
        """Seconds until the next try. A server that names a time gets it, and up to a fifth more, but never less."""
        step, self._step = self._step, min(self._step * 2, self._longest)
        pause = min(step * (0.75 + self._rng.random() / 2), self._longest)
        said = error.retry_after if isinstance(error, ApiError) else None
        return min(said, _LONGEST_SAID) * (1 + self._rng.random() / 5) if said else pause

    def reset(self) -> None:
        self._step = self._first


class Complaints:
    """At most one line a minute about calls that do not work, with how many it stands for, and what else was wrong."""

    def __init__(self, log: logging.Logger, every: float = 60.0) -> None:
        self._log = log
        self._every = every
        self._next = float("-inf")
        self._kept_back: Counter[str] = Counter()

    def tell(self, what: str, error: Exception) -> None:
        now = asyncio.get_running_loop().time()
        text = f"{what}: {cause(error)}"
        if now < self._next:
            self._kept_back[text] += 1
            return
        more = f" ({self._kept_back.total()} more since the last such line)" if self._kept_back else ""
        others = [one for one, _ in self._kept_back.most_common() if one != text][:_OTHERS]
        self._log.warning("%s; trying again%s", text, more + "".join(f"; also {one}" for one in others))
        self._next = now + self._every
        self._kept_back.clear()


def cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class Retrier:
    """Runs calls by the table. One for all calls of a process, so that its complaints are counted together."""

    def __init__(self, settings: RetrySettings, rng: random.Random) -> None:
        self._settings = settings
        self._rng = rng
        self.complaints = Complaints(_log)
        """For whatever else is tried again, too."""

    async def run(self, verb: str, what: str, attempt: Callable[[], Awaitable[T]], budget: Budget = ...) -> T:
        """`what` names the call to people.

        ApiError as soon as no rule speaks for another try, or the last one when the budget is used up; Unreachable
        when that was no answer.
        """
        loop = asyncio.get_running_loop()
        budget = self._settings.budget if isinstance(budget, EllipsisType) else budget
        left = float("inf") if budget is None else budget
        backoff = Backoff(self._settings.first, self._settings.longest, self._rng)
        tries: dict[Rule, int] = {}
        repeated = False
        while True:
            begun = loop.time()
            try:
                return await attempt()
            except (TransportError, ApiError) as error:
                failure = error
            left -= min(loop.time() - begun, _LONGEST_TRY)
            rule = _rule(verb, failure)
            pause = backoff.pause(failure)
            if isinstance(failure, ApiError):
                failure.repeated = repeated
            if rule is None or tries.get(rule, 0) == rule.most or pause > left:
                break
            tries[rule] = tries.get(rule, 0) + 1
            repeated = repeated or rule.unknown
            self.complaints.tell(what, failure)
            await asyncio.sleep(pause)
            left -= pause
        if isinstance(failure, ApiError):
            raise failure
        raise Unreachable(f"{what}: {cause(failure)}") from failure


def _rule(verb: str, failure: TransportError | ApiError) -> Rule | None:
    if isinstance(failure, ApiError):
        final = isinstance(failure, AlreadyExists | Gone)
        return None if final else _TABLE.get((failure.status, verb))
    return _TABLE.get((type(failure), verb))
