"""Plays scripts for PyTorch hooks under the real smdebug or the drop-in, and returns what `create_trial` then finds.

`python stand_ins.py scenario_player.py ORDER ANSWER`: ORDER has a `folder` to work in, `torch`, the folder to import
PyTorch from where the interpreter has none, and `scenarios`. A scenario is plain data (see `random_scenarios.py`), so
that both packages carry out the same script, many in one process.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCH, WIDTH, CLASSES = 4, 3, 2


class Script:
    """One training script: its hooks, models, losses and optimizers are made as a user's would be."""

    def __init__(self, scenario: dict[str, Any], folder: Path) -> None:
        import smdebug.pytorch as smd
        import torch

        self.scenario, self.folder, self.smd, self.torch = scenario, folder, smd, torch
        self.runs: list[Path] = []
        self.trainings: list[Training] = []
        torch.manual_seed(scenario.get("seed", 0))
        self.data = torch.Generator().manual_seed(scenario.get("seed", 0) + 1)

    def play(self) -> dict[str, Any]:
        raised = ""
        try:
            for word, *given in self.scenario["events"]:
                getattr(self, word)(*given)
        except Exception as error:  # noqa: BLE001 - what ends the script is its answer
            raised = f"{type(error).__name__}: {error}"
        for training in self.trainings:
            try:
                training.hook.close()
            except Exception as error:  # noqa: BLE001 - as above
                raised = raised or f"{type(error).__name__}: {error}"
        self.smd.del_hook()
        is_off = forget_errors()
        return {"raised": raised, "is_off": is_off, "runs": [content(run) for run in dict.fromkeys(self.runs)]}

    # The lines of the script.

    def start(self, run: str = "run", **other: Any) -> None:
        """Make a hook, a model, a loss and an optimizer. `other` replaces settings of the scenario."""
        self.smd.del_hook()
        self.runs.append(self.folder / run)
        self.trainings.append(Training(self, str(self.folder / run), {**self.scenario, **other}))

    def mode(self, name: str, which: int = -1) -> None:
        self.trainings[which].hook.set_mode(self.smd.modes[name])

    def train(self, steps: int, which: int = -1) -> None:
        for _ in range(steps):
            self.trainings[which].step()

    def evaluate(self, batches: int, which: int = -1) -> None:
        self.trainings[which].evaluate(batches)

    def forward(self, batches: int, which: int = -1) -> None:
        """Call the model in training mode, and do nothing with what it gives."""
        for _ in range(batches):
            self.trainings[which].forward()

    def scalar(self, name: str, value: float, which: int = -1, **given: Any) -> None:
        self.trainings[which].hook.save_scalar(name, value, **given)

    def tensor(self, name: str, collections: Any = "default", which: int = -1) -> None:
        value = self.torch.arange(3.0) + len(name)
        self.trainings[which].hook.save_tensor(name, value, collections_to_write=collections)

    def close(self, which: int = -1) -> None:
        self.trainings[which].hook.close()

    def remove(self, run: str = "run") -> None:
        shutil.rmtree(self.folder / run, ignore_errors=True)

    def fail(self) -> None:
        raise RuntimeError("the script's own error")


