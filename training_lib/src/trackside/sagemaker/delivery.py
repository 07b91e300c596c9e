"""The delivery of the library into a training container: wheels beside the user's script, and requirement lines.

SageMaker's framework containers install `requirements.txt` of the source folder before they start the script, from
within that folder. Wheels in it need no index, so it also works in a VPC without access to the internet.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.sagemaker.attachment import definitions_of, is_tuning_request

LIBRARY = "trackside"
# A dependency that no framework's container has; NumPy and boto3 are in all of them.
NEEDED = "google-crc32c"
WHEEL_FOLDER = "trackside-wheels"
REQUIREMENTS = "requirements.txt"
MOST_CHANNELS = 20  # API_CreateTrainingJob: InputDataConfig
CHANNEL = "trackside"  # the input channel that brings wheels from S3 into a container of the user's own
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PLATFORM = "manylinux2014_x86_64"

_BEGIN = "# Trackside: begin. Written by `trackside aws attach`, which replaces these lines and no others."
_END = "# Trackside: end."
_BLOCK = re.compile(rf"{re.escape(_BEGIN)}.*?{re.escape(_END)}(\r?\n|$)", re.DOTALL)
_WHEEL_NAME = re.compile(r"[^-]+-[^-]+(-\d[^-]*)?-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment of a zip file: equal content makes equal wheels


@dataclass(frozen=True)
class Delivery:
    """The delivered files in the source folder.

    requirements  the requirements file
    lines         its lines for the wheels
    wheels        the wheels
    """

    requirements: Path
    lines: tuple[str, ...]
    wheels: tuple[Path, ...]


def wheel_of_installed(name: str, folder: Path) -> Path:
    """Make a wheel of an installed distribution, without an index or a build. Return its path.

    The wheel has the installed version.

    Raises:
        ConfigurationError: It is not installed as a distribution.
    """
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        what = f"{name} is not installed as a package here, so no wheel can be made of it."
        fix = "Build one (python -m build --wheel), and name it: --wheel FILE."
        raise ConfigurationError([Problem("the library", what, fix)], subject="The delivery") from error
    files = dict(_files_of(found, name))
    stem = f"{re.sub('[-_.]+', '_', name)}-{found.version}"
    described = {key: files.pop(key) for key in list(files) if ".dist-info/" in key}
    tags = re.findall(r"(?m)^Tag: (\S+)$", described[f"{stem}.dist-info/WHEEL"].decode())
    path = folder / f"{stem}-{_joined(tags)}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    content = {**files, **described}
    record = "".join(f"{key},{_hash(data)},{len(data)}\n" for key, data in content.items())
    content[f"{stem}.dist-info/RECORD"] = f"{record}{stem}.dist-info/RECORD,,\n".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for key, data in content.items():
            wheel.writestr(zipfile.ZipInfo(key, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return path


def download_needed(folder: Path) -> tuple[Path, ...]:
    """Download wheels of the library's dependencies with pip, for each Python of a container. Return their paths.

    Raises:
        ConfigurationError: pip failed; carries pip's last line.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for python in PYTHONS:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", python, "--platform", PLATFORM, "--dest", str(folder), NEEDED]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["pip printed nothing"])[-1]
            fix = f"Put wheels of {NEEDED} into a folder, and name it: --wheels-from FOLDER."
            raise ConfigurationError(
                [Problem(NEEDED, f"could not be had for Python {python}: {last}", fix)], subject="The delivery"
            )
    return tuple(sorted(folder.glob("*.whl")))


def deliver(source_dir: Path, wheels: Iterable[Path]) -> Delivery:
    """Put the wheels into `<source_dir>/trackside-wheels` and their lines into `requirements.txt`.

    Other lines of that file stay unchanged, and a second delivery replaces the first.

    Raises:
        ConfigurationError: `source_dir` is no folder, or a file is no wheel.
    """
    if not source_dir.is_dir():
        problem = Problem(str(source_dir), "is no folder.", "Name the folder of the training script.")
        raise ConfigurationError([problem], subject="The delivery")
    given = list(wheels)
    folder, requirements = source_dir / WHEEL_FOLDER, source_dir / REQUIREMENTS
    text = requirements.read_bytes().decode("utf-8", "surrogateescape") if requirements.exists() else ""
    # All that may be refused, before anything is touched.
    lines = tuple(requirement_lines(given, folder=f"./{WHEEL_FOLDER}", hashed="--hash=" in _BLOCK.sub("", text)))
    with tempfile.TemporaryDirectory() as aside:  # the given ones may lie in that folder
        kept = [Path(shutil.copy2(wheel, aside)) for wheel in given]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        placed = tuple(Path(shutil.copy2(wheel, folder)) for wheel in kept)
    requirements.write_bytes(_with_block(text, lines).encode("utf-8", "surrogateescape"))
    return Delivery(requirements, lines, placed)


