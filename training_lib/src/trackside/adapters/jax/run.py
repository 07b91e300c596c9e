"""A run of a JAX program, which passes the results of its compiled step. Experimental."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CaptureRequest
from trackside.extras import missing_extra
from trackside.frameworks.plain.run import Run, loss_name

try:
    import jax
except ModuleNotFoundError:  # the class has its page in every environment
    jax = None


class JaxRun(Run):
    """A run of one training in JAX. Experimental: its names may change.

    Nothing is traced into the compiled step. The program returns the loss, and at the steps that are due the gradients,
    too. A loss is read when it has arrived from the device, so that the next step is dispatched without a wait.

    Example:
        with trackside.JaxRun("runs/first", save={"losses": 1, "gradients": 100}) as run:
            for batch in batches:
                if run.is_due:
                    loss, gradients, new = step_with_gradients(parameters, batch)
                    run.parameters(parameters, gradients, learning_rate=0.1)
                else:
                    loss, new = step(parameters, batch)
                run.loss(loss)
                run.step()
                parameters = new
    """

    def __init__(self, run: str = "", *, save: CaptureRequest | Mapping[str, int] | None = None) -> None:
        """Set the address of the run and the data to save.

        Args:
            run: A new folder, or `s3://bucket/prefix`.
            save: A whole request, or an interval of steps for each collection; by default losses, every 500 steps.

        Raises:
            ConfigurationError: With every problem at once; or JAX is not installed.
        """
        if jax is None:
            raise missing_extra("jax")
        super().__init__(run, save=save)

    @property
    def is_due(self) -> bool:
        """True if the open step saves or measures parameters: have the compiled step return gradients then."""
        found: list[bool] = []
        self._record("looking up the data that is due", lambda adapter: found.append(adapter.takes_parameters))
        return found == [True]

    def loss(self, value: Any, name: str = "loss") -> None:
        """Record a loss of the open step, as `<name>_output_<k>`.

        Args:
            value: An array of one element, which may still be on its way from the device.
            name: Its name; one that does not end with "loss" gets "_loss" behind it.
        """
        if not self._is_traced("loss", value):
            self._record("recording a loss", lambda adapter: adapter.add_loss(loss_name(name), OnDevice(value)))

    def parameters(
        self,
        weights: Any = None,
        gradients: Any = None,
        *,
        updates: Any = None,
        learning_rate: float | None = None,
    ) -> None:
        """Record trees of weights and gradients of the open step, if they are due.

        Args:
            weights: A tree of arrays, such as a dictionary, or an `nnx.State`. The path of a leaf is its name; one with
                neither "weight" nor "bias" in it gets ".weight" behind it.
            gradients: The tree of their gradients; saved as `gradient/<name>`.
            updates: The tree of what the update adds to them, for the rules that compare the two.
            learning_rate: The learning rate of the step.
        """
        if self._is_traced("parameters", weights, gradients, updates) or not self.is_due:
            return
        trees = self._guard.attempt("reading trees", lambda: [leaves(tree) for tree in (weights, gradients, updates)])
        if trees is not None:
            super().parameters(trees[0], trees[1], updates=trees[2], learning_rate=learning_rate)

    def _is_traced(self, method: str, *trees: Any) -> bool:
        """Return True for values that a function has while it is compiled, and which are no numbers. Log it once."""
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(trees)):
            return False
        message = "`%s` is called inside of a function that JAX compiles; return the values, and pass them outside."
        self._guard.warn_once(f"traced/{method}", message, method)
        return True


class OnDevice:
    """A number that may still be on its way from a device."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def is_here(self) -> bool:
        """Return True if `get` need not wait."""
        return not isinstance(self._value, jax.Array) or self._value.is_ready()

    def get(self) -> NDArray[np.float64]:
        """Return it as an array of one element."""
        return np.asarray(self._value, np.float64).reshape(1)


def leaves(tree: Any) -> Mapping[str, NDArray[Any]]:
    """Return copies of the arrays of a tree by their paths, such as "dense.kernel".

    Args:
        tree: Dictionaries, lists and other nodes that JAX knows, with arrays for leaves.
    """
    found = jax.tree_util.tree_flatten_with_path(tree)[0]
    names = [jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value") for path, _ in found]
    return {name: np.array(leaf) for name, (_, leaf) in zip(names, found, strict=True)}
