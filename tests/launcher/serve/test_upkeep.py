"""What a launcher that serves clears away, and when."""

from __future__ import annotations

import asyncio

from paperclip_launcher import marks
from paperclip_launcher.journal import FolderJournal, Record
from paperclip_launcher.serve import upkeep
from tests.fakeapi.model import Program
from tests.launcher.serve.program import cluster
from tests.launcher.serve.test_main import play, served, until

LONG_AGO = 1_500_000_000.0


def with_job(fake, name):
    """A Job of an earlier life, whose pod has never started; its uid."""
    annotations = {marks.OWNER: "one", marks.RUN_ID: name, marks.AGENT_ID: "agent-1"}
    meta = {"name": name, "labels": marks.labels("agent-job"), "annotations": annotations}
    labels = {**meta["labels"], marks.JOB_NAME: name}
    pod = {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"containers": [{"name": "agent"}]}}
    return marks.uid(fake.put("jobs", {"metadata": meta, "spec": {"template": pod}}))


def test_at_its_start_it_deletes_the_jobs_whose_result_was_reported_and_no_other(tmp_path, monkeypatch):
    """A launcher that dies between the acknowledgement and the deletion leaves one. Who asked for a Job that has not
    got all it needs may come back in a moment: that one goes with the next round."""

    async def scene():
        fake = cluster(Program(start="unschedulable"))
        fake.store.epoch = LONG_AGO
        journal = FolderJournal(tmp_path / "runs")
        for name in ("reported", "half-made"):
            uid, told = with_job(fake, name), name == "reported"
            journal.write(Record(name, name, "agent-1", name, "n", job_uid=uid, acknowledged=told))
        async with served(tmp_path, fake):
            await until(lambda: fake.get("jobs", "reported") is None)
            await asyncio.sleep(0.05)
            assert fake.get("jobs", "half-made") is not None
        monkeypatch.setattr(upkeep, "_EVERY", 0.01)
        async with served(tmp_path, fake):
            await until(lambda: fake.get("jobs", "half-made") is None)

    play(scene)
