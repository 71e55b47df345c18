"""What the launcher says of itself: lines on stderr, for people or as JSON, with the run that they are about, masked.

    talk.configure("info", "json", mask)
    with talk.about(run_id="5f3c", job="run-5f3c-0123"):
        log.info("watch reopened", extra={"resource": "pods", "after_seconds": 12.5})

Modules use logging.getLogger(__name__) and nothing of this one, unless they know which run they work for. The context
goes into every task that is started within it.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, TextIO

from paperclip_launcher.masking import Mask

Form = Literal["text", "json"]

_OURS = "paperclip_launcher"
_context: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("talk_context", default=())
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What could move a terminal's cursor, colour it or begin a line of its own; a lone surrogate cannot be written."""
_VALUE_LIMIT = 2048
"""Characters of one field; a message and a trace may be eight times as long."""


@contextmanager
def about(**fields: str) -> Iterator[None]:
    """Every line said within, also by tasks started within, carries these fields."""
    token = _context.set((*_context.get(), *fields.items()))
    try:
        yield
    finally:
        _context.reset(token)


def configure(level: str = "info", form: Form = "text", mask: Mask | None = None, stream: TextIO | None = None) -> None:
    """Sets up all logging of the process, uncaught errors and warnings too; may be called again.

    `level` is ours alone: other packages speak from "warning" on, since httpcore shows headers at "debug".
    ValueError for an unknown level.
    """
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, _Handler)]:
        root.removeHandler(handler)
    formatter = _FORMATTERS[form](mask or Mask())
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(formatter)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(_OURS).setLevel(level.upper())
    logging.captureWarnings(capture=True)
    sys.excepthook = _uncaught


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """In place of Python's own, whose trace would show a secret unmasked."""
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger(_OURS).critical("uncaught error", exc_info=(kind, error, trace))


class _Handler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, the name is logging's
        """Python's own would print the arguments of the record, unmasked."""
        kind = sys.exc_info()[0]
        try:
            self.stream.write(f"a log record of {record.name}:{record.lineno} was lost: {kind and kind.__name__}\n")
        except (OSError, ValueError):
            return


class _Formatter(logging.Formatter):
    """Masks every part by itself, before it is cut and escaped: afterwards a secret would look different."""

    def __init__(self, mask: Mask) -> None:
        super().__init__()
        self._mask = mask

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        fields: dict[str, Any] = dict(_context.get())
        fields.update((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        return {key: self._plain(value) for key, value in fields.items()}

    def _plain(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, (Mapping, list, tuple)):
            return self._cut(json.dumps(self._mask.tree(value), ensure_ascii=False, default=repr))
        return self._cut(str(value))

    def _cut(self, text: str, limit: int = _VALUE_LIMIT) -> str:
        masked = self._mask.text(text)
        return masked if len(masked) <= limit else f"{masked[:limit]}[...]"

    def _message(self, record: logging.LogRecord) -> str:
        return self._cut(record.getMessage(), 8 * _VALUE_LIMIT)

    def _trace(self, record: logging.LogRecord) -> str:
        if not record.exc_info or record.exc_info[0] is None:
            return ""
        masked = self._mask.text(self.formatException(record.exc_info))
        # The end says what went wrong.
        return masked if len(masked) <= 8 * _VALUE_LIMIT else f"[...]{masked[-8 * _VALUE_LIMIT :]}"


class _People(_Formatter):
    """06:00:00 WARNING watch reopened resource=pods run_id=5f3c; always one line."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.gmtime(record.created))
        fields = [f"{key}={_shown(value)}" for key, value in self._fields(record).items()]
        trace = self._trace(record)
        parts = [clock, record.levelname, self._message(record), *fields, *([f"trace={trace}"] if trace else [])]
        return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], " ".join(parts))


class _Machines(_Formatter):
    """One JSON object a line: time, level, logger, message, then the fields, then `trace`."""

    def format(self, record: logging.LogRecord) -> str:
        tree: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._message(record),
        }
        # A field cannot take the place of one of the four.
        tree = self._fields(record) | tree
        if trace := self._trace(record):
            tree["trace"] = trace
        return json.dumps(tree, allow_nan=True)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text, ensure_ascii=False) if not text or re.search(r'[\s"=]', text) else text


_FORMATTERS: dict[str, type[_Formatter]] = {"text": _People, "json": _Machines}
