"""Any config that we accept renders objects that a real API server accepts."""

from __future__ import annotations

import contextlib
import sys

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from charts_py.errors import GitopsError

edge_configs, strategy, trial = sys.modules["edge_configs"], sys.modules["config_strategy"], sys.modules["trial"]

pytestmark = pytest.mark.e2e


def test_a_generated_config_is_accepted_by_the_api_server(cluster, say, tmp_path):
    counts = []

    @settings(
        max_examples=25,
        derandomize=True,
        deadline=None,
        database=None,
        # A shrink would ask the API server a thousand times; the examples are small enough to be read.
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(config=strategy.environments())
    def holds(config):
        environment = trial.read(config, tmp_path)
        said, count = trial.judged(cluster, environment)
        assert said == ""
        counts.append(count)

    holds()
    say(f"{len(counts)} generated configs: {sum(counts)} objects and pods accepted")


@pytest.mark.parametrize("edge", sorted(edge_configs.EDGES))
def test_what_the_api_server_refuses_we_refuse_first(cluster, tmp_path, edge):
    said = ""
    with contextlib.suppress(GitopsError):  # our own refusal, which has a message of its own
        said, _ = trial.judged(cluster, trial.read(edge_configs.config(edge), tmp_path))
    assert said == "", f"accepted by us: {edge_configs.EDGES[edge]}"


def test_the_config_that_the_edges_are_cut_from_is_accepted(cluster, tmp_path):
    said, _ = trial.judged(cluster, trial.read(edge_configs.BASE, tmp_path))
    assert said == ""
