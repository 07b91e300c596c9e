"""Rules about what a model predicts, and about models of trees."""
