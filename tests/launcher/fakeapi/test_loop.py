"""The virtual loop: time that jumps, an order that a seed decides, processes that die as by SIGKILL."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakeapi.loop import Deadlock, LoopClock, Process, TooLong, VirtualLoop


def test_time_jumps_and_keeps_its_order():
    seen = []

    async def nap(seconds):
        await asyncio.sleep(seconds)
        seen.append((asyncio.get_running_loop().time(), seconds))

    async def main():
        await asyncio.gather(nap(3600), nap(0.5), nap(2))
        return asyncio.get_running_loop().time()

    assert VirtualLoop().run(main()) == 3600
    assert seen == [(0.5, 0.5), (2, 2), (3600, 3600)]


def test_timeouts_queues_events_and_groups_work():
    async def main():
        queue, ready = asyncio.Queue(1), asyncio.Event()

        async def producer():
            for number in range(5):
                await queue.put(number)
            ready.set()

        got = []
        async with asyncio.TaskGroup() as group:
            group.create_task(producer())
            while len(got) < 5:
                got.append(await queue.get())
        await asyncio.wait_for(ready.wait(), 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await queue.get()
        return got, asyncio.get_running_loop().time()

    assert VirtualLoop().run(main()) == ([0, 1, 2, 3, 4], 30)


def orders(seed):
    seen = []

    async def one(number):
        for _ in range(3):
            await asyncio.sleep(0)
            seen.append(number)

    async def main():
        await asyncio.gather(*(one(number) for number in range(4)))

    VirtualLoop(seed, shuffle=True).run(main())
    return tuple(seen)


def test_a_seed_decides_the_order_and_another_seed_another_one():
    assert orders(7) == orders(7)
    assert len({orders(seed) for seed in range(20)}) > 15


def test_nothing_left_to_happen_is_an_error_that_says_who_waits_where():
    async def stuck():
        await asyncio.get_running_loop().create_future()

    async def main():
        await asyncio.create_task(stuck(), name="the stuck one")

    with pytest.raises(Deadlock, match=r"the stuck one: .*stuck at .*test_loop\.py:\d+"):
        VirtualLoop().run(main())


def test_an_endless_history_is_ended():
    async def main():
        for _ in range(1000):
            await asyncio.sleep(1)

    async def busy():
        for _ in range(10_000):
            await asyncio.sleep(0)

    with pytest.raises(TooLong, match="not done at 100"):
        VirtualLoop().run(main(), limit=100)
    with pytest.raises(TooLong, match="too many callbacks"):
        VirtualLoop(steps=1000).run(busy())


def test_a_killed_process_runs_no_further_not_even_its_finally():
    seen = []

    async def victim():
        try:
            for number in range(100):
                await asyncio.sleep(1)
                seen.append(number)
        finally:
            seen.append("ghost" if process.ghost else "finally")

    process = Process("victim")

    async def main():
        loop = asyncio.get_running_loop()
        task = loop.spawn(victim(), process)
        await asyncio.sleep(3.5)
        process.kill()
        await asyncio.sleep(10)
        assert not task.done()
        return list(seen)

    loop = VirtualLoop()
    assert loop.run(main()) == [0, 1, 2]
    assert seen == [0, 1, 2, "ghost"]
    assert loop.problems == []


def test_what_a_process_starts_dies_with_it():
    seen = []

    async def child():
        await asyncio.sleep(5)
        seen.append("child")

    async def parent():
        asyncio.get_running_loop().call_later(4, seen.append, "timer")
        child_task = asyncio.create_task(child())
        await child_task

    async def main():
        process = Process()
        asyncio.get_running_loop().spawn(parent(), process)
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(20)
        return list(seen)

    assert VirtualLoop(shuffle=True).run(main()) == []


def test_what_is_left_is_cancelled_and_what_nobody_awaited_is_reported():
    ended = []

    async def background():
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ended.append(True)
            raise

    async def main():
        task = asyncio.create_task(background())
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)
        return task

    loop = VirtualLoop()
    assert loop.run(main()).cancelled()
    assert ended == [True]
    assert [type(one["exception"]) for one in loop.problems] == [ZeroDivisionError]


def test_no_threads():
    async def main():
        await asyncio.to_thread(print)

    with pytest.raises(AssertionError, match="a thread"):
        VirtualLoop().run(main())


def test_a_clock_goes_with_the_loop_and_may_be_wrong():
    loop = VirtualLoop()
    clock = LoopClock(loop, epoch=100, skew=-5)

    async def main():
        await asyncio.sleep(7)
        return clock.now()

    assert loop.run(main()) == 102


def test_a_frozen_process_runs_nothing_until_it_thaws_and_then_all_that_is_due():
    seen = []

    async def sleeper():
        loop = asyncio.get_running_loop()
        for number in range(4):
            await asyncio.sleep(1)
            seen.append((number, loop.time()))

    async def main():
        loop, process = asyncio.get_running_loop(), Process("sleeper")
        task = loop.spawn(sleeper(), process)
        await asyncio.sleep(1.5)
        process.freeze()
        await asyncio.sleep(60)
        assert process.frozen
        assert len(seen) == 1
        loop.thaw(process)
        await task

    VirtualLoop().run(main())
    assert seen == [(0, 1.0), (1, 61.5), (2, 62.5), (3, 63.5)]


def test_a_process_that_is_killed_while_it_is_frozen_runs_no_further():
    seen = []

    async def victim():
        await asyncio.sleep(1)
        seen.append("after")

    async def main():
        loop, process = asyncio.get_running_loop(), Process("victim")
        loop.spawn(victim(), process)
        await asyncio.sleep(0.5)
        process.freeze()
        await asyncio.sleep(5)
        process.kill()
        loop.thaw(process)
        await asyncio.sleep(5)

    loop = VirtualLoop()
    loop.run(main())
    assert seen == []
    assert loop.problems == []
