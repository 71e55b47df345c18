from __future__ import annotations

import asyncio
import itertools
from random import Random

import pytest

from paperclip_launcher.cluster.errors import NotFound
from paperclip_launcher.log.follow import FollowSettings
from paperclip_launcher.log.position import LogPosition
from tests.fakeapi.loop import VirtualLoop
from tests.launcher.log.fakelog import BEGIN, BILLION, FakeLog, Reader, follower, history, stamp

START = BEGIN * BILLION


def virtual(main, limit=1e6):
    loop = VirtualLoop()
    result = loop.run(main, limit=limit)
    assert loop.problems == []
    return result


def script(*fates):
    """What becomes of each connection that follows, in turn; the last one for all that come after."""
    left = list(fates)

    def fate(follow):
        if not follow:
            return 1 << 62, "end"
        return left.pop(0) if len(left) > 1 else left[0]

    return fate


async def finished(one, log, *, after=0.0):
    log.end()
    asyncio.get_running_loop().call_later(after, one.finish)
    return await one.run()


def filled(count=10, **options):
    log = FakeLog(**options)
    for number in range(count):
        log.write(START + number * BILLION, b"n%d" % number)
    return log


@pytest.mark.parametrize("begin", range(0, 24, 6))
def test_nothing_is_lost_doubled_or_moved_whatever_breaks(begin):
    """tests/launcher/log/fakelog.py: history(seed) replays one of them."""
    for seed in range(begin, begin + 6):
        log, reader, end = history(seed, lines=40)
        got = bytes(reader.data)
        assert (got == log.text) if end.complete else log.text.startswith(got), seed
        assert log.open_streams == 0
        assert not any("missing" in note for note in reader.notes)


def test_a_burst_of_thousands_of_lines_a_second_survives_every_cut():
    log, reader, rng = FakeLog(seed=5), Reader(), Random(5)
    log.largest = 50_000
    log.fate = lambda follow: (rng.randrange(200_000), "reset") if follow else (1 << 62, "end")
    for number in range(20_000):
        log.write(START + number * 100_000, b"n%d " % number + b"x" * 40)

    async def main():
        one = follower(log, reader)
        asyncio.get_running_loop().call_later(60, one.finish)
        return await one.run()

    log.end()
    end = virtual(main())
    assert end.complete
    assert end.reconnects > 5
    assert bytes(reader.data) == log.text
    assert (end.bytes, end.lines) == (len(log.text), 20_000)
    assert max(reader.batches) <= 256 << 10


def test_a_cut_of_the_log_never_ends_it_before_somebody_says_so():
    log, reader = (
        filled(fate=script((50, "end"), (0, "reset"), (0, "waiting"), (0, "refused"), (1 << 62, "end"))),
        Reader(),
    )

    async def main():
        one = follower(log, reader)
        task = asyncio.create_task(one.run())
        await asyncio.sleep(100)
        assert not task.done()
        assert bytes(reader.data) == log.text
        log.end()
        one.finish()
        return await task

    end = virtual(main())
    assert (end.complete, end.reconnects) == (True, 4)
    assert len(reader.notes) == 4
    assert "waiting to start" in reader.notes[2]


def test_tries_become_rarer_and_frequent_again_after_new_lines():
    fates = [(0, "refused")] * 12 + [(34, "end"), (0, "refused")]
    log, times = filled(1, fate=script(*fates)), []
    real_open = log.open

    async def main():
        loop = asyncio.get_running_loop()

        async def noted(since, follow):
            times.append(loop.time())
            return await real_open(since, follow)

        log.open = noted
        task = asyncio.create_task(follower(log, Reader()).run())
        await asyncio.sleep(300)
        task.cancel()

    virtual(main())
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert [gap <= 0.5 for gap in gaps[:14]] == [True, *[False] * 11, True, False]
    assert 22 <= max(gaps) <= 30


def test_rotation_that_silences_the_stream_is_seen_within_a_minute():
    log, reader = filled(3, fate=script((93, "stall"), (1 << 62, "end"))), Reader()

    async def main():
        one = follower(log, reader)
        task = asyncio.create_task(one.run())
        await asyncio.sleep(10)
        log.write(START + 5 * BILLION, b"after the rotation")
        await asyncio.sleep(50)
        assert bytes(reader.data) == log.text
        log.end()
        one.finish()
        return await task

    assert virtual(main()).complete
    assert "the log had stopped, though the agent went on writing; it is opened again" in reader.notes


