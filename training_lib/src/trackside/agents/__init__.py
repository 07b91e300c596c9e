"""Answers for coding agents about runs, bounded and typed: the tools of `trackside mcp`."""
