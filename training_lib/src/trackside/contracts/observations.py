"""Observations: facts about a training program beyond its structure, each declared once and detected by one file.

A rule reads one by its declaration, as in `MARGIN.of(loss)`. An adapter that cannot see it leaves it at its default.
The formats page, the file of model facts and its reader follow from what is declared here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Observed(Protocol):
    """Facts with observations: of each what was seen, without what is as by default."""

    @property
    def observed(self) -> Mapping[Observation[Any], Any]:
        """The values by observation."""


@dataclass(frozen=True)
class Observation(Generic[T]):
    """A fact that a detector sees.

    Attributes:
        name: Its key in the file of model facts.
        default: Its value where nobody has seen it.
        meaning: What a value says, with its unit.
        since: The release that first stored it.
    """

    name: str
    default: T
    meaning: str
    since: str = "0.1.0"

    def of(self, facts: Observed) -> T:
        """Return the value for a loss.

        Args:
            facts: The facts about the loss.
        """
        found: T = facts.observed.get(self, self.default)
        return found


IS_BROADCAST = Observation(
    "is_broadcast",
    False,
    "n predictions and n targets were broadcast to n times n (a column minus a row), or k scores met the number of a "
    "class",
)
COMPARED_WITH = Observation(
    "compared_with",
    0,
    "number of targets that each prediction was compared with by broadcasting; 0 without broadcasting",
)
MARGIN = Observation(
    "margin",
    0.0,
    "amount by which one distance is to be smaller than another, for a triplet loss that is a mean; 0 for others",
)
LOWERS_LIKELIHOOD = Observation(
    "lowers_likelihood",
    False,
    "written by hand, and it adds chosen log-probabilities with a plus sign, alone or times non-negative values",
)
BEYOND_REACH = Observation(
    "beyond_reach",
    0.0,
    "share of the targets that the last function of the predictions cannot reach (a target below zero behind a ReLU); "
    "1 for scores of classes that can never be negative",
)
MIXES_SAMPLES = Observation(
    "mixes_samples",
    False,
    "the softmax before it is taken over the samples of a batch, not over the classes of each",
)
TAKES_SCORES_FOR_PROBABILITIES = Observation(
    "takes_scores_for_probabilities",
    False,
    "it expects probabilities, and the layer before it has no activation",
)
STEP_SHARE = Observation(
    "step_share",
    0.0,
    "largest share of the units of a tanh or sigmoid before it that samples drive to both of its flat ends",
)
DROPOUTS = Observation[tuple[float, ...]](
    "dropouts",
    (),
    "shares of the values that dropouts before it drop: the largest four, largest first",
)

OF_LOSSES: tuple[Observation[object], ...] = tuple(
    each for each in list(globals().values()) if isinstance(each, Observation)
)
