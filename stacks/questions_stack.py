"""Questions about all runs in Athena: tables over what `trackside query --write` stored, and the saved questions."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_athena as athena
from aws_cdk import aws_glue as glue
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge
from stacks.constructs.private_bucket import PrivateBucket
from stacks.deployment_settings import DeploymentSettings
from stacks.outputs import output
from stacks.standing import warn_that_it_stays
from trackside.contracts.questions.saved import QUESTIONS
from trackside.contracts.questions.tables import DATE, FIRST_DAY, PREFIX, STATISTICS, STATISTICS_COLUMNS, TABLES

ANSWER_DAYS = 7
MOST_BYTES = 100 * 10**9  # that one question may read: half a dollar
# https://docs.aws.amazon.com/athena/latest/ug/data-types.html
TYPES: Mapping[str, str] = {
    "string": "string",
    "int64": "bigint",
    "float64": "double",
    "bool": "boolean",
    "timestamp": "timestamp",
    "date32": "date",
}
PARQUET = "org.apache.hadoop.hive.ql.io.parquet"


class Questions:
    """A database of four tables, a workgroup that asks them, and the questions that have a name."""

    def __init__(self, scope: Construct, *, settings: DeploymentSettings, runs: s3.IBucket, key: kms.IKey) -> None:
        self._scope = scope
        warn_that_it_stays(scope, "questions")
        name = "-".join(["trackside", *([settings.environment] if settings.environment else [])])
        self._database = name.replace("-", "_")
        database = glue.CfnDatabase(
            scope,
            "Database",
            catalog_id=Stack.of(scope).account,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=self._database, description="Trackside: all runs, their rules, findings and statistics"
            ),
        )
        where = f"s3://{runs.bucket_name}/{PREFIX}"
        for table, columns in {**TABLES, STATISTICS: STATISTICS_COLUMNS}.items():
            self._create_table(table, columns, f"{where}/{table}/").add_resource_dependency(database)
        workgroup = self._create_workgroup(name, settings=settings, key=key)
        for question, saved in QUESTIONS.items():
            athena.CfnNamedQuery(
                scope,
                "".join(word.capitalize() for word in question.split("-")),
                name=question,
                description=saved.text,
                database=self._database,
                query_string=saved.sql,
                work_group=workgroup.name,
            ).add_resource_dependency(workgroup)
        output(scope, "QuestionsPlace", value=where, description="For `trackside query --write`")
        output(scope, "QuestionsWorkgroup", value=name, description="Athena: the saved questions")
        output(scope, "QuestionsDatabase", value=self._database)

    def _create_table(self, name: str, columns: Mapping[str, str], location: str) -> glue.CfnTable:
        """Create a table that finds its days by their names: no crawler, and no list of days to keep current."""
        column = glue.CfnTable.ColumnProperty
        projection = {
            "classification": "parquet",
            "projection.enabled": "true",
            f"projection.{DATE}.type": "date",
            f"projection.{DATE}.format": "yyyy-MM-dd",
            f"projection.{DATE}.range": f"{FIRST_DAY},NOW+1DAYS",
            f"projection.{DATE}.interval": "1",
            f"projection.{DATE}.interval.unit": "DAYS",
        }
        return glue.CfnTable(
            self._scope,
            name.capitalize(),
            catalog_id=Stack.of(self._scope).account,
            database_name=self._database,
            table_input=glue.CfnTable.TableInputProperty(
                name=name,
                table_type="EXTERNAL_TABLE",
                parameters=projection,
                partition_keys=[column(name=DATE, type=TYPES["date32"])],
                storage_descriptor=glue.CfnTable.StorageDescriptorProperty(
                    location=location,
                    columns=[column(name=each, type=TYPES[kind]) for each, kind in columns.items() if each != DATE],
                    input_format=f"{PARQUET}.MapredParquetInputFormat",
                    output_format=f"{PARQUET}.MapredParquetOutputFormat",
                    serde_info=glue.CfnTable.SerdeInfoProperty(
                        serialization_library=f"{PARQUET}.serde.ParquetHiveSerDe"
                    ),
                ),
            ),
        )

    def _create_workgroup(self, name: str, *, settings: DeploymentSettings, key: kms.IKey) -> athena.CfnWorkGroup:
        answers = PrivateBucket(self._scope, "Answers", key=key, keep=settings.keep_data, expire_after_days=ANSWER_DAYS)
        acknowledge(answers, {"AwsSolutions-S1": "Answers of a week, which each can be asked for again."})
        configuration = athena.CfnWorkGroup.WorkGroupConfigurationProperty(
            enforce_work_group_configuration=True,
            publish_cloud_watch_metrics_enabled=False,
            bytes_scanned_cutoff_per_query=MOST_BYTES,
            engine_version=athena.CfnWorkGroup.EngineVersionProperty(selected_engine_version="Athena engine version 3"),
            result_configuration=athena.CfnWorkGroup.ResultConfigurationProperty(
                output_location=f"s3://{answers.bucket_name}/",
                encryption_configuration=athena.CfnWorkGroup.EncryptionConfigurationProperty(
                    encryption_option="SSE_KMS", kms_key=key.key_arn
                ),
            ),
        )
        return athena.CfnWorkGroup(
            self._scope,
            "Workgroup",
            name=name,
            description="Trackside: questions about all runs",
            recursive_delete_option=not settings.keep_data,
            work_group_configuration=configuration,
        )
