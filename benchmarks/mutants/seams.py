"""The seams of PyTorch at which a training can be changed from outside, and the undoing of each change.

A function of a module is changed by exchanging its code: a program that took it out of its module (`from
torch.nn.functional import cross_entropy`) is reached too, and the function stays the object that it is for code that
looks at it, Trackside's capture among it. Methods are replaced in their class.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

LOSSES = (
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "multi_margin_loss", "poisson_nll_loss", "gaussian_nll_loss", "kl_div",
)  # fmt: skip
Wrapper = Callable[..., Any]  # is given the original function, then its arguments
Pair = tuple[Tensor, Tensor]  # predictions and targets
Change = Callable[[nn.Module, Tensor], Tensor]


class Seams:
    """Changes of one process, and their undoing.

    Attributes:
        touched: The number of times at which a change had an effect. An operator that never did planted nothing.
        optimizers: Optimizers built since the seams were opened.
    """

    def __init__(self, seed: int = 0) -> None:
        self.touched = 0
        self.optimizers: list[Optimizer] = []
        # Operators draw from a generator of their own: the program's random numbers stay those of its twin.
        self.random = torch.Generator().manual_seed(seed + 20_261_122)
        self._undo: list[Callable[[], None]] = []

    def undo(self) -> None:
        """Undo every change, the latest first."""
        while self._undo:
            self._undo.pop()()

    def touch(self) -> None:
        """Count an effect."""
        self.touched += 1

    def wrap(self, owner: Any, name: str, wrapper: Wrapper) -> None:
        """Replace a function by `wrapper(original, ...)`: in place if it is a plain function, else by name.

        Args:
            owner: A module or a class.
            name: Name of the function there.
            wrapper: Is called with the original function and the arguments of each call.
        """
        original = getattr(owner, name)
        if isinstance(original, FunctionType) and not original.__code__.co_freevars and not inspect.isclass(owner):
            self._exchange(original, wrapper)
            return

        @functools.wraps(original)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        is_own = name in vars(owner)
        setattr(owner, name, replacement)
        self._undo.append(lambda: setattr(owner, name, original) if is_own else delattr(owner, name))

    def _exchange(self, function: FunctionType, wrapper: Wrapper) -> None:
        own = function.__code__
        original = copy_of(function)
        alias = f"_mutant_{function.__name__}_{len(self._undo)}"
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
        bare = [
            each.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty) for each in parameters
        ]
        by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        # Two by place, as the callers in torch.nn pass them, the others by name.
        passed = [
            each.name if place < 2 and each.kind in by_place else f"{each.name}={each.name}"
            for place, each in enumerate(bare)
        ]
        made: dict[str, Any] = {}
        exec(f"def {function.__name__}{inspect.Signature(bare)}: return {alias}({', '.join(passed)})", made)  # noqa: S102
        function.__globals__[alias] = functools.partial(wrapper, original)
        function.__code__ = made[function.__name__].__code__

        def undo() -> None:
            function.__code__ = own
            function.__globals__.pop(alias, None)

        self._undo.append(undo)

    def at_losses(self, change: Wrapper, names: Iterable[str] = LOSSES) -> None:
        """Wrap the loss functions of torch.nn.functional, which the loss modules call too."""
        for name in names:
            self.wrap(functional, name, change)

    def at_pairs(self, change: Callable[[Tensor, Tensor], Pair | None], names: Iterable[str] = LOSSES) -> None:
        """Change what a training's losses compare before anybody sees it, as other data would.

        Args:
            change: Is given the predictions and the targets, and returns others, or None to leave them.
            names: The loss functions; their modules are changed where they are called.
        """
        is_done = False  # by the module around the function

        def changed(found: Tensor, target: Tensor) -> Pair:
            other = change(found, target) if is_training() and isinstance(target, Tensor) and target.dim() else None
            if other is None:
                return found, target
            self.touch()
            return other

        def function(original: Any, found: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Any:
            return original(*((found, target) if is_done else changed(found, target)), *args, **kwargs)

        def call(original: Any, module: Any, found: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Any:
            nonlocal is_done
            (found, target), is_done = changed(found, target), True
            try:
                return original(module, found, target, *args, **kwargs)
            finally:
                is_done = False

        names = tuple(names)
        self.at_losses(function, names)
        for kind in vars(nn.modules.loss).values():
            if (
                inspect.isclass(kind)
                and "forward" in vars(kind)
                and not set(names).isdisjoint(vars(kind)["forward"].__code__.co_names)
            ):
                self.wrap(kind, "__call__", call)

    def at_backward(self, change: Callable[[Tensor], Tensor]) -> None:
        """Put another tensor in the place of the loss where the backward pass begins."""

        def backward(original: Any, loss: Tensor, *args: Any, **kwargs: Any) -> Any:
            self.touch()
            return original(change(loss), *args, **kwargs)

        self.wrap(Tensor, "backward", backward)

    def at_building(self, change: Callable[[list[dict[str, Any]], dict[str, Any]], object]) -> None:
        """Change the groups and the defaults of an optimizer before it is built, in place.

        Args:
            change: Is given groups, each with a list of `params`, and the defaults.
        """

        def init(original: Any, optimizer: Optimizer, params: Any, defaults: dict[str, Any], **kwargs: Any) -> None:
            given = list(params)
            groups = [dict(each) for each in given] if given and isinstance(given[0], dict) else [{"params": given}]
            if given and isinstance(given[0], tuple):  # named parameters
                original(optimizer, given, defaults, **kwargs)
                return
            for group in groups:
                params = group["params"]
                group["params"] = [params] if isinstance(params, Tensor) else list(params)
            defaults = dict(defaults)
            before = _state_of(groups, defaults)
            change(groups, defaults)
            if _state_of(groups, defaults) != before:
                self.touch()
            original(optimizer, groups, defaults, **kwargs)

        self.wrap(Optimizer, "__init__", init)

    def before_step(self, change: Callable[[Optimizer], object]) -> None:
        """Act before each step of any optimizer, before anybody that registers later."""

        def act(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
            self.touch()
            change(optimizer)

        self._undo.append(register_optimizer_step_pre_hook(act).remove)

    def after_step(self, change: Callable[[Optimizer, int], object]) -> None:
        """Act after each step of any optimizer, with the number of steps that it has made."""
        steps: dict[int, int] = {}

        def act(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
            steps[id(optimizer)] = steps.get(id(optimizer), 0) + 1
            change(optimizer, steps[id(optimizer)])

        self._undo.append(register_optimizer_step_post_hook(act).remove)

    def watch_optimizers(self) -> None:
        """Keep each optimizer that is built in `optimizers`."""

        def init(original: Any, optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            self.optimizers.append(optimizer)

        self.wrap(Optimizer, "__init__", init)

    def when_first_built(self, act: Callable[[], object]) -> None:
        """Act once, when the first optimizer has been built: after capture has been attached, and so outside of it."""
        is_built = False

        def init(original: Any, optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            nonlocal is_built
            original(optimizer, *args, **kwargs)
            if not is_built:
                is_built = True
                act()

        self.wrap(Optimizer, "__init__", init)

    def at_calls(
        self,
        inputs: Change | None = None,
        outputs: Change | None = None,
        *,
        is_meant: Callable[[], bool] = lambda: True,
    ) -> None:
        """Change the floating-point tensors that go into a model, or that come out of it.

        A model is a module with parameters that no other module calls. What goes in is changed above
        `Module.__call__`, where a script prepares it and before capture saves it; what comes out below, as a last layer
        would.

        Args:
            inputs: Makes an input from an input.
            outputs: Makes an output from an output, if that is one tensor.
            is_meant: Decides on each call, by the state of the process.
        """
        if inputs is not None:
            self._above_calls(_of_models(functools.partial(self._call_with, inputs), is_meant))
        if outputs is not None:
            self.wrap(nn.Module, "__call__", _of_models(functools.partial(self._result_of, outputs), is_meant))

    def _call_with(self, change: Change, original: Any, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self._changed((args, kwargs), functools.partial(change, module))
        return original(module, *args, **kwargs)

    def _result_of(self, change: Change, original: Any, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        found = original(module, *args, **kwargs)
        if not isinstance(found, Tensor):
            return found
        self.touch()
        return change(module, found)

    def _above_calls(self, wrapper: Wrapper) -> None:
        """Wrap the call of every module above `Module.__call__`, whoever replaces that later.

        A call is looked up in the module's class first, so each class right below `Module` gets a call of its own.
        """
        reached: set[type] = set()

        def reach(kind: Any) -> None:
            if kind in reached or nn.Module not in kind.__bases__:
                return
            reached.add(kind)
            own = vars(kind).get("__call__")

            def further(module: Any, *args: Any, **kwargs: Any) -> Any:
                above: Any = super(kind, module)
                return above.__call__(*args, **kwargs)

            original = further if own is None else own

            def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it is one
                return wrapper(original, module, *args, **kwargs)

            setattr(kind, "__call__", __call__)  # noqa: B010 - mypy forbids assigning to a method
            self._undo.append(lambda: delattr(kind, "__call__") if own is None else setattr(kind, "__call__", own))

        def init(original: Any, module: nn.Module, *args: Any, **kwargs: Any) -> None:
            for kind in type(module).__mro__:
                reach(kind)
            original(module, *args, **kwargs)

        for kind in nn.Module.__subclasses__():
            reach(kind)
        self.wrap(nn.Module, "__init__", init)

    def _changed(self, value: Any, change: Callable[[Tensor], Tensor]) -> Any:
        if isinstance(value, Tensor):
            if not value.is_floating_point() or not value.dim():
                return value
            self.touch()
            return change(value)
        if isinstance(value, dict):
            return {key: self._changed(each, change) for key, each in value.items()}
        if type(value) in {list, tuple}:
            return type(value)(self._changed(each, change) for each in value)
        return value

    def at_order(self, change: Callable[[Tensor], Tensor]) -> None:
        """Change the order in which rows are drawn: each `torch.randperm` once an optimizer exists.

        Before that a program makes its data and splits them.
        """
        self.watch_optimizers()

        def randperm(original: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if not self.optimizers or found.numel() < 2:
                return found
            self.touch()
            return change(found)

        self.wrap(torch, "randperm", randperm)


def _of_models(wrapper: Wrapper, is_meant: Callable[[], bool]) -> Wrapper:
    """Return a wrapper of calls that leaves alone what another module calls, and modules without parameters."""
    depth = 0

    def call(original: Any, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if depth or not is_meant() or next(module.parameters(), None) is None:
            return original(module, *args, **kwargs)
        depth += 1
        try:
            return wrapper(original, module, *args, **kwargs)
        finally:
            depth -= 1

    return call


def copy_of(function: FunctionType) -> FunctionType:
    """Return a function with the present code of another."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _state_of(groups: list[dict[str, Any]], defaults: dict[str, Any]) -> object:
    """Return all that an operator may change before an optimizer is built."""
    return (
        dict(defaults),
        [{key: value for key, value in group.items() if key != "params"} for group in groups],
        [(id(each), each.requires_grad, each.dtype) for group in groups for each in group["params"]],
    )


def is_training() -> bool:
    """Return True unless gradients are off, as they are in an evaluation."""
    return torch.is_grad_enabled()


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    """Return the parameters of all groups."""
    return [each for group in optimizer.param_groups for each in group["params"]]
