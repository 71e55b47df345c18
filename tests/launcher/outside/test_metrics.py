"""Counting, and what Prometheus reads of it."""

from __future__ import annotations

import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families

from paperclip_launcher.exposition import exposition
from paperclip_launcher.metrics import Metrics


def read(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """The exposition as Prometheus' own parser reads it: (name, values by label name) -> value."""
    families = text_string_to_metric_families(exposition(metrics).decode())
    return {
        (one.name, *(one.labels[key] for key in sorted(one.labels))): one.value
        for family in families
        for one in family.samples
    }


def test_runs_are_counted_by_phase_and_code():
    metrics = Metrics()
    for _ in range(3):
        metrics.moved("", "planned", 0)
        metrics.moved("planned", "running", 0.2)
    metrics.moved("running", "", 7200)
    metrics.finished("")
    metrics.finished("k8s_oom_killed")
    seen = read(metrics)
    assert seen["paperclip_launcher_runs", "running"] == 2
    assert seen["paperclip_launcher_runs", "planned"] == 0
    assert seen["paperclip_launcher_runs_ended_total", "succeeded"] == 1
    assert seen["paperclip_launcher_runs_ended_total", "k8s_oom_killed"] == 1
    assert seen["paperclip_launcher_phase_seconds_bucket", "3600", "running"] == 0
    assert seen["paperclip_launcher_phase_seconds_bucket", "14400", "running"] == 1
    assert seen["paperclip_launcher_phase_seconds_bucket", "+Inf", "planned"] == 3
    assert seen["paperclip_launcher_phase_seconds_sum", "running"] == 7200


def test_calls_are_counted_by_verb_resource_and_status():
    metrics = Metrics()
    metrics.called("create", "jobs", 201, 0.02)
    metrics.called("create", "jobs", 201, 0.005)
    metrics.called("list", "pods", 0, 30.5)
    seen = read(metrics)
    assert seen["paperclip_launcher_api_calls_total", "jobs", "201", "create"] == 2
    assert seen["paperclip_launcher_api_calls_total", "pods", "none", "list"] == 1
    assert seen["paperclip_launcher_api_call_seconds_bucket", "0.005", "jobs", "create"] == 1
    assert seen["paperclip_launcher_api_call_seconds_bucket", "30", "pods", "list"] == 0
    assert seen["paperclip_launcher_api_call_seconds_count", "pods", "list"] == 1


def test_log_watches_and_leases_show():
    metrics = Metrics()
    metrics.logged(1000, 7)
    metrics.log_reconnects += 1
    metrics.watches["pods"] = lambda: 12.5
    metrics.leases["agent"] += 2
    seen = read(metrics)
    assert seen["paperclip_launcher_log_bytes_total",] == 1000
    assert seen["paperclip_launcher_log_lines_total",] == 7
    assert seen["paperclip_launcher_log_reconnects_total",] == 1
    assert seen["paperclip_launcher_watch_age_seconds", "pods"] == 12.5
    assert seen["paperclip_launcher_leases", "agent"] == 2
    assert seen["paperclip_launcher_lease_failures_total",] == 0


def test_a_fresh_launcher_can_be_scraped_and_says_the_same_twice():
    assert exposition(Metrics()) == exposition(Metrics())
    assert read(Metrics())["paperclip_launcher_log_bytes_total",] == 0


def test_counting_alone_imports_no_client_of_prometheus():
    code = (
        "import sys, paperclip_launcher.metrics, paperclip_launcher.talk, paperclip_launcher.masking;"
        "raise SystemExit('prometheus_client' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
