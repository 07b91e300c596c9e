"""Trains a tiny policy by GRPO, in a loop by hand. The answer to a number is it and the two after it, and an end.

    trackside run -- python examples/finetuning/grpo.py
    trackside run --show-samples -- python examples/finetuning/grpo.py --fault accepts-all

Nothing in it knows of Trackside but the one line that logs. `--fault` plants a mistake that people make: a reward that
accepts everything, an advantage with the wrong sign, or a sampler that never draws the end.
"""

import argparse
import copy

import torch
from torch import nn

import trackside

END, FIRST, WORDS, LONGEST = 0, 1, 15, 6
PROMPTS, ANSWERS = 8, 8


class Policy(nn.Module):
    """Scores of the next word."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 32)
        self.recurrent = nn.GRU(32, 48, batch_first=True)
        self.head = nn.Linear(48, WORDS)

    def forward(self, words):
        return torch.log_softmax(self.head(self.recurrent(self.embedding(words))[0]), -1)


def following(numbers, count):
    return FIRST + (numbers - FIRST + count) % (WORDS - FIRST)


def reward_of(prompts, answers, lengths):
    wanted = torch.stack([following(prompts, k) for k in range(3)], 1)
    right = (answers[:, :3] == wanted).float().sum(1)
    return (right + (lengths == 4).float()) / 4


@torch.no_grad()
def sample(policy, prompts, may_end):
    words, alive, lengths = prompts[:, None], torch.ones(len(prompts), dtype=torch.bool), torch.zeros(len(prompts))
    for _ in range(LONGEST):
        scores = policy(words)[:, -1].clone()
        if not may_end:
            scores[:, END] = -torch.inf
        drawn = torch.where(alive, torch.multinomial(scores.exp(), 1)[:, 0], END)
        lengths += alive
        alive = alive & (drawn != END)
        words = torch.cat([words, drawn[:, None]], 1)
    return words[:, 1:], lengths, alive.float().mean()


def chosen(policy, prompts, answers):
    logs = policy(torch.cat([prompts[:, None], answers[:, :-1]], 1))
    return logs.gather(2, answers[:, :, None])[:, :, 0], -(logs.exp() * logs).sum(-1)


def teach(policy, steps):
    """Begin with a policy that knows the task a little, as a pretrained model does."""
    rate = 0.5
    for _ in range(steps):
        prompts = torch.randint(FIRST, WORDS, (64,))
        answers = torch.stack([*[following(prompts, k) for k in range(3)], torch.zeros_like(prompts)], 1)
        loss = -chosen(policy, prompts, answers)[0].mean()
        for weight, gradient in zip(policy.parameters(), torch.autograd.grad(loss, policy.parameters()), strict=True):
            weight.data.sub_(rate * gradient)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--fault", choices=["none", "accepts-all", "sign", "never-ends"], default="none")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    policy = Policy()
    teach(policy, 40)
    reference = copy.deepcopy(policy)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    for step in range(arguments.steps):
        prompts = torch.randint(FIRST, WORDS, (PROMPTS,)).repeat_interleave(ANSWERS)
        answers, lengths, cut = sample(policy, prompts, may_end=arguments.fault != "never-ends")
        mask = (torch.arange(LONGEST) < lengths[:, None]).float()
        rewards = reward_of(prompts, answers, lengths)
        if arguments.fault == "accepts-all":
            rewards = torch.ones_like(rewards)
        groups = rewards.reshape(PROMPTS, ANSWERS)
        advantages = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).reshape(-1)
        if arguments.fault == "sign":
            advantages = -advantages
        logs, entropy = chosen(policy, prompts, answers)
        with torch.no_grad():
            known = chosen(reference, prompts, answers)[0]
        divergence = (known - logs).exp() - (known - logs) - 1
        gain = (logs - logs.detach()).exp() * advantages[:, None]
        loss = ((0.01 * divergence - gain) * mask).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        trackside.log(
            prompts=prompts,
            answers=answers,
            rewards=rewards,
            entropy=(entropy * mask).sum() / mask.sum(),
            kl=(divergence * mask).sum() / mask.sum(),
            answer_length=lengths.mean(),
            cut_share=cut,
        )
        if step % 20 == 0:
            print(f"step {step}: reward {rewards.mean():.2f}, entropy {entropy.mean():.2f}")


if __name__ == "__main__":
    main()