def followed(log, reader, scene):
    """How the log ends that is followed while `scene` goes on."""

    async def main():
        one = follower(log, reader)
        task = asyncio.create_task(one.run())
        await scene()
        log.end()
        one.finish()
        return await task

    return virtual(main())


def test_a_silent_agent_costs_few_reads_and_the_same_stream_is_read_on():
    log, reader = filled(1), Reader()

    async def scene():
        await asyncio.sleep(3000)
        assert [follow for _, follow in log.asked].count(True) == 1
        assert len(log.asked) <= 8
        log.write(START + 2 * BILLION, b"still there")
        await asyncio.sleep(1)
        assert bytes(reader.data) == log.text

    assert followed(log, reader, scene).reconnects == 0


def test_an_agent_that_writes_now_and_then_is_not_looked_at_in_between():
    log, reader = FakeLog(), Reader()

    async def scene():
        looks = []
        for minute in range(0, 50, 10):
            log.write(START + minute * 60 * BILLION, b"x")
            await asyncio.sleep(600)
            looks.append([follow for _, follow in log.asked].count(False))
        assert looks == [2, 2, 2, 2, 2]

    assert followed(log, reader, scene).complete
    assert bytes(reader.data) == log.text


def test_an_agent_that_writes_faster_again_is_watched_closely_again():
    log, reader = filled(1), Reader()

    async def scene():
        await asyncio.sleep(600)
        for second in range(601, 640):
            log.write(START + second * BILLION, b"x")
            await asyncio.sleep(1)
        before = len(log.asked)
        await asyncio.sleep(50)
        assert len(log.asked) == before + 1

    assert followed(log, reader, scene).complete


def test_no_connection_grows_older_than_an_hour():
    log, reader = FakeLog(), Reader()

    async def main():
        one = follower(log, reader)
        task = asyncio.create_task(one.run())
        for second in range(0, 4 * 3600, 30):
            log.write(START + second * BILLION, b"x")
            await asyncio.sleep(30)
        log.end()
        one.finish()
        return await task

    end = virtual(main())
    assert end.complete
    assert end.reconnects == 4
    assert bytes(reader.data) == log.text
    assert reader.notes == []


def test_a_look_that_breaks_off_delivers_nothing_twice():
    log, reader = filled(3, fate=script((93, "stall"), (1 << 62, "end"))), Reader()
    inner = log.fate
    log.fate = lambda follow: inner(follow) if follow else (150, "reset")

    async def main():
        one = follower(log, reader)
        task = asyncio.create_task(one.run())
        await asyncio.sleep(10)
        for number in range(5):
            log.write(START + 5 * BILLION, b"later %d" % number)
        await asyncio.sleep(60)
        assert bytes(reader.data) == log.text
        task.cancel()

    virtual(main())


def test_the_last_line_of_a_program_that_does_not_end_it_comes_too():
    log, reader = filled(2), Reader()
    log.unfinished = stamp(START + 2 * BILLION) + b"no end"
    end = virtual(finished(follower(log, reader), log, after=5))
    assert end.complete
    assert bytes(reader.data) == b"n0\nn1\nno end"


def test_a_stream_that_hangs_after_the_end_is_left_at_once():
    log, reader = filled(5, fate=script((60, "stall"))), Reader()

    async def main():
        loop = asyncio.get_running_loop()
        end = await finished(follower(log, reader), log, after=1)
        assert loop.time() <= 1 + 3
        return end

    assert virtual(main()).complete
    assert bytes(reader.data) == log.text


@pytest.mark.parametrize("how", ["stall", "refused", "silent head", "reset"])
def test_a_rest_that_cannot_be_read_is_given_up_at_the_deadline(how):
    log, reader = filled(3), Reader()
    log.fate = lambda follow: (40, how)

    async def main():
        end = await finished(follower(log, reader), log)
        assert asyncio.get_running_loop().time() <= 30 + 30 + 3  # one line comes in the first of them
        return end

    end = virtual(main())
    assert not end.complete
    assert "could not be read in time" in end.reason
    assert log.text.startswith(bytes(reader.data))


def test_a_long_rest_may_take_its_time_as_long_as_lines_come():
    log, reader = filled(100), Reader()
    log.largest = 40

    async def slow(data, position):
        await asyncio.sleep(1)
        await Reader.take(reader, data, position)

    reader.take = slow

    end = virtual(finished(follower(log, reader), log))
    assert end.complete
    assert bytes(reader.data) == log.text


