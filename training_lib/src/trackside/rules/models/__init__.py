"""Rules about the predictions of a model, and about models of trees."""
