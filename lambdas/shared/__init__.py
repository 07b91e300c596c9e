"""Parts of all reactions: settings, decisions, observability, clients, messages, idempotency."""
