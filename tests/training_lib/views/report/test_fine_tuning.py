"""The section on a fine-tuning: each logged number over training steps, in one order; nothing where none was logged."""

from __future__ import annotations

from tests.training_lib.views.report.recorded import recorded_trial
from trackside.contracts.run.language_numbers import LANGUAGE_NUMBERS
from trackside.contracts.run.recorded_names import LOGGED
from trackside.views.report.fine_tuning import SHARES, TITLES, fine_tuning_curves

STEPS = {step: step / 10 for step in range(10)}


def test_rewards_stand_first_and_parts_beside_them() -> None:
    names = ("kl", "unsolved_groups", "reward/format", "reward", "held_out_reward", "solved_groups", "shown_loss")
    trial = recorded_trial({LOGGED + name: {"mean": STEPS} for name in names})
    found = dict(fine_tuning_curves(trial, (0, 9)))
    assert list(found) == [
        "Reward",
        "Part of the reward: format",
        "Held-out reward",
        "Divergence from the reference, in nats",
        "Groups with the highest reward in each answer, share",
        "Groups with the lowest reward in each answer, share",
        "Loss that the trainer logs",
    ]
    assert found["Reward"].mean.tolist() == list(STEPS.values())


def test_a_loss_alone_is_no_fine_tuning() -> None:
    assert fine_tuning_curves(recorded_trial({LOGGED + "shown_loss": {"mean": STEPS}}), (0, 9)) == ()


def test_each_number_has_a_title() -> None:
    assert {number.name for number in LANGUAGE_NUMBERS} == set(TITLES)
    assert len(set(TITLES.values())) == len(TITLES)
    assert len(SHARES) == 14
