from __future__ import annotations

import json
from typing import Any


def watch(bench: Any, name: str, *, actions: list[str], **change: Any) -> None:
    asked = {
        "Namespace": "AWS/SQS",
        "MetricName": "ApproximateNumberOfMessagesVisible",
        "Statistic": "Maximum",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 0,
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
        "AlarmActions": actions,
    }
    bench.account.client("cloudwatch").put_metric_alarm(AlarmName=name, **(asked | change))


def inbox(bench: Any, name: str) -> tuple[str, str]:
    """The URL of a queue behind a topic, and the topic's ARN."""
    url, queue = bench.queue(name)
    sns = bench.account.client("sns")
    topic = sns.create_topic(Name=name)["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)
    return url, topic


def state(bench: Any, name: str) -> str:
    (alarm,) = bench.account.client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return str(alarm["StateValue"])


def test_a_message_in_a_watched_queue_raises_the_alarm_once(bench: Any) -> None:
    url, topic = inbox(bench, "owner")
    dead_url, _ = bench.queue("watched")
    watch(bench, "dead-letters", actions=[topic], Dimensions=[{"Name": "QueueName", "Value": "watched"}])
    bench.account.hops.wait_for("alarm", alarm="dead-letters", state="OK")

    bench.account.client("sqs").send_message(QueueUrl=dead_url, MessageBody="lost")

    message = json.loads(bench.receive(url)[0]["Body"])
    assert message["Subject"] == 'ALARM: "dead-letters" in us-east-1'
    content = json.loads(message["Message"])
    assert (content["AlarmName"], content["NewStateValue"], content["OldStateValue"]) == ("dead-letters", "ALARM", "OK")
    assert content["Trigger"]["Dimensions"] == [{"name": "QueueName", "value": "watched"}]
    assert state(bench, "dead-letters") == "ALARM"
    bench.account.client("sqs").send_message(QueueUrl=dead_url, MessageBody="lost too")
    bench.account.client("cloudwatch").set_alarm_state(AlarmName="dead-letters", StateValue="OK", StateReason="seen")
    bench.account.hops.wait_for(
        "alarm", alarm="dead-letters", state="ALARM", count=2
    )  # OK in between: it is told again
    assert len(bench.receive(url)) == 1


def test_a_custom_metric_raises_an_alarm_and_others_stay_silent(bench: Any) -> None:
    url, topic = inbox(bench, "metrics")
    dimensions = [{"Name": "Job", "Value": "a"}]
    custom = {"Namespace": "Mine", "MetricName": "Issues", "Statistic": "Sum", "Dimensions": dimensions}
    watch(bench, "three", actions=[topic], Threshold=2, **custom)
    watch(bench, "ten", actions=[topic], Threshold=9, **custom)
    watch(bench, "muted", actions=[topic], Threshold=2, ActionsEnabled=False, **custom)
    watch(bench, "other-job", actions=[topic], Threshold=2, **custom | {"Dimensions": [{"Name": "Job", "Value": "b"}]})

    for _ in range(3):
        data = [{"MetricName": "Issues", "Value": 1, "Dimensions": dimensions}]
        bench.account.client("cloudwatch").put_metric_data(Namespace="Mine", MetricData=data)

    bench.account.hops.wait_for("alarm", alarm="muted", state="ALARM")
    (message,) = bench.receive(url)
    assert "three" in json.loads(message["Body"])["Subject"]
    assert (state(bench, "ten"), state(bench, "other-job")) == ("OK", "OK")


def test_metric_math_is_left_alone_and_harms_no_other(bench: Any) -> None:
    metric = {"Namespace": "Mine", "MetricName": "Unsummed"}
    stat = {"Id": "m", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Sum"}, "ReturnData": True}
    bench.account.client("cloudwatch").put_metric_alarm(
        AlarmName="math",
        Metrics=[stat],
        EvaluationPeriods=1,
        Threshold=0,
        ComparisonOperator="GreaterThanThreshold",
    )
    watch(bench, "after", actions=[])

    bench.account.hops.wait_for("alarm", alarm="after")

    assert state(bench, "math") == "INSUFFICIENT_DATA"
