"""Contracts, fakes and cases for tests of rules, stores and adapters."""
