"""The tables of docs/frameworks.md: the data of each framework, with the test of it, and the rules that judge it.

`docs/generate.py` writes both. `tests/architecture/test_framework_tables.py` holds each cell to its test, and the rules
to what the evaluator does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trackside.rules.rule import Rule

PYTORCH, XGBOOST, ANY = "PyTorch", "XGBoost 3", "any program"
ON_TORCH, ON_TENSORFLOW, ON_JAX = "Keras on PyTorch", "Keras on TensorFlow", "Keras on JAX"
FRAMEWORKS = (PYTORCH, XGBOOST, ON_TORCH, ON_TENSORFLOW, ON_JAX, ANY)
JUDGED = FRAMEWORKS[:-1]
COMPILED = (ON_TENSORFLOW, ON_JAX)
MORE = ("LightGBM", "CatBoost", "scikit-learn", "MXNet", "JAX")  # docs/more-frameworks.md
INTEROP = (*FRAMEWORKS, *MORE, "MXNet with smdebug's hook")  # read by the original

_TESTS = "tests/training_lib/frameworks"
_ADAPTERS = "tests/training_lib/adapters"
_KERAS, _BOOSTING = f"{_ADAPTERS}/keras", f"{_ADAPTERS}/xgboost/test_adapter.py"
_CONTRACT = "training_lib/src/trackside/testing/adapter_contract.py"


class Cell(NamedTuple):
    """What is captured, and the test of it: `path::name`; for what is not, the reason, without a test."""

    text: str
    test: str = ""


def _contract(adapter: str) -> str:
    return f"{_CONTRACT}::test_saves_what_the_training_used, by {_TESTS}/{adapter}"


_NONE = Cell("there are none")
_PASSED = Cell("as passed", f"{_TESTS}/plain/test_run.py::test_values_of_the_program")
_FIT = f"{_KERAS}/test_adapter.py::test_saves_everything_of_fit"
_SAVED = f"{_KERAS}/test_situations.py::test_saves_weights_gradients_and_outputs"
_SCRIPT = f"{_KERAS}/test_adapter.py::test_needs_no_change_of_the_script"
_LOSSES = f"{_KERAS}/test_situations.py::test_the_training_is_the_same_and_its_losses_are_recorded"
_STATE = f"{_TESTS}/pytorch/optimizers/test_source.py::test_the_state_is_that_after_the_step"
_NORMS = f"{_CONTRACT}::test_records_statistics_of_every_step"
_READ = "tests/smdebug/test_interop_frameworks.py::test_the_original_reads_a_run_of_each_framework"
_HOOK_OF_MXNET = "tests/smdebug/test_mxnet_hook.py::test"
_MODES = f"{_CONTRACT}::test_counts_the_steps_of_each_mode"

TABLE: Mapping[str, tuple[Cell, ...]] = {
    "without a change": (
        Cell("yes", f"{_TESTS}/test_attach.py::test_an_unmodified_script_is_captured_and_computes_the_same"),
        Cell("`train`, `cv`, estimators", f"{_BOOSTING}::test_needs_no_change_of_the_script"),
        Cell("`fit`, loops by hand", _SCRIPT),
        Cell("`fit`, loops by hand", f"{_KERAS}/test_loops_by_hand.py::test_needs_no_change_of_the_script"),
        Cell("`fit`, `train_on_batch`", _SCRIPT),
        Cell("no: it calls `trackside.Run`"),
    ),
    "losses": (
        Cell("every step", _contract("pytorch/test_adapter.py")),
        Cell("every round, each set", f"{_BOOSTING}::test_losses_of_every_round_are_recorded_in_both_modes"),
        Cell("every batch", _LOSSES),
        Cell("every batch, from means", _LOSSES),
        Cell("every batch, from means", _LOSSES),
        _PASSED,
    ),
    "weights": (
        Cell("yes", _contract("pytorch/test_adapter.py")),
        _NONE,
        Cell("yes", _SAVED),
        Cell("at saved steps", _SAVED),
        Cell("at saved steps", _SAVED),
        Cell("as passed", f"{_TESTS}/plain/test_run.py::test_names_say_what_is_a_weight"),
    ),
    "gradients": (
        Cell("yes", _contract("pytorch/test_adapter.py")),
        _NONE,
        Cell("yes", _SAVED),
        Cell("at saved steps", f"{_KERAS}/test_loops_by_hand.py::test_saves_what_each_step_used"),
        Cell("at saved steps", f"{_KERAS}/test_jax_steps.py::test_saved_gradients_are_those_of_jax"),
        Cell("as passed", _contract("plain/test_run.py")),
    ),
    "their norms, every step": (
        Cell("yes", _NORMS),
        _NONE,
        Cell("yes", _NORMS),
        Cell("no: at saved steps"),
        Cell("no: at saved steps"),
        Cell("as passed", _NORMS),
    ),
    "activations": (
        Cell("yes", f"{_TESTS}/pytorch/modules/test_roles.py::test_only_what_is_asked_for_is_saved"),
        _NONE,
        Cell("yes", _FIT),
        Cell("at saved steps", _SAVED),
        Cell("at saved steps", _SAVED),
        _PASSED,
    ),
    "optimizer's variables": (
        Cell("yes", _STATE),
        _NONE,
        Cell("yes", _FIT),
        Cell("at saved steps", _FIT),
        Cell("at saved steps", _FIT),
        _PASSED,
    ),
    "modes": (
        Cell("yes", _MODES),
        Cell("sets as EVAL", f"{_BOOSTING}::test_losses_of_every_round_are_recorded_in_both_modes"),
        Cell("yes", _MODES),
        Cell("yes", _MODES),
        Cell("yes", _MODES),
        Cell("as set", _MODES),
    ),
    "several workers": (
        Cell(
            "DDP, FSDP",
            f"{_TESTS}/situations/test_distributed.py"
            "::test_torchrun_ddp_records_reduced_gradients_on_every_rank_and_changes_no_bit",
        ),
        Cell(
            "each of `xgboost.collective`",
            f"{_ADAPTERS}/xgboost/test_workers.py::test_each_worker_is_recorded_and_the_model_is_the_same",
        ),
        Cell("no"),
        Cell("`MirroredStrategy`", f"{_KERAS}/test_situations.py::test_replicas_of_mirrored_strategy"),
        Cell("no"),
        Cell("no test: RANK, WORLD_SIZE"),
    ),
    "profiling": (
        Cell(
            "phases, waits, machine, operators and functions of some steps",
            "tests/training_lib/speed/pytorch/test_timing.py::test_phases_and_rest_are_the_whole_step",
        ),
        Cell(
            "machine, functions of some rounds",
            f"{_ADAPTERS}/xgboost/test_adapter.py::test_profiles_the_python_functions_of_the_requested_rounds",
        ),
        Cell(
            "machine, functions of some batches",
            f"{_KERAS}/test_operators.py::test_the_functions_of_the_requested_steps",
        ),
        Cell(
            "machine, operators and functions of some batches",
            f"{_KERAS}/test_operators.py::test_the_operators_of_the_requested_steps",
        ),
        Cell(
            "machine, functions of some batches",
            f"{_KERAS}/test_operators.py::test_the_functions_of_the_requested_steps",
        ),
        Cell(
            "machine, by `trackside run`; functions of some steps",
            f"{_CONTRACT}::test_profiles_the_python_functions_of_the_requested_steps, by {_TESTS}/plain/test_run.py",
        ),
    ),
    "read by smdebug 1.0.34": tuple(Cell("yes", _READ) for _ in FRAMEWORKS),
}

_LIGHT, _CAT, _SKLEARN = (
    f"{_ADAPTERS}/{name}.py" for name in ("lightgbm/test_adapter", "catboost/test_adapter", "sklearn/test_adapters")
)
_MXNET, _JAX = f"{_ADAPTERS}/mxnet/test_adapter.py", f"{_ADAPTERS}/jax/test_run.py"
_LIGHT_LOSS = f"{_LIGHT}::test_records_what_lightgbm_computes_and_changes_nothing"
_CAT_LOSS = f"{_CAT}::test_records_what_catboost_computes_and_changes_nothing"
_SKLEARN_LOSS = f"{_SKLEARN}::test_records_what_the_estimator_keeps_and_changes_nothing"
_MXNET_STEP = f"{_MXNET}::test_saves_what_mxnet_computes_and_changes_nothing"
_JAX_STEP = f"{_CONTRACT}::test_saves_what_the_training_used, by {_JAX}"
_ROUNDS = "no test: machine, functions of some rounds, by the code that XGBoost has"

# The same rows of the others, in the order of `MORE`; importances take the place of weights in boosting.
MORE_TABLE: Mapping[str, tuple[Cell, ...]] = {
    "without a change": (
        Cell("`train`, `cv`, estimators", _LIGHT_LOSS),
        Cell("`fit`, `train`", _CAT_LOSS),
        Cell("`fit`, `partial_fit`", _SKLEARN_LOSS),
        Cell("each update of a `gluon.Trainer`", _MXNET_STEP),
        Cell("no: it calls `trackside.JaxRun`"),
    ),
    "losses": (
        Cell("every round, each set", _LIGHT_LOSS),
        Cell("every round, each set", _CAT_LOSS),
        Cell("those that the estimator keeps", _SKLEARN_LOSS),
        Cell("every update", _MXNET_STEP),
        Cell("as passed", f"{_JAX}::test_gradients_are_due_at_few_steps_and_losses_at_every_one"),
    ),
    "weights": (
        _NONE,
        _NONE,
        Cell("no: an epoch is the smallest step that it shows"),
        Cell("yes", _MXNET_STEP),
        Cell("as passed", _JAX_STEP),
    ),
    "importances": (
        Cell("due rounds", f"{_LIGHT}::test_saves_settings_and_importances"),
        Cell("last round", f"{_CAT}::test_saves_settings_and_importances_with_the_last_round"),
        Cell("last round of `GradientBoosting*`", f"{_SKLEARN}::test_saves_validation_scores_settings_and_importances"),
        _NONE,
        _NONE,
    ),
    "gradients": (_NONE, _NONE, Cell("no: as weights"), Cell("yes", _MXNET_STEP), Cell("as passed", _JAX_STEP)),
    "their norms, every step": (
        _NONE,
        _NONE,
        Cell("no: as weights"),
        Cell("no: at saved steps"),
        Cell("where they are passed", f"{_CONTRACT}::test_records_statistics_of_every_step, by {_JAX}"),
    ),
    "activations": (
        _NONE,
        _NONE,
        Cell("no: as weights"),
        Cell(
            "with `smdebug.mxnet.Hook`; of a hybridized network the outermost",
            f"{_HOOK_OF_MXNET}_what_collections_save",
        ),
        Cell("no: nothing is put into a compiled function"),
    ),
    "optimizer's variables": (
        _NONE,
        _NONE,
        Cell("no: as weights"),
        Cell("no"),
        Cell("no: a program passes them with `tensor`"),
    ),
    "modes": (
        Cell("sets as EVAL", _LIGHT_LOSS),
        Cell("sets as EVAL", _CAT_LOSS),
        Cell("validation scores as EVAL", _SKLEARN_LOSS),
        Cell("with `smdebug.mxnet.Hook`", f"{_HOOK_OF_MXNET}_modes_have_schedules_of_their_own"),
        Cell("as set", f"{_CONTRACT}::test_counts_the_steps_of_each_mode, by {_JAX}"),
    ),
    "several workers": (Cell("no"), Cell("no"), _NONE, Cell("no"), Cell("no")),
    "profiling": (
        Cell(_ROUNDS),
        Cell(_ROUNDS),
        Cell(_ROUNDS),
        Cell(
            "machine, operators and functions of some updates",
            f"{_ADAPTERS}/mxnet/test_operators.py::test_the_operators_of_the_requested_steps",
        ),
        Cell(
            "machine; functions of some steps",
            f"{_CONTRACT}::test_profiles_the_python_functions_of_the_requested_steps, by {_JAX}",
        ),
    ),
    "read by smdebug 1.0.34": tuple(Cell("yes", _READ) for _ in MORE),
}

# Rules that judge less than `Rule.is_of_networks` and `Rule.only_of` let them: (rule, framework) to the reason.
OF_NETWORKS = "no layers"
OF_TREES = "no trees"
_NOT_AT_HAND = "weights of compiled steps are not at hand"
_OF_BATCHES = "rows of compiled steps are not at hand"
# Rules with `Rule.only_of`: the reason for XGBoost, and for Keras; "" where it has what they read.
REASONS: Mapping[str, tuple[str, str]] = {
    "data-starvation": ("rounds are not timed", ""),
    "hidden-loss": (OF_NETWORKS, "it logs the loss itself"),
    "label-mask": (OF_NETWORKS, _OF_BATCHES),
    "untrained-tokens": (OF_NETWORKS, _OF_BATCHES),
    "mixed-documents": (OF_NETWORKS, "attention is not read"),
    "uneven-accumulation": (OF_NETWORKS, "one call computes gradients and updates"),
    "adapter-settings": (OF_NETWORKS, "it has no adapters of PEFT"),
    "length-preference": (OF_NETWORKS, _OF_BATCHES),
    "dataloader": ("no loader", "it has no workers to count: they are the data set's own"),
    "evaluation-on-training-data": ("", _OF_BATCHES),
    "gradients-not-cleared": (OF_NETWORKS, "each step has gradients of its own"),
    "incomplete-checkpoint": ("a saved model is whole", "saved files are not looked into"),
    "lost-updates": (OF_NETWORKS, "mixed precision keeps weights in float32"),
    "passes-without-step": (OF_NETWORKS, "one call computes gradients and updates"),
    "random-evaluation": (OF_NETWORKS, "`evaluate` and `predict` switch dropout off"),
    "repeated-data": ("each round has all rows", _OF_BATCHES),
    "runaway-updates": (OF_NETWORKS, ""),
    "dwarfed-loss-term": (OF_NETWORKS, "the terms of a loss are not read"),
    "unlike-gradients": (OF_NETWORKS, "gradients before they are averaged are not read"),
    "growing-attention": (OF_NETWORKS, "attention is not read"),
    "mixed-samples": (OF_NETWORKS, "Keras's layers take the batch along the first axis"),
    "large-epsilon": (OF_NETWORKS, "an optimizer's epsilon is not read"),
    "long-momentum": (OF_NETWORKS, "an optimizer's momentum is not read"),
    "one-batch-epochs": (OF_NETWORKS, "batches are not counted by their pass"),
    "noisy-labels": (OF_NETWORKS, "dropouts, which make a training loss higher, are not read"),
    "contradictory-settings": (OF_NETWORKS, "Keras refuses words that an optimizer does not know"),
    "strong-dropout": (OF_NETWORKS, "Keras names the share to drop `rate`; dropouts are not read"),
    "outside-autocast": (OF_NETWORKS, "mixed precision is a policy of each layer"),
    "schedule-out-of-step": (OF_NETWORKS, "Keras steps schedules itself, once per update"),
    "stale-statistics": (OF_NETWORKS, "moving means of layers are not read"),
    "stalled-step": ("rounds are not timed", "stacks are sampled in requested profiles alone"),
    "step-outlier": ("rounds are not timed", ""),
    "steps-without-gradients": (OF_NETWORKS, "Keras refuses an update without gradients"),
    "straggler-rank": ("rounds are not timed", "replicas share one process"),
    "unsplit-trees": ("", OF_TREES),
    "unsuitable-objective": ("", OF_TREES),
    "weights-set-back": (OF_NETWORKS, ""),
    "held-out-inputs": (OF_NETWORKS, _OF_BATCHES),
    "inverted-mask": (OF_NETWORKS, "masks are not read"),
    "drifting-data": (OF_NETWORKS, "data sets are not read"),
    "another-model": (OF_NETWORKS, "models are not followed"),
    "collapsed-views": (OF_NETWORKS, "graphs are not read"),
    "misplaced-targets": (OF_NETWORKS, "graphs are not read"),
    "trained-target": (OF_NETWORKS, "graphs are not read"),
    "flat-function": (OF_NETWORKS, "graphs are not read"),
    "wrong-axis": (OF_NETWORKS, "the graph of a loss is not read"),
}
EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("double-softmax", ON_TENSORFLOW): "no: Keras takes the scores from before the softmax there, and warns",
    ("parameters-not-trained", ON_JAX): "no: a gradient of zeros stands for none",
    **{("data-starvation", framework): "no: the function that trains fetches its batches" for framework in COMPILED},
    **{
        (rule, framework): f"no: {_NOT_AT_HAND}"
        for rule in ("runaway-updates", "weights-set-back")
        for framework in COMPILED
    },
    **{
        (rule, framework): "no: XGBoost's"
        for rule in ("tree-depth", "feature-importance-overweight")
        for framework in JUDGED
        if framework != XGBOOST
    },
    **{(rule, PYTORCH): f"no: {OF_TREES}" for rule in ("unsplit-trees", "unsuitable-objective")},
}
_BY_FACTS = frozenset({"double-softmax", "unsuitable-loss", "wrong-mode"})
_BY_LOSS = frozenset({"losses", "hyperparameters"})


def cell_of(rule: type[Rule], framework: str) -> str:
    """Return "yes", or where and why a rule does not judge, or not each step."""
    if found := EXCEPTIONS.get((rule.rule_id, framework)):
        return found
    if rule.only_of and framework != PYTORCH:
        of_boosting, of_keras = REASONS[rule.rule_id]
        reason = of_boosting if framework == XGBOOST else of_keras
        return f"no: {reason}" if reason else "yes"
    if rule.is_of_networks and framework == XGBOOST:
        return f"no: {OF_NETWORKS}"
    reads_tensors = rule.is_of_networks and rule.rule_id not in _BY_FACTS and not set(rule.watches) <= _BY_LOSS
    return "at saved steps" if reads_tensors and framework in COMPILED else "yes"


def captured_table(
    table: Mapping[str, tuple[Cell, ...]] = TABLE, frameworks: tuple[str, ...] = FRAMEWORKS
) -> list[str]:
    """Return the lines of the table of data, and the list of the tests in it."""
    numbers: dict[str, int] = {}
    rows = []
    for row, cells in table.items():
        shown = [
            each.text + (f" ({numbers.setdefault(each.test, len(numbers) + 1)})" if each.test else "") for each in cells
        ]
        rows.append(f"| {row} | {' | '.join(shown)} |")
    tests = [f"{number}. `{test}`" for test, number in numbers.items()]
    return [f"| | {' | '.join(frameworks)} |", "|---" * (len(frameworks) + 1) + "|", *rows, "", "Tests:", "", *tests]


def rules_table(rules: Mapping[str, type[Rule]]) -> list[str]:
    """Return the lines of the table of rules."""
    rows = [
        f"| [{name}](rules/{name}.md) | {' | '.join(cell_of(rule, framework) for framework in JUDGED)} |"
        for name, rule in rules.items()
    ]
    return [f"| rule | {' | '.join(JUDGED)} |", "|---" * (len(JUDGED) + 1) + "|", *rows]
