"""The place where a notebook shows findings: a display of a cell that updates. Needs no library: IPython brings it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol


class Shown(Protocol):
    """An object with a text and an HTML form."""

    def __str__(self) -> str: ...

    def _repr_html_(self) -> str: ...


class Notebook:
    """The notebook that this process is the kernel of."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._handle: Any = None

    @classmethod
    def here(cls) -> Notebook | None:
        """Return the notebook of this process; None in a terminal or a script."""
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        return cls(shell) if getattr(shell, "kernel", None) is not None else None

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells that were run, by their numbers."""
        return tuple(self._shell.user_ns.get("In", ()))

    def show(self, shown: Shown) -> None:
        """Show the object below the running cell, or where it was shown before."""
        from IPython.display import display

        bundle = {"text/plain": str(shown), "text/html": shown._repr_html_()}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def show_once(self, shown: Shown) -> None:
        """Show the object below the running cell, for good."""
        from IPython.display import display

        display({"text/plain": str(shown), "text/html": shown._repr_html_()}, raw=True)

    def after_each_cell(self, call: Callable[[], object]) -> Callable[[], None]:
        """Call `call` after the running cell and each later one. Return the function that ends this."""

        def ran(result: Any) -> None:
            call()

        self._shell.events.register("post_run_cell", ran)
        return lambda: self._shell.events.unregister("post_run_cell", ran)
