"""Names under which tools log the numbers of a language model's training, and ours."""

from __future__ import annotations

from trackside.contracts.run.language_numbers import (
    LANGUAGE_NUMBERS,
    MOST_PARTS,
    OF_TRAINERS,
    TOOLS,
    name_of,
    names_of,
)

NAMED = {
    "reward": "reward",
    "train/reward": "reward",
    "critic/score/mean": "reward",
    "reward/all/mean": "reward",
    "eval_reward": "held_out_reward",
    "eval/reward": "held_out_reward",
    "val-core/openai/gsm8k/acc/mean@1": "held_out_reward",
    "rewards/accuracy/mean": "reward/accuracy",
    "rewards/margins": "preference_margin",
    "completions/clipped_ratio": "cut_share",
    "is_truncated/all/mean": "cut_share",
    "frac_reward_zero_std": "equal_groups",
    "actor/ppo_kl": "update_kl",
    "mismatch_kl/mean": "sampler_kl",
    "logps/chosen": "chosen_logp",
    "off_policy_level/all/mean": "staleness",
}
UNNAMED = ("loss", "epoch", "step", "num_tokens", "eval_loss", "eval_kl", "rewards/accuracy/std", "reward_function", "")


def test_each_number_is_declared_once_with_a_meaning() -> None:
    names = [number.name for number in LANGUAGE_NUMBERS]
    assert len(set(names)) == len(names)
    assert all(number.meaning and set(number.spellings) <= set(TOOLS) for number in LANGUAGE_NUMBERS)


def test_names_of_tools_become_ours() -> None:
    assert {logged: name_of(logged) for logged in NAMED} == NAMED


def test_our_own_names_are_names() -> None:
    ours = [number.name for number in LANGUAGE_NUMBERS if number.name not in OF_TRAINERS]
    assert [name_of(name) for name in ours] == ours


def test_other_numbers_have_no_name() -> None:
    assert [logged for logged in UNNAMED if name_of(logged) is not None] == []


def test_a_loss_is_known_of_a_trainer_only() -> None:
    assert name_of("loss", is_of_trainer=True) == "shown_loss"


def test_of_two_with_one_name_the_first_counts() -> None:
    assert names_of(["critic/score/mean", "critic/rewards/mean"]) == {"critic/score/mean": "reward"}


def test_the_parts_of_a_reward_are_bounded() -> None:
    assert len(names_of(f"rewards/part_{k}/mean" for k in range(99))) == MOST_PARTS
