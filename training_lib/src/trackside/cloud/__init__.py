"""A deployment in AWS, for people and scripts outside it: states of training jobs, drills, redelivery, the fleet."""
