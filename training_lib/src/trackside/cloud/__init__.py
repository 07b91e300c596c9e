"""What a deployment in AWS knows of training jobs, for people and scripts outside it."""
