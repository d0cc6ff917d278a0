"""Connections to services: whom they trust, what they send, and what they take for an answer."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import threading
from contextlib import suppress

import pytest

from emsco.live.http_connections import MOST_BYTES, Connections

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Vendor:
    """A socket that sends the same bytes to whoever asks, and keeps what it was asked."""

    def __init__(self, answer=OK, context=None, *, ends=False):
        self.answer, self.context, self.ends = answer, context, ends
        self.heads, self.connections = [], 0
        self._server = socket.create_server(("127.0.0.1", 0))
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection):
        with connection, suppress(OSError):
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
            with connection:
                asked = b""
                while part := connection.recv(9999):
                    asked += part
                    if asked.endswith((b"\r\n\r\n", b"]}")):
                        self.heads.append(asked.decode())
                        asked = b""
                        connection.sendall(self.answer)
                        if self.ends:
                            return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


def asked(*requests, headers=None, timeout=2.0, **options):
    """Make requests, one after the other, and give the answers."""

    async def ask():
        connections = Connections(headers or {}, timeout)
        try:
            return [await connections.request("GET", url, **options) for url in requests]
        finally:
            await connections.close()

    return asyncio.run(ask())


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """Make a certificate for 127.0.0.1 that nobody knows; give its file and a server's context."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=vendor",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return folder / "cert.pem", context


def test_a_service_must_prove_who_it_is(certified, monkeypatch):
    """A certificate that nobody signed is refused, unless the environment names it."""
    file, context = certified
    with Vendor(context=context) as vendor:
        with pytest.raises(ConnectionError, match="SSLCertVerificationError"):
            asked(vendor.url)
        assert vendor.heads == []
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        before = vendor.connections
        assert [one.body for one in asked(*[vendor.url] * 3)] == [b"{}"] * 3
        assert vendor.connections == before + 1
        elsewhere = vendor.url.replace("127.0.0.1", "localhost")
        with pytest.raises(ConnectionError, match="SSLCertVerificationError"):
            asked(elsewhere)


def test_what_is_sent():
    """The host, what every request carries, and the address as it is encoded already."""
    with Vendor() as vendor:
        asked(
            f"{vendor.url}/a%2Fb/ä?q=%26 x#part",
            headers={"Authorization": "Bearer x", "Accept": "application/json"},
        )
        (head,) = vendor.heads
        lines = head.split("\r\n")
        assert lines[0] == "GET /a%2Fb/%C3%A4?q=%26%20x HTTP/1.1"
        assert f"host: {vendor.url.partition('//')[2]}" in [line.lower() for line in lines]
        sent = {line.partition(":")[0].lower(): line.partition(": ")[2] for line in lines[1:]}
        assert sent["authorization"] == "Bearer x"
        assert sent["accept"] == "application/json"
        asked(vendor.url, json={"keys": [1]})
        assert vendor.heads[1].endswith('\r\n\r\n{"keys": [1]}')


@pytest.mark.parametrize(
    ("answer", "ends"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}", False),
        (b"no HTTP\r\n\r\n", False),
        (b"", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MOST_BYTES + 1)
         + b" " * (MOST_BYTES + 1), False),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, False),
    ],
    ids=["cut off", "two lengths", "no chunk", "no HTTP", "nothing", "too large", "a long head"],
)  # fmt: skip
def test_what_is_no_whole_answer_is_none(answer, ends):
    """Nor does it reach who asks next."""
    with Vendor(answer, ends=ends) as vendor, pytest.raises(ConnectionError):
        asked(vendor.url)


def test_connections_end_where_the_service_says_so():
    """By a header, and by an answer that only its end ends."""
    closes = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
    for answer, ends in ((closes, False), (b"HTTP/1.0 200 OK\r\n\r\n{}", True)):
        with Vendor(answer, ends=ends) as vendor:
            assert [one.body for one in asked(*[vendor.url] * 3)] == [b"{}"] * 3
            assert vendor.connections == 3
    early = b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK
    with Vendor(early) as vendor:
        assert [one.status for one in asked(*[vendor.url] * 3)] == [200] * 3
        assert vendor.connections == 1


def test_a_silent_service_is_left():
    """In time, by a request that is made; and nobody listening is an error at once."""
    with Vendor(b"HTTP/1.1 200 OK\r\n") as vendor, pytest.raises(TimeoutError):
        asked(vendor.url, timeout=0.1)
    with pytest.raises(ConnectionError, match="ConnectionRefusedError"):
        asked(vendor.url)
