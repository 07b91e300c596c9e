"""The SDK's version 3: a ModelTrainer whose job Trackside watches. Prints what the job carries, as one line of JSON.

python model_trainer.py RUN ROLE_ARN     (in a Python with sagemaker-train 1.27.0)
"""

import json
import sys

import boto3
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, OutputDataConfig, Tag

from trackside.sagemaker import attach_to_model_trainer, plan_attachment, put_objects

run, role = sys.argv[1:]
trainer = ModelTrainer(
    training_image="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.0.1-cpu-py310",
    role=role,
    compute=Compute(instance_type="ml.m5.large", instance_count=1),
    output_data_config=OutputDataConfig(s3_output_path="s3://runs/output"),
    environment={"NCCL_DEBUG": "WARN"},
    tags=[Tag(key="team", value="vision")],
    base_job_name="digits",
)

attachment = plan_attachment(run, "vanishing-gradient overfit:patience_evaluations=5")
put_objects(attachment)
attach_to_model_trainer(trainer, attachment)
trainer.train(wait=False)

sagemaker = boto3.client("sagemaker")
(job,) = sagemaker.list_training_jobs(NameContains="digits")["TrainingJobSummaries"]
tags = sagemaker.list_tags(ResourceArn=job["TrainingJobArn"])["Tags"]
environment = sagemaker.describe_training_job(TrainingJobName=job["TrainingJobName"])["Environment"]
print(json.dumps({"environment": environment, "tags": {tag["Key"]: tag["Value"] for tag in tags}}))
