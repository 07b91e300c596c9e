"""Makes the pictures of the README from real output: a finding on the command line, and the demo.

python -m docs.pictures           both; the demo takes a minute or two
python -m docs.pictures card      one of them: card or demo
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

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
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_PROMPT = "\x1b[2m$\x1b[0m "
_UP = "\x1b[1A"  # then the line above is drawn again
_CURSOR = re.compile(r"\x1b\[(\?\d+[hl]|1A)")
_CARD_ENDS = re.compile(r"^─{20,}$")


def main(arguments: list[str]) -> int:
    """Make the pictures with these names, or all. Return 2 for an unknown name."""
    chosen = arguments or list(PICTURES)
    if unknown := set(chosen) - set(PICTURES):
        sys.stderr.write(f"No picture {', '.join(sorted(unknown))}. Known: {', '.join(PICTURES)}.\n")
        return 2
    for name in chosen:
        output = PICTURES[name]()
        (IMAGES / f"{name}.svg").write_text(picture(output, name=name), encoding="utf-8", newline="\n")
    return 0


def card() -> str:
    """Run the example with a fault, and return the command with the first card that it shows."""
    with tempfile.TemporaryDirectory() as folder:
        script = ROOT / "examples" / "digits" / "train.py"
        command = ["trackside", "run", "--on-issue", "stop", "--", sys.executable, str(script), "--fault", "vanishing"]
        output = _in_terminal([str(Path(sys.executable).with_name(command[0])), *command[1:]], folder=Path(folder))
    return f"{_PROMPT}trackside run --on-issue stop -- python train.py\n\n{first_card(output)}"


def demo() -> str:
    """Run the demo, and return its output."""
    output = _in_terminal([sys.executable, str(ROOT / "examples" / "demo" / "demo.py")], folder=ROOT)
    return f"{_PROMPT}make demo\n\n{output}"


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


PICTURES: Mapping[str, Callable[[], str]] = {"card": card, "demo": demo}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
