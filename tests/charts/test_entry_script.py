"""templates/entry.sh under the shells of real images: dash (Debian) and busybox ash (Alpine)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import needed

SCRIPT = (Path(__file__).parents[2] / "templates" / "entry.sh").read_text()
SHELLS = {"dash": ["dash"], "busybox": ["busybox", "sh"]}
DIGEST = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
BYTES = bytes(range(256))


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> list[str]:
    command = SHELLS[request.param]
    needed.program(command[0], "entry.sh in this shell")
    return command


class Pod:
    """The folders that the container of a Job would have."""

    def __init__(self, root: Path, shell: list[str]) -> None:
        self.shell = shell
        self.parts = root / "prompt"
        self.home = root / "home of the agent"
        self.work = root / "work" / "deep er"
        self.scratch = root / "tmp"
        self.parts.mkdir()
        self.scratch.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.scratch)}

    def prompt(self, *parts: bytes) -> None:
        for index, part in enumerate(parts):
            (self.parts / f"part-{index:04}").write_bytes(part)

    def command(self, *program: str) -> list[str]:
        return [*self.shell, "-c", SCRIPT, "paperclip-entry", str(self.parts), str(self.work), *program]

    def run(self, *program: str, **more: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.command(*program),
            env={**self.environment, **more},
            capture_output=True,
            timeout=20,
            check=False,
        )

    def start(self, *program: str, **more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(*program),
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def python(self, code: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return self.run(sys.executable, "-c", code, *arguments)


@pytest.fixture
def pod(tmp_path: Path, shell: list[str]) -> Pod:
    return Pod(tmp_path, shell)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    output, errors = process.communicate(timeout=20)
    return process.returncode, output, errors


def said(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == line + b"\n"


# The prompt

PROMPTS: Mapping[str, list[bytes]] = {
    "empty": [b""],
    "one byte": [b"a"],
    "96 KiB": [b"x" * (96 << 10)],
    "129 KiB, more than Linux takes in a variable": [b"y" * (129 << 10)],
    "1 MiB of every byte": [BYTES * 4096],
    "two parts": [b"first\n", b"second"],
    "two parts that divide a character": ["é".encode()[:1], "é".encode()[1:]],
    "eleven parts": [b"%d\n" % index for index in range(11)],
    "an empty part between": [b"a", b"", b"b"],
    "NUL": [b"a\0b\0"],
    "CRLF": [b"a\r\nb\r"],
    "what echo would read": [rb"-n \c \n \\ \0101 %s %d"],
    "what a shell would read": [b"$(id) `id` $HOME ${HOME} $$ \\$ \"'; rm -rf x\n*"],
    "newlines at the end": [b"a\n\n\n"],
    "no newline at the end": [b"a\nb"],
}


@pytest.mark.parametrize("parts", PROMPTS.values(), ids=PROMPTS.keys())
def test_the_prompt_arrives_byte_for_byte(pod: Pod, parts: list[bytes]) -> None:
    pod.prompt(*parts)
    done = pod.python(DIGEST)
    assert done.stdout.decode().strip() == hashlib.sha256(b"".join(parts)).hexdigest()
    assert (done.returncode, done.stderr) == (0, b"")


def test_parts_are_found_through_the_links_of_a_mounted_secret(pod: Pod) -> None:
    (pod.parts / "..2026_01_01").mkdir()
    (pod.parts / "..2026_01_01" / "part-0000").write_bytes(b"linked")
    (pod.parts / "..data").symlink_to("..2026_01_01")
    (pod.parts / "part-0000").symlink_to("..data/part-0000")
    assert pod.run("cat").stdout == b"linked"


def test_the_copy_of_the_prompt_is_for_the_agent_alone(pod: Pod) -> None:
    pod.prompt(b"secret")
    assert pod.run("true").returncode == 0
    assert (pod.scratch / "paperclip-prompt").stat().st_mode & 0o777 == 0o600


def test_nothing_but_the_agent_writes_to_the_log(pod: Pod) -> None:
    pod.prompt(b"the prompt")
    done = pod.run("sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


# Before the run


def test_what_is_to_run_before_runs_before_and_its_output_is_no_output_of_the_agent(pod: Pod) -> None:
    pod.prompt(b"the prompt")
    (pod.parts / "pre-run").write_text("pwd; echo more >&2; echo made >file; cat")
    done = pod.run("sh", "-c", "cat; cat file")
    assert (done.returncode, done.stdout) == (0, b"the promptmade\n")
    assert done.stderr == f"{pod.work}\nmore\n".encode()


@pytest.mark.parametrize("text", ["exit 7", "no-such-program", "if then", "kill -9 $$"])
def test_the_agent_runs_though_what_is_before_it_fails(pod: Pod, text: str) -> None:
    pod.prompt(b"the prompt")
    (pod.parts / "pre-run").write_text(text)
    done = pod.run("cat")
    assert (done.returncode, done.stdout) == (0, b"the prompt")
    assert re.search(rb"(?m)^paperclip-pre-run: ended with exit code [1-9]", done.stderr)


@pytest.mark.parametrize("text", ["echo ready; exec sleep 20", "trap '' TERM; echo ready; sleep 0.3"])
def test_a_stop_before_the_run_means_that_there_is_none(pod: Pod, text: str) -> None:
    pod.prompt(b"the prompt")
    (pod.parts / "pre-run").write_text(text)
    process = pod.start("echo", "started")
    assert process.stderr is not None
    assert process.stderr.readline() == b"ready\n"
    process.terminate()
    code, output, errors = ended(process)
    assert (code, output) == (143, b"")
    assert b"paperclip-entry: stopped before the agent was started" in errors


# The command line


@pytest.mark.parametrize(
    "argument",
    [
        "",
        " ",
        "two words",
        "it's",
        '"',
        "a\nb\n",
        "$(id)",
        "`id`",
        "; rm -rf x",
        "*",
        "$HOME",
        "\\c",
        "-n",
        "--",
        "é🙂",
    ],
)
def test_an_argument_arrives_as_it_is(pod: Pod, argument: str) -> None:
    pod.prompt(b"")
    code = "import sys; sys.stdout.buffer.write(repr(sys.argv[1:]).encode())"
    done = pod.run(sys.executable, "-c", code, argument, "last", PYTHONUTF8="1")
    assert done.stdout.decode() == repr([argument, "last"])


def test_the_program_starts_in_its_working_directory_with_a_home(pod: Pod) -> None:
    pod.prompt(b"")
    done = pod.run("sh", "-c", 'pwd; echo "$HOME"; ls -d "$HOME"')
    assert done.stdout.decode().splitlines() == [str(pod.work), str(pod.home), str(pod.home)]


def test_the_program_gets_the_environment_and_nothing_of_the_script(pod: Pod) -> None:
    pod.prompt(b"")
    done = pod.run(sys.executable, "-c", "import os; print(sorted(os.environ))", FROM_THE_JOB="1", PYTHONUTF8="1")
    extra = {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}
    names = set(eval(done.stdout)) - extra  # a list that our own one-liner printed
    assert names == {"PATH", "HOME", "TMPDIR", "FROM_THE_JOB", "PYTHONUTF8"}


def test_a_program_with_the_name_of_a_builtin_is_not_the_builtin(pod: Pod) -> None:
    pod.prompt(b"")
    assert pod.run("exit", "5").returncode == 127


# Exit codes


@pytest.mark.parametrize("code", [0, 1, 3, 64, 127, 130, 255])
def test_the_exit_code_is_the_agents(pod: Pod, code: int) -> None:
    pod.prompt(b"x" * 200_000)
    assert pod.run("sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize(("number", "code"), [(9, 137), (11, 139), (15, 143)])
def test_a_killed_agent_is_128_and_the_signal(pod: Pod, number: int, code: int) -> None:
    pod.prompt(b"")
    assert pod.python(f"import os; os.kill(os.getpid(), {number})").returncode == code


def test_a_missing_program_is_127_and_says_so(pod: Pod) -> None:
    pod.prompt(b"")
    done = pod.run("no-such-program", "x")
    assert done.returncode == 127
    assert done.stderr.startswith(b"paperclip-entry: the program no-such-program is not in this image; PATH is /")


def test_a_file_that_is_no_program_is_126(pod: Pod, tmp_path: Path) -> None:
    pod.prompt(b"")
    (tmp_path / "plain").write_text("text")
    assert pod.run(str(tmp_path / "plain")).returncode == 126


@pytest.mark.parametrize("state", ["no parts", "no folder", "a folder in place of a part"])
def test_a_prompt_that_cannot_be_read_is_66(pod: Pod, state: str) -> None:
    if state == "no folder":
        pod.parts.rmdir()
    if state == "a folder in place of a part":
        (pod.parts / "part-0000").mkdir()
    done = pod.run("echo", "started")
    assert (done.returncode, done.stdout) == (66, b"")
    assert b"paperclip-entry: cannot read the prompt at " in done.stderr


def test_a_working_directory_that_cannot_be_made_is_73(pod: Pod) -> None:
    pod.prompt(b"")
    pod.work.parent.write_text("in the way")
    done = pod.run("true")
    assert done.returncode == 73
    assert b"paperclip-entry: cannot make the home" in done.stderr


def test_a_prompt_that_cannot_be_copied_is_73(pod: Pod) -> None:
    pod.prompt(b"text")
    done = pod.run("true", TMPDIR=str(pod.scratch / "missing"))
    assert done.returncode == 73
    assert b"paperclip-entry: cannot copy the prompt to" in done.stderr


def test_too_few_arguments_are_64(pod: Pod) -> None:
    done = pod.run()
    assert done.returncode == 64
    assert b"got 2 arguments" in done.stderr


# Signals

WAITS = """
import os, signal, sys, time
def stop(number, frame):
    os.write(1, b"stopped by %d\\n" % number)
    time.sleep(0.05)
    sys.exit(7)
