from __future__ import annotations

import asyncio

import pytest

from paperclip_launcher.log.patience import Patience, TooLate
from tests.fakeapi.loop import VirtualLoop


def virtual(main):
    loop = VirtualLoop()
    result = loop.run(main, limit=1000)
    assert loop.problems == []
    return result


def test_a_wait_ends_in_time_or_is_too_late_and_the_next_one_has_its_own_time():
    async def main():
        loop, patience = asyncio.get_running_loop(), Patience()
        assert await patience.wait(asyncio.sleep(5, "a"), 10) == "a"
        assert await patience.wait(asyncio.sleep(20, "b"), 30) == "b"
        with pytest.raises(TooLate):
            await patience.wait(asyncio.sleep(20), 40)
        assert loop.time() == 40
        assert await patience.wait(asyncio.sleep(1, "c"), float("inf")) == "c"
        with pytest.raises(TooLate):
            await patience.wait(asyncio.sleep(20), 42)
        assert loop.time() == 42
        assert asyncio.current_task().cancelling() == 0

    virtual(main())


def test_a_wait_under_way_can_be_shortened_but_not_prolonged():
    async def main():
        loop, patience = asyncio.get_running_loop(), Patience()
        patience.shorten(0)  # nothing is under way
        loop.call_later(1, patience.shorten, 50)
        loop.call_later(2, patience.shorten, 3)
        with pytest.raises(TooLate):
            await patience.wait(asyncio.sleep(100), 40)
        assert loop.time() == 3

    virtual(main())


def test_a_wait_that_is_late_and_then_shortened_is_just_late():
    async def main():
        loop, patience = asyncio.get_running_loop(), Patience()
        loop.call_at(10.5, patience.shorten, 10)
        with pytest.raises(TooLate):
            await patience.wait(_slow_to_end(), 10)
        assert asyncio.current_task().cancelling() == 0

    virtual(main())


async def _slow_to_end():
    try:
        await asyncio.sleep(20)
    finally:
        await asyncio.sleep(1)


@pytest.mark.parametrize("at", [5, 10, 15])
def test_a_cancellation_from_outside_is_never_taken_for_a_timeout(at):
    async def wait(patience):
        try:
            await patience.wait(asyncio.sleep(100), 10)
        except TooLate:
            await asyncio.sleep(100)

    async def main():
        patience = Patience()
        task = asyncio.create_task(wait(patience))
        await asyncio.sleep(at)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    virtual(main())


def test_an_error_or_a_result_right_at_the_end_is_not_lost():
    async def stubborn(outcome):
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            if outcome:
                return outcome
            raise ValueError from None

    async def main():
        patience = Patience()
        assert await patience.wait(stubborn("result"), 10) == "result"
        with pytest.raises(ValueError):
            await patience.wait(stubborn(None), 20)
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(1)

    virtual(main())


def test_thousands_of_waits_leave_one_timer():
    async def main():
        loop, patience = asyncio.get_running_loop(), Patience()
        for _ in range(1000):
            await patience.wait(asyncio.sleep(0), loop.time() + 45)
        assert len(loop._timers) == 1
        patience.close()

    virtual(main())
