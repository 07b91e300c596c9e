"""A run on S3."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from smdebug import not_offered
from smdebug.core.index_reader import IndexReader, S3IndexReader
from smdebug.trials.trial import RangeSteps, Trial


class S3Trial(Trial):
    """A run on S3. The prefix holds `collections`, `index` and `events`."""

    def __init__(  # noqa: PLR0917 - the old signature
        self,
        name: str,
        bucket_name: str,
        prefix_name: str,
        range_steps: RangeSteps = None,
        check: bool = False,
        index_mode: bool = True,
        cache: bool = False,
        *,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.bucket_name = bucket_name
        self.prefix_name = f"{prefix_name.rstrip('/')}/"
        super().__init__(
            name,
            f"s3://{bucket_name}/{self.prefix_name}",
            range_steps=range_steps,
            parallel=False,
            check=check,
            index_mode=index_mode,
            cache=cache,
            sleep=sleep,
        )

    def _arguments(self) -> dict[str, Any]:
        given = {key: value for key, value in super()._arguments().items() if key not in ("dirname", "parallel")}
        return {**given, "bucket_name": self.bucket_name, "prefix_name": self.prefix_name}

    def _make_index_reader(self) -> IndexReader:
        return S3IndexReader(self.path)

    def _token_root(self) -> str:
        return self.prefix_name


__getattr__ = not_offered.attribute_of(__name__)
