"""What all reactions share: settings, decisions, observability, clients, messages, idempotency."""
