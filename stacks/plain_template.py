"""Write one plain CloudFormation template of a whole deployment, and upload its assets: for those without CDK.

    make template BUCKET=our-assets
    .venv/bin/python -m stacks.plain_template our-assets -c trackside:dry_run=true --output trackside.template.json

The bucket must be in the region of the stack. Needs credentials that may put objects below `trackside/` in it; with
`--dry-run` nothing is uploaded, and no credentials are needed. `stacks.trackside_monitoring` makes the parts.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from botocore.exceptions import BotoCoreError, ClientError

from stacks.deployment_settings import DeploymentSettings
from stacks.paths import BUILD, CDK_JSON
from stacks.trackside_monitoring import TracksideMonitoring
from trackside.aws_clients import SharedClient
from trackside.contracts.errors import ConfigurationError

BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
FOLDER = "trackside/"  # in the bucket
STACK = "Trackside"
DESCRIPTION = "Trackside: judges SageMaker training jobs while they run"


@dataclass(frozen=True)
class PlainTemplate:
    """A template, and the objects that it refers to.

    - `text`: the template, small JSON
    - `assets`: zip files by their key in the bucket
    """

    text: str
    assets: Mapping[str, bytes]


def plain_template(bucket: str, settings: DeploymentSettings) -> PlainTemplate:
    """Return the template of one stack with all parts, with its assets in `bucket`.

    Raises:
        ConfigurationError: Settings that are wrong, or that need a stack of their own.
    """
    with tempfile.TemporaryDirectory() as folder:
        app = cdk.App(outdir=folder, analytics_reporting=False)
        synthesizer = cdk.CliCredentialsStackSynthesizer(file_assets_bucket_name=bucket, bucket_prefix=FOLDER)
        stack = cdk.Stack(app, STACK, description=DESCRIPTION, synthesizer=synthesizer)
        TracksideMonitoring(stack, "Parts", settings=settings)
        app.synth()
        template = json.loads((Path(folder) / f"{STACK}.template.json").read_text(encoding="utf-8"))
        assets = json.loads((Path(folder) / f"{STACK}.assets.json").read_text(encoding="utf-8"))["files"].values()
        zips = {
            destination["objectKey"]: zipped(Path(folder) / asset["source"]["path"])
            for asset in assets
            for destination in asset["destinations"].values()
            if asset["source"]["packaging"] == "zip"
        }
    for body in template["Resources"].values():
        body.pop("Metadata", None)  # paths of constructs, for CDK only
    return PlainTemplate(json.dumps(template, separators=(",", ":")), zips)


def zipped(folder: Path) -> bytes:
    """Return a zip file of the folder: the same bytes for the same files, for the key names the content."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(str(path.relative_to(folder)))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def upload(template: PlainTemplate, bucket: str, *, s3: Any) -> str:
    """Upload assets and template. Return the address of the template. Errors: `ClientError`, `BotoCoreError`."""
    for key, body in template.assets.items():
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    key = f"{FOLDER}{STACK}.template.json"
    s3.put_object(Bucket=bucket, Key=key, Body=template.text.encode(), ContentType="application/json")
    return f"{s3.meta.endpoint_url}/{bucket}/{key}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    given = dict(entry.split("=", 1) for entry in options.context)
    context = {**json.loads(CDK_JSON.read_text(encoding="utf-8"))["context"], **given}
    try:
        template = plain_template(options.bucket, DeploymentSettings.read(context))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(template.text, encoding="utf-8")
        sys.stdout.write(f"{options.output}: one template, {len(template.text) // 1000} KB\n")
        if options.dry_run:
            return 0
        address = upload(template, options.bucket, s3=SharedClient("s3").get())
    except (ConfigurationError, ClientError, BotoCoreError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(
        f"Uploaded the template and its assets to s3://{options.bucket}/{FOLDER}.\nCreate the stack:\n"
        f"  aws cloudformation create-stack --stack-name {STACK} \\\n"
        "    --capabilities CAPABILITY_IAM --enable-termination-protection \\\n"
        f"    --template-url {address}\n"
    )
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m stacks.plain_template", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("bucket", help="an existing bucket for the assets, in the region of the stack")
    parser.add_argument("-c", "--context", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    parser.add_argument("--output", type=Path, default=BUILD / "trackside.template.json", help="file to write")
    parser.add_argument("--dry-run", action="store_true", help="upload nothing")
    options = parser.parse_args(arguments)
    if not BUCKET_NAME.fullmatch(options.bucket):
        parser.error(
            f"{options.bucket!r} is no name of a bucket. Give one that exists: make template BUCKET=our-assets"
        )
    return options


if __name__ == "__main__":
    raise SystemExit(main())
