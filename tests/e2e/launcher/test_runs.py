"""Whole runs by the launcher on a real node: what is asked for, what is said, what is left behind."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from paperclip_launcher.errors import ConfigInvalid
from paperclip_launcher.launcher import dialect_of
from paperclip_launcher.options import RunOptions
from paperclip_launcher.provision import Stock, provide

controlplane, driving = sys.modules["controlplane"], sys.modules["driving"]

pytestmark = pytest.mark.e2e

ABSENT = f"127.0.0.1:1/nothing/there:1@sha256:{'0' * 64}"

ROOMY = {
    "requests": {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "64Mi"},
    "limits": {"cpu": "2", "memory": "128Mi", "ephemeral-storage": "4Gi"},
}


@pytest.fixture(autouse=True)
def nothing_stays(site):
    """After each test: no Job, and none of what came with one."""
    yield
    controlplane.wait_until("all of the runs to be gone", 60, lambda: left(site) == [], lambda: str(left(site)))


def left(site: Any) -> list[str]:
    """Objects of runs; the Leases of launchers end with their launchers."""
    kept = {site.config.agents.secrets[0].name}
    found = [one for kind in ("jobs", "pods", "secrets", "leases") for one in site.objects(kind)]
    return [f"{one['kind']} {one['metadata']['name']}" for one in found if one["metadata"]["name"] not in kept]


def test_a_run_gives_the_result_session_usage_and_log_of_its_agent(site):
    result, reader = driving.run_one(site, "happy", "@agent say hello\n@agent usage 100 20 0.5\n")
    assert (result.code, result.exit_code) == ("", 0), f"{result} {reader}"
    assert re.fullmatch(r"prompt of \d+ bytes, sha256 [0-9a-f]{64}", result.summary)
    assert result.session_params["sessionId"] == result.session_id != ""
    assert (result.usage["inputTokens"], result.usage["outputTokens"], result.cost_usd) == (100, 20, 0.5)
    assert '"text":"hello"' in reader.text
    assert reader.lines == 4


def test_the_next_run_goes_on_with_the_session(site):
    first, _ = driving.run_one(site, "session-1", "")
    second, _ = driving.run_one(site, "session-2", "", session=first.session_params)
    assert second.session_id == first.session_id


def test_a_session_that_is_gone_is_to_be_forgotten(site):
    unknown = {"sessionId": "5b0ad5b5-6f2c-4f0e-9a5e-000000000000"}
    result, reader = driving.run_one(site, "session-lost", "", session=unknown)
    assert result.code == "session_unavailable", f"{result} {reader}"
    assert result.clear_session is True


SKILLS = {
    "review/SKILL.md": b"---\nname: review\n---\nLook at \xc3\xa4ll of it.\n",
    "review/scripts/count.sh": b"#!/bin/sh\nwc -l\n",
    "review/empty": b"",
    "large/SKILL.md": b"see data\n",
    "large/data/one.bin": bytes(range(256)) * 2_700,
    "large/data/two.bin": bytes(reversed(range(256))) * 2_700,
}


def test_an_agent_sees_its_skills_byte_by_byte_though_the_launcher_has_no_claim(site, tmp_path):
    for path, content in SKILLS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    (tmp_path / "review/scripts/count.sh").chmod(0o755)
    offered = [{"key": f"a/{one}", "runtimeName": one, "source": str(tmp_path / one)} for one in ("large", "review")]
    wanted = {"desiredSkills": [one["key"] for one in offered]}
    prompt = "@agent tree /run/paperclip/bundle\n"
    request = driving.request("skills", prompt, paperclipRuntimeSkills=offered, paperclipSkillSync=wanted)
    dialect = dialect_of("claude_k8s")
    options = RunOptions.of(request.config, dialect)

    async def through() -> Any:
        reader = driving.Reader()
        async with driving.launcher(site) as found:
            given = provide(request, options, dialect, found.templates, Stock(None, (str(tmp_path),)), now=time.time())
            assert (given.bundle, given.notes) == ("", ())
            run = await found.begin(request, reader, extras=given.extras)
            result = await driving.ended(run)
            await driving.settled(found)
        return result, reader, given.extras.held.key

    result, reader, key = asyncio.run(through())
    assert result.ok, f"{result} {reader}"
    assert result.session_params["promptBundleKey"] == key
    for path, content in SKILLS.items():
        mode = "755" if path.endswith(".sh") else "644"
        line = f"./.claude/skills/{path} {mode} {hashlib.sha256(content).hexdigest()}"
        assert line in reader.text, f"{line} {reader}"
    assert reader.text.count("./") == len(SKILLS)
    assert "0 links" in reader.text


def test_an_exit_code_comes_back_as_it_is(site):
    result, reader = driving.run_one(site, "exits", "@agent say bye\n@agent exit 23\n")
    assert (result.exit_code, result.ok) == (23, False), f"{result} {reader}"
    assert result.session_id


def test_too_much_memory_is_said_to_be_that(site):
    result, reader = driving.run_one(site, "eats", "@agent eat\n")
    assert (result.code, result.exit_code) == ("k8s_oom_killed", 137), f"{result} {reader}"


def test_a_run_whose_child_ran_out_of_memory_has_not_failed_itself(site):
    result, reader = driving.run_one(site, "spills", "@agent spill\n")
    assert result.ok, f"{result} {reader}"


def test_too_much_disk_is_said_to_be_an_eviction(site):
    result, reader = driving.run_one(site, "fills", "@agent fill /tmp/large 400\n@agent sleep 120\n")
    assert result.code == "k8s_pod_evicted", f"{result} {reader}"
    assert "ephemeral" in result.error_message


def test_an_eviction_from_outside_is_said_to_be_one(site):
    async def through() -> Any:
        reader = driving.Reader()
        async with driving.launcher(site) as found:
            run = await found.begin(driving.request("evicted", "@agent say ready\n@agent sleep 60\n"), reader)
            await driving.until("the agent", lambda: "ready" in reader.text)
            await asyncio.to_thread(lambda: site.evict(site.objects("pods")[0]["metadata"]["name"]))
            result = await driving.ended(run)
            await driving.settled(found)
        return result, reader

    result, reader = asyncio.run(through())
    assert result.code == "k8s_pod_evicted", f"{result} {reader}"
    assert result.session_id


def test_an_image_that_cannot_be_pulled_is_told_soon_and_given_up_in_time(site):
    begun = time.monotonic()
    result, reader = driving.run_one(site, "no-image", "", image=ABSENT, scheduleTimeoutSec=15)
    assert result.code == "k8s_image_pull_failed", f"{result} {reader}"
    assert any("pull" in text for _, text in reader.notes)
    assert time.monotonic() - begun < 60


def test_a_run_that_is_cancelled_ends_with_its_last_words(site):
    async def through() -> Any:
        reader = driving.Reader()
        async with driving.launcher(site) as found:
            prompt = "@agent say ready\n@agent on-term 1 7\n@agent sleep 60\n"
            run = await found.begin(driving.request("cancelled", prompt), reader)
            await driving.until("the agent", lambda: "ready" in reader.text)
            assert await found.cancel("cancelled")
            result = await driving.ended(run)
            await driving.settled(found)
        return result, reader

    result, reader = asyncio.run(through())
    assert result.code == "cancelled", f"{result} {reader}"
    assert '"text":"stopped"' in reader.text
    assert result.session_id


def test_a_cancelled_agent_that_will_not_stop_is_proven_gone(site):
    async def through() -> Any:
        reader = driving.Reader()
        async with driving.launcher(site) as found:
            prompt = "@agent ignore-term\n@agent say ready\n@agent sleep 120\n"
            run = await found.begin(driving.request("stubborn", prompt), reader)
            await driving.until("the agent", lambda: "ready" in reader.text)
            run.cancel()
            result = await driving.ended(run)
            pods = await asyncio.to_thread(site.objects, "pods")
            await driving.settled(found)
        return result, pods

    result, pods = asyncio.run(through())
    assert result.code == "cancelled"
    states = [one["state"] for pod in pods for one in pod["status"].get("containerStatuses") or ()]
    assert not any("running" in state for state in states)


def test_a_run_that_takes_too_long_is_stopped_and_keeps_its_session(site):
    result, reader = driving.run_one(site, "late", "@agent say ready\n@agent sleep 120\n", timeoutSec=4, graceSec=1)
    assert (result.code, result.timed_out) == ("timeout", True), f"{result} {reader}"
    assert result.session_id


def test_a_run_for_which_the_quota_has_no_room_is_told_so(site):
    half = {part: {**ROOMY[part], "cpu": "1"} for part in ROOMY}

    async def through() -> Any:
        first, second = driving.Reader(), driving.Reader()
        async with driving.launcher(site) as found:
            prompt = "@agent say ready\n@agent sleep 60\n"
            one = await found.begin(driving.request("first", prompt, "agent-1", resources=half), first)
            await driving.until("the agent", lambda: "ready" in first.text)
            asked = driving.request("second", "", "agent-2", resources=half, scheduleTimeoutSec=8)
            result = await driving.ended(await found.begin(asked, second))
            one.cancel()
            await driving.ended(one)
            await driving.settled(found)
        return result, second

    result, reader = asyncio.run(through())
    assert result.code == "k8s_quota_exceeded", f"{result} {reader}"
    assert "requests.cpu" in f"{result.error_message} {reader.notes}"


def test_a_run_that_never_fits_the_quota_is_refused_before_anything_is_made(site):
    huge = {part: {**ROOMY[part], "cpu": "1900m"} for part in ROOMY}
    with pytest.raises(ConfigInvalid, match=r"1900m of requests.cpu, more than the 1800m of ResourceQuota"):
        driving.run_one(site, "greedy", "", resources=huge)


def test_what_the_pod_security_of_the_namespace_refuses_is_told_as_that(site, tmp_path, monkeypatch):
    """Our policies refuse such a Job before: so they look away here."""
    monkeypatch.setattr("paperclip_launcher.judging.judge_job", lambda *_: [])
    shutil.copytree(site.templates_folder, tmp_path / "templates")
    path = tmp_path / "templates/claude.json"
    path.write_text(path.read_text().replace('"allowPrivilegeEscalation":false', '"allowPrivilegeEscalation":true'))
    result, reader = driving.run_one(replace(site, templates_folder=tmp_path / "templates"), "unsafe", "")
    assert result.code == "k8s_pod_security_refused", f"{result} {reader}"


def test_a_prompt_of_five_mebibytes_arrives_byte_by_byte(site):
    line = "A line with an emoji \U0001f642, a $(VARIABLE), and a backslash \\.\n"
    prompt = line * ((5 << 20) // len(line.encode()))
    result, reader = driving.run_one(site, "large-prompt", prompt)
    assert result.ok, f"{result} {reader}"
    said = prompt.encode()
    assert result.summary == f"prompt of {len(said)} bytes, sha256 {hashlib.sha256(said).hexdigest()}"


def test_a_gibibyte_of_log_arrives_whole_and_in_order(site, say):
    lines, width = 1 << 20, 1 << 10
    begun, worked = time.monotonic(), time.process_time()
    result, reader = driving.run_one(site, "gibibyte", f"@agent lines {lines} {width}\n", resources=ROOMY)
    say(f"1 GiB of log in {time.monotonic() - begun:.1f} s, {time.process_time() - worked:.1f} s of them ours")
    assert result.ok, f"{result} {reader}"
    assert (reader.numbered, reader.unlike, reader.lines) == (lines, b"", lines + 3)
    assert reader.size > lines * width
    assert reader.offsets == sorted(set(reader.offsets))


def test_twenty_runs_at_once_end_well_each_with_its_own_log(site, say):
    async def through() -> Any:
        readers = [driving.Reader() for _ in range(20)]
        async with driving.launcher(site) as found:
            asked = [
                driving.request(f"many-{number}", f"@agent say I am {number}\n@agent lines 1000\n", f"agent-{number}")
                for number in range(20)
            ]
            runs = [await found.begin(one, reader) for one, reader in zip(asked, readers, strict=True)]
            results = await asyncio.gather(*(driving.ended(run) for run in runs))
            await driving.settled(found)
        return results, readers

    begun = time.monotonic()
    results, readers = asyncio.run(through())
    say(f"20 runs at once in {time.monotonic() - begun:.1f} s")
    assert [result.code for result in results] == [""] * 20
    numbered = re.compile(r"^line (\d+) ", re.MULTILINE)
    for number, reader in enumerate(readers):
        assert f'"text":"I am {number}"' in reader.text
        assert [int(one) for one in numbered.findall(reader.text)] == list(range(1, 1001))


def test_the_token_of_the_run_reaches_the_agent(site):
    digest = hashlib.sha256(driving.TOKEN.encode()).hexdigest()
    result, reader = driving.run_one(site, "secretive", "@agent variable PAPERCLIP_API_KEY\n")
    assert result.ok, f"{result} {reader}"
    assert f"PAPERCLIP_API_KEY is {digest}" in reader.text
