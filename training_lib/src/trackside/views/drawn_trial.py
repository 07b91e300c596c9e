"""The trial that users open: the reader of a run, which also draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackside.trial.trial import Trial as Reader
from trackside.trial.trial import open_as

if TYPE_CHECKING:
    from trackside.storage.store import Store
    from trackside.views.report.layer_picture import LayerPicture
    from trackside.views.report.weight_difference import WeightDifference


def open_trial(run: str | Store) -> Trial:
    """Return the trial of a run, with all steps read that exist so far; `Trial.refresh` reads newer ones.

    Args:
        run: The run's folder or `s3://` prefix, its `debug-output`, or a folder that smdebug wrote.

    Raises:
        RunNotFoundError: Nothing at the location looks like a run.
        StorageError: The store cannot be read.
    """
    return open_as(Trial, run)


class Trial(Reader):
    """A run, as far as it has been read, with pictures and tables of it for notebooks.

    Steps are optimizer steps (smdebug: global steps). Damaged files are left out, reported once in `damaged`, and the
    rest stays readable. A trial is not to be shared between threads.
    """

    def heatmap(self, of: str = "gradient_norm", *, steps: tuple[int, int] | None = None) -> LayerPicture:
        """Return layers over steps as a picture, which a notebook shows below the cell.

        Args:
            of: `gradient_norm`, `update_ratio`, `zero_share` (of gradients) or `weight_norm`.
            steps: First and last training step; None: all.

        Raises:
            ConfigurationError: `of` is none of these.
            TensorNotSavedError: The run recorded none of it.
        """
        from trackside.views.report.layer_picture import layer_picture

        return layer_picture(self, of, steps=steps)

    def difference(self, first: int, last: int) -> WeightDifference:
        """Return the differences of all weights between two steps, the largest first; a notebook shows it as a table.

        Where values were saved, they are compared: norm of the difference, angle, signs that turned. Else the recorded
        norms say how large the difference is at least. Each tensor names the nearest steps at which it is known.

        Args:
            first: The earlier step.
            last: The later step.
        """
        from trackside.views.report.weight_difference import weight_difference

        return weight_difference(self, first, last)
