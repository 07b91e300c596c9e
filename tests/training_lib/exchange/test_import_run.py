"""Old runs brought in: linked, copied or copied by S3; whole, resumable, and never at the source's cost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from moto import mock_aws

from trackside.contracts.errors import AccessDeniedError, ConfigurationError, RunNotFoundError, StorageError
from trackside.contracts.run_layout import END_MARKER_KEY, event_key, index_key, parse_packed_index_key
from trackside.exchange.import_run import RECORD_FILE, import_run
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import open_trial

WORKERS = ("worker_0", "worker_1")
FILES = 2 + 2 * 6 + 2 * 6 + 1 + 1  # collections, events, index, TensorBoard's, end marker


def write_run(store: Store, *, steps: int = 6, ended: bool = True) -> None:
    write_collections(store, workers=WORKERS)
    for step in range(steps):
        write_step(store, step)
    store.put("tensorboard/TRAIN/000000000000_1_host.tfevents", b"theirs")
    if ended:
        end_run(store)


def write_step(store: Store, step: int) -> None:
    for worker in WORKERS:
        write_tensors(store, step, {"loss": 1.0 / (step + 1), "w": np.arange(6.0)}, worker=worker)


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """All that a source must keep."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()) for name, path in files.items()}


def packed_keys(store: Store) -> list[str]:
    return [key for key in store.list("packed-index/") if parse_packed_index_key(key)]


@pytest.fixture(params=[pytest.param("debug-output", id="job-folder"), pytest.param("", id="bare")])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write_run(LocalStore(tmp_path / "old" / request.param))
    return tmp_path / "old"


def test_on_one_disk_files_are_linked(source: Path, tmp_path: Path) -> None:
    before = state(source)
    done = import_run(str(source), str(tmp_path / "new"))
    assert (done.files, done.linked, done.copied, done.copied_bytes) == (FILES, FILES, 0, 0)
    assert (done.steps, done.workers, done.has_ended, done.left_out, done.damaged) == (6, 2, True, (), ())
    assert state(source) == before
    inodes = {inode for inode, _, _ in before.values()}
    brought = [path for path in (tmp_path / "new" / "debug-output").rglob("*") if path.is_file()]
    assert {path.stat().st_ino for path in brought if "packed-index" not in path.parts} == inodes

    trial = open_trial(done.run)
    assert trial.has_ended
    assert trial.steps() == tuple(range(6))
    assert trial.value("loss", step=3, worker="worker_1").tolist() == [0.25]
    assert packed_keys(LocalStore(tmp_path / "new" / "debug-output"))


def test_what_is_written_to_the_new_run_does_not_reach_the_old(source: Path, tmp_path: Path) -> None:
    before = state(source)
    import_run(str(source), str(tmp_path / "new"))
    write_step(LocalStore(tmp_path / "new" / "debug-output"), 2)
    assert state(source) == before


def test_without_a_destination_only_the_packed_index_is_written(source: Path) -> None:
    before = state(source)
    done = import_run(str(source))
    assert (done.run, done.files, done.linked, done.copied_bytes) == (str(source), 0, 0, 0)
    after = state(source)
    assert {name: after[name] for name in before} == before
    new = set(after) - set(before)
    assert new
    assert all("packed-index" in Path(name).parts for name in new)
    assert open_trial(str(source)).steps() == tuple(range(6))


def test_across_disks_files_are_copied(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_links)
    before = state(source)
    done = import_run(str(source), str(tmp_path / "new"))
    assert (done.files, done.linked, done.copied) == (FILES, 0, FILES)
    assert done.copied_bytes == sum(len(content) for _, _, content in before.values())
    assert state(source) == before
    assert open_trial(done.run).steps() == tuple(range(6))


