"""The whole loop on one machine: training, rules in a process beside it, stop on request. No AWS, no account.

Local mode replaces the store (a folder), the sink (verdicts.jsonl) and the actions (a card, a signal); nothing else.
"""
