"""Clusters: jobs of Slurm, Kubernetes and AWS Batch, ended and annotated at the owner's leave."""
