"""Evaluation of a growing run: each rule judges each complete step, and each cause gets one verdict."""
