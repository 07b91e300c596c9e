"""The report's section on the fine-tuning of a language model: each number that was logged, over steps.

Rewards stand first, then the policy, its answers and its groups, so that one cursor shows what moved with what.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackside.contracts.run.language_numbers import PART, SHOWN_LOSS
from trackside.contracts.run.recorded_names import (
    CHOSEN_LENGTH,
    LABELLED_PROMPTS,
    LABELLED_TOKENS,
    LOGGED,
    LONGER_CHOSEN,
    REJECTED_LENGTH,
    ROWS_CUT,
    TOKEN_WEIGHTS,
    UNLABELLED_ROWS,
)
from trackside.trial.tensors.buckets import Buckets, BucketSums, edges_of
from trackside.trial.trial import Trial
from trackside.views.report.charts.line_chart import MOST_BUCKETS

TITLES = {
    "reward": "Reward",
    "held_out_reward": "Held-out reward",
    "reward_spread": "Spread of rewards within a group",
    "kl": "Divergence from the reference, in nats",
    "update_kl": "Divergence of an update, in nats",
    "entropy": "Entropy of the next token, in nats",
    "clipped_share": "Clipped ratios, share",
    "sampler_gap": "Difference between sampler and trainer, in nats",
    "largest_sampler_gap": "Largest difference between sampler and trainer, in nats",
    "largest_ratio": "Largest ratio of probabilities of sampler and trainer",
    "sampler_kl": "Divergence of the sampler, in nats",
    "staleness": "Age of the rollouts, in updates",
    "answer_length": "Length of the answers, in tokens",
    "cut_share": "Answers cut off, share",
    "distinct_share": "Different answers to a prompt, share",
    "equal_groups": "Groups with equal rewards, share",
    "solved_groups": "Groups with the highest reward in each answer, share",
    "unsolved_groups": "Groups with the lowest reward in each answer, share",
    "never_solved": "Prompts that were never solved, share",
    "repeated_share": "Repeated words in an answer, share",
    "preference_margin": "Margin between chosen and rejected answers",
    "ordered_share": "Pairs in the right order, share",
    "chosen_logp": "Log-probability of the chosen answers, in nats",
    "rejected_logp": "Log-probability of the rejected answers, in nats",
    "chosen_reward": "Implicit reward of the chosen answers",
    "rejected_reward": "Implicit reward of the rejected answers",
    "shown_loss": "Loss that the trainer logs",
}
OF_BATCHES = {  # what the run sees itself, by the name that it is recorded under
    LABELLED_TOKENS: "Tokens with a label, share",
    LABELLED_PROMPTS: "Rows with a label on their first token, share",
    UNLABELLED_ROWS: "Rows without a label, share",
    ROWS_CUT: "Rows cut off, share",
    TOKEN_WEIGHTS: "Largest weight of a token in a step over the smallest",
    CHOSEN_LENGTH: "Length of the chosen answers, in tokens",
    REJECTED_LENGTH: "Length of the rejected answers, in tokens",
    LONGER_CHOSEN: "Pairs with the longer answer chosen, share",
}
SHARES = frozenset(title for title in (*TITLES.values(), *OF_BATCHES.values()) if title.endswith(", share"))


def fine_tuning_curves(trial: Trial, steps: tuple[int, int]) -> tuple[tuple[str, Buckets], ...]:
    """Return title and numbers of each logged number over these training steps; () where only a loss was logged.

    Args:
        trial: The run.
        steps: First and last step to show.
    """
    titles = dict(_titled(trial))
    if not titles.keys() - {SHOWN_LOSS.recorded}:
        return ()
    edges = edges_of(*steps, MOST_BUCKETS)
    sums: dict[str, BucketSums] = {}
    first_worker = ""
    names, last = list(titles), trial.recorded_through
    for worker, numbers in trial.parts.columns.pieces(names, "mean", first=0, last=last, mode="TRAIN"):
        first_worker = first_worker or worker
        for name, (at, values) in numbers.items() if worker == first_worker else ():
            sums.setdefault(name, BucketSums(edges)).add(trial.parts.steps.training_numbers(at), values)
    drawn = {name: sums[name].buckets() for name in titles if name in sums}
    return tuple((titles[name], buckets) for name, buckets in drawn.items() if len(buckets.first))


def _titled(trial: Trial) -> Iterator[tuple[str, str]]:
    """Yield the recorded name and the title of each number, in the order of the section."""
    recorded = set(trial.names)
    yield from ((name, title) for name, title in OF_BATCHES.items() if name in recorded)
    for name, title in TITLES.items():
        if LOGGED + name in recorded:
            yield LOGGED + name, title
        if name == "reward":
            parts = sorted(each for each in recorded if each.startswith(LOGGED + PART))
            yield from ((each, f"Part of the reward: {each.removeprefix(LOGGED + PART)}") for each in parts)
