"""The adapters of scikit-learn: one for each of its packages with estimators that keep losses of their steps."""