@pytest.mark.parametrize("count", [pytest.param(0, id="at-once"), pytest.param(7, id="midway")])
def test_an_interrupted_import_goes_on(count: int, source: Path, tmp_path: Path) -> None:
    def stop(items: Any, label: str) -> Iterator[Any]:
        for place, item in enumerate(items):
            if place == count:
                raise KeyboardInterrupt
            yield item

    with pytest.raises(KeyboardInterrupt):
        import_run(str(source), str(tmp_path / "new"), progress=stop)
    assert not (tmp_path / "new" / "debug-output" / END_MARKER_KEY).exists(), (
        "half a run does not look like a whole one"
    )
    done = import_run(str(source), str(tmp_path / "new"))
    assert (done.files, done.already_copied, done.linked) == (FILES, count, FILES - count)
    assert import_run(str(source), str(tmp_path / "new")).already_copied == FILES
    assert open_trial(done.run).steps() == tuple(range(6))


def test_a_run_that_has_grown_is_brought_up_to_date(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "old")
    write_run(store, steps=3, ended=False)
    assert not import_run(str(tmp_path / "old"), str(tmp_path / "new")).has_ended
    write_step(store, 3)
    end_run(store)
    done = import_run(str(tmp_path / "old"), str(tmp_path / "new"))
    assert (done.steps, done.has_ended, done.linked) == (4, True, 5)
    assert open_trial(done.run).steps() == (0, 1, 2, 3)


def test_the_damaged_are_named_and_the_rest_is_imported(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    write_run(LocalStore(folder))
    os.truncate(folder / event_key(1, "worker_0"), 100)
    (folder / index_key(2, "worker_0")).write_text("{")
    (folder / event_key(3, "worker_0")).unlink()
    (folder / event_key(4, "worker_0")).unlink()
    (folder / event_key(4, "worker_0")).symlink_to("/etc/hostname")
    done = import_run(str(folder), str(tmp_path / "new"))
    assert {error.key for error in done.damaged} == {
        event_key(1, "worker_0"),
        index_key(2, "worker_0"),
        event_key(3, "worker_0"),
    }
    (left_out,) = done.left_out
    assert left_out.key == event_key(4, "worker_0")
    assert "leads out of the run" in left_out.what
    assert done.files == FILES - 2
    assert not (tmp_path / "new" / "debug-output" / left_out.key).exists()
    trial = open_trial(done.run)
    for step in range(6):
        assert trial.value("loss", step=step, worker="worker_1").tolist() == [1.0 / (step + 1)]


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "old"
    write_run(LocalStore(folder))
    bad, real_open = str(folder / event_key(1, "worker_0")), open

    def broken(path: Any, *arguments: Any, **options: Any) -> Any:
        if path == bad:
            raise OSError(5, "Input/output error")
        return real_open(path, *arguments, **options)

    monkeypatch.setattr("builtins.open", broken)
    done = import_run(str(folder), str(tmp_path / "new"))
    assert [str(error) for error in done.left_out] == [
        f"{event_key(1, 'worker_0')}, byte 0: cannot be read: Input/output error."
    ]
    assert done.files == FILES - 1


def test_what_the_original_leaves_behind_is_not_brought(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "old")
    write_run(store)
    for key in ("claim.smd", "checkpoints/model.bin", "packed-index/worker_0/other"):
        store.put(key, b"x")
    (tmp_path / "old" / f"{event_key(9, 'worker_0')}.tmp").parent.mkdir(parents=True)
    (tmp_path / "old" / f"{event_key(9, 'worker_0')}.tmp").write_bytes(b"half")
    assert import_run(str(tmp_path / "old"), str(tmp_path / "new")).files == FILES


def test_always_on_statistics_come_along_as_copies(tmp_path: Path) -> None:
    write_run(LocalStore(tmp_path / "old" / "debug-output"))
    segment = tmp_path / "old" / "statistics" / "worker_0" / "1763700000000-000000000-open.tss"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b"grows")
    done = import_run(str(tmp_path / "old"), str(tmp_path / "new"))
    assert (done.files, done.linked, done.copied, done.copied_bytes) == (FILES + 1, FILES, 1, 5)
    brought = tmp_path / "new" / segment.relative_to(tmp_path / "old")
    assert brought.read_bytes() == b"grows"
    assert brought.stat().st_ino != segment.stat().st_ino


