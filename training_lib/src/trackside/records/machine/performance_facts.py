"""Read and write `profiler-output/performance/<worker>.json`: facts about the speed of a worker's training.

DataLoaders as they are, and the samples of the training thread's stack by line. The file is replaced as it grows.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.run_layout import PERFORMANCE_PREFIX, performance_key
from trackside.records.untrusted_json import MOST_JSON_BYTES, UntrustedJson
from trackside.storage.store import Store

VERSION = 1
FETCH = "fetch"  # the phase of a line in which the loop waited for a batch, of anything but a DataLoader
INSIDE = "inside"  # the phase of a sample in a compiled function that fetched a batch or computed
MOST_LINES = 200
MOST_MODULES = 200
MOST_EXCHANGES = 20
MOST_QUEUES = 8
UNKNOWN_COUNT = -1.0  # of batches that were ready


@dataclass(frozen=True)
class LoaderFacts:
    """A DataLoader of the training. A place is "train.py:41", "" where it is none of the user's.

    Attributes:
        looped_at: The line that asks for batches.
        created_at: The line that creates it, if it was found.
        dataset: Name of the data set's class.
        dataset_at: The method that returns its items.
        collate: Name of the user's function that makes a batch of them.
        collate_at: Its place.
        workers: Worker processes; 0: the training fetches by itself.
        batch_size: Items of a batch; 0 if unknown.
        prefetch_factor: Batches that each worker prepares ahead; 0 without workers.
        is_pinned: True if batches are copied to pinned memory.
        is_iterable: True for an `IterableDataset`.
        batch_bytes: Bytes of the tensors of its first batch; 0 if unknown.
        fetches: Number of batches whose making was timed, in workers or in the training itself; 0 if none was.
        fetch_seconds: Seconds that one process takes to make a batch, on average.
        longest_fetch_seconds: Seconds of the longest.
        fetch_processes: Number of processes that made them.
        fetch_waited_share: Share of the newest of these seconds, of workers only, in which they were ready and had no
            processor; 0 if unknown.
    """

    looped_at: str
    created_at: str
    dataset: str
    dataset_at: str
    collate: str
    collate_at: str
    workers: int
    batch_size: int
    prefetch_factor: int
    is_pinned: bool
    is_iterable: bool
    batch_bytes: int = 0
    fetches: int = 0
    fetch_seconds: float = 0.0
    longest_fetch_seconds: float = 0.0
    fetch_processes: int = 0
    fetch_waited_share: float = 0.0


@dataclass(frozen=True)
class QueueFacts:
    """A queue that the training takes its batches from, of the script's own or of a library.

    Attributes:
        kind: Its class, such as `queue.Queue`; or `tf.data`.
        taken_at: The line that takes batches; "" if unknown.
        takes: Number of batches that were taken.
        ready: Batches that were ready when one was taken, on average; of `tf.data`, at each sample. `UNKNOWN_COUNT`
            where the queue cannot be counted.
        makes: Number of batches whose making was timed; 0 if none was.
        make_seconds: Seconds that one thread takes to make a batch, on average.
        make_waited_share: Share of the newest of these seconds in which the thread was ready and had no processor; 0 if
            unknown.
    """

    kind: str
    taken_at: str
    takes: int
    ready: float
    makes: int = 0
    make_seconds: float = 0.0
    make_waited_share: float = 0.0


@dataclass(frozen=True)
class ModuleTimes:
    """The times of a module on the steps that were sampled, in seconds of a step.

    Attributes:
        name: Its dotted name in the model; of the model itself, its class.
        kind: Name of its class.
        calls: Calls a step.
        forward: Seconds of its calls, with the modules inside of it.
        forward_own: Seconds of them without the modules inside of it.
        backward: Seconds from the gradient of its output to that of its input, with the modules inside of it.
    """

    name: str
    kind: str
    calls: float
    forward: float
    forward_own: float
    backward: float


@dataclass(frozen=True)
class ExchangeTimes:
    """The times of one kind of collective on the steps that were sampled, in a step.

    Attributes:
        name: Name of the function: `all_reduce`.
        calls: Calls.
        seconds: Seconds from each call to its end.
        waited: Seconds of them in which the training thread waited.
    """

    name: str
    calls: float
    seconds: float
    waited: float


@dataclass(frozen=True)
class LineSamples:
    """Samples of one line.

    Attributes:
        phase: Name of the phase, such as `data`; or `FETCH` or `INSIDE`.
        place: The innermost line of the user's code: "train.py:41", or "".
        function: Its function.
        code: Its text.
        library: The innermost function, if it is a library's.
        is_in_model: True below the call of a module.
        samples: Number of samples.
    """

    phase: str
    place: str
    function: str
    code: str
    library: str
    is_in_model: bool
    samples: int

    @property
    def is_wait_for_data(self) -> bool:
        """True in a wait for a batch, of a DataLoader or of anything else."""
        return self.phase in {"data", FETCH}


@dataclass(frozen=True)
class HangFacts:
    """A hang of the training: no progress for longer than its own past explains.

    Attributes:
        phase: Name of the phase that it is in.
        steps: Number of steps that the process had taken.
        began_at: The newest progress, in seconds since the epoch.
        seconds: Seconds without progress when it was found.
        limit_seconds: Seconds that the past explains.
        place: The innermost line of the user's code: "train.py:41".
        function: Its function.
        code: Its text.
        stacks: The stacks of all threads of the process, once.
        is_over: True if the training went on.
    """

    phase: str
    steps: int
    began_at: float
    seconds: float
    limit_seconds: float
    place: str
    function: str
    code: str
    stacks: str
    is_over: bool


@dataclass(frozen=True)
class CollectiveFacts:
    """The average of gradients over ranks, on the mean of the steps that PyTorch sampled.

    Attributes:
        seconds: Seconds of a step from the first bucket of gradients to the last.
        exposed_seconds: Those of them in which no gradient was computed: the backward pass waited.
        steps: Number of steps of the training when this was read.
    """

    seconds: float
    exposed_seconds: float
    steps: int


@dataclass(frozen=True)
class GarbageFacts:
    """Python's collections of all objects on the thread of the training, without the first steps.

    Attributes:
        count: Number of collections.
        seconds: Seconds of all together.
        longest_seconds: Seconds of the longest.
        steps: Number of steps in which they were counted.
        place: The innermost line of the user's code in the longest; "" for none.
        function: Its function.
        code: Its text.
    """

    count: int
    seconds: float
    longest_seconds: float
    steps: int
    place: str = ""
    function: str = ""
    code: str = ""


@dataclass(frozen=True)
class PerformanceFacts:
    """Facts about the speed of one worker's training.

    Attributes:
        device: "cpu", "cuda", "rocm" for AMD's GPUs, or "xla" for Trainium and TPU.
        workers: Number of processes that train together.
        processors: Processors that this process may use.
        threads: Threads of PyTorch's operators.
        loaders: The DataLoaders of the training.
        lines: Samples by line, most first.
        hang: The newest hang; None for none.
        collectives: The average of gradients over ranks; None where it is not known.
        garbage: Collections of garbage; None before the first one.
        pins: Number of batches that were copied to pinned memory.
        pin_seconds: Seconds of such a copy, on average.
        sampled_steps: Number of steps on which modules and exchanges were timed.
        modules: Times of modules, the longest first.
        exchanges: Times of collectives, the longest first.
        machine: Name of the machine; "" if unknown.
        queues: Other queues that the training takes batches from, the most used first.
    """

    device: str = "cpu"
    workers: int = 1
    processors: int = 0
    threads: int = 0
    loaders: tuple[LoaderFacts, ...] = ()
    lines: tuple[LineSamples, ...] = ()
    hang: HangFacts | None = None
    collectives: CollectiveFacts | None = None
    garbage: GarbageFacts | None = None
    pins: int = 0
    pin_seconds: float = 0.0
    sampled_steps: int = 0
    modules: tuple[ModuleTimes, ...] = ()
    exchanges: tuple[ExchangeTimes, ...] = ()
    machine: str = ""
    queues: tuple[QueueFacts, ...] = ()

    @property
    def is_on_gpu(self) -> bool:
        """True if the training computes on GPUs, which work while the host goes on."""
        return self.device in {"cuda", "rocm"}

    @property
    def sampled_fetches(self) -> float:
        """Share of all stack samples in which the loop waited for a batch of anything but a DataLoader."""
        total = sum(line.samples for line in self.lines)
        return sum(line.samples for line in self.lines if line.phase == FETCH) / total if total else 0.0

    @property
    def own_share_of_workers(self) -> float:
        """Share of their newest work in which DataLoaders' workers and makers of queues had a processor; 1 without any.

        More workers than processors take them from one another: that is the training's own doing, and 1 too.
        """
        loaders = [loader for loader in self.loaders if 0 < loader.workers <= max(1, self.processors)]
        waits = [loader.fetch_waited_share for loader in loaders] + [each.make_waited_share for each in self.queues]
        return 1.0 - max(waits, default=0.0)


def encode_performance(facts: PerformanceFacts) -> bytes:
    """Return the file's content."""
    document = {"version": VERSION, **asdict(facts)}
    hang, collectives, garbage = (document.pop(name) for name in ("hang", "collectives", "garbage"))
    lists = {
        "hangs": [hang] if hang else [],
        "collectives": [collectives] if collectives else [],
        "garbage": [garbage] if garbage else [],
    }
    return json.dumps({**document, **lists}, allow_nan=False).encode("ascii")


