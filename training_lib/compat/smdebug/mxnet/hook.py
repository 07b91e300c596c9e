"""smdebug's hook for MXNet's Gluon, on Trackside's capture: a step is a call of the registered model."""

from __future__ import annotations

import functools
from typing import Any

import mxnet

from smdebug import not_offered
from smdebug.core import singleton_utils
from smdebug.core.collection import DEFAULT_MXNET_COLLECTIONS
from smdebug.core.collection import Collection as BaseCollection
from smdebug.core.configured_hook import logger
from smdebug.core.hook import CallbackHook
from smdebug.core.modes import ModeKeys
from smdebug.mxnet.collection import Collection
from trackside.adapters.mxnet.blocks import REGEXES, Blocks, BlocksAdapter, array_of, needs_inner_blocks
from trackside.adapters.shared.listening import ListeningScript
from trackside.capture.place import Place
from trackside.capture.session import SessionOptions
from trackside.capture.steps.collection import OF_SMDEBUG

DEFAULT_INCLUDE_COLLECTIONS = ["losses"]
COLLECTIONS_NOT_REQUIRING_RECURSIVE_HOOK = ["weights", "biases", "gradients", "losses"]


class Hook(CallbackHook):
    """A hook that captures registered blocks of Gluon.

    A step begins with a call of the model; its weights and gradients are saved before the next one, after the update.
    An inner failure is logged once and never ends the training. Only arguments of a wrong kind raise.
    """

    collection_class: type[BaseCollection] = Collection
    known_collections = frozenset(DEFAULT_MXNET_COLLECTIONS)
    saved_collections = tuple(DEFAULT_INCLUDE_COLLECTIONS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for earlier in singleton_utils.hooks_of(self.out_dir):  # of a notebook's cell that runs again, for example
            earlier.close()
        self._blocks = Blocks(self._begins)
        options = SessionOptions(
            saves_nothing=self.dry_run,
            earlier=self._earlier_state(),
            holds_last_step=True,
            kinds_of_regex=OF_SMDEBUG,
            regexes=REGEXES,
        )
        make = functools.partial(BlocksAdapter, blocks=self._blocks)
        self._capture = ListeningScript(
            self._capture_request,
            make,
            place=Place(tensors=self.out_dir),
            options=options,
            array_of=array_of,
            progressed=self._step_ends,
        )
        singleton_utils.made(self)

    def register_block(self, block: Any) -> None:
        """Capture this block: a model, or a loss. Log an error if it is no block of Gluon."""
        if not isinstance(block, mxnet.gluon.Block):
            logger.error("trackside: only a block of Gluon can be registered, not a %s.", type(block).__name__)
            return
        if self._blocks.has(block):
            logger.warning("trackside: the block %s is registered already.", block.name)
            return
        has_default_regex = bool(self.get_collection("default").include_regex)
        is_recursive = needs_inner_blocks({*self.include_collections}, has_default_regex=has_default_regex)
        self._blocks.register(block, is_recursive=is_recursive)

    register_hook = register_block

    @property
    def model(self) -> Any:
        """The model that was registered last; None before."""
        return self._blocks.model

    def set_mode(self, mode: ModeKeys) -> None:
        """Set the mode of the next steps. The step under way ends, if it is of another mode.

        Raises:
            SMDebugValueError: It is no mode.
        """
        adapter = self._capture.adapter
        if isinstance(adapter, BlocksAdapter) and isinstance(mode, ModeKeys) and mode.name != self._capture.mode:
            adapter.end_open_step()
        super().set_mode(mode)

    def _begins(self) -> None:
        self._capture.begin()


__getattr__ = not_offered.attribute_of(__name__)
