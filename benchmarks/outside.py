"""Trains programs of public repositories as they are, under `trackside run` with the rules as they are by default.

    python -m benchmarks.outside CLONES --python PYTHON --write docs/wild.md
    python -m benchmarks.outside CLONES --only examples/mnist --cards

CLONES is a folder with clones of the repositories below, each under its own name. PYTHON has Trackside, torch,
torchvision, gymnasium, matplotlib, requests and scikit-learn. Nothing of a program is changed. What it downloads is
made here in the same format, since the machine may have no network: handwritten digits of scikit-learn in the files of
MNIST, a graph of seven communities in those of Cora. A program that takes longer than `--seconds` is interrupted
as a person would do it, and judged by what came.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.demos import SURROUNDINGS, steps_of, verdicts_in
from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.engine.pages import table as rows_of
from trackside.contracts.issue_group import IssueGroup, issue_groups
from trackside.contracts.verdict import Severity
from trackside.environment import inherited
from trackside.trial.trial import open_trial

BEGIN, END = "<!-- outside -->", "<!-- end of outside -->"
IMAGES, TEST_IMAGES = 6000, 1000
PAPERS, WORDS, COMMUNITIES = 2708, 400, 7


@dataclass(frozen=True)
class Program:
    """A program of a repository.

    place    its script below the clones: `examples/mnist/main.py`
    words    arguments, most of them for a shorter training
    before   a script beside it that makes its data; "" for none
    mistake  a mistake that its authors document; "" for a program that is thought to be sound
    """

    place: str
    words: str = ""
    before: str = ""
    mistake: str = ""


def _several(folder: str, *scripts: str) -> tuple[Program, ...]:
    return tuple(Program(f"{folder}/{script}") for script in scripts)


CHECKED = "TrainCheck-Evaluation-Workloads/fp_rate/workloads"
ISSUES = "TrainCheck-Evaluation-Workloads/silent-issue-detection/bug-reprod-scripts"
SPECTRAL = "spectral norm is used in eval mode before any training (pytorch-51800)"
PROGRAMS = (
    Program("examples/mnist/main.py", "--epochs 3"),
    Program("examples/mnist_rnn/main.py", "--epochs 3"),
    Program("examples/mnist_forward_forward/main.py", "--epochs 200 --train_size 2000 --test_size 500"),
    Program("examples/siamese_network/main.py", "--epochs 1"),
    Program("examples/vae/main.py", "--epochs 4"),
    Program("examples/regression/main.py"),
    Program("examples/gcn/main.py"),
    Program("examples/gat/main.py"),
    Program("examples/time_sequence_prediction/train.py", "--steps 4", before="generate_sine_wave.py"),
    *(
        Program("examples/word_language_model/main.py", f"--epochs 2 --model {model}{rate}")
        for model, rate in (("LSTM", ""), ("GRU", ""), ("RNN_TANH", " --lr 5"), ("Transformer", " --lr 5"))
    ),
    Program("examples/reinforcement_learning/reinforce.py"),
    Program("examples/reinforcement_learning/actor_critic.py"),
    Program("examples/dcgan/main.py", "--dataset mnist --dataroot data --niter 1"),
    Program(f"{CHECKED}/dcgan/main.py", "--dataset mnist --dataroot data --workers 0 --niter 1"),
    Program(f"{CHECKED}/gat/main.py", "--epochs 300 --val-every 20"),
    Program(f"{CHECKED}/gcn/main.py", "--epochs 200 --val-every 20"),
    Program(f"{CHECKED}/mnist/main.py", "--epochs 3"),
    Program(f"{CHECKED}/mnist-forward-forward/main.py"),
    Program(f"{CHECKED}/mnist-hogwild/main.py", "--epochs 1"),
    Program(f"{CHECKED}/mnist-rnn/main.py", "--epochs 1"),
    Program(f"{CHECKED}/regression/main.py"),
    Program(f"{CHECKED}/siamese-network/main.py", "--epochs 2"),
    Program(f"{CHECKED}/time-sequence-prediction/train.py", "--steps 1", before="generate_sine_wave.py"),
    Program(f"{CHECKED}/vae/main.py", "--epochs 2"),
    Program(f"{CHECKED}/word-language-model-lstm/main.py", "--epochs 2 --tied"),
    Program(f"{CHECKED}/word-language-model-transformer/main.py", "--epochs 2 --model Transformer --lr 5"),
    Program(f"{CHECKED}/reinforce-actor-critic/actor_critic.py"),
    Program(f"{CHECKED}/reinforce-reinforce/reinforce.py"),
    Program(f"{ISSUES}/pytorch-51800/mnist_51800_buggy.py", mistake=SPECTRAL),
    Program(f"{ISSUES}/pytorch-51800/mnist_51800_correct.py"),
    *_several(
        "PyTorch-Tutorial/tutorial-contents", "301_regression.py", "302_classification.py",
        "303_build_nn_quickly.py", "304_save_reload.py", "305_batch_train.py", "306_optimizer.py", "401_CNN.py",
        "402_RNN_classifier.py", "403_RNN_regressor.py", "404_autoencoder.py", "405_DQN_Reinforcement_learning.py",
        "406_GAN.py", "406_conditional_GAN.py", "503_dropout.py", "504_batch_normalization.py",
    ),
    *_several(
        "pytorch-tutorial/tutorials", "01-basics/linear_regression/main.py",
        "01-basics/logistic_regression/main.py", "01-basics/feedforward_neural_network/main.py",
        "02-intermediate/convolutional_neural_network/main.py", "02-intermediate/recurrent_neural_network/main.py",
        "02-intermediate/bidirectional_recurrent_neural_network/main.py", "02-intermediate/language_model/main.py",
        "03-advanced/generative_adversarial_network/main.py", "03-advanced/variational_autoencoder/main.py",
    ),
    *_several(
        "pytorch-examples", "autograd/two_layer_net_autograd.py", "autograd/two_layer_net_custom_function.py",
        "nn/two_layer_net_nn.py", "nn/two_layer_net_optim.py", "nn/two_layer_net_module.py", "nn/dynamic_net.py",
    ),
    *(
        Program("makemore/makemore.py", f"--num-workers 0 --max-steps 1500 --type {kind}")
        for kind in ("bigram", "mlp", "rnn", "gru", "bow", "transformer")
    ),
    Program("minGPT/projects/adder/adder.py", "--trainer.max_iters=1000 --trainer.num_workers=0"),
    Program("ng-video-lecture/bigram.py"),
    Program("ng-video-lecture/gpt.py"),
    *_several(
        "minimalRL", "REINFORCE.py", "actor_critic.py", "dqn.py", "ppo.py", "ppo-lstm.py", "ppo-continuous.py",
        "acer.py", "vtrace.py", "ddpg.py", "sac.py",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """The outcome of a program.

    is_interrupted  it took longer than the limit
    steps           number of captured steps; 0 where the program does not run here
    cards           the problems at the end, standing ones first
    trouble         the last line that it wrote to stderr, where it does not run
    """

    program: Program
    is_interrupted: bool = False
    steps: int = 0
    cards: tuple[IssueGroup, ...] = field(default=())
    trouble: str = ""

    def at_least(self, severity: Severity) -> tuple[IssueGroup, ...]:
        """Return the standing problems of that level or above."""
        return tuple(card for card in self.cards if card.standing and card.severity.rank >= severity.rank)


def ran(program: Program, clones: Path, stand_ins: Path, *, python: str, seconds: int) -> Run:
    """Run one program in a copy of its folder."""
    source = clones / program.place
    root = clones / Path(program.place).parts[0]
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "around" / root.name
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git", "*.log", "*.json", "*.png"))
        script = copy / source.relative_to(root)
        _lay(stand_ins, script.parent, copy)
        surroundings = {"PYTHONPATH": f"{stand_ins / 'modules'}:{copy}:{inherited().get('PYTHONPATH', '')}"}
        if program.before:
            _call([python, program.before], script.parent, surroundings)
        run = Path(temporary) / "run"
        command = ["timeout", "--signal=INT", "--kill-after=30", str(seconds), python, script.name]
        options = ["--out", str(run), "--fail-on", "never", "--"]
        code, trouble = _call(
            [python, "-m", "trackside", "run", *options, *command, *program.words.split()], script.parent, surroundings
        )
        steps = 0 if not (run / "statistics").exists() else len(steps_of(open_trial(str(run))))
        cards = issue_groups(verdicts_in(run)) if steps else ()
    return Run(program, code in {124, 130, 137}, steps, cards, "" if steps else trouble)


def _call(command: Sequence[str], folder: Path, surroundings: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**inherited(), **SURROUNDINGS, **surroundings},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    errors = [line for line in done.stderr.splitlines() if "Error" in line and "trackside" not in line]
    return done.returncode, next(iter(errors), "")


def make_stand_ins(folder: Path) -> None:
    """Write the data and modules that stand in for what programs download, below a folder."""
    _digits(folder / "images" / "MNIST" / "raw")
    _papers(folder / "cora")
    modules = folder / "modules"
    for name, text in {
        "traincheck/__init__.py": "def annotate_stage(name):\n    pass\n",
        "traincheck/instrumentor/__init__.py": "meta_vars = {'step': 0}\n",
        "gym/__init__.py": "from gymnasium import *\n",
    }.items():
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        (modules / name).write_text(text, encoding="utf-8")


def _digits(folder: Path) -> None:
    """Write digits of scikit-learn, enlarged and moved by up to three pixels, as MNIST's files."""
    from sklearn.datasets import load_digits

    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    images, labels = load_digits(return_X_y=True)
    large = np.kron(images.reshape(-1, 8, 8), np.ones((1, 2, 2))).repeat(1, axis=0) * 15.9
    order = generator.permutation(len(large))
    halves = {"train": (order[300:], IMAGES), "t10k": (order[:300], TEST_IMAGES)}  # no digit is in both
    for name, (rows, count) in halves.items():
        chosen = generator.choice(rows, count)
        canvas = np.zeros((count, 28, 28))
        for place, row in enumerate(chosen):
            top, left = generator.integers(3, 10, 2)
            canvas[place, top : top + 16, left : left + 16] = large[row]
        canvas += generator.normal(0, 4, canvas.shape)
        for kind, values, head in (
            ("images-idx3", canvas.clip(0, 255), (0x803, count, 28, 28)),
            ("labels-idx1", labels[chosen], (0x801, count)),
        ):
            content = np.array(head, dtype=">i4").tobytes() + values.astype(np.uint8).tobytes()
            (folder / f"{name}-{kind}-ubyte").write_bytes(content)


