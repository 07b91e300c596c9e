"""Makes the pictures of the docs from real output: of the terminal, and of pages of the report and the dashboard.

python -m docs.pictures           all; the demo takes a minute or two
python -m docs.pictures card      one of them: card, demo, or a page of `PAGES`, such as incident

Pages need Chromium and Playwright.
"""

from __future__ import annotations

import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from docs.tutorial import PAGE, first_file
from trackside.environment import inherited

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
COLUMNS = 92
THEME = TerminalTheme(
    (24, 26, 31),
    (214, 218, 224),
    [
        (40, 44, 52),
        (240, 98, 104),
        (138, 201, 122),
        (226, 180, 92),
        (97, 160, 238),
        (198, 120, 221),
        (86, 182, 194),
        (214, 218, 224),
    ],
    [
        (120, 128, 140),
        (240, 98, 104),
        (138, 201, 122),
        (226, 180, 92),
        (97, 160, 238),
        (198, 120, 221),
        (86, 182, 194),
        (255, 255, 255),
    ],
)
# What the pictures of pages show, in words: a test compares them with the pages of today.
FACTS = IMAGES / "pages.json"
TAGS = {"runs": "th", "dashboard": "h2|dt"}
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_COLUMN_WIDTH = 12.2  # of Rich's pictures, in their own units
_PROMPT = "\x1b[2m$\x1b[0m "
_UP = "\x1b[1A"  # then the line above is drawn again
_CURSOR = re.compile(r"\x1b\[(\?\d+[hl]|1A)")
_CARD_ENDS = re.compile(r"^─{20,}$")


def main(arguments: list[str]) -> int:
    """Make the pictures with these names, or all. Return 2 for an unknown name."""
    known = [*PICTURES, *PAGES, REPORT]
    chosen = arguments or known
    if unknown := set(chosen) - set(known):
        sys.stderr.write(f"No picture {', '.join(sorted(unknown))}. Known: {', '.join(known)}.\n")
        return 2
    if pages := [name for name in chosen if name in PAGES]:
        with tempfile.TemporaryDirectory() as folder:
            take_pages(pages, folder=Path(folder))
    if REPORT in chosen:
        with tempfile.TemporaryDirectory() as folder:
            take_report(folder=Path(folder))
    for name in chosen:
        if name not in PICTURES:
            continue
        output = PICTURES[name]()
        (IMAGES / f"{name}.svg").write_text(picture(output, name=name), encoding="utf-8", newline="\n")
    return 0