def upload(place: str, wheels: Iterable[Path]) -> str:
    """Store the wheels in S3, in a folder at `place`. Return its address. Raises the errors of the store."""
    from trackside.storage.open_store import open_store  # brings NumPy, which is not needed otherwise

    address = f"{place}/{WHEEL_FOLDER}"
    store = open_store(address)
    for wheel in wheels:
        store.put(wheel.name, wheel.read_bytes())
    return address


def with_channel(request: Mapping[str, Any], address: str) -> dict[str, Any]:
    """Return a copy of the request with an input channel that brings the wheels to /opt/ml/input/data/trackside.

    Raises:
        ConfigurationError: The request has another channel of that name, or would have more than 20 channels.
    """
    made, problems = copy.deepcopy(dict(request)), list[Problem]()
    source = {"S3DataType": "S3Prefix", "S3Uri": f"{address}/", "S3DataDistributionType": "FullyReplicated"}
    channel = {"ChannelName": CHANNEL, "DataSource": {"S3DataSource": source}, "InputMode": "File"}
    for where, part in definitions_of(made, problems) if is_tuning_request(made) else [("the request", made)]:
        others = [each for each in part.get("InputDataConfig") or () if each != channel]
        if any(each.get("ChannelName") == CHANNEL for each in others):
            problems.append(
                Problem(f"{where}.InputDataConfig", f"has another channel {CHANNEL!r}.", "Rename that one.")
            )
        if len(others) >= MOST_CHANNELS:
            problems.append(Problem(f"{where}.InputDataConfig", f"would be more than {MOST_CHANNELS} channels."))
        part["InputDataConfig"] = [*others, channel]
    if problems:
        raise ConfigurationError(problems, subject="The request")
    return made


def requirement_lines(wheels: Iterable[Path], *, folder: str, hashed: bool = False) -> Iterator[str]:
    """Yield a line for each wheel: its path, its Python and machine, and its hash if `hashed`.

    pip requires a hash in every line as soon as one line has one.
    """
    for wheel in wheels:
        match = _WHEEL_NAME.fullmatch(wheel.name)
        if match is None:
            fix = "It is named like trackside-0.1.0-py3-none-any.whl."
            raise ConfigurationError([Problem(str(wheel), "is no wheel.", fix)], subject="The delivery")
        markers = list(_markers(match["python"], match["abi"], match["platform"]))
        if wheel.name.startswith(f"{LIBRARY}-"):  # a training in an older container must go on without it
            markers.append(f'python_version >= "{PYTHONS[0]}"')
        marker = " and ".join(markers)
        digest = f" --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}" if hashed else ""
        yield f"{folder}/{wheel.name}" + (f" ; {marker}" if marker else "") + digest


def _markers(python: str, abi: str, platform: str) -> Iterator[str]:
    version = re.match(r"cp(\d)(\d+)", python)
    if version:
        yield f'python_version {">=" if abi == "abi3" else "=="} "{version[1]}.{version[2]}"'
    machine = re.search(r"x86_64|aarch64", platform)
    if machine:
        yield f'platform_machine == "{machine[0]}"'


def _with_block(text: str, lines: Iterable[str]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join([_BEGIN, *lines, _END]) + newline
    if _BLOCK.search(text):
        return _BLOCK.sub(lambda _: block, text, count=1)
    return text + (newline if text and not text.endswith("\n") else "") + block


def _files_of(found: metadata.Distribution, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a wheel. Those of an editable installation are read from the package's own folder."""
    import_name = re.sub("[-_.]+", "_", name)
    listed = [file for file in found.files or () if not str(file).startswith("..")]
    listed = [file for file in listed if not re.search(r"__pycache__|^_editable_impl|\.pyc$", str(file))]
    own = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json")  # files of the installation, not of the wheel
    for file in listed:
        if file.name not in own:
            yield file.as_posix(), Path(str(file.locate())).read_bytes()
    if not any(file.parts[0] == import_name for file in listed):
        package = Path(__import__(import_name).__file__ or "").parent
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{import_name}/{path.relative_to(package).as_posix()}", path.read_bytes()


def _joined(tags: Sequence[str]) -> str:
    """Return the tags in one file name: `cp311-cp311-a`, `cp311-cp311-b` -> `cp311-cp311-a.b`."""
    parts = [tag.split("-") for tag in tags]
    return "-".join(".".join(dict.fromkeys(part)) for part in zip(*parts, strict=True))


def _hash(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
