"""The addresses of the dashboard. Each answer is made in a thread, so that a slow store holds up nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from http import HTTPStatus
from importlib import resources
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from trackside.contracts.errors import ConfigurationError, RunNotFoundError, StorageError, TracksideError
from trackside.runs.live_run import training_losses
from trackside.runs.recorded_run import read_run
from trackside.runs.run_folder import RunState, read_record
from trackside.speed.performance.profile import Profile
from trackside.trial.tensors.buckets import bucketed, edges_of
from trackside.trial.trial import open_trial
from trackside.views.comparing.comparison import ComparedRun, compare, differing_facts
from trackside.views.comparing.side_by_side import MOST_COMPARED, side_by_side
from trackside.views.dashboard import pages, tensor_pages
from trackside.views.dashboard.access import UNTIL
from trackside.views.dashboard.list_page import ListedRuns, list_page
from trackside.views.dashboard.machine_page import machine_page
from trackside.views.dashboard.machine_view import machine_view
from trackside.views.dashboard.reading_page import answer_while_reading
from trackside.views.dashboard.run_list import RunFilter, RunList, failed_alike
from trackside.views.dashboard.run_order import RunOrder, in_order
from trackside.views.dashboard.run_time import hours_of
from trackside.views.dashboard.shell import ALL, TIME
from trackside.views.dashboard.tensors import (
    DEFAULT_STATISTIC,
    MOST_WORKERS,
    SHOWN,
    expression_curves,
    in_model_order,
    small_curves,
    tensor_curves,
)
from trackside.views.dashboard.watched import MOST_OPEN, WatchedRun, WatchedRuns, Window
from trackside.views.report.charts.line_chart import MOST_BUCKETS, Span
from trackside.views.report.charts.look import Look
from trackside.views.report.distribution import distribution_of
from trackside.views.report.gathered import wall_time, within
from trackside.views.report.json_document import VERSION, report_document
from trackside.views.report.layers import LayerChoice
from trackside.views.report.page import page_of, part
from trackside.views.report.timeline import step_bars
from trackside.views.report.weight_difference import both_values, weight_difference

RUNS_ON_A_PAGE = 50
MOST_TENSORS = 1000
COMPRESSION = 5  # of 9: a page of 840 kB in a hundredth of a second
HEARTBEAT_SECONDS = 15.0  # load balancers cut a connection that is silent for a minute
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MOST_SEARCHED = 100  # runs, the newest first, among which a healthy one or those that failed alike are looked for
_STEP_DIGITS = 15
_ENDED = frozenset({RunState.ENDED, RunState.FINISHED})


class Dashboard:
    """The answers of each address.

    Args:
        runs: The runs to show.
        is_stopping: Returns True once the server ends: open streams end, too.
    """

    def __init__(self, runs: RunList, *, is_stopping: Callable[[], bool]) -> None:
        self._runs, self._is_stopping = runs, is_stopping
        self._watched = WatchedRuns(runs)

    def application(self) -> Starlette:
        """Return the ASGI application, which asks nobody for a token."""
        routes = [
            Route("/", self.list),
            Route("/compare", self.compare),
            Route("/runs/{run}", self.run),
            Route("/runs/{run}/report.html", self.report),
            Route("/runs/{run}/report.json", self.report),
            Route("/runs/{run}/tensors", self.tensors),
            Route("/runs/{run}/tensor", self.tensor),
            Route("/runs/{run}/difference", self.difference),
            Route("/runs/{run}/incident", self.incident),
            Route("/runs/{run}/healthy", self.healthy),
            Route("/runs/{run}/timeline", self.timeline),
            Route("/runs/{run}/machine", self.machine),
            Route("/runs/{run}/events", self.events),
            Route("/style.css", lambda _: Response(style(), media_type="text/css")),
            Route("/script.js", lambda _: Response(script(), media_type="text/javascript")),
        ]
        handlers = {TracksideError: _as_page, HTTPException: _as_page_of_http}
        compressed = Middleware(GZipMiddleware, compresslevel=COMPRESSION)
        return Starlette(routes=routes, exception_handlers=handlers, middleware=[compressed])  # type: ignore[arg-type]

    def list(self, request: Request) -> Response:
        """Answer with the list of runs."""
        wanted, order = RunFilter.of(request.query_params), RunOrder.of(request.query_params)
        chosen = [name for name in self._runs.names() if wanted.name.lower() in name.lower()]
        unread = 0
        read = self._runs.summaries(chosen if wanted.reads_runs else chosen[:MOST_SEARCHED])
        readable = [(name, one) for name, one in read if not isinstance(one, TracksideError)]
        if wanted.reads_runs:
            unread = len(read) - len(readable)
            readable = [(name, one) for name, one in readable if wanted.chooses(one)]
            chosen = [name for name, _ in readable]
        last_page = max(1, -(-len(chosen) // RUNS_ON_A_PAGE))
        page = min(last_page, max(1, _number(request.query_params.get("page", "")) or 1))
        some = in_order(self._runs, chosen, order)[(page - 1) * RUNS_ON_A_PAGE : page * RUNS_ON_A_PAGE]
        where = self._runs.where or str(Path(".trackside/runs").absolute())
        shown = self._runs.summaries(some)
        summaries = [one for _, one in shown if not isinstance(one, TracksideError)]
        storage = self._runs.storage(summaries)
        listed = ListedRuns(
            where,
            shown,
            storage,
            self._runs.losses(summaries),
            wanted,
            order,
            len(chosen),
            unread,
            page,
            last_page,
            looked_at=len(chosen if wanted.reads_runs else chosen[:MOST_SEARCHED]),
            alike=failed_alike(readable),
            hours=hours_of([one for _, one in readable], storage, now=time.time()),
        )
        return HTMLResponse(list_page(listed))

    async def run(self, request: Request) -> Response:
        """Answer with the page of a run, at once with its head and the progress where reading it takes a while."""
        watched = await run_in_threadpool(self._watched.get, request.path_params["run"])
        window, axis, look = _window(request), _axis(request), Look.of(request.query_params)
        layers = LayerChoice.of(request.query_params)
        return await answer_while_reading(
            request,
            watched.name,
            read=lambda progress: watched.data(window, is_by_time=bool(axis), layers=layers, begin_stage=progress.add),
            page=lambda read: pages.run_page(read[1], revision=read[0], window=window, axis=axis, look=look),
            failure=lambda error: pages.error_page("This cannot be read", str(error).splitlines()),
        )

    def report(self, request: Request) -> Response:
        """Answer with the report of a run as a file, a page or JSON, which the browser saves."""
        watched, axis = self._watched.get(request.path_params["run"]), _axis(request)
        _, data = watched.data(_window(request), is_by_time=bool(axis))
        ending = request.url.path.rpartition(".")[2]
        name = quote(f"{watched.name}-report.{ending}", safe="")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
        if ending == "html":
            return HTMLResponse(page_of(data), headers=headers)
        return JSONResponse({"schema_version": VERSION, **report_document(data)}, headers=headers)

    def tensors(self, request: Request) -> Response:
        """Answer with a run's tensors as a tree, each with a small curve."""
        watched, query = self._watched.get(request.path_params["run"]), request.query_params
        wanted, of = query.get("q", ""), query.get("of", "")
        _, data = watched.data(ALL)
        with watched.lock:
            trial = watched.trial
            found = in_model_order(trial, [name for name in trial.names if wanted.lower() in name.lower()])
            names, steps = found[:MOST_TENSORS], data.steps or (0, max(0, trial.recorded_through))
            statistic = of if of in SHOWN else DEFAULT_STATISTIC
            curves = small_curves(trial, names[: tensor_pages.MOST_CURVES], statistic, steps)
            trial.parts.columns.trim()
        spans = {name: some for name in names if (some := data.spans_of(name))}
        listed = tensor_pages.TensorList(wanted, len(found), names, statistic, curves, steps, spans)
        return HTMLResponse(tensor_pages.tensors_page(watched.name, listed))

    def tensor(self, request: Request) -> Response:
        """Answer with the page of one tensor."""
        watched = self._watched.get(request.path_params["run"])
        name, window, axis = request.query_params.get("name", ""), _window(request), _axis(request)
        _, data = watched.data(ALL)
        with watched.lock:
            if name not in watched.trial.names:
                raise RunNotFoundError(f"{watched.name} has no tensor {name!r}.")
            curves = tensor_curves(watched.trial, name, window)
            shown = within(data.steps, window) or (0, watched.trial.recorded_through)
            values = distribution_of(watched.trial, name, shown)
            text = request.query_params.get("expression", "").strip()
            result = expression_curves(watched.trial, name, text, window) if text else None
            clock = wall_time(watched.trial, curves.steps) if axis and curves else None
            watched.trial.parts.columns.trim()
        page = tensor_pages.tensor_page(
            watched.name,
            name,
            curves,
            window=window,
            axis=axis,
            clock=clock,
            spans=data.spans_of(name),
            findings=data.findings_of(name),
            values=values,
            expression=tensor_pages.Computed(text, result) if result is not None else None,
            look=Look.of(request.query_params),
        )
        is_wrong = isinstance(result, ConfigurationError)
        return HTMLResponse(page, HTTPStatus.BAD_REQUEST if is_wrong else HTTPStatus.OK)

    def difference(self, request: Request) -> Response:
        """Answer with the differences of the weights between two steps, and of one tensor in detail."""
        watched, name = self._watched.get(request.path_params["run"]), request.query_params.get("name", "")
        _, data = watched.data(ALL)
        ends = data.steps or (0, 0)
        first, last = (end if step is None else step for end, step in zip(ends, _window(request), strict=True))
        with watched.lock:
            found = weight_difference(watched.trial, first, last)
            values = both_values(watched.trial, name, first, last) if name in watched.trial.names else None
            watched.trial.parts.columns.trim()
        return HTMLResponse(pages.difference_page(watched.name, found, ends=ends, name=name, values=values))

    def timeline(self, request: Request) -> Response:
        """Answer with the steps and phases of each process."""
        watched, window = self._watched.get(request.path_params["run"]), _window(request)
        axis = _axis(request)
        _, data = watched.data(window, is_by_time=bool(axis))
        with watched.lock:
            pieces = Profile(watched.uri, watched.trial).step_pieces()
            bars = step_bars(pieces, data.steps)[:MOST_WORKERS] if data.steps else ()
            watched.trial.parts.columns.trim()
        return HTMLResponse(pages.timeline_page(watched.name, bars, data=data, window=window, axis=axis))

    def machine(self, request: Request) -> Response:
        """Answer with one machine of a run: its cores and its metrics."""
        watched, window, axis = self._watched.get(request.path_params["run"]), _window(request), _axis(request)
        _, data = watched.data(window, is_by_time=bool(axis))
        with watched.lock:
            found = machine_view(watched.uri, watched.trial, data.steps, request.query_params.get("node", ""))
            watched.trial.parts.columns.trim()
        return HTMLResponse(machine_page(watched.name, found, data=data, window=window, axis=axis))

    def incident(self, request: Request) -> Response:
        """Answer with how one problem of a run began."""
        watched, wanted = self._watched.get(request.path_params["run"]), request.query_params.get("of", "")
        _, data = watched.data(ALL)
        found = next((one for one in data.incidents if one.group.group == wanted), None)
        if found is None:
            raise RunNotFoundError(f"{watched.name} has no standing problem {wanted!r}. It may have recovered.")
        return HTMLResponse(pages.incident_page(watched.name, found))

    def healthy(self, request: Request) -> Response:
        """Lead to the comparison with the healthy run that differs in the fewest settings, the newest of those."""
        watched = self._watched.get(request.path_params["run"])
        own = self._compared(watched)
        nearest = min(self._healthy_runs(watched.name), key=lambda run: self._distance(own, run), default=None)
        if nearest is None:
            lines = (f"No run beside {watched.name} was judged, has ended, and has no issue.",)
            return HTMLResponse(pages.error_page("No healthy run to compare with", lines))
        return RedirectResponse(pages.compare_address(nearest, watched.name), HTTPStatus.SEE_OTHER)

    def _healthy_runs(self, but: str) -> Sequence[str]:
        summaries = self._runs.summaries([name for name in self._runs.names() if name != but][:MOST_SEARCHED])
        return [
            name
            for name, one in summaries
            if not isinstance(one, TracksideError) and one.judged.is_well and not one.issues and one.state in _ENDED
        ][:MOST_OPEN]

    def _distance(self, own: ComparedRun, name: str) -> int:
        uri = self._runs.place(name)
        record = None if self._runs.is_remote else read_record(Path(uri))
        return differing_facts(own, ComparedRun(read_run(uri, stores=self._runs.stores), open_trial(uri), record))

    def compare(self, request: Request) -> Response:
        """Answer with two runs side by side."""
        chosen = request.query_params.getlist("run")
        if not 2 <= len(chosen) <= MOST_COMPARED:
            lines = (
                f"{len(chosen)} runs are marked.",
                f"Mark 2 to {MOST_COMPARED} in the list of runs, and compare them.",
            )
            return HTMLResponse(pages.error_page("Two or more runs can be compared", lines), HTTPStatus.BAD_REQUEST)
        watched = [self._watched.get(name) for name in chosen]
        if len(watched) > 2:
            return self._many(watched, request)
        a, b = (self._compared(one) for one in watched)
        with _held(watched):
            now = time.time()
            found = compare(a, b, now=now)
            losses = [{curve.name: curve for curve in training_losses(one.trial, now=now)} for one in watched]
        curves, window, look = [], _window(request), Look.of(request.query_params)
        for loss in found.losses:
            both = [each[loss.name] for each in losses]
            whole = (min(int(c.steps[0]) for c in both), max(int(c.steps[-1]) for c in both))
            axis = within(whole, window) or whole
            parted = loss.parts_from
            spans = (
                () if parted is None or parted > axis[1] else (Span(parted, axis[1], "warning", "parts beyond noise"),)
            )
            for letter, curve in zip("AB", both, strict=True):
                numbers = bucketed(curve.steps, curve.values, edges_of(*axis, MOST_BUCKETS))
                curves.append((f"{letter}: {loss.name}", numbers, axis, spans))
        return HTMLResponse(pages.compare_page(found, curves, window=window, look=look))

    def _many(self, watched: Sequence[WatchedRun], request: Request) -> Response:
        runs = [self._compared(one) for one in watched]
        with _held(watched):
            found = side_by_side(runs, now=time.time())
        return HTMLResponse(pages.many_page(found, window=_window(request), look=Look.of(request.query_params)))

    def _compared(self, watched: WatchedRun) -> ComparedRun:
        record = None if self._runs.is_remote else read_record(Path(watched.uri))
        return ComparedRun(read_run(watched.uri, stores=self._runs.stores), watched.trial, record)

    async def events(self, request: Request) -> Response:
        """Answer with a stream of the run's changes, from the last one that the browser knows."""
        watched = await run_in_threadpool(self._watched.get, request.path_params["run"])
        known = request.headers.get("last-event-id") or request.query_params.get("since", "")
        return StreamingResponse(
            self._changes(watched, known, until=request.scope.get(UNTIL, math.inf)),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no", "Content-Encoding": "identity"},  # compressed, an event would wait
        )

    async def _changes(self, watched: WatchedRun, known: str, *, until: float) -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        sent_at, looked_at = time.monotonic(), -1e9
        while not self._is_stopping() and time.time() < until:
            if time.monotonic() - looked_at >= watched.pause:
                try:
                    revision = await run_in_threadpool(watched.revision)
                except TracksideError as error:
                    yield f"event: trouble\ndata: {_one_line(error)}\n\n"
                    return  # the browser asks again, after `retry`
                looked_at = time.monotonic()
                if revision != known:
                    known, sent_at = revision, looked_at
                    yield f"id: {revision}\nevent: changed\ndata: {revision}\n\n"
            if time.monotonic() - sent_at >= HEARTBEAT_SECONDS:
                sent_at = time.monotonic()
                yield ": alive\n\n"
            await asyncio.sleep(0.2)


