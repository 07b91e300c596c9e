"""Note that a run was written to, so that the worker that judges it need not look by itself every second."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.note_news.logic import decide
from lambdas.note_news.settings import NoteNewsSettings
from lambdas.shared.clients import client
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.reaction import reaction
from trackside.contracts.deployment.lease import NewsRecord


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = NoteNewsSettings.from_environment()
    decision = decide(event, now=time.time())
    yield decision if isinstance(decision, Nothing) else _note(decision, settings)


def _note(news: NewsRecord, settings: NoteNewsSettings) -> Done:
    client("dynamodb").put_item(TableName=settings.lease_table, Item=news.to_item())
    return Done(f"{news.run_uri} was written to.")
