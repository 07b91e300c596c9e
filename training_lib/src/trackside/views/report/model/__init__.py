"""The part of a report about a model with labels and predictions: a boosting, or any run that saves both."""
