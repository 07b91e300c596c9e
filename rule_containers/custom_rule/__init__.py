"""The container that judges one training job by one rule from a file, with a role that can write nothing."""
