"""mixed-samples: the output for one sample of a batch depends on the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModuleFacts
from trackside.contracts.observations import CARRIED_STATE, JOINED_SAMPLES, MIXES_SAMPLES, ROWS_BY_PLACE, SEQUENCE
from trackside.contracts.verdict import Finding
from trackside.rules.of_facts import LossRule
from trackside.trial.window import Window

_SOFTMAX, _SEQUENCE = "samples of a batch under one softmax", "samples of a batch that are read as one sequence"
_STATE = "samples of a batch that begin with the state of others"
_JOINED = {
    "view": "samples of a batch whose values a view puts together",
    "softmax": "samples of a batch under a softmax on the way",
    "norm": "samples of a batch that are divided by a norm over all of them",
}
_PLACES = "samples of a batch with a vector added by their place in it"


@dataclass(frozen=True)
class MixedSamples(LossRule):
    """An axis is mixed up: the output for one sample of a batch depends on the others.

    Why it matters:
        A softmax, a recurrent layer or attention works along one axis of a tensor. Along the axis of the batch it
        fits, too, and nothing is raised. In training the model learns from what its neighbours in the batch happen to
        be; given one sample alone, it says nothing useful.

    How it decides:
        With the hook's facts about the losses, and about the inputs of modules:

        1. A softmax: the class probabilities that `NLLLoss` was given come from a softmax along the first axis, over
           the n samples of a batch. A square of scores is left out: pairs in a batch may well be scored both ways.
        2. A sequence: a layer of `torch.nn` without `batch_first` was given n x k vectors, which it reads as k
           sequences of n steps, and the loss was given n predictions, with n unequal to k and no second axis of size k.
           So the n steps are the samples.
        3. Positions: before a module, a vector was added to each of n rows, the same at all places of a sequence and
           another for each row, at three calls with other rows. The rows are known to be the samples by `batch_first`,
           or by the DataLoader's batches. A condition that a sample brings along goes with it to another row.
        4. A view, a softmax or a norm on the way to the loss of n predictions: an axis of n at the second place becomes
           the first without a transposition (`h_n.view(n, -1)`), or a softmax or norm runs along the first axis of n
           rows. Programs with operations between rows, as in graphs, are left alone.
        5. A state: a GRU or LSTM begins with a state of its own kind that has no gradient, at three watched calls,
           while a DataLoader shuffles: it is that of other sequences.

        One batch that holds a single sequence (k = 1) is silent, and so is a loss that the framework does not know, for
        the number of its predictions is unknown. Normalisation of batches mixes samples on purpose and is none of this.

    Example:
        ```python
        from trackside.contracts.model_facts import LossFacts, ModuleFacts
        from trackside.contracts.observations import SEQUENCE
        from trackside.rules.data.mixed_samples import reads_samples

        lstm = ModuleFacts("Net_lstm", "LSTM", observed={SEQUENCE: (32, 10)})  # 32 steps of 10 sequences
        assert reads_samples(lstm, LossFacts("CrossEntropyLoss_output_0", input_shape=(32, 4)))
        assert not reads_samples(lstm, LossFacts("CrossEntropyLoss_output_0", input_shape=(10, 4)))
        ```

    References:
        - PyTorch, `torch.nn.LSTM` and `torch.nn.MultiheadAttention`: `batch_first`.
        - Humbatova et al., Taxonomy of real faults in deep learning systems (ICSE 2020): wrong shapes and axes.
    """

    rule_id = "mixed-samples"
    code = "TS221"
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses",)
    needs = ()
    paced = True
    since = "0.1"
    likely_causes = (Cause.MIXED_SAMPLES,)
    shows_its_cause = True
    what_to_do = (
        "Give the axis: log_softmax(scores, dim=1), batch_first=True.",
        "Turn axes before a view: h_n.transpose(0, 1).reshape(batch, -1); begin each batch with a state of zeros.",
        "Take positions along the axis of the sequence: x + table[:, : x.size(1)] where the batch comes first.",
        "Compare the model's output for one sample alone with that for the same sample in a batch.",
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per loss and per layer that mixes samples."""
        facts = window.facts
        if facts is None:
            return []
        softmaxes = [
            (_SOFTMAX, loss.name, loss.line, loss.input_shape) for loss in facts.losses if MIXES_SAMPLES.of(loss)
        ]
        layers = [
            (_SEQUENCE, module.name, module.line, SEQUENCE.of(module))
            for module in facts.modules
            if any(reads_samples(module, loss) for loss in facts.losses)
        ]
        places: list[tuple[str, str, str, tuple[int, ...]]] = [
            (_PLACES, module.name, module.line, (rows,))
            for module in facts.modules
            if (rows := ROWS_BY_PLACE.of(module))
        ]
        places += [(_STATE, module.name, module.line, ()) for module in facts.modules if CARRIED_STATE.of(module)]
        joined = [
            (_JOINED[kind], loss.name, loss.line, loss.input_shape)
            for loss in facts.losses
            if (kind := JOINED_SAMPLES.of(loss)) in _JOINED and not MIXES_SAMPLES.of(loss)
        ]
        return [
            Finding(
                subject=name,
                step=window.step,
                since_step=min(facts.from_step, window.step),
                measure=measure,
                observed=float(max(shape[0] if shape else 0, 2)),  # of facts without a shape: at least two
                relation=">",
                threshold=1.0,
                place=line,
            )
            for measure, name, line, shape in (*softmaxes, *layers, *joined, *places)
        ]

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what runs over the samples."""
        lead = findings[0]
        if lead.measure == _SOFTMAX:
            return f"The softmax before {lead.subject} is taken over the {lead.observed:.0f} samples of a batch."
        if lead.measure == _STATE:
            return (
                f"{lead.subject} begins each batch with the state in which it left another one, and rows are shuffled."
            )
        if lead.measure in _JOINED.values():
            return f"Before {lead.subject} an operation along the first axis joins the samples of a batch."
        if lead.measure == _PLACES:
            return f"Before {lead.subject} each of {lead.observed:.0f} samples gets a vector by its place in the batch."
        return f"{lead.subject} reads the {lead.observed:.0f} samples of a batch as one sequence."


def reads_samples(module: ModuleFacts, loss: LossFacts) -> bool:
    """Return True if a layer reads the samples of which a loss has predictions as the steps of a sequence."""
    if len(SEQUENCE.of(module)) != 2 or not loss.input_shape:
        return False
    steps, sequences = SEQUENCE.of(module)
    is_of_steps = loss.input_shape[0] == steps and sequences not in loss.input_shape[1:2]
    return is_of_steps and 1 < sequences != steps > 1
