"""Calls and streams over real sockets: what a server may do to them, and what each of it is called."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct

import pytest

from paperclip_launcher.cluster.access import Access, Tokens
from paperclip_launcher.cluster.network import NetworkTransport
from paperclip_launcher.cluster.transport import Broken, NotSent, Request, Stalled, TimedOut
from paperclip_launcher.cluster.wire import Address
from tests.launcher.cluster.scripted import CHUNKED_HEAD, chunked, read_request, reply, serving

GET = Request("GET", "/api/v1/pods", timeout=5.0)


def transport_to(port, *, context=None, tokens=None, prefix=""):
    address = Address("127.0.0.1", port, context, "127.0.0.1")
    return NetworkTransport(Access(address, prefix, tokens or Tokens(), "", "test"))


def send_get(transport):
    return transport.send(GET)


def with_server(handler, use, *, server=None, **access):
    """What `use` makes of a transport to a server that gives each connection to `handler`."""

    async def main():
        async with serving(handler, server) as port, asyncio.timeout(10):
            transport = transport_to(port, **access)
            try:
                return await use(transport)
            finally:
                await transport.close()

    return asyncio.run(main())


def always(data):
    async def handler(reader, writer):
        await read_request(reader)
        writer.write(data)
        await reader.read()

    return handler


def cut_with_reset(writer):
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def everything(stream):
    parts = []
    while part := await stream.read():
        parts.append(part)
    await stream.close()
    return b"".join(parts)


def test_a_call_is_one_request_and_its_answer():
    seen = []

    async def handler(reader, writer):
        seen.append(await read_request(reader))
        writer.write(reply(b'{"a": 1}', 201, "X-Hint: h\xc3"))
        await reader.read()

    body = b'{"kind": "Job"}'
    request = Request("POST", "/apis/x", (("labelSelector", "a=b,c&d"), ("x", "1 2")), body, "application/json")
    response = with_server(handler, lambda one: one.send(request), tokens=Tokens("secret"), prefix="/k8s")
    assert (response.status, response.body) == (201, b'{"a": 1}')
    head, sent = seen[0]
    assert head.startswith("POST /k8s/apis/x?labelSelector=a%3Db%2Cc%26d&x=1%202 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert "Authorization: Bearer secret\r\n" in head
    assert "Content-Type: application/json\r\nContent-Length: 15\r\n" in head
    assert sent == body


def test_calls_share_connections_and_those_that_the_server_ends_are_not_used_again():
    connections = []

    async def handler(reader, writer):
        connections.append(0)
        for _ in range(3):
            await read_request(reader)
            connections[-1] += 1
            writer.write(reply())

    async def use(transport):
        for _ in range(7):
            assert (await transport.send(GET)).status == 200
            await asyncio.sleep(0.002)
        await asyncio.gather(*(transport.send(GET) for _ in range(5)))

    with_server(handler, use)
    assert connections[:2] == [3, 3]
    assert sum(connections) == 12


def test_nobody_there_is_not_sent():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(NotSent, match=f"127.0.0.1:{port}"):
        asyncio.run(transport_to(port).send(GET))


@pytest.mark.parametrize("answered", [b"", b"HTTP/1.1 200 OK\r\nContent-", reply(b"abc")[:-1], b"SSH-2.0\r\n\r\n"])
@pytest.mark.parametrize("reset", [True, False])
def test_an_answer_that_breaks_off_is_broken(answered, reset):
    async def handler(reader, writer):
        await read_request(reader)
        writer.write(answered)
        await writer.drain()
        if reset:
            cut_with_reset(writer)

    with pytest.raises(Broken):
        with_server(handler, send_get)


def test_an_answer_that_does_not_come_is_timed_out():
    late = Request("GET", "/", timeout=0.2)

    async def use(transport):
        both = (transport.send(late), transport.open(late, idle=9))
        return await asyncio.gather(*both, return_exceptions=True)

    assert [type(one) for one in with_server(always(b""), use)] == [TimedOut, TimedOut]
    with pytest.raises(TimedOut):
        with_server(always(reply(b"abc")[:-1]), lambda one: one.send(late))


def test_the_token_is_read_again_when_it_is_refused(tmp_path):
    path = tmp_path / "token"
    path.write_text("old\n")
    seen = []

    async def handler(reader, writer):
        while True:
            head, _ = await read_request(reader)
            seen.append(head.split("Bearer ")[1].split("\r\n")[0])
            path.write_text("new")
            writer.write(reply(status=200 if seen[-1] == "new" else 401))

    async def use(transport):
        first = await transport.send(GET)
        path.unlink()
        return first.status, (await transport.send(GET)).status

    assert with_server(handler, use, tokens=Tokens(path=path)) == (200, 200)
    assert seen == ["old", "new", "new"]


@pytest.mark.parametrize("as_stream", [True, False])
def test_a_token_that_stays_refused_is_an_answer(as_stream):
    async def use(transport):
        if not as_stream:
            return (await transport.send(GET)).status
        stream = await transport.open(GET, idle=9)
        assert await everything(stream) == b"{}"
        return stream.status

    assert with_server(always(reply(status=401)), use, tokens=Tokens("constant")) == 401


def test_a_stream_gives_what_has_come_and_then_its_end():
    async def handler(reader, writer):
        await read_request(reader)
        writer.write(CHUNKED_HEAD + chunked(b"one", b"two"))
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(b"5\r\nth")
        await asyncio.sleep(0.01)
        writer.write(b"ree\r\n0\r\n\r\n")
        await reader.read()

    async def use(transport):
        stream = await transport.open(GET, idle=9)
        assert (stream.status, stream.headers["transfer-encoding"]) == (200, "chunked")
        first = await stream.read()
        return first, await everything(stream)

    first, rest = with_server(handler, use)
    assert first == b"onetwo"
    assert rest == b"three"


def test_a_stream_whose_server_is_lost_gives_what_came_and_then_breaks():
    async def handler(reader, writer):
        await read_request(reader)
        writer.write(CHUNKED_HEAD + chunked(b"one") + b"5\r\nth")
        await writer.drain()

    async def use(transport):
        stream = await transport.open(GET, idle=9)
        came = b""
        try:
            while part := await stream.read():
                came += part
        except Broken:
            return came
        finally:
            await stream.close()

    assert with_server(handler, use) == b"oneth"


def test_a_silent_stream_is_stalled():
    async def use(transport):
        stream = await transport.open(GET, idle=0.05)
        assert await stream.read() == b"one"
        with pytest.raises(Stalled):
            await stream.read()
        with pytest.raises(Stalled):
            await stream.read()
        await stream.close()
        await stream.close()

    with_server(always(CHUNKED_HEAD + chunked(b"one")), use)


def test_a_reader_that_takes_its_time_makes_the_server_wait_and_is_no_silence():
    sent = 0

    async def handler(reader, writer):
        nonlocal sent
        # What the kernels of both ends would hold for us is no part of this.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        await read_request(reader)
        writer.write(CHUNKED_HEAD)
        while sent < 24 << 20:
            sent += 1 << 16
            writer.write(chunked(b"x" * (1 << 16)))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async def use(transport):
        stream = await transport.open(GET, idle=0.4)
        await asyncio.sleep(0.5)
        waiting = sent
        first = await stream.read()
        return waiting, len(first), len(first) + len(await everything(stream))

    waiting, first, whole = with_server(handler, use)
    assert waiting < 20 << 20
    assert first < 2 << 20
    assert whole == 24 << 20


def test_closing_wakes_a_reader():
    async def use(transport):
        stream = await transport.open(GET, idle=9)
        reading = asyncio.create_task(stream.read())
        await asyncio.sleep(0.01)
        await stream.close()
        with pytest.raises(Broken, match="closed by us"):
            await reading

    with_server(always(CHUNKED_HEAD), use)


def test_a_call_that_is_cancelled_leaves_no_connection_behind():
    came: asyncio.Queue[bytes] = asyncio.Queue()

    async def handler(reader, writer):
        await read_request(reader)
        came.put_nowait(b"request")
        came.put_nowait(await reader.read())

    async def use(transport):
        for call in (transport.send(GET), transport.open(GET, idle=9)):
            task = asyncio.create_task(call)
            assert await came.get() == b"request"
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await came.get() == b""

    with_server(handler, use)


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/ä"])
def test_a_request_cannot_be_cut_in_two(path):
    with pytest.raises(ValueError, match="no head may hold"):
        with_server(always(reply()), lambda one: one.send(Request("GET", path)))


def server_context(folder, *, client=False):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    if client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "client.crt")
    return context


def client_context(folder, name="server"):
    return ssl.create_default_context(cafile=folder / f"{name}.crt")


def test_calls_and_streams_go_through_tls(certificates):
    big = bytes(range(256)) * 4000

    async def handler(reader, writer):
        while True:
            head, body = await read_request(reader)
            if "GET" in head:
                writer.write(
                    CHUNKED_HEAD + chunked(*(big[i : i + 5000] for i in range(0, len(big), 5000))) + b"0\r\n\r\n"
                )
            else:
                writer.write(reply(body))

    async def use(transport):
        for _ in range(3):
            assert (await transport.send(Request("POST", "/", (), big))).body == big
        return await everything(await transport.open(GET, idle=9))

    given = with_server(handler, use, server=server_context(certificates), context=client_context(certificates))
    assert given == big


def test_a_server_that_is_not_trusted_is_told_nothing(certificates):
    heads = []

    async def handler(reader, writer):
        heads.append(await read_request(reader))

    with pytest.raises(NotSent, match="certificate verify failed"):
        with_server(
            handler, send_get, server=server_context(certificates), context=client_context(certificates, "other")
        )
    assert heads == []


def test_no_tls_at_the_other_end_is_not_sent(certificates):
    async def handler(reader, writer):
        writer.write(reply())
        await reader.read()

    with pytest.raises(NotSent):
        with_server(handler, send_get, context=client_context(certificates))


def test_a_client_certificate_is_shown(certificates):
    server, client = server_context(certificates, client=True), client_context(certificates)
    # By TLS 1.3, a server judges the certificate only after the handshake.
    with pytest.raises(Broken):
        with_server(always(reply()), send_get, server=server, context=client)
    client.load_cert_chain(certificates / "client.crt", certificates / "client.key")
    assert with_server(always(reply()), send_get, server=server, context=client).status == 200


@pytest.mark.parametrize("orderly", [True, False])
def test_only_an_end_that_the_server_announces_is_one_under_tls(certificates, orderly):
    async def handler(reader, writer):
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nabc")
        await writer.drain()
        await asyncio.sleep(0.01)
        if not orderly:
            writer.transport.abort()

    two = {"server": server_context(certificates), "context": client_context(certificates)}
    if orderly:
        assert with_server(handler, send_get, **two).body == b"abc"
    else:
        with pytest.raises(Broken):
            with_server(handler, send_get, **two)