def decode_performance(data: bytes, *, key: str) -> PerformanceFacts:
    """Return the facts. Unknown fields are ignored.

    Raises:
        RecordError: The file holds no facts.
    """
    found = UntrustedJson.parse(data, key=key)
    if found.count("version") != VERSION:
        raise found.error(f"is of version {found.count('version')}; this Trackside reads {VERSION}")
    return PerformanceFacts(
        device=found.text("device"),
        workers=found.count("workers"),
        processors=found.count("processors"),
        threads=found.count("threads"),
        loaders=tuple(map(_loader, found.objects("loaders"))),
        lines=tuple(map(_line, found.objects("lines")[:MOST_LINES])),
        hang=next(map(_hang, found.objects("hangs")), None) if found.is_list("hangs") else None,
        collectives=next(map(_collectives, found.objects("collectives")), None)
        if found.is_list("collectives")
        else None,
        garbage=next(map(_garbage, found.objects("garbage")), None) if found.is_list("garbage") else None,
        pins=found.count("pins", 0),
        pin_seconds=_number(found, "pin_seconds"),
        sampled_steps=found.count("sampled_steps", 0),
        modules=tuple(map(_module, found.objects("modules")[:MOST_MODULES])) if found.is_list("modules") else (),
        exchanges=tuple(map(_exchange, found.objects("exchanges")[:MOST_EXCHANGES]))
        if found.is_list("exchanges")
        else (),
        machine=found.text("machine") if found.has("machine") else "",
        queues=tuple(map(_queue, found.objects("queues")[:MOST_QUEUES])) if found.is_list("queues") else (),
    )