signal.signal(signal.SIGTERM, stop)
os.write(1, b"ready\\n")
for _ in range(400):
    time.sleep(0.05)  # a signal between a look of the interpreter and its sleep is seen after the sleep only
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_reaches_the_agent_and_its_own_exit_code_counts(pod: Pod, number: signal.Signals) -> None:
    pod.prompt(b"")
    process = pod.start(sys.executable, "-c", WAITS)
    said(process, b"ready")
    process.send_signal(number)
    assert ended(process) == (7, b"stopped by 15\n", b"")


def test_an_agent_without_a_handler_ends_as_143(pod: Pod) -> None:
    pod.prompt(b"")
    process = pod.start("sh", "-c", "echo ready; exec sleep 20")
    said(process, b"ready")
    process.terminate()
    assert ended(process)[0] == 143


def test_an_agent_that_takes_its_time_is_waited_for(pod: Pod) -> None:
    pod.prompt(b"")
    slow = WAITS.replace("    sys.exit(7)", "    time.sleep(0.2)\n    os.write(1, b'clean\\n')\n    sys.exit(0)")
    process = pod.start(sys.executable, "-c", slow)
    said(process, b"ready")
    process.terminate()
    assert ended(process) == (0, b"stopped by 15\nclean\n", b"")


def test_an_agent_that_does_not_mind_goes_on_until_its_own_end(pod: Pod) -> None:
    pod.prompt(b"")
    process = pod.start("sh", "-c", 'trap "" TERM; echo ready; sleep 0.5; exit 9')
    said(process, b"ready")
    for _ in range(3):
        process.terminate()
        time.sleep(0.05)
    assert ended(process)[0] == 9


