"""What a stack is composed of; each construct creates one thing as this deployment wants it."""
