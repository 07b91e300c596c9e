"""Mistakes of training scripts, planted in three programs: which of them does `trackside check` find?"""
