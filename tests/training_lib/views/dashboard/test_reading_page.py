"""A page begins before its run is read, and is whole in the end; and what is sent compressed."""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import Callable, Mapping

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tests.patience import HANGS_SECONDS
from tests.training_lib.views.dashboard.served import Served
from trackside.contracts.errors import StorageUnavailableError, TracksideError
from trackside.views.dashboard.reading_page import Progress, answer_while_reading
from trackside.views.dashboard.shell import page_with
from trackside.views.report.charts.markup import element


def asked(headers: Mapping[str, str]) -> Request:
    return Request({"type": "http", "headers": [(key.encode(), value.encode()) for key, value in headers.items()]})


def page_of(text: str) -> str:
    return page_with("a run", element("header", element("h1", "a run")), element("main", text))


def failed(error: TracksideError) -> str:
    return page_of(f"failed: {error}")


async def answered(read: Callable[[Progress], str], headers: Mapping[str, str] | None = None) -> Response:
    return await answer_while_reading(asked(headers or {}), "a <run>", read=read, page=page_of, failure=failed)


@pytest.mark.parametrize("headers", [{}, {"accept-encoding": "gzip, br"}], ids=["plain", "compressed"])
def test_the_head_and_the_progress_come_before_the_run_is_read(headers: Mapping[str, str]) -> None:
    """Each part can be read when it comes: nothing waits in the packer."""

    async def parts() -> list[str]:
        go_on = threading.Event()

        def read(progress: Progress) -> str:
            progress.add("Reading curves")
            assert go_on.wait(HANGS_SECONDS)
            return "content"

        answer = await answered(read, headers)
        assert isinstance(answer, StreamingResponse)
        unpacker = zlib.decompressobj(wbits=31)
        came: list[str] = []
        async for part in answer.body_iterator:
            assert isinstance(part, bytes)
            came.append((unpacker.decompress(part) if headers else part).decode())
            if "Reading curves" in came[-1]:
                go_on.set()
        return came

    came = asyncio.run(parts())
    assert came[0].startswith("<!DOCTYPE html>")
    assert "<h1>a &lt;run&gt;</h1>" in came[0]
    whole = "".join(came)
    assert whole.index("Reading curves") < whole.index("<main>content</main>")
    assert whole.count("<body>") == whole.count("</body>") == whole.count("</html>") == 1


def test_what_is_read_at_once_is_answered_whole() -> None:
    answer = asyncio.run(answered(lambda _: "content"))
    assert bytes(answer.body).decode() == page_of("content")


def refuse(progress: Progress) -> str:
    raise StorageUnavailableError("out of order")


def test_an_error_at_once_has_its_status() -> None:
    with pytest.raises(StorageUnavailableError):
        asyncio.run(answered(refuse))


def test_an_error_later_is_shown_in_the_page_that_has_begun() -> None:
    async def whole() -> str:
        go_on = threading.Event()

        def read(progress: Progress) -> str:
            assert go_on.wait(HANGS_SECONDS)
            return refuse(progress)

        answer = await answered(read)
        assert isinstance(answer, StreamingResponse)
        came = ""
        async for part in answer.body_iterator:
            go_on.set()
            assert isinstance(part, bytes)
            came += part.decode()
        return came

    assert "failed: out of order" in asyncio.run(whole())


def test_answers_are_compressed_and_streams_of_changes_are_not(server: Served) -> None:
    accepted = {"Accept-Encoding": "gzip"}
    for path in ("/", "/runs/faulty", "/style.css", "/script.js", "/runs/faulty/report.html"):
        with server.open(path, headers=accepted) as answer:
            content = answer.read()
            assert answer.headers["Content-Encoding"] == "gzip"
        plain = server.page(path)
        assert len(content) < len(plain) / 2, path
        assert len(zlib.decompress(content, wbits=31)) == pytest.approx(len(plain), rel=0.01)
    with server.open("/runs/faulty/events", headers=accepted) as stream:
        assert stream.headers["Content-Encoding"] == "identity"
        assert stream.readline() == b"retry: 2000\n"
