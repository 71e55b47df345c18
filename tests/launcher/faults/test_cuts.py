"""The log through cuts, as in `make faults`, but a thousandth of them."""

from __future__ import annotations

from tests.faults import cuts


def test_of_a_log_that_is_cut_at_random_no_line_is_lost_or_doubled():
    tally = cuts.random_cuts(11, 8_000, 8, at_once=1)
    assert (tally.lost, tally.doubled, tally.reordered, tally.incomplete) == (0, 0, 0, 0)
    assert tally.cuts >= 8


def test_an_answer_may_be_cut_at_any_byte():
    tally = cuts.each_byte(step=41, first=5)
    assert (tally.lost, tally.doubled, tally.reordered, tally.incomplete) == (0, 0, 0, 0)
    assert tally.cuts > 15