def test_a_stop_reaches_what_the_agent_has_started(pod: Pod) -> None:
    pod.prompt(b"")
    process = pod.start("sh", "-c", 'trap "exit 4" TERM; sh -c "echo child; exec sleep 60" & wait')
    said(process, b"child")
    process.terminate()
    # The pipe ends only when the child has let go of it too, which is long before its own end.
    assert ended(process)[0] == 4


def test_without_setsid_the_agent_still_gets_the_stop(pod: Pod, tmp_path: Path) -> None:
    pod.prompt(b"")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("cat", "mkdir", "python3"):
        found = sys.executable if name == "python3" else shutil.which(name)
        (folder / name).write_text(f'#!/bin/sh\nexec "{found}" "$@"\n')
        (folder / name).chmod(0o755)
    process = subprocess.Popen(
        [str(shutil.which(pod.shell[0])), *pod.command("python3", "-c", WAITS)[1:]],
        env={**pod.environment, "PATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    said(process, b"ready")
    process.terminate()
    assert ended(process) == (7, b"stopped by 15\n", b"")


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.003, 0.01, 0.03])
def test_a_stop_at_any_moment_ends_the_run(pod: Pod, delay: float) -> None:
    pod.prompt(b"x" * 500_000)
    process = pod.start("sleep", "20")
    time.sleep(delay)
    process.terminate()
    # Before its handler stands, the shell itself dies of it, -15 here; process 1 would not.
    assert ended(process)[0] in {143, -signal.SIGTERM}