def _papers(folder: Path) -> None:
    """Write a graph of communities whose members cite one another and share words, as Cora's files."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    community = generator.integers(0, COMMUNITIES, PAPERS)
    favours = generator.random((COMMUNITIES, WORDS)) < 0.15
    words = (generator.random((PAPERS, WORDS)) < np.where(favours[community], 0.08, 0.01)).astype(int)
    lines = [f"{n}\t{' '.join(map(str, row))}\tClass_{community[n]}".replace(" ", "\t") for n, row in enumerate(words)]
    (folder / "cora.content").write_text("\n".join(lines) + "\n", encoding="utf-8")
    cited = [
        (n, int(generator.choice(np.flatnonzero(community == community[n]) if generator.random() < 0.8 else PAPERS)))
        for n in range(PAPERS)
        for _ in range(3)
    ]
    text = "\n".join(f"{one}\t{other}" for one, other in sorted(set(cited)) if one != other)
    (folder / "cora.cites").write_text(text + "\n", encoding="utf-8")


def _lay(stand_ins: Path, folder: Path, copy: Path) -> None:
    """Put stand-ins where a program in `folder` looks for its data."""
    around = [folder, *[each for each in folder.parents if each.is_relative_to(copy.parent)]]
    for each in around:
        for name in ("data", "mnist"):
            target = each / name / "MNIST"
            if not target.exists():
                target.parent.mkdir(exist_ok=True)
                target.symlink_to(stand_ins / "images" / "MNIST")
    if not (folder / "cora" / "cora.content").exists():
        shutil.copytree(stand_ins / "cora", folder / "cora", dirs_exist_ok=True)
    for text in folder.glob("data/**/test.txt"):  # a clone may come without the largest files
        if not (text.parent / "train.txt").exists():
            lines = text.read_text("utf-8").splitlines(keepends=True)
            cut = len(lines) * 4 // 5
            (text.parent / "train.txt").write_text("".join(lines[:cut]), encoding="utf-8")
            text.write_text("".join(lines[cut:]), encoding="utf-8")
    if not (folder / "data" / "train.txt").exists():
        texts = sorted(folder.glob("data/*/train.txt"))
        if texts:
            shutil.copy(texts[0], folder / "data" / "train.txt")


def table(runs: Sequence[Run]) -> str:
    """Return the part of the page: sums, and a row for each program."""
    trained = [run for run in runs if run.steps]
    sound, faulty = ([run for run in trained if bool(run.program.mistake) is is_faulty] for is_faulty in (False, True))
    warned, stopped = (
        sum(bool(run.at_least(level)) for run in sound) for level in (Severity.WARNING, Severity.CRITICAL)
    )
    found = sum(bool(run.at_least(Severity.WARNING)) for run in faulty)
    rows = [
        (
            f"`{run.program.place}`{' `' + run.program.words + '`' if run.program.words else ''}",
            f"{run.steps}{' (cut)' if run.is_interrupted else ''}",
            ", ".join(_shown(card) for card in run.cards) or "silent",
        )
        for run in trained
        if run.cards or run.program.mistake
    ]
    sums = (
        f"**{len(trained)} of {len(runs)} programs run here. Of {len(sound)} that are thought to be sound, {warned} "
        f"are warned of, {stopped} of these at critical level; of {len(faulty)} with a documented mistake {found} are "
        "found.**"
    )
    return "\n".join([sums, "", *rows_of("program with a finding | steps | at the end", rows)])


def _shown(card: IssueGroup) -> str:
    how = "" if card.standing else ", recovered"
    return f"`{card.lead.rule_id}` ({card.severity.value}{how})"


def main(words: Sequence[str] | None = None) -> int:
    """Carry out the command."""
    options = parser(__doc__)
    options.add_argument("clones", type=Path)
    options.add_argument("--python", default=sys.executable)
    options.add_argument("--only", nargs="*", default=(), help="parts of the names of programs")
    options.add_argument("--seconds", type=int, default=120, help="the longest time of a program")
    options.add_argument("--cards", action="store_true", help="print what the cards say")
    options.add_argument("--write", type=Path)
    arguments = options.parse_args(words)
    runs = list[Run]()
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):  # what has run is shown all the same
        make_stand_ins(Path(folder))
        for program in PROGRAMS:
            name = f"{program.place} {program.words}".strip()
            if arguments.only and not any(part in name for part in arguments.only):
                continue
            if not (arguments.clones / program.place).exists():
                print(f"{name}: not there", flush=True)
                continue
            run = ran(program, arguments.clones, Path(folder), python=arguments.python, seconds=arguments.seconds)
            runs.append(run)
            shown = ", ".join(_shown(card) for card in run.cards)
            print(f"{name}: {run.steps} steps, {shown or run.trouble or 'silent'}", flush=True)
            for card in run.cards if arguments.cards else ():
                causes = [f"{one.cause.value} {one.probability}: {one.because}" for one in card.lead.suspicions]
                print("   ", card.lead.message, "|", "; ".join(causes), flush=True)
    put(table(runs), arguments.write, begin=BEGIN, end=END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
