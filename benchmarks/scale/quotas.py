"""What AWS allows and how long it takes: parameters of the simulation, each with where it is from.

`published`: in AWS's documents, or observed in public (the source says where). `assumed`: nobody outside AWS knows;
vary it on the command line.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Quotas:
    """Calls a second in an account and region, instances, concurrency; and times in seconds.

    create_processing_a_second   assumed, as CreateTrainingJob's (1, published: SageMaker feature processor quotas)
    stop_training_a_second       assumed, likewise
    describe_a_second            assumed; throttles were seen (datahub #6357, airflow #19066)
    list_training_a_second       published: 2, not adjustable (deepracer-on-aws #87)
    get_parameter_a_second       published: 40 (Systems Manager quotas, default throughput)
    processing_instances         of one type, 0: no limit. A new account was seen with 4 for all (data-science-on-aws
                                 #140); it is raised on request
    fleet_tasks                  Fargate tasks at a time, 0: no limit
    lambda_at_once               published: 1,000 (Lambda quotas)
    lambda_pollers               published: a queue begins with 5 batches at a time, and gets 300 a minute more
    processing_start_seconds     observed: 205 (contracts/aws.md, 2.3)
    task_start_seconds           assumed for a Fargate task of a 200 MB image
    event_seconds                published: about half a second (EventBridge)
    event_loss, event_twice      assumed: best effort means that some are lost (contracts/aws.md, 3.4)
    """

    create_processing_a_second: float = 1.0
    stop_training_a_second: float = 1.0
    describe_a_second: float = 5.0
    list_training_a_second: float = 2.0
    get_parameter_a_second: float = 40.0
    processing_instances: int = 0
    fleet_tasks: int = 0
    lambda_at_once: int = 1_000
    lambda_pollers: int = 5
    lambda_pollers_a_minute: float = 300.0
    processing_start_seconds: float = 205.0
    task_start_seconds: float = 60.0
    event_seconds: float = 0.5
    event_loss: float = 0.001
    event_twice: float = 0.02
    sagemaker_call_seconds: float = 0.3
    small_call_seconds: float = 0.01  # of DynamoDB, SSM, S3, SNS, SQS, CloudWatch
    cold_start_seconds: float = 0.6


# Of a burst, a limit of r calls a second lets this many seconds' worth through at once (a token bucket; assumed).
BURST_SECONDS = 2.0
