"""A run in a local folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from smdebug import not_offered
from smdebug.trials.trial import RangeSteps, Trial


class LocalTrial(Trial):
    """A run in a local folder. `dirname` holds `collections`, `index` and `events`."""

    def __init__(  # noqa: PLR0917 - the old signature
        self,
        name: str,
        dirname: str,
        range_steps: RangeSteps = None,
        parallel: bool = True,
        check: bool = False,
        index_mode: bool = True,
        cache: bool = False,
        *,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.trial_dir = os.path.expanduser(dirname)
        super().__init__(
            name,
            self.trial_dir,
            range_steps=range_steps,
            parallel=parallel,
            check=check,
            index_mode=index_mode,
            cache=cache,
            sleep=sleep,
        )


__getattr__ = not_offered.attribute_of(__name__)
