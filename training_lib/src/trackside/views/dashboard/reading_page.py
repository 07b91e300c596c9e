"""A page that is sent while its run is read: the head and the progress at once, then the content.

It needs no script: what comes later hides the progress by the style sheet.
"""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from trackside.contracts.errors import TracksideError
from trackside.views.dashboard.shell import parts_around
from trackside.views.report.charts.markup import Markup, element

AT_ONCE_SECONDS = 0.3  # a page that is made within this time is answered whole, with the status of its errors
LOOKS_A_SECOND = 5
_GZIP = 31  # window bits of zlib that ask for the format of gzip

T = TypeVar("T")


class Progress:
    """The stages of reading a run, written by one thread and read by another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._news: list[str] = []

    def add(self, words: str) -> None:
        """Add the stage that begins."""
        with self._lock:
            self._news.append(words)

    def news(self) -> list[str]:
        """Return the stages that were added since the last call."""
        with self._lock:
            found, self._news = self._news, []
        return found


async def answer_while_reading(
    request: Request,
    title: str,
    *,
    read: Callable[[Progress], T],
    page: Callable[[T], str],
    failure: Callable[[TracksideError], str],
) -> Response:
    """Return a page: whole if its run is read at once, else one that shows the progress until then.

    Args:
        request: The request.
        title: The title while the run is read.
        read: Reads the run, in a thread.
        page: Makes the whole page of what was read.
        failure: Makes the page about an error that comes after the answer has begun.
    """
    progress = Progress()
    task = asyncio.ensure_future(run_in_threadpool(lambda: page(read(progress))))
    done, _ = await asyncio.wait({task}, timeout=AT_ONCE_SECONDS)
    if done:
        return HTMLResponse(task.result())
    is_compressed = "gzip" in request.headers.get("accept-encoding", "")
    chunks = _page_as_it_comes(title, task, progress, failure)
    return StreamingResponse(
        _compressed(chunks) if is_compressed else (chunk.encode() async for chunk in chunks),
        media_type="text/html",
        # Of the middleware that compresses, which would hold the first bytes back; `identity` keeps it away.
        headers={"Content-Encoding": "gzip" if is_compressed else "identity", "X-Accel-Buffering": "no"},
    )


async def _page_as_it_comes(
    title: str, task: asyncio.Future[str], progress: Progress, failure: Callable[[TracksideError], str]
) -> AsyncIterator[str]:
    before, _ = parts_around(title)
    yield f'{before}<div class="reading" role="status">{element("h1", title)}'
    while not task.done():
        for words in progress.news():
            yield element("p", words)
        await asyncio.wait({task}, timeout=1 / LOOKS_A_SECOND)
    try:
        whole = task.result()
    except TracksideError as error:
        whole = failure(error)
    _, inside = _body_of(whole)
    yield f"</div>{inside}"


def _body_of(page: str) -> tuple[str, Markup]:
    """Return what stands before the content of a page, and the rest of it."""
    before, mark, rest = page.partition("<body>")
    return before + mark, Markup(rest)


async def _compressed(chunks: AsyncIterator[str]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(wbits=_GZIP)
    async for chunk in chunks:
        yield packer.compress(chunk.encode()) + packer.flush(zlib.Z_SYNC_FLUSH)
    yield packer.flush()
