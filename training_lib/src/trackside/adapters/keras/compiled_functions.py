"""The functions that TensorFlow compiles: which of them train, and the loss of a compiled step.

While such a function is compiled, its Python code runs once: it shows whether the function updates weights. A variable
of ours in the graph then keeps the loss of each call.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any


class CompiledFunctions:
    """The functions of one training, and the outermost call that is under way.

    Attributes:
        current: The function that is being called; None outside of one.
        has_updated: True once the call that is under way has updated weights, uncompiled.
    """

    def __init__(self) -> None:
        self.current: Any = None
        self.has_updated = False
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self._training: weakref.WeakSet[Any] = weakref.WeakSet()
        self._keeping: weakref.WeakSet[Any] = weakref.WeakSet()  # graphs that keep a loss
        self._with_loss: weakref.WeakSet[Any] = weakref.WeakSet()  # functions with such a graph
        self._loss: Any = None

    def begin(self, function: Any) -> None:
        """Handle the start of an outermost call."""
        self.current, self.has_updated = function, False
        if self._loss is None:  # not within a trace, which would then be made a second time
            tensorflow = sys.modules["tensorflow"]
            self._loss = tensorflow.Variable(0.0, trainable=False, dtype=tensorflow.float32)

    def end(self) -> None:
        """Handle its end."""
        if self.current is not None:  # another thread may have ended it
            self._known.add(self.current)
        self.current = None

    def may_train(self, function: Any) -> bool:
        """Return True if the function is known to train, or was never called."""
        return function in self._training or function not in self._known

    def trains(self, function: Any) -> bool:
        """Return True if the function is known to train."""
        return function in self._training

    def note_update(self) -> None:
        """Note that the function under way updates weights."""
        self._training.add(self.current)

    def keep_loss(self, target: Any) -> None:
        """Let the graph that is being traced keep the value of its first loss at each call."""
        tensorflow = sys.modules["tensorflow"]
        if target.graph in self._keeping or tensorflow.distribute.get_strategy().num_replicas_in_sync > 1:
            return  # with several replicas each would need a variable
        self._keeping.add(target.graph)
        self._with_loss.add(self.current)
        self._loss.assign(tensorflow.reduce_mean(tensorflow.cast(target, tensorflow.float32)))

    def loss(self, function: Any) -> float | None:
        """Return the loss of the call that has ended; None if the graph keeps none."""
        return float(self._loss.numpy()) if function in self._with_loss else None