def test_destinations_that_would_not_do(tmp_path: Path) -> None:
    write_run(LocalStore(tmp_path / "old"))
    write_run(LocalStore(tmp_path / "other"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    for destination in ("old", "old/new"):
        with pytest.raises(ConfigurationError, match="within the source"):
            import_run(str(tmp_path / "old"), str(tmp_path / destination))
    with pytest.raises(ConfigurationError, match="not empty"):
        import_run(str(tmp_path / "old"), str(tmp_path / "full"))
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["notes.txt"]
    import_run(str(tmp_path / "old"), str(tmp_path / "new"))
    with pytest.raises(ConfigurationError, match=r"holds another run, imported from .*old"):
        import_run(str(tmp_path / "other"), str(tmp_path / "new"))
    (tmp_path / "new" / RECORD_FILE).write_text("[]")
    with pytest.raises(ConfigurationError, match=RECORD_FILE):
        import_run(str(tmp_path / "old"), str(tmp_path / "new"))


def test_nothing_there_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="debug-output"):
        import_run(str(tmp_path / "nothing"), str(tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_stops_it_with_what_to_do(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(StorageError, match=r"No space left on device.*run it again"):
        import_run(str(source), str(tmp_path / "new"))
    assert not list((tmp_path / "new").rglob("*.tmp"))


FILES_IN_S3 = 2 + 2 * 2 + 2 * 2 + 1 + 1


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.session.Session().client("s3")
        client.create_bucket(Bucket="runs")
        write_run(open_store("s3://runs/old/debug-output"), steps=2)
        yield "s3://runs"


def contents(uri: str) -> dict[str, bytes]:
    store = open_store(uri)
    return {key: store.get(key) for key in store.list() if not key.startswith("packed-index/")}


def test_within_s3_the_server_copies(bucket: str) -> None:
    before = contents(f"{bucket}/old/debug-output")
    done = import_run(f"{bucket}/old", f"{bucket}/new")
    assert (done.run, done.files, done.copied, done.linked, done.on_server) == (
        f"{bucket}/new",
        FILES_IN_S3,
        FILES_IN_S3,
        0,
        True,
    )
    assert done.copied_bytes == sum(map(len, before.values()))
    assert contents(f"{bucket}/new/debug-output") == before == contents(f"{bucket}/old/debug-output")
    assert packed_keys(open_store(f"{bucket}/new/debug-output"))
    assert import_run(f"{bucket}/old", f"{bucket}/new").already_copied == FILES_IN_S3
    assert open_trial(done.run).steps() == tuple(range(2))


def test_from_s3_to_a_folder_and_back(bucket: str, tmp_path: Path) -> None:
    before = contents(f"{bucket}/old/debug-output")
    down = import_run(f"{bucket}/old/debug-output", str(tmp_path / "down"))
    assert (down.files, down.copied, down.on_server) == (FILES_IN_S3, FILES_IN_S3, False)
    assert contents(str(tmp_path / "down" / "debug-output")) == before
    up = import_run(str(tmp_path / "down"), f"{bucket}/up")
    assert (up.files, up.copied, up.on_server) == (FILES_IN_S3, FILES_IN_S3, False)
    assert contents(f"{bucket}/up/debug-output") == before


def test_without_a_destination_a_prefix_gets_its_packed_index(bucket: str) -> None:
    import_run(f"{bucket}/old")
    assert packed_keys(open_store(f"{bucket}/old/debug-output"))


def test_prefixes_that_only_begin_alike_are_no_trouble(bucket: str) -> None:
    assert import_run(f"{bucket}/old", f"{bucket}/old-2").files == FILES_IN_S3
    with pytest.raises(ConfigurationError, match="within the source"):
        import_run(f"{bucket}/old", f"{bucket}/old/new")


def test_a_source_that_may_not_be_written_says_to_name_a_destination(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(AccessDeniedError, match="name a destination"):
        import_run(str(source))