class Training:
    """A model under a hook."""

    def __init__(self, script: Script, run: str, settings: dict[str, Any]) -> None:
        self.script, self.settings, self.torch = script, settings, script.torch
        smd, nn = script.smd, script.torch.nn
        self.hook = smd.Hook(out_dir=run, **hook_arguments(smd, settings.get("hook", {})))
        for name, regex in settings.get("collections", {}).items():
            self.hook.get_collection(name).include(regex)
        self.model = MODELS[settings.get("model", "named")](nn)
        self.loss = LOSSES[settings.get("loss", "mse")](nn)
        if settings.get("registers_model", True):
            self.hook.register_module(self.model)
        if settings.get("registers_loss", True) and isinstance(self.loss, nn.Module):
            self.hook.register_loss(self.loss)
        self.optimizer = OPTIMIZERS[settings.get("optimizer", "sgd")](self.torch, self.model)

    def batch(self) -> tuple[Any, Any]:
        """Inputs and labels, by the kind of loss."""
        inputs = self.torch.randn(BATCH, WIDTH, generator=self.script.data)
        kind = self.settings.get("loss", "mse")
        if kind in ("cross_entropy", "nll", "function_nll"):
            return inputs, self.torch.randint(CLASSES, (BATCH,), generator=self.script.data)
        return inputs, self.torch.rand(BATCH, CLASSES, generator=self.script.data)

    def forward(self) -> Any:
        inputs, labels = self.batch()
        output = self.model(inputs)
        output = output[0] if isinstance(output, tuple) else output
        return self.loss(output, labels)

    def step(self) -> None:
        settings, optimizer = self.settings, self.optimizer
        if settings.get("optimizer") == "lbfgs":
            inputs, labels = self.batch()

            def closure() -> Any:
                optimizer.zero_grad()
                loss = self.loss(self.model(inputs), labels)
                loss.backward()
                return loss

            optimizer.step(closure)
            return
        clears = settings.get("clears", "before")
        if clears == "before":
            self.model.zero_grad()
        loss = self.forward()
        (loss * settings.get("loss_scale", 1.0)).backward()
        if settings.get("clip"):
            self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings["clip"])
        if optimizer is not None:
            optimizer.step()
        if clears == "after":
            self.model.zero_grad()

    def evaluate(self, batches: int) -> None:
        if self.settings.get("eval_mode", True):
            self.model.eval()
        with self.torch.no_grad():
            for _ in range(batches):
                self.forward()
        self.model.train()


