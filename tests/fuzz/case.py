"""One case: a valid run, damaged, read in every way, and what must hold of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tests.fuzz.damage import Damage, ShiftingStore, damage_run, is_small_file
from tests.fuzz.reading import CANARY, Reader, Seen, Wrong, check, read_trial, readers
from tests.fuzz.valid_runs import ValidRun, valid_runs
from tests.fuzz.watch import Hang, OpenedFiles, memory_limit, time_limits
from trackside.contracts.run_layout import END_MARKER_KEY, TENSORS, WATERMARKS, parse_watermark_key
from trackside.storage.store import Store

_STEP_AND_WORKER = re.compile(r"(?:index|events)/[^/]+/(?P<step>[0-9]+)_(?P<worker>.+)\.(?:json|tfevents)")


@dataclass(frozen=True)
class Failure:
    """A case that did not hold: how to play it again, what was done, and what came of it."""

    seed: str
    number: int
    run: str
    damages: tuple[str, ...]
    reader: str
    what: str

    def __str__(self) -> str:
        done = "".join(f"\n    {each}" for each in self.damages)
        again = f"python -m tests.fuzz --seed {self.seed} --case {self.number}"
        return (
            f"case {self.number} on the run {self.run!r}, reader {self.reader!r}: {self.what}\n  done:{done}\n  {again}"
        )


class Fuzzer:
    """Plays cases. `scratch` is a folder of its own; one fuzzer for a process, because it listens to what is opened."""

    def __init__(
        self,
        scratch: Path,
        *,
        seed: str,
        opened: OpenedFiles,
        corpus: Path | None = None,
        through: Sequence[Reader] | None = None,
    ) -> None:
        self._scratch, self._seed, self._opened = scratch, seed, opened
        self._runs = valid_runs(scratch / "valid", corpus)
        self._outside = scratch / "outside"
        self._plant_canaries(self._runs[0])
        self._readers = readers() if through is None else tuple(through)
        self._expected = {run.name: self._read_valid(run) for run in self._runs}

    def play(self, number: int) -> Failure | None:
        """One case; None if all held."""
        # Repeatable, not secret.
        random = Random(f"{self._seed}:{number}")
        run = random.choice(self._runs)
        folder = self._lay_out(run, "run")
        is_shifting = random.random() < 0.1  # one in ten
        count = 0 if is_shifting else random.choice((1, 1, 1, 1, 2, 3))
        damages = [damage_run(folder, self._outside, random) for _ in range(count)]
        said = tuple(each.what for each in damages) or ("objects vanish and change between two looks",)
        for reader in self._readers:
            if random.random() >= reader.share:
                continue
            shifting: list[ShiftingStore] = []

            def wrap(store: Store, *, kept: list[ShiftingStore] = shifting) -> Store:
                if not is_shifting:
                    return store
                kept.append(ShiftingStore(store, random, share=0.05))
                return kept[-1]

            wrong = self._read(reader, folder, random, wrap, run, damages, shifting)
            if wrong:
                return Failure(self._seed, number, run.name, said, reader.name, wrong)
        return None

    def _read(  # noqa: PLR0917 - one call, all of it the case
        self,
        reader: Reader,
        folder: Path,
        random: Random,
        wrap: object,
        run: ValidRun,
        damages: Sequence[Damage],
        shifting: Sequence[ShiftingStore],
    ) -> str:
        """What was wrong, or ""."""
        touched = _Touched(key for damage in damages for key in damage.keys)
        try:
            with self._opened.only_below(folder, self._scratch / "empty"), memory_limit(), time_limits():
                seen = reader.read(folder, random, wrap)  # type: ignore[arg-type]  # a function of one store
        except Hang as hang:
            return f"took too much {hang}\n{_where(hang)}"
        except reader.may_raise as error:
            if reader.name == "trial" and not touched.all and self._expected[run.name].values and not shifting:
                return f"the rest of the run is not readable: {type(error).__name__}: {error}"
            seen = None
        except (Exception, MemoryError) as error:  # noqa: BLE001 - whatever it is, it should not be
            return f"{type(error).__name__}: {error}\n{_where(error)}"
        if self._opened.outside:
            return f"looked outside the run: {self._opened.outside[:3]}"
        return self._check(seen, run, damages, touched, shifting) if seen is not None else ""

    def _check(
        self,
        seen: Seen,
        run: ValidRun,
        damages: Sequence[Damage],
        touched: _Touched,
        shifting: Sequence[ShiftingStore],
    ) -> str:
        touched.add(
            _key_in_run(key.removeprefix(f"{TENSORS}/").removeprefix("statistics/"))
            for store in shifting
            for key in store.touched
        )
        touched.add(_steps_in(run, touched))
        has_marker = f"{TENSORS}/{END_MARKER_KEY}" in run.files and not touched.marker and not shifting
        try:
            expected = self._expected[run.name]
            if touched.statistics:  # the means come from the tensors then, where these were saved
                expected = replace(expected, means={})
            check(seen, expected, touched=touched, has_marker=has_marker)
        except Wrong as wrong:
            return str(wrong)
        told = {_key_in_run(error.key) for error in seen.damaged}
        must = damages[0].must_report if len(damages) == 1 else ""
        # Of a tensor whose step is not complete nothing is read.
        if must and must not in told and must in run.files and has_marker and not touched.all:
            return f"the damage of {must} is not told. Told: {sorted(told)}"
        # An index may have been led to another event file, in which the record is not what it says.
        led_to = {
            key for damage in damages for changed in damage.keys for key in _named_by(self._scratch / "run" / changed)
        }
        accused = [key for key in told if key in run.files and not touched.covers(key) and key not in led_to]
        return f"accused of damage, and has none: {accused}" if accused else ""

    def _lay_out(self, run: ValidRun, name: str) -> Path:
        folder = self._scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        for key, data in run.files.items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder

    def _plant_canaries(self, run: ValidRun) -> None:
        """What must never be read: well-formed, so that whoever reads it takes it."""
        self._outside.mkdir(parents=True, exist_ok=True)
        empty = self._scratch / "empty"
        empty.mkdir(exist_ok=True)
        os.chdir(empty)
        for key, data in run.files.items():
            (self._outside / f"canary{Path(key).suffix}").write_bytes(data.replace(b"Net_fc1", CANARY.encode()))
            (self._outside / Path(key).name).write_bytes(data)

    def _read_valid(self, run: ValidRun) -> Seen:
        random = Random(0)
        expected = read_trial(self._lay_out(run, "run"), random, lambda store: store)
        if expected.damaged or not expected.values:
            raise Wrong(f"The run {run.name!r} cannot be read before it is damaged: {expected.damaged}")
        return expected


class _Touched:
    """Which steps of which workers a damage may have changed."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._pairs: set[tuple[int, str]] = set()
        self._keys: set[str] = set()
        self.all = False
        self.marker = self.statistics = False
        self.add(keys)

    def add(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._keys.add(key)
            inner = key.removeprefix(f"{TENSORS}/")
            match = _STEP_AND_WORKER.fullmatch(inner)
            if match:
                self._pairs.add((int(match["step"]), match["worker"]))
            self.all = self.all or (key.endswith("/") and key.startswith(TENSORS))
            self.marker = self.marker or inner == END_MARKER_KEY
            self.statistics = self.statistics or key.startswith("statistics/")

    def __call__(self, step: int, worker: str) -> bool:
        return self.all or (step, worker) in self._pairs

    def holds(self, key: str) -> bool:
        """True if this very file was touched."""
        return key in self._keys

    def covers(self, key: str) -> bool:
        match = _STEP_AND_WORKER.fullmatch(key.removeprefix(f"{TENSORS}/"))
        if match and self(int(match["step"]), match["worker"]):
            return True
        return self.all or key in self._keys or any(key.startswith(k) for k in self._keys if k.endswith("/"))


def _key_in_run(key: str) -> str:
    """From a key as the trial names it: relative to the tensors, to the statistics, or to the watermarks."""
    if parse_watermark_key(key) is not None:
        return f"{WATERMARKS}/{key}"
    return f"statistics/{key}" if key.endswith(".tss") else f"{TENSORS}/{key}"


def _steps_in(run: ValidRun, touched: _Touched) -> list[str]:
    """The index files of all steps whose values lie in an event file that was touched: small steps share one."""
    return [
        key
        for key, data in run.files.items()
        if key.startswith(f"{TENSORS}/index/")
        and touched.holds(f"{TENSORS}/{json.loads(data)['meta'].get('event_file_name')}")
    ]


def _named_by(path: Path) -> set[str]:
    """The event file that an index names, as a key in the run; none if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        if is_small_file(path) and path.suffix == ".json":
            return {f"{TENSORS}/{json.loads(path.read_bytes())['meta']['event_file_name']}"}
    return set()


def _where(error: BaseException) -> str:
    frames = traceback.format_exception(type(error), error, error.__traceback__)
    return "".join(frames)[-2500:]