def card() -> str:
    """Run the script of the tutorial, and return the command with the first card that it shows."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(first_file(PAGE.read_text("utf-8")), encoding="utf-8")
        command = ["trackside", "run", "--on-issue", "stop", "--", sys.executable, script.name]
        output = _in_terminal([str(Path(sys.executable).with_name(command[0])), *command[1:]], folder=Path(folder))
    return f"{_PROMPT}trackside run --on-issue stop -- python train.py\n\n{first_card(output)}"


def demo() -> str:
    """Run the demo, and return its output."""
    output = _in_terminal([sys.executable, str(ROOT / "examples" / "demo" / "demo.py")], folder=ROOT)
    return f"{_PROMPT}make demo\n\n{output}"


THEMES: tuple[tuple[Literal["light", "dark"], str], ...] = (
    ("light", ""),
    ("dark", "-dark"),
)  # with the ending of a name


def take_pages(names: Sequence[str], *, folder: Path) -> None:
    """Train with a fault and without it, serve these runs, and take a picture of each page in both themes."""
    from playwright.sync_api import sync_playwright

    train_runs(folder)
    shown: dict[str, list[str]] = json.loads(FACTS.read_text("utf-8")) if FACTS.exists() else {}
    with serving(folder) as address, sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for theme, ending in THEMES:
            view = browser.new_context(
                viewport={"width": 1120, "height": 860}, color_scheme=theme, java_script_enabled=False
            )
            page = view.new_page()
            page.goto(f"{address}/?token={TOKEN}")
            for name in names:
                path, part, most = PAGES[name]
                page.goto(f"{address}{resolved(page, address, path)}")
                if name in TAGS:
                    shown[name] = facts_in(page.content(), TAGS[name])
                box = page.locator(part).first.bounding_box() or {"x": 0, "y": 0, "width": 1120, "height": 860}
                edge = 0 if part == "body" else 12
                page.screenshot(
                    path=IMAGES / f"{name}{ending}.png",
                    full_page=True,
                    clip={
                        "x": max(0.0, box["x"] - edge),
                        "y": max(0.0, box["y"] - edge),
                        "width": box["width"] + 2 * edge,
                        "height": min(box["height"] + 2 * edge, float(most)),
                    },
                )
        browser.close()
    FACTS.write_text(f"{json.dumps(shown, indent=2, sort_keys=True)}\n", encoding="utf-8")


def facts_in(page: str, tags: str) -> list[str]:
    """Return what a page calls its parts, columns and numbers: the texts of these elements, each once.

    Args:
        page: Its HTML.
        tags: Names of elements, `h2|dt`.
    """
    found = re.findall(rf"<({tags})\b[^>]*>(.*?)</\1>", page, re.DOTALL)
    texts = (html.unescape(re.sub(r"<[^>]+>", "", text)).strip(" ▲▼") for _, text in found)
    return [*dict.fromkeys(texts)]


def take_report(*, folder: Path) -> None:
    """Train the example whose gradients vanish, and take a picture of its report, opened from the file."""
    from playwright.sync_api import sync_playwright

    trackside, script = str(Path(sys.executable).with_name("trackside")), ROOT / "examples/digits/train.py"
    run = [trackside, "run", "--on-issue", "stop", "--out", "digits-vanishing", "--", sys.executable, str(script)]
    subprocess.run(
        [*run, "--fault", "vanishing"], cwd=folder, capture_output=True, check=False
    )  # an issue: exit code 1
    subprocess.run([trackside, "report", "digits-vanishing", "-o", "report.html"], cwd=folder, check=True)
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for theme, ending in THEMES:
            page = browser.new_context(viewport={"width": 1120, "height": 1400}, color_scheme=theme).new_page()
            page.goto((folder / "report.html").as_uri())
            page.screenshot(path=IMAGES / f"{REPORT}{ending}.png")
        browser.close()


def train_runs(folder: Path) -> None:
    """Train below `folder`: `digits` and `digits-again` with a fault from step 300 on, the other two without."""
    (folder / "train.py").write_text(LATE_FAULT, encoding="utf-8")
    trackside = str(Path(sys.executable).with_name("trackside"))
    for name, rate in (("digits-right", "0.05"), ("digits-slow", "0.01"), ("digits-again", "8.0"), ("digits", "8.0")):
        out = f".trackside/runs/{name}"
        training = [trackside, "run", "--save", "weights=20", "--sample-interval", "100", "--out", out]
        training += ["--", "python", "train.py", rate]
        path = f"{Path(sys.executable).parent}{os.pathsep}{inherited().get('PATH', '')}"
        variables = {**inherited(), "OMP_NUM_THREADS": "1", "PATH": path}
        subprocess.run(training, cwd=folder, env=variables, capture_output=True, check=False)  # an issue: exit code 1


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the runs of a folder, and return the address of the dashboard."""
    trackside = str(Path(sys.executable).with_name("trackside"))
    variables = {**inherited(), "TRACKSIDE_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
    command = [trackside, "serve", ".trackside/runs", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield (server.stdout or io.StringIO()).readline().partition("/?")[0]
        finally:
            server.terminate()


def resolved(page: Any, address: str, path: str) -> str:
    """Return a path; `>SELECTOR` after it stands for the address of the link there."""
    before, found, selector = path.partition(">")
    if not found:
        return before
    page.goto(f"{address}{before}")
    return str(page.locator(selector).first.get_attribute("href"))


def first_card(output: str) -> str:
    """Return the first card of a run's output, its frame included."""
    lines = output.splitlines()
    begin = next(number for number, line in enumerate(lines) if "CRITICAL" in line or "WARNING" in line)
    end = next(n for n, line in enumerate(lines) if n > begin and _CARD_ENDS.match(Text.from_ansi(line).plain.strip()))
    return "\n".join(lines[begin : end + 1])


def as_left_on_screen(raw: str) -> str:
    """Return the lines that a terminal still shows in the end: without progress that was overwritten."""
    lines: list[str] = []
    for line in raw.replace("\r\n", "\n").split("\n"):
        if line.count(_UP):
            del lines[-line.count(_UP) :]
        kept = re.split(r"\x1b\[2K|\r", line)[-1]
        lines.append(_CURSOR.sub("", kept).rstrip())
    return "\n".join(lines).strip("\n")


def picture(output: str, *, name: str) -> str:
    """Return a terminal's output, colours included, as an SVG that loads nothing from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in output.splitlines():
        console.print(Text.from_ansi(line), soft_wrap=False)
    drawn = console.export_svg(title="", theme=THEME, unique_id=name)
    drawn = re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r"font-family: (Fira Code[^;]*|arial);", f"font-family: {_FONT};", drawn)
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def lines_in(drawn: str) -> list[str]:
    """Return the lines of text in a picture of a terminal.

    Args:
        drawn: The SVG that `picture` returned.
    """
    lines: dict[float, str] = {}
    for x, y, text in re.findall(r'<text [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', drawn):
        before = lines.get(float(y), "").ljust(round(float(x) / _COLUMN_WIDTH))
        lines[float(y)] = before + html.unescape(text).replace("\xa0", " ")
    return [lines[y] for y in sorted(lines)]


def _in_terminal(command: list[str], *, folder: Path) -> str:
    """Run `command` in `folder` in a terminal of `COLUMNS` columns. Return what the terminal shows in the end."""
    import pty

    main_end, other_end = pty.openpty()
    _set_size(other_end)
    process = subprocess.Popen(command, cwd=folder, stdin=other_end, stdout=other_end, stderr=other_end)
    with open(other_end, "wb", closefd=True):
        pass
    received = bytearray()
    with open(main_end, "rb", buffering=0) as terminal:
        while chunk := _read(terminal):
            received += chunk
    process.wait()
    return as_left_on_screen(received.decode(errors="replace"))


def _read(terminal: io.RawIOBase | io.FileIO) -> bytes:
    try:
        return terminal.read(65536) or b""
    except OSError:  # Linux's way to say that no process has the terminal any more
        return b""


def _set_size(terminal: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))


REPORT = "report"  # the picture of the report in a file
TOKEN = "of-pictures"  # noqa: S105 - of a server that lives for a minute
# Path of a page, the part of it to show, and the most of its height. `>` leads on by a link of the page.
PAGES: Mapping[str, tuple[str, str, int]] = {
    "runs": ("/", "body", 860),
    "dashboard": ("/runs/digits", "body", 1000),
    "training": ("/runs/digits", "#training", 640),
    "layers": ("/runs/digits", "#layers", 640),
    "changes": ("/runs/digits?steps=290:310", "#changes", 620),
    "incident": ("/runs/digits>a:has-text('How it began: its')", "main", 760),
    "dashboard-tensor": ("/runs/digits>.evidence a", "body", 900),
    "expression": (
        "/runs/digits/tensor?name=gradient/Sequential_0.weight&expression=log10(l2+/+%22Sequential_0.weight%22)",
        "body",
        560,
    ),
    "tensors": ("/runs/digits/tensors", "body", 900),
    "cores": ("/runs/digits/machine", "body", 900),
    "timeline": ("/runs/digits/timeline", "main", 900),
    "difference": ("/runs/digits/difference?steps=280:340&name=Sequential_0.weight", "body", 900),
    "distribution": ("/runs/digits", "#distributions", 720),
    "machine": ("/runs/digits", "#machine", 640),
    "rules": ("/runs/digits", "#rules", 640),
    "compare": ("/compare?run=digits-right&run=digits", "body", 900),
    "compare-many": ("/compare?run=digits-right&run=digits-slow&run=digits", "body", 900),
}
LATE_FAULT = """
import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
pixels, digits = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(pixels / 16.0, dtype=torch.float32), torch.tensor(digits))
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
loss_function, step = nn.CrossEntropyLoss(), 0
for epoch in range(10):
    for inputs, labels in DataLoader(data, batch_size=32, shuffle=True):
        if step == 300:
            optimizer.param_groups[0]["lr"] = float(sys.argv[1])
        optimizer.zero_grad()
        loss_function(model(inputs), labels).backward()
        optimizer.step()
        step += 1
"""

PICTURES: Mapping[str, Callable[[], str]] = {"card": card, "demo": demo}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