def read_performance(store: Store, worker: str) -> PerformanceFacts | None:
    """Return the facts of a worker; None if it has stored none.

    Args:
        store: The store of a run's profiles.
        worker: The worker.

    Raises:
        RecordError: The file cannot be read.
        StorageError: The store failed.
    """
    key = performance_key(worker)
    try:
        return decode_performance(store.get(key, length=MOST_JSON_BYTES + 1), key=key)
    except KeyNotFoundError:
        return None


def performance_workers(store: Store) -> tuple[str, ...]:
    """Return the workers that have stored facts, sorted.

    Raises:
        StorageError: The store failed.
    """
    names = (key.removeprefix(PERFORMANCE_PREFIX).removesuffix(".json") for key in store.list(PERFORMANCE_PREFIX))
    return tuple(sorted(name for name in names if name and "/" not in name))


def _loader(found: UntrustedJson) -> LoaderFacts:
    return LoaderFacts(
        looped_at=found.text("looped_at"),
        created_at=found.text("created_at"),
        dataset=found.text("dataset"),
        dataset_at=found.text("dataset_at"),
        collate=found.text("collate"),
        collate_at=found.text("collate_at"),
        workers=found.count("workers"),
        batch_size=found.count("batch_size"),
        prefetch_factor=found.count("prefetch_factor"),
        is_pinned=found.boolean("is_pinned", False),
        is_iterable=found.boolean("is_iterable", False),
        batch_bytes=found.count("batch_bytes", 0),
        fetches=found.count("fetches", 0),
        fetch_seconds=_number(found, "fetch_seconds"),
        longest_fetch_seconds=_number(found, "longest_fetch_seconds"),
        fetch_processes=found.count("fetch_processes", 0),
        fetch_waited_share=_number(found, "fetch_waited_share"),
    )


def _queue(found: UntrustedJson) -> QueueFacts:
    return QueueFacts(
        kind=found.text("kind"),
        taken_at=found.text("taken_at"),
        takes=found.count("takes"),
        ready=found.number("ready"),
        makes=found.count("makes", 0),
        make_seconds=_number(found, "make_seconds"),
        make_waited_share=_number(found, "make_waited_share"),
    )


def _number(found: UntrustedJson, name: str) -> float:
    return found.number(name) if found.has(name) else 0.0  # a file of before has none


def _module(found: UntrustedJson) -> ModuleTimes:
    return ModuleTimes(
        name=found.text("name"),
        kind=found.text("kind"),
        calls=found.number("calls"),
        forward=found.number("forward"),
        forward_own=found.number("forward_own"),
        backward=found.number("backward"),
    )


def _exchange(found: UntrustedJson) -> ExchangeTimes:
    return ExchangeTimes(found.text("name"), found.number("calls"), found.number("seconds"), found.number("waited"))


def _line(found: UntrustedJson) -> LineSamples:
    return LineSamples(
        phase=found.text("phase"),
        place=found.text("place"),
        function=found.text("function"),
        code=found.text("code"),
        library=found.text("library"),
        is_in_model=found.boolean("is_in_model", False),
        samples=found.count("samples"),
    )


def _collectives(found: UntrustedJson) -> CollectiveFacts:
    return CollectiveFacts(found.number("seconds"), found.number("exposed_seconds"), found.count("steps"))


def _garbage(found: UntrustedJson) -> GarbageFacts:
    return GarbageFacts(
        count=found.count("count"),
        seconds=found.number("seconds"),
        longest_seconds=found.number("longest_seconds"),
        steps=found.count("steps"),
        place=found.text("place"),
        function=found.text("function"),
        code=found.text("code"),
    )


def _hang(found: UntrustedJson) -> HangFacts:
    return HangFacts(
        phase=found.text("phase"),
        steps=found.count("steps"),
        began_at=found.number("began_at"),
        seconds=found.number("seconds"),
        limit_seconds=found.number("limit_seconds"),
        place=found.text("place"),
        function=found.text("function"),
        code=found.text("code"),
        stacks=found.text("stacks"),
        is_over=found.boolean("is_over", False),
    )
