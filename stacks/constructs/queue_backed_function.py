"""A reaction behind a queue, so that a burst waits, a failure is tried again, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lambdas.shared.settings import EnvironmentSettings
from stacks.constructs.acknowledge import acknowledge
from stacks.constructs.python_lambda import TIMEOUT_SECONDS, PythonLambda

# At least five: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html. A poll that Lambda throttles
# counts as an attempt, too.
ATTEMPTS = 5
MOST_AT_ONCE = 5  # half of the ten functions that a new account may run at a time
MOST_BATCH_SIZE = 10  # of messages that are worked on one after the other, within one timeout


def pause_milliseconds(calls_per_second: int, *, at_once: int) -> int:
    """Return the pause between the calls of each of `at_once` processes, which together make that many a second."""
    return round(1000 * at_once / calls_per_second)


class QueueBackedFunction(Construct):
    """Queue, dead-letter queue and function of lambdas/<name>.

    A message that fails `ATTEMPTS` times, or that EventBridge cannot deliver, lies in `dead_letters` for 14 days.
    `settings` may be made from the queue, for a function that sends to it itself: a message that must wait longer than
    SQS may delay it comes again and again, which Lambda would end as a loop at the 16th time. Where AWS takes one or
    two calls a second, let few functions work `most_at_once` on one message each (`batch_size`): docs/scale.md.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        description: str,
        settings: EnvironmentSettings | Callable[[sqs.IQueue], EnvironmentSettings],
        log_retention_days: int,
        most_at_once: int = MOST_AT_ONCE,
        batch_size: int = MOST_BATCH_SIZE,
        timeout_seconds: int = TIMEOUT_SECONDS,
    ) -> None:
        super().__init__(scope, construct_id)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        acknowledge(self.dead_letters, {"Serverless-SQSRedrivePolicy": "This is where others' dead letters go."})
        self.queue = sqs.Queue(
            self,
            "Queue",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            # AWS's advice: six times the function's timeout, so that no message is taken twice while it is worked on.
            visibility_timeout=Duration.seconds(6 * timeout_seconds),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=ATTEMPTS),
        )
        self.function = PythonLambda(
            self,
            "Function",
            name=name,
            description=description,
            settings=settings if isinstance(settings, EnvironmentSettings) else settings(self.queue),
            calls_itself=not isinstance(settings, EnvironmentSettings),
            log_retention_days=log_retention_days,
            timeout_seconds=timeout_seconds,
        )
        self.function.add_event_source(
            sources.SqsEventSource(
                self.queue, batch_size=batch_size, report_batch_item_failures=True, max_concurrency=most_at_once
            )
        )

    def react_to(
        self,
        construct_id: str,
        pattern: events.EventPattern,
        *,
        description: str,
        event_bus: events.IEventBus | None = None,
    ) -> events.Rule:
        """Send events of `pattern` on `event_bus` (default: the account's default bus) to the queue."""
        target = targets.SqsQueue(self.queue, dead_letter_queue=self.dead_letters)
        return events.Rule(
            self,
            construct_id,
            description=description,
            event_bus=event_bus,
            event_pattern=pattern,
            targets=[target],
        )

    def run_every(self, minutes: int, *, description: str) -> events.Rule:
        """Send a message to the queue every `minutes` minutes."""
        target = targets.SqsQueue(self.queue, dead_letter_queue=self.dead_letters)
        schedule = events.Schedule.rate(Duration.minutes(minutes))
        return events.Rule(self, "Schedule", description=description, schedule=schedule, targets=[target])