@contextlib.contextmanager
def _held(watched: Sequence[WatchedRun]) -> Iterator[None]:
    """Bring runs up to date, and hold all their locks: in one order, so that two requests never wait for each other."""
    for one in watched:
        one.revision()
    locks = sorted({id(one): one.lock for one in watched}.items())
    with contextlib.ExitStack() as held:
        for _, lock in locks:
            held.enter_context(lock)
        yield


def _window(request: Request) -> Window:
    """Return the steps that are asked for: `steps=100:200`, or `from` and `to`, as a form sends them."""
    query = request.query_params
    first, _, last = query.get("steps", "").partition(":")
    return _number(query.get("from", first)), _number(query.get("to", last))


def _axis(request: Request) -> str:
    return TIME if request.query_params.get("axis") == TIME else ""


def _number(text: str) -> int | None:
    text = text.strip().replace(",", "").replace("_", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _STEP_DIGITS else None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _as_page(_: Request, error: TracksideError) -> Response:
    status = HTTPStatus.NOT_FOUND if isinstance(error, RunNotFoundError) else HTTPStatus.INTERNAL_SERVER_ERROR
    title = "Not found" if status == HTTPStatus.NOT_FOUND else "This cannot be read"
    if isinstance(error, StorageError):
        status, title = HTTPStatus.BAD_GATEWAY, "The store does not answer"
    return HTMLResponse(pages.error_page(title, str(error).splitlines()), status)


def _as_page_of_http(_: Request, error: HTTPException) -> Response:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return HTMLResponse(pages.error_page("Not found", ("Nothing is at this address.",)), error.status_code)
    return PlainTextResponse(f"{error.detail}\n", error.status_code, error.headers)


def style() -> str:
    """Return the style of all pages."""
    return part("report.css") + _own("dashboard.css")


def script() -> str:
    """Return the script of all pages."""
    return part("report.js") + _own("dashboard.js")


def _own(name: str) -> str:
    return resources.files("trackside.views.dashboard").joinpath(name).read_text("utf-8")
