#!/usr/bin/env bash
# A metric that first comes in a later row of a log is dropped by pyarrow, datasets and polars, without a warning.
#
# Guess, before the run: datasets keeps it (55 %), polars keeps it (50 %), pyarrow drops it (65 %).
# Seen, pyarrow 26.0.1, datasets 5.2.0, polars 2.1.0, pandas 3.1.1, duckdb 2.0.1, a metric from row 1 and one from row
# 200: pyarrow and datasets take the keys of row 0, polars those of the first hundred.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 datasets==5.2.0 polars==2.1.0 pandas==3.1.1 duckdb==2.0.1 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import datasets
import duckdb
import pandas
import polars
import pyarrow

rows = [{"step": step, "loss": 1.0} for step in range(300)]
rows[1]["rate"] = 0.1
rows[200]["eval_loss"] = 2.0
print("pandas.DataFrame:", *pandas.DataFrame(rows))
print("pyarrow.Table.from_pylist:", *pyarrow.Table.from_pylist(rows).column_names)
print("datasets.Dataset.from_list:", *datasets.Dataset.from_list(rows).column_names)
print("polars.DataFrame:", *polars.DataFrame(rows).columns)
pandas.DataFrame(rows).to_json("log.jsonl", orient="records", lines=True)
with open("log.jsonl", "w") as file:
    file.writelines(str(row).replace("'", '"') + "\n" for row in rows)
print("polars.read_ndjson:", *polars.read_ndjson("log.jsonl").columns)
print("duckdb:", *duckdb.sql("SELECT * FROM 'log.jsonl'").columns)
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
pandas.DataFrame: step loss rate eval_loss
pyarrow.Table.from_pylist: step loss
datasets.Dataset.from_list: step loss
polars.DataFrame: step loss rate
polars.read_ndjson: step loss rate
duckdb: step loss rate eval_loss
OUTPUT
