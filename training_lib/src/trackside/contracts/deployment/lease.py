"""The table of leases: which worker of the fleet judges which training job, and until when.

One item for each training job (`pk`: its ARN). While the job is to be judged it stands in the index `open`, sorted by
the moment at which it is, or will be, free to be taken: a worker that dies takes nothing with it.

| attribute  | what it says                                                                         |
|------------|--------------------------------------------------------------------------------------|
| shelf      | `open` while the run is to be judged; absent once it was, or cannot be               |
| free_at    | seconds since the epoch: nobody but the owner may judge before                       |
| owner      | the worker that judges, "": none                                                     |
| token      | counts the leases: what a former owner does with an older one is refused             |
| crashes    | how often an owner was lost, or the judging of this run broke off, since it last ran well |
| state      | `open`, `done` or `failed`; `reason` with it                                         |

Beside these lies one item for each run that was written to lately (`pk`: `news#` and its location): whoever hears of it
from S3 knows the run and not the training job.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from trackside.contracts.deployment.table_item import Item, read_item, write_item
from trackside.contracts.event import TrainingJob

VERSION = 1
OPEN_INDEX = "open"
OPEN_SHELF = "open"
NEWS_PREFIX = "news#"
NEWS_SECONDS = 24 * 3600  # how long it is kept


class LeaseState(str, Enum):
    """Whether the run is still to be judged."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class LeaseRecord:
    """An item. Moments are seconds since the epoch, 0: never."""

    job: TrainingJob
    run_uri: str
    free_at: float
    owner: str = ""
    token: int = 0
    crashes: int = 0
    state: LeaseState = LeaseState.OPEN
    reason: str = ""

    @property
    def is_open(self) -> bool:
        """True while the run is to be judged."""
        return self.state is LeaseState.OPEN

    def to_item(self) -> dict[str, dict[str, Any]]:
        """The item of a run that nobody has judged yet."""
        return write_item(
            {
                "pk": self.job.arn,
                "version": VERSION,
                "shelf": OPEN_SHELF if self.is_open else None,
                "free_at": self.free_at,
                "name": self.job.name,
                "run_uri": self.run_uri,
                "owner": self.owner,
                "token": self.token,
                "crashes": self.crashes,
                "state": self.state.value,
                "reason": self.reason,
            }
        )

    @classmethod
    def from_item(cls, item: Item) -> LeaseRecord:
        """Errors: `ConfigurationError`."""
        fields = read_item(item)
        record = cls(
            job=TrainingJob(fields.text("name"), fields.text("pk")),
            run_uri=fields.text("run_uri"),
            free_at=fields.number("free_at"),
            owner=fields.text("owner", ""),
            token=fields.integer("token", 0),
            crashes=fields.integer("crashes", 0),
            state=fields.choice("state", LeaseState),
            reason=fields.text("reason", ""),
        )
        fields.finish(subject="The item of a lease")
        return record


@dataclass(frozen=True)
class NewsRecord:
    """The item that says when a run was last written to, in seconds since the epoch."""

    run_uri: str
    at: float

    def to_item(self) -> dict[str, dict[str, Any]]:
        """The item; it is forgotten after a day."""
        return write_item(
            {"pk": news_key(self.run_uri), "version": VERSION, "at": self.at, "expires_at": int(self.at) + NEWS_SECONDS}
        )

    @classmethod
    def from_item(cls, item: Item) -> NewsRecord:
        """Errors: `ConfigurationError`."""
        fields = read_item(item)
        record = cls(fields.text("pk").removeprefix(NEWS_PREFIX), fields.number("at"))
        fields.finish(subject="The item of a run's news")
        return record


def news_key(run_uri: str) -> str:
    """The key of a run's news."""
    return f"{NEWS_PREFIX}{run_uri}"
