#!/usr/bin/env bash
# A generator given to a StatefulDataLoader, so that shuffling can be repeated, is what a resumed run lacks.
#
# Guess, before the run (60 %): after a resume within a pass the rest of that pass is the same; the pass after it is the
# same with workers, and not the same without workers where the loader has no generator of its own.
# Seen, torchdata 0.11.0 on torch 2.13.0: it is the other way round. Without a generator the pass after it is always the
# same; with one, and without workers, it is another order than the run that was not interrupted has.
# A state that is taken at the last batch of a pass, within the loop, also begins with a pass of no batch; taken one
# line later, behind the loop, it begins with a whole one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torchdata==0.11.0 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import torch
from torchdata.stateful_dataloader import StatefulDataLoader


def loader(workers, seed, has_generator):
    torch.manual_seed(seed)
    own = {"generator": torch.Generator().manual_seed(seed)} if has_generator else {}
    return StatefulDataLoader(list(range(10)), batch_size=2, shuffle=True, num_workers=workers, **own)


def batches(passing):
    return [batch.tolist() for batch in passing]


for workers in (0, 2):
    for has_generator in (False, True):
        whole = loader(workers, 1, has_generator)
        passing = iter(whole)
        next(passing), next(passing)
        state = whole.state_dict()
        expected = batches(passing), batches(whole)
        resumed = loader(workers, 2, has_generator)
        resumed.load_state_dict(state)
        rest, after = batches(resumed), batches(resumed)
        print(
            f"workers {workers} generator {has_generator}: rest of the pass same {rest == expected[0]},",
            f"next pass same {after == expected[1]}",
        )
    whole = loader(workers, 1, False)
    for _ in whole:
        within = whole.state_dict()
    for name, state in (("within", within), ("behind", whole.state_dict())):
        resumed = loader(workers, 1, False)
        resumed.load_state_dict(state)
        print(f"workers {workers}, state {name} the loop: batches", len(batches(resumed)), len(batches(resumed)))
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
workers 0 generator False: rest of the pass same True, next pass same True
workers 0 generator True: rest of the pass same True, next pass same False
workers 0, state within the loop: batches 0 5
workers 0, state behind the loop: batches 5 5
workers 2 generator False: rest of the pass same True, next pass same True
workers 2 generator True: rest of the pass same True, next pass same True
workers 2, state within the loop: batches 0 5
workers 2, state behind the loop: batches 5 5
OUTPUT
