"""Pause Python's garbage collection while modules are imported.

A process that has imported PyTorch holds half a million objects. The objects that an import creates make Python walk
through all of them, which takes half of the time of importing botocore, and of importing our adapter.
"""

import gc
from _thread import get_ident
from threading import main_thread


class CollectionPause:
    """Switch garbage collection off within a block, if the main thread enters it.

    On other threads it does nothing, because the main thread may switch collection on or off at the same time.
    """

    def __enter__(self) -> None:
        self._pauses = gc.isenabled() and get_ident() == main_thread().ident
        if self._pauses:
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._pauses:
            gc.enable()
