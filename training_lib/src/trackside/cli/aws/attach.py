"""`trackside aws attach`: makes a request that of a watched job, and brings the library into its container."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.options import shared_options
from trackside.contracts.action import Action

if TYPE_CHECKING:
    from trackside.sagemaker.attachment import Attachment

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("attach")
@click.argument("request", type=click.File("rb"))
@click.option("--run", required=True, metavar="S3-URI", help="Where its run lies; /@job at the end: one for each job.")
@click.option("--rules", metavar="WORDS", help="Which rules judge it.  [default: the deployment's]")
@click.option("--rules-file", type=_FILE, help="Rules as JSON or YAML, as for `trackside run`.")
@click.option(
    "--actions",
    metavar="WORDS",
    help=f"What follows from an issue: {', '.join(action.value for action in Action)}; none.",
)
@click.option("--capture", type=_FILE, help="What to save, a capture request as JSON.  [default: what rules need]")
@click.option("--source-dir", type=_FOLDER, help="Puts the library beside the training script in this folder.")
@click.option("--upload", is_flag=True, help="Puts the library into S3, for an image of my own: a channel `trackside`.")
@click.option("--offline", is_flag=True, help="With all wheels that it needs, for containers without an index.")
@click.option("--wheel", type=_FILE, help="The library's wheel.  [default: one made of this installation]")
@click.option("--wheels-from", type=_FOLDER, help="Needed wheels lie here.  [default: pip gets them]")
@click.option("--own-image", is_flag=True, help="The image is mine, even if it is named like one of Amazon's.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the request here, not to stdout.")
@click.option("--dry-run", is_flag=True, help="Put nothing into S3 or the folder; only print the files.")
@shared_options
def command(*, request: Any, run: str, out: Path | None, dry_run: bool, own_image: bool, **choices: Any) -> None:
    """Make REQUEST that of a watched job.

    REQUEST is a file ("-": stdin) as `aws sagemaker create-training-job
    --cli-input-json` takes it, or create-hyper-parameter-tuning-job.
    Documents that fit no tag or variable are put into S3, at the run.

    \b
    Example:
      trackside aws attach job.json --run s3://runs/digits-01 --out watched.json
      trackside aws attach job.json --run s3://runs/@job --rules "overfit"
      trackside aws attach job.json --run s3://runs/x/@job --source-dir src
    """
    from trackside.contracts.fields import parse_json
    from trackside.sagemaker.attachment import attach_to_request, put_objects, status_only_attachment
    from trackside.sagemaker.containers import why_no_library

    if out and not out.absolute().parent.is_dir():
        raise click.UsageError(f"--out: there is no folder {out.absolute().parent}.")
    document = _object(parse_json(request.read(), subject="The request"))
    hindrance = "" if own_image else why_no_library(document)
    attachment = status_only_attachment(run) if hindrance else _planned(run, **choices)
    made = attach_to_request(document, attachment)
    if hindrance:
        _print(f"No rule can judge this job: {hindrance}.")
        _print("Its states are recorded: `trackside aws status` shows them.")
    else:
        made = _delivered(made, attachment.run, dry_run=dry_run, **choices)
    for note in attachment.notes:
        _print(note)
    for address in attachment.objects:
        _print(f"{'Would put' if dry_run else 'Put'} {address}.")
    if not dry_run:
        put_objects(attachment)
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    if out:
        out.write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)


def _object(document: Any) -> dict[str, Any]:
    from trackside.contracts.errors import ConfigurationError, Problem

    if not isinstance(document, dict):
        problem = Problem("the whole of it", "must hold an object, the request.", 'Write {"TrainingJobName": ...}.')
        raise ConfigurationError([problem], subject="The request")
    return document


def _planned(
    run: str, *, rules: str | None, rules_file: Path | None, actions: str | None, capture: Path | None, **_: Any
) -> Attachment:
    from trackside.contracts.capture_request import CaptureRequest
    from trackside.contracts.job_choice import read_actions
    from trackside.contracts.rule_request import RuleRequest
    from trackside.sagemaker.attachment import plan_attachment

    if rules is not None and rules_file is not None:
        raise click.UsageError("Give either --rules or --rules-file.")
    chosen: str | RuleRequest | None = rules
    if rules_file is not None:
        from trackside.choosing.rule_choice import Layer, choose_rules
        from trackside.choosing.rules_file import read_rules_file
        from trackside.contracts.rule_catalogue import built_in_catalogue

        found = read_rules_file(rules_file)
        for note in (*found.notes, *found.capture_notes):
            _print(note)
        of_file = Layer(requests=found.rules, requested_in=str(rules_file))
        chosen = RuleRequest(choose_rules([of_file, found.words], catalogue=built_in_catalogue()).rules)
    return plan_attachment(
        run,
        chosen,
        actions=None if actions is None else read_actions(actions),
        capture=CaptureRequest.from_json(capture.read_bytes()) if capture else None,
    )


def _delivered(
    request: dict[str, Any],
    run: str,
    *,
    source_dir: Path | None,
    upload: bool,
    wheel: Path | None,
    wheels_from: Path | None,
    offline: bool,
    dry_run: bool,
    **_: Any,
) -> dict[str, Any]:
    """Return the request, with the library delivered beside the script, or as a channel from S3."""
    import tempfile

    from trackside.contracts.run_layout import shared_place
    from trackside.sagemaker import delivery

    place = shared_place(run)
    if upload:
        request = delivery.with_channel(request, f"{place}/{delivery.WHEEL_FOLDER}")
    if dry_run or not (source_dir or upload):
        for where in (source_dir, place if upload else None):
            if where:
                _print(f"Would put the library's wheels into {where}/{delivery.WHEEL_FOLDER}.")
        return request
    with tempfile.TemporaryDirectory() as made:
        wheels = [wheel or delivery.wheel_of_installed(delivery.LIBRARY, Path(made))]
        if wheels_from:
            wheels += sorted(wheels_from.glob("*.whl"))
        elif offline:
            wheels += delivery.download_needed(Path(made) / "needed")
        if source_dir:
            delivered = delivery.deliver(source_dir, wheels)
            _print(f"{delivered.requirements} installs {', '.join(each.name for each in delivered.wheels)}.")
        if upload:
            _print(f"Put {', '.join(each.name for each in wheels)} into {delivery.upload(place, wheels)}.")
    return request


def _print(text: str) -> None:
    click.echo(f"trackside: {text}", err=True)  # stdout carries the request