def hook_arguments(smd: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a hook from plain data: a schedule is [interval, start, end, steps], alone or by mode."""

    def schedule(parts: list[Any]) -> Any:
        interval, start, end, steps = parts
        return smd.SaveConfigMode(save_interval=interval, start_step=start, end_step=end, save_steps=steps)

    arguments = dict(given)
    schedules = arguments.pop("schedules", [1, 0, None, None])
    if isinstance(schedules, dict):
        arguments["save_config"] = smd.SaveConfig({smd.modes[mode]: schedule(one) for mode, one in schedules.items()})
    else:
        interval, start, end, steps = schedules
        arguments["save_config"] = smd.SaveConfig(
            save_interval=interval, start_step=start, end_step=end, save_steps=steps
        )
    if "reductions" in arguments:
        arguments["reduction_config"] = smd.ReductionConfig(**arguments.pop("reductions"))
    return arguments


def _named(nn: Any) -> Any:
    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.act, self.fc2 = nn.Linear(WIDTH, 5), nn.ReLU(), nn.Linear(5, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.fc2(self.act(self.fc1(x)))

    return Net()


def _twice(nn: Any) -> Any:
    """A model with a layer that is called twice, and a second output."""

    class Twice(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.mid, self.last = nn.Linear(WIDTH, 4), nn.Linear(4, 4), nn.Linear(4, CLASSES)

        def forward(self, x: Any) -> Any:
            h = self.mid(self.mid(self.first(x)).tanh())
            return self.last(h), h

    return Twice()


def _frozen(nn: Any) -> Any:
    net = _named(nn)
    net.fc1.weight.requires_grad = False
    return net


MODELS: dict[str, Callable[[Any], Any]] = {
    "named": _named,
    "sequential": lambda nn: nn.Sequential(nn.Linear(WIDTH, 4), nn.Tanh(), nn.Linear(4, CLASSES)),
    "normed": lambda nn: nn.Sequential(nn.Linear(WIDTH, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, CLASSES)),
    "dropped": lambda nn: nn.Sequential(nn.Linear(WIDTH, 6), nn.Dropout(0.5), nn.Linear(6, CLASSES)),
    "twice": _twice,
    "frozen": _frozen,
}


def _function_mse(nn: Any) -> Any:
    return nn.functional.mse_loss


def _function_nll(nn: Any) -> Any:
    return lambda output, labels: nn.functional.nll_loss(nn.functional.log_softmax(output, dim=1), labels)


LOSSES: dict[str, Callable[[Any], Any]] = {
    "mse": lambda nn: nn.MSELoss(),
    "l1": lambda nn: nn.L1Loss(),
    "bce": lambda nn: nn.BCEWithLogitsLoss(),
    "cross_entropy": lambda nn: nn.CrossEntropyLoss(),
    "function_mse": _function_mse,
    "function_nll": _function_nll,
}
OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "sgd": lambda torch, model: torch.optim.SGD(_trained(model), lr=0.1),
    "momentum": lambda torch, model: torch.optim.SGD(_trained(model), lr=0.1, momentum=0.9),
    "adam": lambda torch, model: torch.optim.Adam(_trained(model), lr=0.01),
    "adamw": lambda torch, model: torch.optim.AdamW(_trained(model), lr=0.01),
    "head": lambda torch, model: torch.optim.SGD(list(_trained(model))[-2:], lr=0.1),
    "lbfgs": lambda torch, model: torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3),
    "none": lambda torch, model: None,
}


def _trained(model: Any) -> list[Any]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def content(run: Path) -> dict[str, Any]:
    """Steps, tensors and collections of a run; {} if there is none, or its `error` if it cannot be read."""
    try:
        return read(run)
    except Exception as error:  # noqa: BLE001 - the original cannot read every run that it wrote
        return {"error": f"{type(error).__name__}: {error}", "tensors": {}, "collections": {}}


def read(run: Path) -> dict[str, Any]:
    """The same. Raises whatever reading raises."""
    from smdebug import modes
    from smdebug.trials import create_trial

    if not (run / "collections").exists():
        return {}
    trial = create_trial(str(run))
    tensors: dict[str, Any] = {}
    for name in trial.tensor_names():
        tensor = trial.tensor(name)
        tensors[name] = {
            str(step): [*place(trial, step), *(described(tensor, step))]
            for step in tensor.steps(show_incomplete_steps=True)
        }
    return {
        "steps": {mode.name: trial.steps(mode=mode, show_incomplete_steps=True) for mode in modes},
        "tensors": tensors,
        "collections": {
            name: sorted(trial.tensor_names(collection=name))
            for name, each in trial.collections().items()
            if each.include_regex or each.tensor_names
        },
    }


def forget_errors() -> bool:
    """Make the original capture again after an error of its own. Return True if it had switched itself off."""
    try:
        from smdebug.core.error_handling_agent import ErrorHandlingAgent  # type: ignore[import-not-found]

        agent = ErrorHandlingAgent.get_error_handling_agent()
        is_off, agent.disable_smdebug = agent.disable_smdebug, False
    except Exception:  # noqa: BLE001 - the drop-in has none
        return False
    return bool(is_off)


def place(trial: Any, step: int) -> list[Any]:
    mode, mode_step = trial.mode_modestep(step)
    return [mode.name, mode_step]


def described(tensor: Any, step: int) -> list[Any]:
    """The value and the reductions of a tensor at a step."""
    try:
        value = tensor.value(step)
        whole = [str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()[:16]]
    except Exception as error:  # noqa: BLE001 - only its reductions were saved
        whole = [type(error).__name__]
    reductions = tensor.reduction_values(step)
    return [whole, sorted([name, is_abs, float(value)] for (name, is_abs), value in reductions.items())]


if __name__ == "__main__":
    order = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    sys.path.append(order["torch"])
    import torch

    torch.set_num_threads(1)
    for name in ("add_param_group", "zero_grad"):  # else the first optimizer imports the compiler, which takes seconds
        setattr(torch.optim.Optimizer, name, getattr(torch.optim.Optimizer, name).__wrapped__)
    importlib.import_module("smdebug.pytorch.hook")
    gc.freeze()  # what is loaded once need not be walked through for each hook
    answers = []
    for number, scenario in enumerate(order["scenarios"]):
        folder = Path(order["folder"], str(number))
        folder.mkdir(parents=True)
        answers.append(Script(scenario, folder).play())
    Path(sys.argv[2]).write_text(json.dumps(answers), "utf-8")
