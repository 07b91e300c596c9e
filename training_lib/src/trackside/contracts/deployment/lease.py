"""The table of leases: the fleet's worker that judges a training job, and the end of its lease.

One item for each training job (`pk`: its ARN). While the job is to be judged, it stands in the index `open`, sorted by
the moment at which another worker may take it. So the work of a worker that dies is taken over. A later job with the
name of a deleted one takes its item over.

| attribute  | content                                                                              |
|------------|--------------------------------------------------------------------------------------|
| shelf      | `open` while the run is to be judged; absent afterwards                              |
| free_at    | seconds since the epoch: until then only the owner may judge                         |
| owner      | the worker that judges; "": none                                                     |
| created_at | the second of the job's creation, since the epoch                                    |
| token      | grows with each lease: writes of a former owner with an older one are refused        |
| crashes    | lost owners and broken-off judgings since the run was last judged without trouble    |
| state      | `open`, `done` or `failed`; `reason` with it                                         |

The table also holds one item for each run that was written to lately (`pk`: `news#` and its location), because S3's
notifications name the run and not the training job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from trackside.contracts.deployment.table_item import TableRecord, write_item
from trackside.contracts.event import TrainingJob
from trackside.contracts.stored_fields import (
    FINITE,
    INTEGER,
    REQUIRED,
    TEXT,
    Kind,
    choice,
    computed,
    document_of,
    stored,
)

VERSION = 1
OPEN_INDEX = "open"
OPEN_SHELF = "open"
NEWS_PREFIX = "news#"
NEWS_SECONDS = 24 * 3600  # how long it is kept


JOB = Kind(
    {"pk": {"type": "string"}, "name": {"type": "string"}, "created_at": {"type": "integer"}},
    lambda fields, name, absent: TrainingJob(
        fields.text("name"), fields.text("pk"), fields.integer("created_at", 0), fields.text("continues", "")
    ),
    lambda job: {
        "name": job.name,
        "pk": job.arn,
        **({"created_at": job.created_at} if job.created_at else {}),
        **({"continues": job.continues} if job.continues else {}),
    },
    is_flat=True,
)


class LeaseState(str, Enum):
    """The state of a lease: to be judged, judged to its end, or given up."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class LeaseRecord(TableRecord):
    """An item. Moments are seconds since the epoch, 0: never."""

    item_name = "The item of a lease"

    job: TrainingJob = field(metadata=stored(JOB))
    run_uri: str = field(metadata=stored(TEXT))
    free_at: float = field(metadata=stored(FINITE))
    owner: str = field(default="", metadata=stored(TEXT))
    token: int = field(default=0, metadata=stored(INTEGER))
    crashes: int = field(default=0, metadata=stored(INTEGER))
    state: LeaseState = field(default=LeaseState.OPEN, metadata=stored(choice(LeaseState), absent=REQUIRED))
    reason: str = field(default="", metadata=stored(TEXT))

    @property
    def is_open(self) -> bool:
        """True while the run is to be judged."""
        return self.state is LeaseState.OPEN

    @property
    @computed(TEXT)
    def shelf(self) -> str | None:
        """The key in the index of open leases; None once the run was judged, or cannot be judged."""
        return OPEN_SHELF if self.is_open else None

    def to_item(self) -> dict[str, dict[str, Any]]:
        """Return the item."""
        return write_item({"version": VERSION, **document_of(self)})


def news_key(run_uri: str) -> str:
    """Return the key of a run's news."""
    return f"{NEWS_PREFIX}{run_uri}"


NEWS_KEY = Kind(
    {"type": "string"},
    lambda fields, name, absent: fields.text(name).removeprefix(NEWS_PREFIX),
    news_key,
)


@dataclass(frozen=True)
class NewsRecord(TableRecord):
    """The moment at which a run was last written to, in seconds since the epoch."""

    item_name = "The item of a run's news"

    run_uri: str = field(metadata=stored(NEWS_KEY, name="pk"))
    at: float = field(metadata=stored(FINITE))

    @property
    @computed(INTEGER)
    def expires_at(self) -> int:
        """The end of its day, in seconds since the epoch."""
        return int(self.at) + NEWS_SECONDS

    def to_item(self) -> dict[str, dict[str, Any]]:
        """Return the item."""
        return write_item({"version": VERSION, **document_of(self)})
