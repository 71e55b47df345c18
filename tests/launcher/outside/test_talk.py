"""Log lines: one line each, about the right run, without a secret, whatever is thrown at them."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
import warnings

import pytest

from paperclip_launcher import talk
from paperclip_launcher.masking import Mask

SECRET = 'c4nary-"value"-9f3a'
log = logging.getLogger("paperclip_launcher.test")


@pytest.fixture
def said():
    """Configures logging into a buffer and puts all back."""
    root, ours, hook = logging.getLogger(), logging.getLogger("paperclip_launcher"), sys.excepthook
    before = (root.level, list(root.handlers), ours.level)
    out = io.StringIO()

    def configure(level="debug", form="json"):
        talk.configure(level, form, Mask([SECRET]), out)
        # pytest's own handlers raise what ours must survive.
        root.handlers[:] = root.handlers[-1:]
        return out

    yield configure
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    ours.setLevel(before[2])
    sys.excepthook = hook
    logging.captureWarnings(capture=False)


def lines(out) -> list[dict]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_for_machines_has_time_level_message_and_fields(said):
    out = said()
    with talk.about(run_id="r1", job="run-r1"):
        log.warning("watch of %s reopened", "pods", extra={"after_seconds": 1.5, "resource": "pods"})
    log.debug("later")
    first, second = lines(out)
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "warning",
        "logger": "paperclip_launcher.test",
        "message": "watch of pods reopened",
        "run_id": "r1",
        "job": "run-r1",
        "after_seconds": 1.5,
        "resource": "pods",
    }
    assert "run_id" not in second


def test_tasks_speak_of_the_run_that_they_were_started_for(said):
    out = said()

    async def work(number):
        with talk.about(run_id=str(number)):
            await asyncio.gather(*(asyncio.create_task(step(number)) for _ in range(2)))

    async def step(number):
        await asyncio.sleep(0)
        log.info("step %d", number)

    async def main():
        await asyncio.gather(work(1), work(2))

    asyncio.run(main())
    assert sorted((line["message"], line["run_id"]) for line in lines(out) if "step" in line["message"]) == [
        ("step 1", "1"),
        ("step 1", "1"),
        ("step 2", "2"),
        ("step 2", "2"),
    ]


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_part_of_a_line_shows_a_secret(said, form):
    out = said(form=form)
    with talk.about(run_id=SECRET):
        log.info("a %s b", SECRET, extra={"field": SECRET, "tree": {"a": [SECRET]}, "data": SECRET.encode()})
        log.info(SECRET[:12], extra={"cut": "body: " + SECRET[:12]})
        log.info("%s%s", "x" * 16_380, SECRET)
        try:
            {}[SECRET]
        except KeyError:
            log.exception("failed")
    assert "c4nary" not in out.getvalue()
    assert "9f3a" not in out.getvalue()
    assert "***" in out.getvalue()


def test_a_line_for_people_is_one_line_that_moves_no_terminal(said):
    out = said(form="text")
    log.error("two\nlines \x1b[31mred\x1b]8;;x\x07 \u2028 \ud800", extra={"a": "b c", "n": 1, "empty": ""})
    text = out.getvalue()
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert r"ERROR two\nlines \x1b[31mred" in text
    assert text.endswith('a="b c" n=1 empty=""\n')


def test_other_packages_speak_from_warning_on(said):
    out = said()
    logging.getLogger("httpcore.http11").debug("headers")
    logging.getLogger("asyncio").error("task exception was never retrieved")
    assert [line["logger"] for line in lines(out)] == ["asyncio"]


def test_configuring_again_replaces_and_an_unknown_level_is_an_error(said):
    said()
    out = said(level="warning")
    log.info("unheard")
    log.warning("once")
    assert [line["message"] for line in lines(out)] == ["once"]
    with pytest.raises(ValueError, match="LOUD"):
        talk.configure("loud")


def test_a_record_that_cannot_be_formatted_shows_none_of_its_arguments(said, capsys):
    out = said()
    log.info("%d", SECRET)
    assert "was lost: TypeError" in out.getvalue()
    assert "c4nary" not in out.getvalue() + capsys.readouterr().err


def test_warnings_and_fields_with_taken_names_are_kept(said):
    out = said()
    warnings.simplefilter("always")
    warnings.warn(f"about {SECRET}", UserWarning, stacklevel=1)
    with talk.about(message="mine", level="mine"):
        log.info("the message")
    first, second = lines(out)
    assert "about ***" in first["message"]
    assert (second["message"], second["level"]) == ("the message", "info")


def test_an_uncaught_error_is_said_masked():
    code = (
        "from paperclip_launcher import talk\n"
        "from paperclip_launcher.masking import Mask\n"
        "talk.configure('info', 'json', Mask(['c4nary-value']))\n"
        "raise ValueError('c4nary' + '-value')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    line = json.loads(done.stderr)
    assert line["level"] == "critical"
    assert "ValueError: ***" in line["trace"]
