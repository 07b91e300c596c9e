"""A Lambda handler from one function of an event: batches with partial failures, and one log line per answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.observability import logger, metrics, tracer
from lambdas.shared.plain import plain
from lambdas.shared.runs import job_name_in
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.fields import parse_json

React = Callable[[Mapping[str, Any], LambdaContext], Iterable[Done | Nothing]]
Handler = Callable[[dict[str, Any], LambdaContext], Any]


def reaction(react: React) -> Handler:
    """Return the handler that passes `react` the EventBridge event in each SQS message of a batch.

    Only a message with a reaction that raises returns to the queue (ReportBatchItemFailures). After the queue's last
    attempt it lies in the dead-letter queue, which has an alarm.
    """

    def handle_message(record: SQSRecord, lambda_context: LambdaContext) -> None:
        _name_in_logs(event_id=record.message_id)
        event = _event_in(record)
        _name_in_logs(event_id=str(event.get("id", record.message_id)), job=job_name_in(event))
        try:
            answered = False
            for answer in react(event, lambda_context):
                answered = True
                _note(answer)
            if not answered:
                _note(Nothing("the event is of a job that is no longer running, or names no rule."))
        except Exception:
            logger.exception("The reaction failed; the message returns to its queue.")
            raise

    def handle(event: dict[str, Any], context: LambdaContext) -> Any:
        processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
        try:
            return process_partial_response(
                event=event, record_handler=handle_message, processor=processor, context=context
            )
        finally:
            if metrics.metric_set:  # an empty set is a warning in the log
                metrics.flush_metrics()

    handler: Handler = logger.inject_lambda_context(clear_state=True)(handle)
    traced: Handler = tracer.capture_lambda_handler(capture_response=False)(handler)
    return traced


def _name_in_logs(*, event_id: str, job: str = "") -> None:
    """Set the training job's name as `correlation_id` of every line of a run, for each reaction."""
    logger.append_keys(event_id=plain(event_id))
    logger.set_correlation_id(plain(job or event_id))


def _event_in(record: SQSRecord) -> Mapping[str, Any]:
    subject = f"The message {record.message_id}"
    try:
        event = parse_json(record.body, subject=subject)
        if not isinstance(event, Mapping):
            raise ConfigurationError([Problem("body", "must be an EventBridge event, a JSON object.")], subject=subject)
    except ConfigurationError:
        logger.exception("Not an event; the message goes to the dead-letter queue.")
        raise
    return event


def _note(answer: Done | Nothing) -> None:
    if isinstance(answer, Done):
        logger.info(plain(answer.what))
    else:
        (logger.warning if answer.surprising else logger.info)("Nothing to do: %s", plain(answer.reason))
