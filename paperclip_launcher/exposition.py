"""The launcher's metrics in Prometheus' text format. Import it only for a scrape: prometheus_client takes 80 ms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from paperclip_launcher.metrics import Metrics, Spread

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_PREFIX = "paperclip_launcher_"
_Key = tuple[str, ...]
_Value = TypeVar("_Value")


def exposition(metrics: Metrics) -> bytes:
    """All of `metrics` as it is now, as CONTENT_TYPE."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(metrics))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        one = self._metrics
        ages = {resource: age() for resource, age in one.watches.items()}
        yield _gauge("runs", "Runs alive now.", ("phase",), _keyed(one.runs))
        yield _counter("runs_ended", "Runs that have a result.", ("code",), _keyed(one.ended))
        yield _histogram("phase_seconds", "Time that runs spent in a phase.", ("phase",), _keyed(one.phases))
        yield _counter("api_calls", "Calls to the API server.", ("verb", "resource", "status"), one.calls)
        yield _histogram("api_call_seconds", "Time of these calls.", ("verb", "resource"), one.call_seconds)
        yield _counter("log_bytes", "Log delivered, without time stamps.", (), {(): one.log_bytes})
        yield _counter("log_lines", "Lines of log delivered.", (), {(): one.log_lines})
        yield _counter("log_reconnects", "Log streams opened again.", (), {(): one.log_reconnects})
        yield _gauge("watch_age_seconds", "Time since a watch was last heard of.", ("resource",), _keyed(ages))
        yield _gauge("leases", "Leases held now.", ("kind",), _keyed(one.leases))
        yield _counter("lease_failures", "Renewals of Leases that failed.", (), {(): one.lease_failures})


def _keyed(values: Mapping[str, _Value]) -> dict[_Key, _Value]:
    return {(key,): value for key, value in values.items()}


def _gauge(name: str, text: str, labels: _Key, values: Mapping[_Key, float]) -> Metric:
    family = GaugeMetricFamily(_PREFIX + name, text, labels=labels)
    for key in sorted(values):
        family.add_metric(key, values[key])
    return family


def _counter(name: str, text: str, labels: _Key, values: Mapping[_Key, float]) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, text, labels=labels)
    for key in sorted(values):
        family.add_metric(key, values[key])
    return family


def _histogram(name: str, text: str, labels: _Key, values: Mapping[_Key, Spread]) -> Metric:
    family = HistogramMetricFamily(_PREFIX + name, text, labels=labels)
    for key in sorted(values):
        family.add_metric(key, values[key].buckets(), values[key].total)
    return family
