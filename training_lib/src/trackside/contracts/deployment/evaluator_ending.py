"""The note of an evaluator about its own end, stored in the run: whether another must continue.

SageMaker's event of the end has room for a message, which the container can only write where it may write to
`/opt/ml/output`. The note does not depend on that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from trackside.contracts.errors import ConfigurationError
from trackside.contracts.event import TrainingJob, job_of_identity
from trackside.contracts.fields import to_json
from trackside.contracts.run_layout import ENDING_KEY, verdicts_key_of
from trackside.contracts.stored_fields import REQUIRED, TEXT, StoredDocument, choice, document_of, integer, stored

VERSION = 1
MOST_BYTES = 64 << 10
MOST_MESSAGE_CHARACTERS = 4096


class EndKind(str, Enum):
    """The result of an evaluator: another must continue, all is judged, or no rule could judge anything."""

    CONTINUED = "continued"
    JUDGED = "judged"
    NOTHING_JUDGED = "nothing-judged"


@dataclass(frozen=True)
class EvaluatorEnding(StoredDocument):
    """The note.

    job      identity of the judged training job
    link     number of the evaluator in its chain
    kind     its result
    message  a sentence for people
    """

    document_name = "The note of an evaluator"

    job: str = field(metadata=stored(TEXT))
    link: int = field(metadata=stored(integer(minimum=1), absent=REQUIRED))
    kind: EndKind = field(metadata=stored(choice(EndKind), absent=REQUIRED))
    message: str = field(default="", metadata=stored(TEXT))

    def is_of(self, job: TrainingJob, *, link: int) -> bool:
        """Return True if that link of the job's chain stored the note: it is replaced by each link."""
        return self.link == link and job_of_identity(self.job).is_same_as(job)

    def to_json(self) -> str:
        """Return the note as JSON, with a message that is cut."""
        document = document_of(self)
        return to_json({"version": VERSION, **document, "message": self.message[:MOST_MESSAGE_CHARACTERS]})


def read_ending(text: bytes | None) -> EvaluatorEnding | None:
    """Return the note in the text; None for another text, and without one."""
    try:
        return EvaluatorEnding.from_json(text) if text else None
    except ConfigurationError:
        return None


def ending_key(configuration: str) -> str:
    """Return the key of the note, within `rule-output`. `configuration`: the one that the evaluator judges; "": all."""
    folder = verdicts_key_of(configuration).rpartition("/")[0] if configuration else ""
    return f"{folder}/{ENDING_KEY}" if folder else ENDING_KEY
