"""Numbers of the training of a language model: one name for each, and the names under which tools log it.

Capture and imported logs record them, rules read them. A number that a tool logs under none of these names is not
recorded. docs/fine-tuning.md shows the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trackside.contracts.run.recorded_names import LOGGED

MOST_PARTS = 16  # parts of a reward that are recorded
_EVALUATION = re.compile(r"(?:eval|val|valid|validation|test|held_out|heldout)[/_](.+)")
_TRAINING = re.compile(r"(?:train|training)[/_](.+)")
_PART = re.compile(r"rewards/([^/]+)/mean|reward_part/(.+)")

TOOLS = ("TRL", "verl", "OpenRLHF", "prime-rl", "by hand")


@dataclass(frozen=True)
class LanguageNumber:
    """A number of the training of a language model.

    Attributes:
        name: Its name among ours, as in `trackside.log(kl=0.1)`.
        meaning: What it is, with its unit.
        spellings: Its names by tool. One that begins with `^` is a regular expression.
    """

    name: str
    meaning: str
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def recorded(self) -> str:
        """The name under which a run records it."""
        return LOGGED + self.name


REWARD = LanguageNumber(
    "reward",
    "mean reward of the rollouts of a step",
    {
        "TRL": ("reward", "objective/scores"),
        "verl": ("critic/score/mean", "critic/rewards/mean"),
        "OpenRLHF": ("reward",),
        "prime-rl": ("reward/mean", "reward/all/mean"),
        "by hand": ("mean_reward", "avg_reward", "reward_mean"),
    },
)
REWARD_SPREAD = LanguageNumber(
    "reward_spread",
    "standard deviation of the rewards within a group of answers to one prompt, or of a step",
    {"TRL": ("reward_std",), "prime-rl": ("reward/std", "reward/all/std"), "by hand": ("std_reward",)},
)
HELD_OUT_REWARD = LanguageNumber(
    "held_out_reward",
    "reward, or share of right answers, on prompts that are not trained on, or by a judge that is not trained for",
    {
        "TRL": ("eval_reward",),
        "verl": ("val/test_score/mean", r"^val-core/.+/mean@\d+$", r"^val/test_score/[^/]+$"),
        "OpenRLHF": (r"^eval_.+_pass1$",),
        "prime-rl": (r"^eval/.+/avg@\d+$",),
        "by hand": ("eval/reward", "val_reward", "test_reward", "true_reward", "held_out/reward"),
    },
)
ENTROPY = LanguageNumber(
    "entropy",
    "entropy of the distribution of the next token, mean over trained tokens, in nats",
    {
        "TRL": ("entropy", "objective/entropy", "policy/entropy_avg"),
        "verl": ("actor/entropy", "actor/entropy_loss"),
        "OpenRLHF": ("entropy_loss",),
        "prime-rl": ("entropy/mean", "entropy/all/mean"),
        "by hand": ("mean_entropy", "policy_entropy"),
    },
)
KL = LanguageNumber(
    "kl",
    "divergence from the reference model, mean over tokens or answers, in nats",
    {
        "TRL": ("kl", "objective/kl"),
        "verl": ("actor/kl_loss", "critic/kl", "actor/reward_kl_penalty"),
        "OpenRLHF": ("kl",),
        "by hand": ("mean_kl", "ref_kl", "kl_div"),
    },
)
UPDATE_KL = LanguageNumber(
    "update_kl",
    "divergence of the trained policy from the one that its rollouts were drawn from, in nats",
    {
        "TRL": ("policy/approxkl_avg",),
        "verl": ("actor/ppo_kl",),
        "OpenRLHF": ("ppo_kl",),
        "by hand": ("approx_kl",),
    },
)
CLIPPED_SHARE = LanguageNumber(
    "clipped_share",
    "share of tokens or answers whose ratio of probabilities was clipped, from 0 to 1",
    {
        "TRL": ("clip_ratio/region_mean", "clip_ratio", "policy/clipfrac_avg"),
        "verl": ("actor/pg_clipfrac",),
        "OpenRLHF": ("clip_ratio",),
        "prime-rl": ("is_masked/mean", "is_masked/all/mean"),
        "by hand": ("clip_fraction", "clipfrac", "clip_frac"),
    },
)
SAMPLER_GAP = LanguageNumber(
    "sampler_gap",
    "absolute difference of the log-probabilities of the sampler and of the trainer for the same tokens, in nats",
    {
        "TRL": ("sampling/sampling_logp_difference/mean",),
        "verl": ("rollout_corr/log_ppl_abs_diff", "training/rollout_probs_diff_mean"),
        "by hand": ("logp_difference", "sampling_logp_difference"),
    },
)
SAMPLER_KL = LanguageNumber(
    "sampler_kl",
    "divergence of the sampler from the trainer, in nats",
    {
        "verl": ("rollout_corr/kl", "training/rollout_kl"),
        "prime-rl": ("mismatch_kl/mean", "mismatch_kl/all/mean"),
        "by hand": ("mismatch_kl",),
    },
)
STALENESS = LanguageNumber(
    "staleness",
    "age of the rollouts, in updates since the weights that made them",
    {
        "TRL": ("sample/staleness_mean",),
        "prime-rl": ("off_policy_level/all/mean", "off_policy_level/mean"),
        "by hand": ("rollout_age", "off_policy_steps"),
    },
)
ANSWER_LENGTH = LanguageNumber(
    "answer_length",
    "mean length of the answers, in tokens",
    {
        "TRL": ("completions/mean_length", "completion_length"),
        "verl": ("response_length/mean",),
        "OpenRLHF": ("response_length",),
        "prime-rl": ("seq_len/mean", "seq_len/all/mean"),
        "by hand": ("mean_length", "answer_length", "completion_len", "gen_length"),
    },
)
CUT_SHARE = LanguageNumber(
    "cut_share",
    "share of the answers that were cut off at the longest length allowed, from 0 to 1",
    {
        "TRL": ("completions/clipped_ratio", "completions/truncated_fraction"),
        "verl": ("response_length/clip_ratio",),
        "OpenRLHF": ("truncated",),
        "prime-rl": ("is_truncated/mean", "is_truncated/all/mean"),
        "by hand": ("truncated_share", "clipped_ratio", "truncation_rate"),
    },
)
EQUAL_GROUPS = LanguageNumber(
    "equal_groups",
    "share of the groups whose answers all got the same reward, from 0 to 1",
    {"TRL": ("frac_reward_zero_std",), "by hand": ("zero_std_share", "flat_group_fraction")},
)
SOLVED_GROUPS = LanguageNumber(
    "solved_groups",
    "share of the groups whose answers all got the highest reward of the run so far, from 0 to 1",
    {"prime-rl": ("solve_all/mean", "solve_all/all", "solve_all")},
)
UNSOLVED_GROUPS = LanguageNumber(
    "unsolved_groups",
    "share of the groups whose answers all got the lowest reward of the run so far, from 0 to 1",
    {"prime-rl": ("solve_none/mean", "solve_none/all", "solve_none")},
)
LARGEST_GAP = LanguageNumber(
    "largest_sampler_gap",
    "largest difference of the log-probabilities of the sampler and of the trainer for a token of a step, in nats",
    {
        "TRL": ("sampling/sampling_logp_difference/max",),
        "verl": ("training/rollout_probs_diff_max",),
        "by hand": ("max_logp_difference",),
    },
)
REPEATED_SHARE = LanguageNumber(
    "repeated_share",
    "share of the sequences of four words of an answer that stand earlier in it, from 0 to 1",
    {"by hand": ("repetition", "repetition_rate", "rep_4")},
)
ORDERED_SHARE = LanguageNumber(
    "ordered_share",
    "share of the pairs whose chosen answer has the higher implicit reward, from 0 to 1",
    {"TRL": ("rewards/accuracies",), "OpenRLHF": ("acc",), "by hand": ("preference_accuracy",)},
)
MARGIN = LanguageNumber(
    "preference_margin",
    "implicit reward of the chosen answers less that of the rejected ones",
    {"TRL": ("rewards/margins",), "by hand": ("reward_margin", "margin")},
)
CHOSEN_LOGP = LanguageNumber(
    "chosen_logp",
    "log-probability of the chosen answers, in nats",
    {"TRL": ("logps/chosen",), "by hand": ("chosen_logps",)},
)
REJECTED_LOGP = LanguageNumber(
    "rejected_logp",
    "log-probability of the rejected answers, in nats",
    {"TRL": ("logps/rejected",), "by hand": ("rejected_logps",)},
)
SHOWN_LOSS = LanguageNumber("shown_loss", "the loss that the trainer logs", {"TRL": ("loss",)})

_SHOWN = (  # recorded for readers of a run; no rule asks for them
    LanguageNumber(
        "distinct_share",
        "share of the answers to one prompt that are not copies of one another, from 0 to 1",
        {"by hand": ("distinct", "unique_share", "diversity")},
    ),
    LanguageNumber(
        "largest_ratio",
        "largest ratio of the probabilities of a token in the trained policy and in the sampler",
        {"TRL": ("sampling/importance_sampling_ratio/max",), "by hand": ("max_ratio", "ratio_max")},
    ),
    LanguageNumber(
        "never_solved",
        "share of the prompts with answers at two steps or more of which none got the highest reward, from 0 to 1",
        {},
    ),
    LanguageNumber(
        "chosen_reward",
        "implicit reward of the chosen answers",
        {"TRL": ("rewards/chosen",), "OpenRLHF": ("chosen_reward",)},
    ),
    LanguageNumber(
        "rejected_reward",
        "implicit reward of the rejected answers",
        {"TRL": ("rewards/rejected",), "OpenRLHF": ("reject_reward",)},
    ),
)

LANGUAGE_NUMBERS = (*[each for each in list(globals().values()) if isinstance(each, LanguageNumber)], *_SHOWN)
OF_TRAINERS = frozenset({SHOWN_LOSS.name})  # known only of a trainer's own log
PART = f"{REWARD.name}/"  # how the names of a reward's parts begin

_EXACT: dict[str, str] = {}
_PATTERNS: list[tuple[re.Pattern[str], str]] = []
for _number in LANGUAGE_NUMBERS:
    if _number.name not in OF_TRAINERS:
        _EXACT[_number.name] = _number.name
    for _spelling in [one for own in _number.spellings.values() for one in own]:
        if _spelling.startswith("^"):
            _PATTERNS.append((re.compile(_spelling), _number.name))
        else:
            _EXACT.setdefault(_spelling, _number.name)


def name_of(logged: str, *, is_of_trainer: bool = False) -> str | None:
    """Return our name of a number that a tool logs; None for a number without one.

    Args:
        logged: The tool's name: `completions/mean_length`, `train/reward`, `eval_reward`.
        is_of_trainer: It stands in the log of a trainer, where `loss` is the training loss.
    """
    found = _EXACT.get(logged)
    if found is not None:
        return found if is_of_trainer or found not in OF_TRAINERS else None
    if part := _PART.fullmatch(logged):
        return PART + (part[1] or part[2])
    for pattern, name in _PATTERNS:
        if pattern.fullmatch(logged):
            return name
    if inner := _TRAINING.fullmatch(logged):
        return name_of(inner[1], is_of_trainer=is_of_trainer)
    if (inner := _EVALUATION.fullmatch(logged)) and _EXACT.get(inner[1]) == REWARD.name:
        return HELD_OUT_REWARD.name
    return None


def names_of(logged: Iterable[str], *, is_of_trainer: bool = False) -> dict[str, str]:
    """Return our name by the tool's, of the numbers that have one; of two with one name the first counts.

    Args:
        logged: The tool's names, in their order.
        is_of_trainer: As in `name_of`.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for each in logged:
        name = name_of(each, is_of_trainer=is_of_trainer)
        if name is None or name in taken:
            continue
        if name.startswith(PART) and sum(one.startswith(PART) for one in taken) >= MOST_PARTS:
            continue
        taken.add(name)
        found[each] = name
    return found