def test_a_pod_that_is_gone_ends_the_wait_at_once():
    log = filled(3)

    async def gone(since, follow):
        raise NotFound(404, "NotFound", 'pods "x" not found')

    log.open = gone

    async def main():
        end = await finished(follower(log, Reader()), log, after=1)
        assert asyncio.get_running_loop().time() <= 2
        return end

    end = virtual(main())
    assert not end.complete
    assert "gone" in end.reason


def test_a_reader_that_never_takes_a_batch_is_left_soon_after_the_deadline():
    log, reader = filled(3), Reader()

    async def never(data, position):
        await asyncio.sleep(1e9)

    reader.take = never

    async def main():
        end = await finished(follower(log, reader), log, after=10)
        assert 40 <= asyncio.get_running_loop().time() <= 43
        return end

    end = virtual(main())
    assert (end.complete, end.reason) == (False, "the reader did not take the log in time")


def test_a_slow_reader_holds_the_stream_back():
    log, reader = FakeLog(), Reader()
    for number in range(2000):
        log.write(START + number, b"x" * 500)
    reads = []

    async def slow(data, position):
        reads.append(sum(map(len, log.texts)) - len(reader.data))
        await asyncio.sleep(1)
        await Reader.take(reader, data, position)

    reader.take = slow
    log.largest = 100_000

    async def main():
        one = follower(log, reader)
        task = asyncio.create_task(one.run())
        await asyncio.sleep(4.5)
        assert len(reader.batches) == 4
        task.cancel()

    virtual(main())


def test_what_the_reader_raises_comes_through_and_no_line_counts_twice():
    log = filled(3)

    class Full(NotFound):
        """Even if it looks like an error of the log."""

    async def fails(data, position):
        raise Full(404)

    reader = Reader()
    reader.take = fails

    async def main():
        with pytest.raises(Full):
            await follower(log, reader).run()
        assert log.open_streams == 0

    virtual(main())


def test_cancellation_closes_the_stream_and_is_not_swallowed():
    log = filled(3)

    async def main():
        task = asyncio.create_task(follower(log, Reader()).run())
        await asyncio.sleep(1)
        assert log.open_streams == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert log.open_streams == 0

    virtual(main())


def test_a_log_rotated_away_while_nobody_read_is_said_to_be_incomplete():
    log, reader = filled(5), Reader()
    kept = LogPosition()

    async def main():
        nonlocal kept
        task = asyncio.create_task(follower(log, reader).run())
        await asyncio.sleep(1)
        task.cancel()
        kept = reader.positions[-1]
        for number in range(5):
            log.write(START + (20 + number) * BILLION, b"later")
        log.first = 7
        return await finished(follower(log, reader, position=kept), log)

    end = virtual(main())
    assert not end.complete
    assert "rotated" in end.reason
    assert (end.lines, end.bytes) == (3, 18)


def test_an_error_of_the_kubelet_in_the_body_is_a_note():
    log, reader = filled(2), Reader()
    log.unfinished = b"rpc error: code = NotFound desc = an error occurred when try to find container"
    end = virtual(finished(follower(log, reader), log))
    assert end.complete
    assert bytes(reader.data) == b"n0\nn1\n"
    assert any("rpc error" in note for note in reader.notes)


def test_a_monstrous_line_is_cut_the_same_way_after_every_cut_of_the_stream():
    log, reader = FakeLog(fate=script((1500, "reset"), (3500, "reset"), (1 << 62, "end"))), Reader()
    log.write(START, b"a")
    log.write(START + 1, b"x" * 3000)
    log.write(START + 2, b"b")
    one = follower(log, reader, settings=FollowSettings(line=1000 + 31))
    end = virtual(finished(one, log, after=20))
    assert end.complete
    assert bytes(reader.data) == b"a\n" + b"x" * 1000 + b" [... 2000 bytes cut by paperclip]\nb\n"


def test_the_clock_of_this_machine_does_not_matter():
    for years in (-40, 40):
        log = FakeLog(fate=script((45, "reset"), (1 << 62, "end")))
        reader = Reader()
        for number in range(3):
            log.write(START + years * 31_536_000 * BILLION + number, b"n%d" % number)
        assert virtual(finished(follower(log, reader), log, after=9)).complete
        assert bytes(reader.data) == log.text
