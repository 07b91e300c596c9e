"""Reinforcement learning: policies and values that learn from CartPole and Pendulum."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family(
    "reinforcement",
    ("stable-baselines3", "sb3-contrib", "gymnasium", "tianshou"),
    imports=("gymnasium", "sb3_contrib"),
)
CARTPOLE, PENDULUM = "gymnasium's CartPole", "gymnasium's Pendulum"


def _baselines(package: str, algorithm: str, world: str, seed: int, *, steps: int, **settings: Any) -> None:
    import importlib

    chosen = getattr(importlib.import_module(package), algorithm)
    chosen("MlpPolicy", world, seed=seed, device="cpu", **settings).learn(steps)


@FAMILY.program("stable-baselines3", data=CARTPOLE)
def baselines_ppo(seed: int) -> None:
    """PPO with its default settings, on shorter rollouts."""
    _baselines("stable_baselines3", "PPO", "CartPole-v1", seed, steps=1024, n_steps=256)


@FAMILY.program("stable-baselines3", data=CARTPOLE)
def baselines_a2c(seed: int) -> None:
    """A2C with its default settings."""
    _baselines("stable_baselines3", "A2C", "CartPole-v1", seed, steps=1500)


@FAMILY.program("stable-baselines3", data=CARTPOLE)
def baselines_dqn(seed: int) -> None:
    """DQN with its default settings, learning from the hundredth step on."""
    _baselines("stable_baselines3", "DQN", "CartPole-v1", seed, steps=1200, learning_starts=100)


@FAMILY.program("stable-baselines3", data=PENDULUM)
def baselines_sac(seed: int) -> None:
    """SAC with its default settings: two critics, their slow copies, and a learned temperature."""
    _baselines("stable_baselines3", "SAC", "Pendulum-v1", seed, steps=300)


@FAMILY.program("stable-baselines3", data=PENDULUM)
def baselines_td3(seed: int) -> None:
    """TD3 with its default settings: the policy learns at every second step."""
    _baselines("stable_baselines3", "TD3", "Pendulum-v1", seed, steps=300)


@FAMILY.program("sb3-contrib", data=CARTPOLE)
def contrib_trpo(seed: int) -> None:
    """TRPO: the policy moves by conjugate gradients, without an optimizer."""
    _baselines("sb3_contrib", "TRPO", "CartPole-v1", seed, steps=1024, n_steps=256)


@FAMILY.program("sb3-contrib", data=CARTPOLE)
def contrib_qrdqn(seed: int) -> None:
    """Quantile regression DQN."""
    _baselines("sb3_contrib", "QRDQN", "CartPole-v1", seed, steps=1200, learning_starts=100)


@FAMILY.program("sb3-contrib", data=CARTPOLE)
def contrib_recurrent_ppo(seed: int) -> None:
    """PPO with an LSTM."""
    import sb3_contrib

    sb3_contrib.RecurrentPPO("MlpLstmPolicy", "CartPole-v1", seed=seed, device="cpu", n_steps=64, batch_size=32).learn(
        256
    )
