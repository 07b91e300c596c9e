"""Fuzzing of everything that reads a run: small valid runs are damaged, then read in every way there is.

    python -m tests.fuzz --minutes 30 --seed 1

Each case is made from the seed and its number alone, so that `--case N` plays it again. What must hold is in `checks`;
docs/formats/tensors.md says it to users.
"""
